"""Damage of every kind, bounded; `scripts/fuzz.py` runs for as long as one likes. Below: faults that it has found."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import rewrite_manifest
from helpers import edit_line, edit_manifest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trace_hf
from trace_hf.arrow import decode_block, row_of
from trace_hf.attest import attest
from trace_hf.decode import decode
from trace_hf.errors import IntegrityError, ManifestError, SchemaError, TraceError
from trace_hf.schema import CONFIGS, fields_of

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from fuzzing.cases import MONSTERS
from fuzzing.judging import CONTROL
from fuzzing.pool import run_cases
from fuzzing.reference import Refused, Unjudged, parse, same, typed
from fuzzing.targets import TARGETS

# Those that need no more than a second; the long run has all of them.
QUICK = ["manifest of 1 GiB", "manifest nested deeply", "line of 17 MiB", "15 MiB of brackets", "64 MiB of line ends"]


@pytest.fixture
def source(small_sample: Path) -> Path:
    """Return the release that is damaged: the real sample where it is."""
    real = os.environ.get("TRACE_TEST_REAL")
    return Path(real) / "sample_release" if real else small_sample


def test_damaged_releases_are_refused_with_a_place_or_read_right(source: Path) -> None:
    end = time.monotonic() + 9

    def names() -> Iterator[str]:
        for index in range(2000):
            if time.monotonic() > end:
                return
            yield f"1:{index}"

    tally: Counter[str] = Counter()
    for outcome in run_cases(names(), source, workers=2):
        assert outcome.fault is None, f"python3 scripts/fuzz.py --case {outcome.case}\n{outcome.fault}\n{outcome.trace}"
        tally.update(right=outcome.right, refused=outcome.refused)
    assert tally["right"] > 10
    assert tally["refused"] > 10


def test_monsters_are_refused_in_bounded_time_and_memory(source: Path) -> None:
    assert set(QUICK) <= set(MONSTERS)
    for outcome in run_cases(QUICK, source, workers=2, targets=["load", "verify", "records"]):
        assert outcome.fault is None, f"{outcome.case}: {outcome.fault}\n{outcome.trace}"
        assert outcome.right + outcome.refused == 3


def test_a_fault_of_the_package_would_be_seen(
    small_sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The fuzzer itself: a wrong value, a foreign exception and a wrong verdict are faults."""
    from random import Random

    from fuzzing.judging import Fault, Scene
    from fuzzing.targets import run

    def scene() -> Scene:
        return Scene(small_sample, small_sample, tmp_path / "work", Random(1), "qa")

    # The archive is damaged itself.
    assert {run(name, scene()) for name in TARGETS if name != "archive"} == {"right"}
    monkeypatch.setattr(trace_hf.Release, "verify", lambda *_: 1 / 0)
    with pytest.raises(Fault, match="ZeroDivisionError"):
        run("load", scene())
    monkeypatch.undo()
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line.replace(b'"task":"qa"', b'"task":"qb"'))
    verify = trace_hf.Release.verify
    monkeypatch.setattr(trace_hf.Release, "verify", lambda release: replace(verify(release), ok=True))
    with pytest.raises(Fault):
        run("verify", scene())


# --- structured damage ----------------------------------------------------------------------------------------------

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(["record_id", "\x00", "\u2028"])
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys: Any = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *_places(value[key])]]


@st.composite
def _damaged_lines(draw: Callable[[st.SearchStrategy[Any]], Any], lines: dict[str, bytes]) -> tuple[str, bytes]:
    """Draw a config and a record of it with a few values replaced, dropped or added."""
    config = draw(st.sampled_from(sorted(lines)))
    record = json.loads(lines[config])
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(_places(record)))
        what = draw(st.sampled_from(["replace", "replace", "drop", "add"]))
        if key not in container if isinstance(container, dict) else key >= len(container):
            continue
        if what == "replace":
            container[key] = draw(_JSON)
        elif what == "drop":
            del container[key]
        elif isinstance(container, dict):
            container[draw(_TEXT)] = draw(_JSON)
        else:
            container.insert(key, draw(_JSON))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps(record, ensure_ascii=draw(st.booleans()), sort_keys=draw(st.booleans()), separators=separators)
    return config, text.encode("utf-8")


