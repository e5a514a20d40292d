#!/usr/bin/env python3
"""Damage a release in every way and see that the package refuses it well, or reads it right.

    python3 scripts/fuzz.py --minutes 20
    python3 scripts/fuzz.py --case 7:1234            # one case again, here and with its traceback
    python3 scripts/fuzz.py --case 7:1234 --out DIR  # its damaged snapshot, made as small as it still fails

Cases come from a release: ``--release``, else the real sample where ``TRACE_TEST_REAL`` says that it is, else a
synthetic one. Each is a copy with some files damaged, mostly with a manifest that was made to agree, and is read in
several ways. A good answer is a `TraceError` that says where, or what an independent slow reader makes of the same
bytes. Any other exception, wrong rows, a crash, more than a minute or more than 1 GiB is a fault; the exit code is 1
then.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fuzzing.cases import MONSTERS, Case, build, case_of, files_of
from fuzzing.pool import Outcome, run_case, run_cases
from fuzzing.targets import TARGETS


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, default=None, help="the same seed makes the same cases (default: the time)")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this; may be given again")
    parser.add_argument("--release", type=Path, help="the release that is damaged")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-monsters", action="store_true", help="leave out the named large cases")
    parser.add_argument("--case", help="run only this case, in this process")
    parser.add_argument("--out", type=Path, help="with --case: where to put its snapshot")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trace-hf-fuzz-") as scratch:
        release = options.release or default_release(Path(scratch))
        if options.case:
            return one(options.case, options.target, release, Path(scratch) / "case", options.out)
        return many(options, release)


def default_release(scratch: Path) -> Path:
    """Return the real sample release where it is, else a synthetic one."""
    real = os.environ.get("TRACE_TEST_REAL")
    if real:
        return Path(real) / "sample_release"
    import trace_hf

    trace_hf.write_sample(scratch / "release", scale=0.03)
    return scratch / "release"


def many(options: argparse.Namespace, release: Path) -> int:
    """Run cases until the time is over."""
    seed = int(time.time()) if options.seed is None else options.seed
    end = time.monotonic() + options.minutes * 60
    print(f"seed {seed}, {options.minutes:g} minutes, {options.workers} processes, from {release}", flush=True)

    def names() -> Iterator[str]:
        if not options.no_monsters:
            yield from MONSTERS
        for index in itertools.count():
            if time.monotonic() > end:
                return
            yield f"{seed}:{index}"

    tally: Counter[str] = Counter()
    faults: dict[str, Outcome] = {}
    for outcome in run_cases(names(), release, workers=options.workers, targets=options.target):
        tally["cases"] += 1
        tally["right"] += outcome.right
        tally["refused"] += outcome.refused
        if outcome.fault:
            tally["faults"] += 1
            kind = _kind_of(outcome)
            if kind not in faults:
                faults[kind] = outcome
                print(f"FAULT in case {outcome.case} ({outcome.config})\n  {outcome.fault[:1500]}", flush=True)
        if tally["cases"] % 500 == 0:
            print(_summary(tally, faults), flush=True)
    print(_summary(tally, faults))
    return 1 if faults else 0


def _kind_of(outcome: Outcome) -> str:
    """Tell faults of one origin from others by where they were raised."""
    raised = [line.strip() for line in outcome.trace.splitlines() if line.strip().startswith("File ")]
    inner = [line for line in raised if "/trace_hf/" in line]
    return (inner or raised or [outcome.fault or ""])[-1] + (outcome.fault or "")[:25]


def _summary(tally: Counter[str], faults: dict[str, Outcome]) -> str:
    return (
        f"{tally['cases']} cases: {tally['right']} right, {tally['refused']} refused, "
        f"{tally['faults']} at fault in {len(faults)} places"
    )


def one(name: str, targets: list[str] | None, release: Path, scratch: Path, out: Path | None) -> int:
    """Run one case in this process, and make it smaller if its snapshot is wanted."""
    scratch.mkdir()
    os.environ["TRACE_CACHE"] = str(scratch / "trace")
    case = case_of(name, files_of(release))
    outcome = run_case(release, scratch, name, targets)
    print(case)
    print(outcome.trace or f"{outcome.right} right, {outcome.refused} refused")
    if out is not None:
        shutil.rmtree(out, ignore_errors=True)
        build(_smaller(case, outcome, release, scratch), release, out)
        print(f"wrote {out}")
    return 1 if outcome.fault else 0


def _smaller(case: Case, outcome: Outcome, release: Path, scratch: Path) -> Case:
    """Leave out every step without which the same fault still shows."""
    from random import Random

    from fuzzing.judging import Fault, Scene
    from fuzzing.targets import run

    if not outcome.fault:
        return case
    target = outcome.fault.split(":")[0]

    def fails(candidate: Case) -> bool:
        folder = scratch / "smaller"
        shutil.rmtree(folder, ignore_errors=True)
        build(candidate, release, folder)
        scene = Scene(folder, release, scratch / "work", Random(f"{case.name}/{target}"), outcome.config)
        try:
            run(target, scene)
        except Fault:
            return True
        return False

    index = 0
    while index < len(case.steps) + len(case.manifest_steps):
        candidate = case.without(index)
        if fails(candidate):
            case = candidate
        else:
            index += 1
    return case


if __name__ == "__main__":
    sys.exit(main())
