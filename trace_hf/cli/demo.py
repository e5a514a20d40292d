"""The verb `demo`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..schema import CONFIGS, VIEWS
from .common import emit_table


@click.command()
def demo() -> None:
    """Verify, load and look at a synthetic release, with small videos.

    Example: trace-hf demo
    """
    import datasets

    from ..release import Release
    from ..sample import VIDEO_ROOT, write_sample

    datasets.disable_progress_bars()
    videos = importlib.util.find_spec("av") is not None
    with TemporaryDirectory(prefix="trace-hf-demo-") as folder:
        path = Path(folder, "sample")
        click.echo("1. A synthetic release with TRACE's counts; a real one is loaded in the same way.")
        write_sample(path, videos=videos)
        report = Release.open(path).verify()
        report.raise_if_failed()
        click.echo(f"   verified: {len(report.files)} files of {report.release_id}")
        root = path / VIDEO_ROOT if videos else None
        _show_configs(path, Path(folder, "cache"))
        _show_rows(path, root, Path(folder, "cache"))
    _show_next()


def _show_configs(path: Path, cache: Path) -> None:
    from ..attest import attest
    from ..loading import load

    click.echo('\n2. load_dataset("trace", config) gives typed, verified rows; attest proves it by hash.')
    rows = []
    for config in CONFIGS.values():
        dataset = load(config.name, release=path, cache_dir=cache)
        proof = attest(dataset, config.name, release=path)
        proof_text = f"attested {str(proof.sha256)[:12]}" if proof.ok else "NOT attested"
        rows.append((config.name, len(dataset), len(dataset.features), proof_text, config.description))
    emit_table(["config", "rows", "columns", "proof", "what it is"], rows)


def _show_rows(path: Path, root: Path | None, cache: Path) -> None:
    from ..loading import load
    from ..windows import effective_windows, evidence_span

    click.echo(f"\n3. What a model may see, view={VIEWS[1]!r}:")
    for name in ("qa_tiny", "proactive_tiny"):
        row = load(name, release=path, view="model_input", video_root=root, cache_dir=cache)[0]
        full = load(name, release=path, cache_dir=cache)[0]
        emit_table(["field", "value"], [(key, value) for key, value in row.items()], title=name)
        span = evidence_span(full)
        click.echo(f"   evidence: {span.start_s:g} ... {span.end_s:g} s (for the driver only)")
        if "windows" in full:
            due = ", ".join(f"[{w.start_s:g}, {w.end_s:g})" for w in effective_windows(full))
            click.echo(f"   answers are due in {due}")
        if root is None:
            click.echo("   videos: pip install 'trace-hf[video]' to see them resolve")
        else:
            size = Path(row["video_url"]).stat().st_size
            click.echo(f"   its video is there: {size} bytes")


def _show_next() -> None:
    click.echo(
        "\nNext:\n"
        "  trace-hf verify /path/to/snapshot           is it the released one?\n"
        "  export TRACE_RELEASE=/path/to/snapshot      what load_dataset then reads\n"
        "  export TRACE_VIDEO_ROOT=/path/to/videos     what video_url is built from\n"
        "  trace-hf videos check --subset tiny         which videos are missing?"
    )
