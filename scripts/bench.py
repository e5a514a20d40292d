"""Measure the package side by side with what people use otherwise, and print the figures against their goals.

Each figure is taken several times, alternating with its baseline, so that whatever else the machine does falls on
both. Nothing here is asserted: a figure says how it was on one machine, at one time.

    python scripts/bench.py --scale 1 --scale 100 --json bench.json
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# Nothing that is measured needs the network, and a look at the Hub would be measured with it.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"

import click
import datasets
from rich.console import Console
from rich.table import Table

import trace_hf

CONFIG, RECORD_FILE = "proactive", "proactive.jsonl"

# At a hundred times the release's size the reading counts, and no longer the start.
LARGE = 100.0


@dataclass
class Figure:
    """One row: how long (or how much) ours and the baseline take.

    Attributes
    ----------
    name, baseline_name : str
    scale : float or None
        Size of the release, 1.0 for TRACE's own; None where it plays no part.
    unit : str
    goal : str
        In words.
    limit : float or None
        What `value` must not exceed; None where the figure is for comparison and has no goal.
    value : float or None
        What the goal is about, of the medians; None while there is no sample.
    """

    name: str
    baseline_name: str
    scale: float | None
    unit: str
    goal: str
    limit: float | None
    judge: str = "ratio"
    ours: list[float] = field(default_factory=list)
    baseline: list[float] = field(default_factory=list)

    @property
    def value(self) -> float | None:
        """The figure that the goal is about."""
        if not self.ours or (self.judge != "ours" and not self.baseline):
            return None
        ours = statistics.median(self.ours)
        if self.judge == "ours":
            return ours
        baseline = statistics.median(self.baseline)
        return ours / baseline if self.judge == "ratio" else ours - baseline

    def to_json(self) -> dict[str, Any]:
        """Return the figure with its samples, medians and whether it meets its goal."""
        medians = {
            f"{side}_median": statistics.median(values) if values else None
            for side, values in (("ours", self.ours), ("baseline", self.baseline))
        }
        value = self.value
        return asdict(self) | medians | {"value": value, "met": self.met}

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is no goal, or no value."""
        return None if self.value is None or self.limit is None else self.value <= self.limit


