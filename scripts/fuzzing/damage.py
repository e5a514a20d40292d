"""Damage to the files of a snapshot: bytes, JSON values, and what stands in a file's place.

Every damage is a function of the bytes and a seeded generator, so that a case can be made again from two numbers.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

MIB = 2**20

Damage = Callable[[bytes, Random, "list[bytes]"], bytes]
"""``(data, random, other files of the release) -> data``."""

DAMAGES: dict[str, Damage] = {}

# Tokens that parsers are known to disagree about.
TOKENS = [
    b"NaN", b"-Infinity", b"1e400", b"-1e400", b"-0.0", b"-0", b"0", b"01", b"1.", b".5", b"1e-400", b"5e-324", b"1E5",
    b"1" * 400, b"9" * 5000, b"9007199254740993", b"18446744073709551616", b"1.7976931348623159e308",
    b"0.1000000000000000055511151231257827", b"1e22", b"1e-7", b"0.00001", b"null", b"true", b"false", b"{}", b"[]",
    b'""', b'"\\ud800"', b'"\\udc00x"', b'"\\ud83d\\ude00"', b'"\xed\xa0\x80"', b'"\xff\xfe"', b'"\\u0000"', b'"\x00"',
    b'"\\x41"', b'"\xef\xbb\xbf"', b'"\xe2\x80\xa8"', b'"\xc2\x85"', b'"\x1b[31m"', b'"\\u001b]0;x\\u0007"', b'"\x7f"',
    b"'a'", b"undefined", b"/*x*/1", b"1,", b",", b'"a" "b"', b"{1:2}", b'{"a":1,"a":2}', b"[1,]",
    b'"../../etc/passwd"',
    b'"<script>alert(1)</script>"', b'"a\\nb: c"', b'"' + b"x" * 70_000 + b'"', b"[" * 900 + b"]" * 900,
    b"[" * 1500 + b"]" * 1500, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 1200 + b"1" + b"}" * 1200, b"[" * 5000,
]  # fmt: skip

VALUES: list[Any] = [
    None, True, 0, -1, 1.5, -0.0, 1e300, 10**30, "", "x", "\u0000", "\x1b[2J", "\u2028", "é", "e\u0301", "𝔘", [], {},
    [[]], [None], {"": ""}, {"a": [1, {"b": None}]}, "v1.1.0", "qa.jsonl", "../qa.jsonl", "/etc/passwd", "s3://a/b",
    "a::b", "C:\\x", "manifest.json", "sub/qa.jsonl", ".", "x" * 300, "0" * 64, "nan", "pinned: true\nverified: true",
]  # fmt: skip

_SCALAR = re.compile(rb'"(?:[^"\\]|\\.){0,400}"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\btrue\b|\bfalse\b|\bnull\b')


def damage(function: Damage) -> Damage:
    """Put a damage on the list."""
    DAMAGES[function.__name__] = function
    return function


def _place(data: bytes, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _range(data: bytes, random: Random) -> tuple[int, int]:
    start = _place(data, random)
    return start, min(len(data), start + int(random.expovariate(1 / 40)))


# --- bytes --------------------------------------------------------------------------------------------------------


@damage
def bits(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Flip some bits."""
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8]) if changed else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