def test_every_damaged_record_is_refused_or_read_as_json_reads_it(small_sample: Path) -> None:
    files = {"qa": "qa", "proactive": "proactive", "changes": "changes", "exclusions": "exclusions"}
    lines = {config: (small_sample / f"{name}.jsonl").read_bytes().split(b"\n")[0] for config, name in files.items()}

    @settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(_damaged_lines(lines))
    def check(damaged: tuple[str, bytes]) -> None:
        config, line = damaged
        kind = CONFIGS[config].record
        ways: list[Callable[[], list[Any]]] = [
            lambda: decode_block(line, kind, file="x.jsonl").to_pylist(),
            lambda: [row_of(decode(line, kind, file="x.jsonl"))],
        ]
        try:
            due = typed(parse(line), fields_of(kind))
        except (Refused, Unjudged) as problem:
            due = None
            if isinstance(problem, Unjudged):
                return
        for way in ways:
            row, refusal = _outcome(way)
            if refusal is None:
                assert due is not None
                assert same(row, due, fields_of(kind))
            else:
                assert refusal.file == "x.jsonl"
                assert not CONTROL.search(str(refusal))
        _kept_and_written_again(line, kind)

    check()


def _outcome(way: Callable[[], list[Any]]) -> tuple[Any, SchemaError | None]:
    try:
        (row,) = way()
    except SchemaError as error:
        return None, error
    return row, None


def _kept_and_written_again(line: bytes, kind: Any) -> None:
    """With unknown fields kept, a record is written again with every one of them."""
    from trace_hf.arrow import canonical_line

    try:
        (row,) = decode_block(line, kind, file="x.jsonl", unknown="keep").to_pylist()
    except SchemaError:
        return
    assert json.loads(canonical_line(row, kind)) == json.loads(line)


# --- found by the fuzzer ----------------------------------------------------------------------------------------------


def spoil(folder: Path, name: str, edit: Callable[[bytes], bytes], line: int = 0) -> Path:
    edit_line(folder / name, line, edit)
    rewrite_manifest(folder)
    return folder


def refusals(config: str, folder: Path) -> list[str]:
    """Load in each way; return the messages."""
    found = []
    for way in (
        lambda: trace_hf.load(config, release=folder),
        lambda: list(trace_hf.load(config, release=folder, streaming=True)),
        lambda: list(trace_hf.Release.open(folder).records(config)),
        lambda: trace_hf.load(config, release=folder, unknown="keep"),
    ):
        with pytest.raises(SchemaError) as error:
            way()
        found.append(str(error.value))
    return found


@pytest.mark.parametrize("text", [b'"\xff"', b'"\xed\xa0\x80"', b'["a\xe9"]'])
def test_value_of_any_type_that_is_no_utf8_is_refused(small_sample: Path, text: bytes) -> None:
    spoil(
        small_sample, "changes.jsonl", lambda line: line.replace(b'"new_value":', b'"new_value":' + text + b',"x":', 1)
    )
    assert all("invalid UTF-8" in message for message in refusals("changes", small_sample))


@pytest.mark.parametrize("depth", [101, 900, 1800, 100_000])
def test_value_of_any_type_that_is_nested_deeply_is_refused(small_sample: Path, depth: int) -> None:
    def edit(line: bytes) -> bytes:
        record = json.loads(line)
        record["changes"][0]["new_value"] = "here"
        return json.dumps(record).encode().replace(b'"here"', b"[" * depth + b"]" * depth)

    spoil(small_sample, "changes.jsonl", edit)
    assert all("nested too deeply" in message for message in refusals("changes", small_sample))


def test_kept_field_that_is_nested_deeply_is_refused(small_sample: Path) -> None:
    spoil(small_sample, "qa.jsonl", lambda line: b'{"new":' + b"[" * 900 + b"]" * 900 + b"," + line[1:])
    with pytest.raises(SchemaError, match="nested too deeply"):
        trace_hf.load("qa", release=small_sample, unknown="keep")