def timed(work: Callable[[], object]) -> float:
    """Seconds of wall time that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alternate(figure: Figure, repeat: int, ours: Callable[[], float], baseline: Callable[[], float] | None) -> Figure:
    """Sample both sides in turn; each call gives its own figure."""
    for turn in range(repeat):
        # Who goes first changes too: the second finds a warmer machine.
        pair = [(figure.ours, ours), (figure.baseline, baseline)]
        for samples, sample in pair if turn % 2 == 0 else reversed(pair):
            if sample is not None:
                samples.append(sample())
    return figure


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="trace-hf-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# --- loads ----------------------------------------------------------------------------------------------------------


def load_ours(release: Path, cache: Path) -> None:
    """Load the config as this package does."""
    trace_hf.load(CONFIG, release=release, cache_dir=cache)


def load_json(release: Path, cache: Path) -> None:
    """What people do without the package: guessed types, no hash."""
    files = {"test": str(release / RECORD_FILE)}
    datasets.load_dataset("json", data_files=files, split="test", cache_dir=str(cache))


def cold_load(release: Path, scale: float, repeat: int) -> Figure:
    """Time a load into an empty cache."""
    limit = 0.1 if scale >= LARGE else 0.35
    figure = Figure("cold load, typed and verified", 'load_dataset("json")', scale, "s", f"<= {limit} of it", limit)

    def sample(load: Callable[[Path, Path], None]) -> float:
        with scratch() as cache:
            return timed(lambda: load(release, cache))

    return alternate(figure, repeat, lambda: sample(load_ours), lambda: sample(load_json))


def other_readers(release: Path, scale: float, repeat: int) -> list[Figure]:
    """Time a cold load against readers that give a table and know no schema, hash or cache."""
    figures = []
    for name, reader in (("polars.read_ndjson", _polars), ("duckdb read_json", _duckdb)):
        figure = Figure("cold load, typed and verified", name, scale, "s", "", None)

        def sample() -> float:
            with scratch() as cache:
                return timed(lambda: load_ours(release, cache))

        path = str(release / RECORD_FILE)
        try:
            reader(path)
        except ImportError as problem:
            print(f"{name} is left out: {problem}", file=sys.stderr)
            continue
        figures.append(alternate(figure, repeat, sample, lambda r=reader, p=path: timed(lambda: r(p))))  # type: ignore[misc]
    return figures


def _polars(path: str) -> None:
    import polars as pl

    pl.read_ndjson(path)


def _duckdb(path: str) -> None:
    import duckdb

    duckdb.read_json(path, format="newline_delimited").to_arrow_table()


_SERVE = """
import functools, http.server, sys
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=sys.argv[1]))
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder from another process; gives its URL."""
    command = [sys.executable, "-c", _SERVE, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.terminate()


def http_load(release: Path, scale: float, repeat: int) -> Figure:
    """Time a first load from a web server: every file fetched, verified and prepared; the bytes alone beside it."""
    figure = Figure("first load over HTTP, verified", "moving the bytes alone", scale, "s", "", None)
    names = [path.name for path in release.iterdir() if path.is_file()]
    with served(release) as url:

        def ours() -> float:
            with scratch() as cache:
                os.environ["TRACE_CACHE"] = str(cache / "trace")
                return timed(lambda: trace_hf.load(CONFIG, release=url, cache_dir=cache))

        def move() -> None:
            for name in names:
                with urllib.request.urlopen(f"{url}/{name}") as answer:  # noqa: S310 - our own server
                    while answer.read(2**20):
                        pass

        return alternate(figure, repeat, ours, lambda: timed(move))


def warm_load(release: Path, scale: float, repeat: int) -> Figure:
    """Time a load from a prepared cache, in which every file is hashed again."""
    figure = Figure("warm load, all files hashed", 'load_dataset("json"), warm', scale, "s", "<= 1.3 of it", 1.3)
    with scratch() as mine, scratch() as theirs:
        load_ours(release, mine)
        load_json(release, theirs)
        return alternate(
            figure,
            repeat,
            lambda: timed(lambda: load_ours(release, mine)),
            lambda: timed(lambda: load_json(release, theirs)),
        )


# --- verify and validate --------------------------------------------------------------------------------------------


def verify_process(release: Path, scale: float, repeat: int) -> list[Figure]:
    """Time `verify` as a whole process."""
    figure = Figure("trace-hf verify, whole process", "sha256sum", scale, "s", "<= it + 0.3 s", 0.3, "difference")
    command = [sys.executable, "-m", "trace_hf.cli", "verify", str(release), "--json"]
    files = sorted(str(path) for path in release.iterdir() if path.is_file())
    tool = shutil.which("sha256sum")

    def run(arguments: list[str]) -> float:
        return timed(lambda: subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL))

    def hash_here() -> float:  # where there is no such tool
        return timed(lambda: [hashlib.sha256(Path(path).read_bytes()) for path in files])

    alternate(figure, repeat, lambda: run(command), (lambda: run([tool, *files])) if tool else hash_here)
    if scale >= LARGE:
        return [figure]
    absolute = Figure(figure.name, "", scale, "s", "<= 0.35 s", 0.35, "ours", figure.ours)
    return [absolute, figure]


def validate_release(release: Path, scale: float, repeat: int) -> Figure | None:
    """Time `validate` against a pydantic loader that checks the same."""
    try:
        from _bench_pydantic import validate_with_pydantic
    except ImportError as problem:
        if problem.name != "pydantic":
            raise
        Console(stderr=True).print("pydantic is not installed: the row of `validate` is left out")
        return None
    from trace_hf.checks import validate

    def sound(ok: bool) -> None:
        if not ok:
            raise SystemExit(f"{release} is not valid; nothing would be learnt from timing it")

    figure = Figure("validate", "pydantic loader, the same checks", scale, "s", "<= 0.3 of it", 0.3)
    return alternate(
        figure,
        repeat,
        lambda: timed(lambda: sound(validate(release).ok)),
        lambda: timed(lambda: sound(validate_with_pydantic(release))),
    )


# --- processes of their own -----------------------------------------------------------------------------------------

_PEAK = """
import resource, sys
from pathlib import Path
{work}
status = Path("/proc/self/status")
if status.exists():
    # Not getrusage: on Linux its peak begins with that of the process that started this one.
    print(next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024)
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(peak / 2**20 if sys.platform == "darwin" else peak / 1024)
"""
_WORK = {
    "load": "import trace_hf; trace_hf.load({config!r}, release={release!r}, cache_dir={cache!r})",
    "validate": "from trace_hf.checks import validate; validate({release!r})",
}


def peak_mb(work: str, release: Path) -> float:
    """Peak resident memory of one piece of work in a process of its own, in MiB."""
    with scratch() as cache:
        code = _PEAK.format(work=_WORK[work].format(config=CONFIG, release=str(release), cache=str(cache)))
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def peak_memory(releases: dict[float, Path], repeat: int) -> list[Figure]:
    """Measure the peak memory of a load and a validation at both ends of the scales."""
    if len(releases) < 2:
        return []
    small, large = min(releases), max(releases)
    figures = []
    for work in _WORK:
        name, baseline = f"peak memory of {work}, {large:g}x", f"the same at {small:g}x"
        figure = Figure(name, baseline, large, "MiB", "<= 1.5 of it", 1.5)
        alternate(
            figure, repeat, lambda w=work: peak_mb(w, releases[large]), lambda w=work: peak_mb(w, releases[small])
        )
        figures.append(figure)
    return figures


def remote_videos() -> list[Figure]:
    """Count what an inventory and one video of an archive cost on a web server; a count needs no second sample."""
    from _bench_remote import FOLDERS, archive_bytes, inventory_requests

    requests = Figure(
        "inventory of 522 videos in 6 folders",
        "a request a video",
        None,
        "requests",
        "<= 2 a folder",
        2 * FOLDERS,
        "ours",
    )
    moved = Figure("one video of a remote 9 GB archive", "video + 1% of it", None, "bytes", "<= that", 1.0)
    with scratch() as videos, scratch() as archive:
        requests.ours.append(inventory_requests(videos))
        requests.baseline.append(522.0)
        ours, allowed = archive_bytes(archive)
        moved.ours.append(ours)
        moved.baseline.append(allowed)
    return [requests, moved]


def import_time(repeat: int) -> Figure:
    """Time the import."""
    figure = Figure("import trace_hf", "import datasets", None, "s", "<= 0.05 s", 0.05, "ours")
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"

    def run(module: str) -> float:
        arguments = [sys.executable, "-c", code.format(module)]
        return float(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)

    return alternate(figure, repeat, lambda: run("trace_hf"), lambda: run("datasets"))


# --- the table ------------------------------------------------------------------------------------------------------


def show(figures: list[Figure]) -> None:
    """Print medians, ranges and goals."""
    table = Table(title="trace-hf, side by side", title_justify="left", caption="median (lowest … highest)")
    for column in ("figure", "scale", "ours", "baseline", "", "value", "goal", "met"):
        table.add_column(column, justify="right" if column in ("ours", "baseline", "value") else "left")
    for figure in figures:
        value = figure.value
        met = {None: "-", True: "yes", False: "NO"}[figure.met]
        scale = "" if figure.scale is None else f"{figure.scale:g}"
        cells = [figure.name, scale, _range(figure.ours, figure.unit), _range(figure.baseline, figure.unit)]
        table.add_row(*cells, figure.baseline_name, "-" if value is None else f"{value:.3g}", figure.goal, met)
    Console(width=None if sys.stdout.isatty() else 180).print(table)


def _range(values: list[float], unit: str) -> str:
    if not values:
        return ""
    return f"{statistics.median(values):.3g} {unit} ({min(values):.3g} … {max(values):.3g})"


def measure(releases: dict[float, Path], repeat: int, note: Callable[[str], None]) -> list[Figure]:
    """Take every figure there is."""
    figures: list[Figure] = []
    for scale, release in releases.items():
        for take in (cold_load, other_readers, warm_load, http_load, verify_process, validate_release):
            note(f"{take.__name__.replace('_', ' ')} at scale {scale:g}")
            taken = take(release, scale, repeat)
            figures += taken if isinstance(taken, list) else [taken] if taken else []
    note("peak memory")
    figures += peak_memory(releases, repeat)
    note("videos on a web server")
    figures += remote_videos()
    note("import time")
    figures.append(import_time(repeat))
    return figures


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--scale", "scales", type=float, multiple=True, help="Size of the release; 1 is TRACE's. Default: 1, 100."
)
@click.option("--large", is_flag=True, help="Also scale 1,000, which takes 3 GB of disk and minutes.")
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Samples of each side.")
@click.option("--json", "target", type=click.Path(path_type=Path, dir_okay=False), help="Also write the figures here.")
def main(scales: tuple[float, ...], large: bool, repeat: int, target: Path | None) -> None:
    """Measure trace-hf side by side with what people use otherwise."""
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()
    console = Console(stderr=True)
    with scratch() as folder, console.status("") as status:
        releases = {}
        for scale in dict.fromkeys((scales or (1.0, LARGE)) + ((1000.0,) if large else ())):
            status.update(f"writing a synthetic release of scale {scale:g}")
            releases[scale] = folder / f"scale-{scale:g}"
            trace_hf.write_sample(releases[scale], scale=scale)
        figures = measure(releases, repeat, status.update)
    show(figures)
    if target is not None:
        packages = {"trace_hf": trace_hf.__version__, "datasets": datasets.__version__}
        machine = {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count()}
        document = {"repeat": repeat, **machine, **packages, "figures": [figure.to_json() for figure in figures]}
        target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
