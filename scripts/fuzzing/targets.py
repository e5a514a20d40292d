"""What is called with a damaged snapshot, and how its answer is judged."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trace_hf.schema import CONFIGS, fields_of

from .damage import DAMAGES
from .judging import CONTROL, MESSAGE, Expected, Fault, Scene, check_rows, judged
from .reference import Refused, Snapshot, Unjudged, parse, same, typed

Target = Callable[[Scene], None]
TARGETS: dict[str, Target] = {}


def target(function: Target) -> Target:
    """Put a target on the list."""
    TARGETS[function.__name__] = function
    return function


# --- rows ---------------------------------------------------------------------------------------------------------


@target
def load(scene: Scene) -> None:
    """Load from a cold cache, and once more from the warm one; the rows attest exactly if the file is canonical."""
    import trace_hf

    with judged():
        rows = trace_hf.load(scene.config, release=scene.folder, cache_dir=scene.scratch / "cache")
        plain = rows.to_list()
        again = trace_hf.load(scene.config, release=scene.folder, cache_dir=scene.scratch / "cache").to_list()
    check_rows(scene, scene.config, plain)
    check_rows(scene, scene.config, again)
    _check_provenance(scene, rows)
    with judged():
        proof = trace_hf.attest(rows, scene.config, release=scene.folder)
    _check_proof(scene, proof)


def _check_provenance(scene: Scene, rows: Any) -> None:
    import trace_hf

    found = trace_hf.provenance(rows)
    manifest = scene.due.manifest()
    due = (manifest["release_id"], hashlib.sha256((scene.folder / "manifest.json").read_bytes()).hexdigest())
    if found is None or (found.release_id, found.manifest_sha256) != due or not found.verified or found.view != "full":
        raise Fault(f"provenance {found} instead of {due}")
    if found.pinned != (manifest["release_id"] == "v1.1.0") or found.status != manifest["status"]:
        raise Fault(f"provenance {found}")


def _check_proof(scene: Scene, proof: Any) -> None:
    try:
        canonical = scene.due.is_canonical(scene.config)
    except (Refused, Unjudged):
        return
    # The tiny configs have no file of their own; changes keep the bytes of their values, canonical or not.
    if not proof.ok and (canonical or CONFIGS[scene.config].ids_role):
        raise Fault(f"canonical rows are not attested: {str(proof)[:500]}")
    if proof.ok and not canonical and not CONFIGS[scene.config].ids_role and scene.config != "changes":
        raise Fault(f"a file that is not canonical is attested: {scene.config}")


@target
def stream(scene: Scene) -> None:
    """Stream the rows."""
    import trace_hf

    with judged():
        rows = list(trace_hf.load(scene.config, release=scene.folder, streaming=True))
    check_rows(scene, scene.config, rows)


@target
def records(scene: Scene) -> None:
    """Iterate over typed records."""
    from trace_hf import Release
    from trace_hf.arrow import row_of

    with judged():
        rows = [row_of(record) for record in Release.open(scene.folder).records(scene.config)]
    check_rows(scene, scene.config, rows)


@target
def unverified(scene: Scene) -> None:
    """Load without proof: what is read is still of the schema."""
    import trace_hf

    with judged():
        loaded = trace_hf.load(scene.config, release=scene.folder, cache_dir=scene.scratch / "cache", verify=False)
        rows = loaded.to_list()
    check_rows(scene, scene.config, rows, verified=False)


@target
def keep(scene: Scene) -> None:
    """Accept unknown fields, in every way of loading; all of them give the same."""
    import trace_hf

    def get(**options: Any) -> list[Any]:
        return list(trace_hf.load(scene.config, release=scene.folder, unknown="keep", **options))

    with judged():
        rows = get(cache_dir=scene.scratch / "cache")
        streamed = get(streaming=True)
        typed_records = list(trace_hf.Release.open(scene.folder, unknown="keep").records(scene.config))
        release = trace_hf.Release.open(scene.folder, unknown="keep")
        proof = trace_hf.attest(rows, scene.config, release=release)
    if repr(rows) != repr(streamed) or [r.record_id for r in typed_records] != [row["record_id"] for row in rows]:
        raise Fault(f"{scene.config}: rows and stream differ")
    if CONFIGS[scene.config].ids_role and not proof.ok:
        raise Fault(f"not attested: {str(proof)[:300]}")


@target
def lines(scene: Scene) -> None:
    """Decode single damaged lines in bulk."""
    from trace_hf.arrow import decode_block, row_of
    from trace_hf.decode import decode

    spec = CONFIGS[scene.config]
    file = {"standard": "proactive_standard", "high_frequency": "proactive_high_frequency"}.get(
        spec.source, spec.source
    )
    good = (scene.release / f"{file}.jsonl").read_bytes().split(b"\n")[:-1]
    kinds = [
        name for name in DAMAGES if name not in ("newlines", "last_end", "packed", "replaced", "encoding", "lines")
    ]
    for _ in range(40 if good else 0):
        line = scene.random.choice(good)
        for _ in range(scene.random.choice([1, 1, 2])):
            line = DAMAGES[scene.random.choice(kinds)](line, scene.random, good).replace(b"\n", b" ")
        for way in (
            lambda line=line: decode_block(line, spec.record, file="x.jsonl").to_pylist(),
            lambda line=line: [row_of(decode(line, spec.record, file="x.jsonl"))] if line.strip() else [],
            lambda line=line: decode_block(line, spec.record, file="x.jsonl", unknown="keep").to_pylist(),
        ):
            try:
                with judged():
                    rows = way()
            except Expected:
                continue
            except Exception as problem:
                raise Fault(f"{type(problem).__name__}: {problem}; line {line[:4000]!r}") from problem
            _check_line(line, rows, spec)


def _check_line(line: bytes, rows: list[Any], spec: Any) -> None:
    fields = fields_of(spec.record)
    try:
        due = [typed(parse(line), fields)] if line.strip() else []
    except Unjudged:
        return
    except Refused as problem:
        if rows and "unknown_fields" in rows[0] and "unknown" in str(problem):
            return
        raise Fault(f"accepted, though {problem}: line {line[:4000]!r}") from None
    if len(rows) != len(due) or not all(same(a, b, fields) for a, b in zip(rows, due, strict=True)):
        raise Fault(f"misread as {str(rows)[:500]}: line {line[:4000]!r}")


# --- reports ------------------------------------------------------------------------------------------------------


@target
def verify(scene: Scene) -> None:
    """Verify; the report agrees with hashes computed otherwise, and its causes can be read."""
    import trace_hf

    with judged():
        report = trace_hf.verify(scene.folder)
        text = json.dumps(report.to_json())
    try:
        due = scene.due.verified()
    except Unjudged:
        return
    except Refused as problem:
        if "unknown" in str(problem):
            return
        raise Fault(f"a manifest that is none is verified: {problem}") from None
    if report.ok != due:
        raise Fault(f"verification is {report.ok}, not {due}: {text[:500]}")


@target
def explain(scene: Scene) -> None:
    """Look for the cause of each difference from the undamaged release."""
    from trace_hf import Release
    from trace_hf.causes import explain as find

    manifest = Release.open(scene.release).manifest
    with judged():
        for name, digest in manifest.files.items():
            path = scene.folder / name
            cause = find(path, digest, manifest) if path.is_file() else None
            if cause and (len(cause.text) > MESSAGE or CONTROL.search(cause.text)):
                raise Fault(f"cause {cause.text[:300]!r}")


@target
def validate(scene: Scene) -> None:
    """Validate; what is found valid can be read by others."""
    from trace_hf.checks import validate as run

    with judged():
        report = run(scene.folder)
        json.dumps(report.to_json()).encode("utf-8")
    if not report.ok:
        return
    for config in CONFIGS:
        try:
            scene.due.rows(config, verified=report.verification.ok)
        except Unjudged:
            return
        except Refused as problem:
            if "not listed" not in str(problem) and "no subsets" not in str(problem):
                raise Fault(f"valid, but {config} cannot be read: {problem}") from None


@target
def diff(scene: Scene) -> None:
    """Compare with the undamaged release."""
    from trace_hf.diff import diff as compare

    with judged():
        found = compare(scene.release, scene.folder)
        json.dumps(found.to_json())
        text = list(found.lines())
    if found.equal != (not text):
        raise Fault(f"equal is {found.equal}: {text[:3]}")
    if found.equal and not _unknown_in_manifest(scene):
        try:
            same_rows = scene.due.rows(scene.config) == Snapshot(scene.release).rows(scene.config)
        except (Refused, Unjudged) as problem:
            same_rows = isinstance(problem, Unjudged)
        if not same_rows:
            raise Fault(f"{scene.config} is said to be equal")


def _unknown_in_manifest(scene: Scene) -> bool:
    try:
        scene.due.manifest()
    except (Refused, Unjudged):
        return True
    return False


@target
def repair(scene: Scene) -> None:
    """Repair by the undamaged release's manifest; what is written has the right hashes, or nothing is."""
    from trace_hf.integrity import digest_file
    from trace_hf.release import Release
    from trace_hf.repair import repair as mend

    with judged():
        release = Release.open(scene.folder, unknown="keep")
        target = scene.scratch / "repaired"
        report = mend(release, target)
        json.dumps(report.to_json())
    for path in target.rglob("*") if target.exists() else ():
        name = path.relative_to(target).as_posix()
        if path.is_file() and name != "manifest.json" and digest_file(path).sha256 != release.manifest.files[name]:
            raise Fault(f"{name} was written with another hash")
    if report.ok and not Release.open(target, unknown="keep").verify().ok:
        raise Fault("repaired, but not verified")
    shutil.rmtree(target, ignore_errors=True)