def test_value_of_any_type_that_is_nested_a_little_attests(small_sample: Path) -> None:
    def edit(line: bytes) -> bytes:
        record = json.loads(line)
        record["changes"][0]["new_value"] = "here"
        text = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        return text.replace(b'"here"', b"[" * 60 + b"1e300" + b"]" * 60)

    spoil(small_sample, "changes.jsonl", edit)
    assert attest(trace_hf.load("changes", release=small_sample), "changes", release=small_sample).ok


@pytest.mark.parametrize("number", [b"1e400", b"[-1e999]"])
def test_value_of_any_type_that_is_no_finite_number_is_refused(small_sample: Path, number: bytes) -> None:
    spoil(
        small_sample,
        "changes.jsonl",
        lambda line: line.replace(b'"new_value":', b'"new_value":' + number + b',"x":', 1),
    )
    assert all("changes.jsonl, line 1" in m and "not finite" in m for m in refusals("changes", small_sample))


@pytest.mark.parametrize("end", [b"\n", b" \n"])
def test_file_of_line_ends_is_refused_at_once(small_sample: Path, end: bytes) -> None:
    with (small_sample / "qa.jsonl").open("ab") as stream:
        stream.write(end * 2_000_000)
    rewrite_manifest(small_sample)
    assert all("most of them blank or no records" in message for message in refusals("qa", small_sample))


def test_some_blank_lines_are_passed_over(small_sample: Path) -> None:
    due = trace_hf.load("qa", release=small_sample).to_list()
    spoil(small_sample, "qa.jsonl", lambda line: b"\n \n\r\n\t\n" * 1000 + line)
    assert trace_hf.load("qa", release=small_sample).to_list() == due
    assert len(list(trace_hf.Release.open(small_sample).records("qa"))) == len(due)


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\xe3\x80\x80\n", b"\xc2\x85\n"])
def test_mark_or_odd_white_space_at_the_start_is_refused_in_every_way(small_sample: Path, start: bytes) -> None:
    spoil(small_sample, "exclusions.jsonl", lambda line: start + line)
    assert all("exclusions.jsonl, line 1" in m and "not JSON" in m for m in refusals("exclusions", small_sample))


def test_pipe_in_place_of_a_file_does_not_stop_everything(small_sample: Path) -> None:
    (small_sample / "tiny_qa_ids.json").unlink()
    os.mkfifo(small_sample / "tiny_qa_ids.json")
    with pytest.raises(IntegrityError, match=r"tiny_qa_ids\.json: cannot be read: it is no regular file"):
        trace_hf.load("qa", release=small_sample)


def test_control_characters_in_names_and_ids_are_escaped_in_messages(small_sample: Path) -> None:
    spoil(small_sample, "qa.jsonl", lambda line: line.replace(b'"record_id":"', b'"record_id":"\x1b[2J', 1))
    messages = refusals("qa", small_sample)
    assert all(r"\x1b[2J" in message and "\x1b" not in message for message in messages)


@pytest.mark.parametrize("name", ["x" * 256, "é" * 128, "x/" * 600 + "x"])
def test_file_name_that_no_file_system_takes_is_refused(small_sample: Path, name: str) -> None:
    edit_manifest(small_sample, lambda manifest: manifest["files"].update({name: "0" * 64}))
    with pytest.raises(ManifestError, match="longer than a file system takes"):
        trace_hf.verify(small_sample)


def test_manifest_with_twenty_thousand_files_is_reported_on_and_not_repaired(
    small_sample: Path, tmp_path: Path
) -> None:
    from trace_hf.repair import repair

    many = {f"{number}": "0" * 64 for number in range(20_000)}
    edit_manifest(small_sample, lambda manifest: manifest["files"].update(many))
    release = trace_hf.Release.open(small_sample)
    with pytest.raises(IntegrityError) as error:
        release.proven()
    assert len(str(error.value)) < 8000
    with pytest.raises(TraceError, match="a repair looks for 256 at the most"):
        repair(release, tmp_path / "out")