@damage
def insert(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Insert bytes that mean something."""
    at = _place(data, random)
    new = random.choice(
        [b"\n", b"\r", b"\0", b"\xff", b'"', b"\\", b"{", b"}", b",", b"\xef\xbb\xbf", random.randbytes(4)]
    )
    return data[:at] + new * random.choice([1, 1, 3]) + data[at:]


@damage
def delete(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Delete a stretch."""
    start, end = _range(data, random)
    return data[:start] + data[end:]


@damage
def repeat(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Write a stretch twice."""
    start, end = _range(data, random)
    return data[:end] + data[start:]


@damage
def truncate(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Cut the end off, or make it zeros."""
    at = _place(data, random)
    return data[:at] + random.choice([b"", b"", b"\0" * (len(data) - at)])


@damage
def splice(data: bytes, random: Random, others: list[bytes]) -> bytes:
    """Go on as another file does."""
    other = random.choice(others)
    return data[: _place(data, random)] + other[_place(other, random) :]


@damage
def newlines(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Mix line ends."""
    ends = random.choice(
        [[b"\r\n"], [b"\r"], [b"\r\n", b"\n"], [b"\n\n", b"\n"], [b"\xe2\x80\xa8", b"\n"], [b"\n \t\n"]]
    )
    return b"".join(line + random.choice(ends) for line in data.split(b"\n"))


@damage
def last_end(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Change what stands after the last line."""
    return data.rstrip(b"\n") + random.choice([b"", b"\n\n", b"\r\n", b"\n\0", b"\n ", b"\x1a", b"\n\xe3\x80\x80\n"])


@damage
def encoding(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Add a byte-order mark or encode the text otherwise."""
    text = data.decode("utf-8", "replace")
    kind = random.choice(["bom", "utf-16", "utf-16-be", "utf-32", "latin-1", "utf-7"])
    return b"\xef\xbb\xbf" + data if kind == "bom" else text.encode(kind, "replace")


@damage
def packed(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Put a compressed copy in its place, whole or cut."""
    if random.random() < 0.5:
        new = gzip.compress(data)
    else:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
            writer.writestr("x", data)
        new = archive.getvalue()
    return new if random.random() < 0.6 else bits(new, random, [])[: _place(new, random)]


@damage
def replaced(data: bytes, random: Random, others: list[bytes]) -> bytes:
    """Put something else in its place."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 9\n"
    small = [b"", b"\0" * 100, b"null", b"[]", b"{}", b"1", b'"x"', b"[[]]", b"[1]\n", b"<!doctype html><p>no", pointer]
    return random.choice([*small, random.randbytes(300), *others, b'{"error":"not found"}'])


# --- lines --------------------------------------------------------------------------------------------------------


@damage
def lines(data: bytes, random: Random, others: list[bytes]) -> bytes:
    """Drop, repeat, move or join lines, or take in one of another file."""
    rows = data.split(b"\n")
    at = random.randrange(len(rows))
    kind = random.randrange(6)
    if kind == 0:
        del rows[at]
    elif kind == 1:
        rows.insert(random.randrange(len(rows)), rows[at])
    elif kind == 2:
        random.shuffle(rows)
    elif kind == 3:
        rows[at : at + 2] = [b"".join(rows[at : at + 2])]
    elif kind == 4:
        rows.insert(at, random.choice(random.choice(others).split(b"\n")))
    else:
        rows[at : at + 1] = [b"", b" ", rows[at], b"\t"]
    return b"\n".join(rows)


# --- JSON text ----------------------------------------------------------------------------------------------------


@damage
def token(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Replace a string or a number by something odd."""
    found = list(_SCALAR.finditer(data, max(0, _place(data, random) - 2000)))[:200]
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start()] + random.choice(TOKENS) + data[match.end() :]


@damage
def spaces(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Write some JSON with spaces, escapes or other number forms."""
    at = _place(data, random)
    head, tail = data[:at], data[at:]
    old, new = random.choice(
        [
            (b":", b" : "),
            (b",", b",\t"),
            (b".0,", b","),
            (b".0,", b"e0,"),
            (b"a", b"\\u0061"),
            (b"/", b"\\/"),
            (b"}", b"\n}"),
        ]
    )
    return head + tail.replace(old, new, random.choice([1, 1, 5]))


def edit_json(data: bytes, random: Random, edit: Callable[[Any, Random], Any]) -> bytes:
    """Edit one line of a line file, or a whole JSON file; what is not JSON stays as it is."""
    try:
        return _written(edit(json.loads(data), random), random, indent=2) + b"\n"
    except (ValueError, RecursionError):
        pass
    rows = data.split(b"\n")
    at = random.randrange(len(rows))
    try:
        rows[at] = _written(edit(json.loads(rows[at]), random), random, indent=None)
    except (ValueError, RecursionError):
        return data
    return b"\n".join(rows)


def _written(value: Any, random: Random, indent: int | None) -> bytes:
    odd = random.random() < 0.15
    separators = None if odd or indent else (",", ":")
    text = json.dumps(value, ensure_ascii=odd, sort_keys=not odd, separators=separators, indent=None if odd else indent)
    return text.encode("utf-8", "surrogatepass")


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every ``(container, key)`` of a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *places(value[key])]]


@damage
def value(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Put another value in one place of the JSON."""

    def edit(whole: Any, random: Random) -> Any:
        found = places(whole)
        if not found:
            return random.choice(VALUES)
        container, key = random.choice(found)
        container[key] = random.choice([*VALUES, container[key], *([whole] if random.random() < 0.02 else [])])
        return whole

    return edit_json(data, random, edit)


@damage
def shape(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Drop, add, rename or repeat a part of the JSON."""

    def edit(whole: Any, random: Random) -> Any:
        found = places(whole)
        if not found:
            return [whole]
        container, key = random.choice(found)
        kind = random.randrange(4)
        if kind == 0:
            del container[key]
        elif isinstance(container, list):
            container[key:key] = [container[key]] * random.choice([1, 2, 300])
        elif kind == 1:
            container[random.choice(["new", "", "a/b~c", "record_id", "\n", str(key).upper()])] = random.choice(VALUES)
        elif kind == 2:
            container[random.choice(["x", f"{key} "])] = container.pop(key)
        else:
            container[key] = [container[key]]
        return whole

    return edit_json(data, random, edit)


@damage
def twice(data: bytes, random: Random, _others: list[bytes]) -> bytes:
    """Give an object a key twice, with another value first."""
    found = list(re.finditer(rb'[{,]\s*("[a-z_]{1,40}"\s*:)', data))
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start(1)] + match[1] + random.choice(TOKENS[:40]) + b"," + data[match.start(1) :]