@target
def command_line(scene: Scene) -> None:
    """Run a verb."""
    from click.testing import CliRunner

    from trace_hf.cli import main

    place = str(scene.folder)
    verb = scene.random.choice([["info", place], ["verify", place], ["validate", place], ["diff", place, place]])
    verb += scene.random.choice([[], ["--json"]])
    with judged():
        done = CliRunner().invoke(main, verb)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise Fault(f"{verb[0]}: {done.exception!r}") from done.exception
    if done.exit_code not in (0, 1, 2) or "Traceback" in done.output:
        raise Fault(f"{verb[0]}: exit code {done.exit_code}")
    if "--json" in verb and done.exit_code < 2 and done.stdout:
        json.loads(done.stdout)


# --- archives -----------------------------------------------------------------------------------------------------


@target
def archive(scene: Scene) -> None:
    """Read the damaged snapshot out of an archive, which is damaged itself, too."""
    import trace_hf
    from trace_hf.arrow import row_of

    random = scene.random
    kind = random.choice(["zip", "tar"])
    path = scene.scratch / f"a.{kind}"
    _pack(scene.folder, path, kind)
    if random.random() < 0.7 and path.stat().st_size < 4_000_000:
        data = path.read_bytes()
        for _ in range(random.choice([1, 3])):
            data = DAMAGES[random.choice(["bits", "delete", "truncate", "insert", "repeat", "splice"])](
                data, random, [data]
            )
        path.write_bytes(data)
    with judged():
        release = trace_hf.Release.open(f"{kind}://r::file://{path}")
        rows = [row_of(record) for record in release.records(scene.config)]
    check_rows(scene, scene.config, rows, at=release.root)


def _pack(folder: Path, path: Path, kind: str) -> None:
    # What is no file cannot be put into an archive of this kind; links would be followed.
    files = [p for p in sorted(folder.iterdir()) if p.is_file() and not p.is_symlink()]
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as writer:
            for file in files:
                writer.write(file, f"r/{file.name}")
        return
    with tarfile.open(path, "w") as tar:
        for file in files:
            tar.add(file, f"r/{file.name}")


def run(name: str, scene: Scene) -> str:
    """Run one target; return ``right`` or ``refused``.

    Raises
    ------
    Fault
        Also for any exception that the package must not raise.
    """
    try:
        TARGETS[name](scene)
    except Expected:
        return "refused"
    except (Fault, MemoryError):
        raise
    except Exception as problem:
        raise Fault(f"{type(problem).__name__}: {str(problem)[:500]}") from problem
    finally:
        shutil.rmtree(scene.scratch / "cache", ignore_errors=True)
    return "right"
