"""The verbs of `trace-hf videos`, run as a person runs them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("av", reason="PyAV is missing: pip install 'trace-hf[video]'")

from trace_hf.cli import main
from trace_hf.cli.videos_common import subset_records
from trace_hf.release import Release
from trace_hf.sample_video import write_time_coded_video
from trace_hf.windows import evidence_span, media_end


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["videos", *map(str, arguments)], catch_exceptions=False)


def run_json(*arguments: object) -> tuple[int, Any]:
    result = run(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(scope="module")
def tiny(sample_release: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[Any]]:
    """A release, a root with the videos of its tiny configs, and these records."""
    root = tmp_path_factory.mktemp("root")
    records = list(subset_records(Release.open(sample_release), "tiny"))
    ends: dict[str, float] = {}
    for record in records:
        end = media_end(record) or evidence_span(record).end_s + 1
        ends[record.video_path] = max(ends.get(record.video_path, 0.0), end)
    for path, end in ends.items():
        write_time_coded_video(root / path, duration_s=end, fps=2, title=path)
    return sample_release, root, records


def test_check_lists_present_and_missing(tiny: tuple[Path, Path, list[Any]]) -> None:
    release, root, records = tiny
    code, value = run_json("check", release, "--subset", "tiny", "--video-root", root)
    assert (code, value["ok"], value["records"]) == (0, True, len(records))
    assert sorted(value["present"]) == sorted({record.video_path for record in records})
    code, value = run_json("check", release, "--subset", "full", "--video-root", root)
    assert (code, value["ok"]) == (1, False)
    assert value["missing"]
    assert set(value["missing"][0]) >= {"path", "records", "candidates"}
    code, only = run_json("check", release, "--subset", "full", "--video-root", root, "--missing-only")
    assert (code, only) == (1, {"ok": False, "missing": value["missing"]})
    text = run("check", release, "--subset", "full", "--video-root", root)
    assert "missing\t" in text.stdout
    assert f"{len(value['present'])} videos present" in text.stdout


@pytest.mark.parametrize("subset", ["qa_tiny", "proactive_tiny"])
def test_a_config_is_a_subset(tiny: tuple[Path, Path, list[Any]], subset: str) -> None:
    release, root, _ = tiny
    code, value = run_json("check", release, "--subset", subset, "--video-root", root)
    assert (code, value["records"]) == (0, 9)


def test_wrong_use_is_told_from_a_failed_check(tiny: tuple[Path, Path, list[Any]], tmp_path: Path) -> None:
    release, root, _ = tiny
    result = run("check", release, "--subset", "tiny")
    assert result.exit_code == 2
    assert "TRACE_VIDEO_ROOT" in result.stderr
    assert "Traceback" not in result.stderr
    assert run("check", release, "--subset", "changes", "--video-root", root).exit_code == 2
    assert run("check", release, "--video-root", tmp_path / "typo").exit_code == 2
    assert run("chekc").exit_code == 2
    assert "check" in run("chekc").stderr
    assert run("check", tmp_path / "no_release", "--video-root", root).exit_code == 2


def test_probe_reports_and_compares(tiny: tuple[Path, Path, list[Any]], tmp_path: Path) -> None:
    release, root, records = tiny
    code, value = run_json("probe", release, "--subset", "tiny", "--video-root", root)
    assert code == 0, value
    assert len(value["records"]) == len(records)
    (tmp_path / "good.json").write_text(json.dumps(value))
    arguments = ("--subset", "tiny", "--video-root", root, "--against", tmp_path / "good.json", "--no-cache")
    text = run("probe", release, *arguments)
    assert text.exit_code == 0
    assert "0 of 18 records not covered" in text.stdout
    (tmp_path / "good.json").write_text("no json")
    assert run("probe", release, *arguments).exit_code == 2


def test_index_and_fetch_make_a_local_root(tiny: tuple[Path, Path, list[Any]], tmp_path: Path) -> None:
    release, root, records = tiny
    paths = sorted({record.video_path for record in records})
    with zipfile.ZipFile(tmp_path / "lab.zip", "w") as archive:
        for path in paths:
            archive.write(root / path, f"export/{path}")
        archive.writestr("export/notes.txt", "x")
    rule = "export/{rest:path}.mp4 => {rest}.mp4"
    code, value = run_json("index", tmp_path / "lab.zip", "--out", tmp_path / "i.json", "--rule", rule)
    assert (code, value["videos"]) == (0, paths)
    assert [item["member"] for item in value["unmapped"]] == ["export/notes.txt"]
    (tmp_path / "rules.txt").write_text(f"# ours\n{rule}\n")
    text = run("index", tmp_path / "lab.zip", "--out", tmp_path / "j.json", "--rules", tmp_path / "rules.txt")
    assert (text.exit_code, (tmp_path / "j.json").read_text()) == (0, (tmp_path / "i.json").read_text())
    fetch = ("fetch", release, "--subset", "tiny", "--video-root", tmp_path / "i.json", "--to", tmp_path / "here")
    code, plan = run_json(*fetch, "--dry-run")
    assert (code, sorted(plan["todo"])) == (0, paths)
    assert not (tmp_path / "here").exists()
    code, done = run_json(*fetch)
    assert (code, sorted(done["fetched"])) == (0, paths)
    assert run("check", release, "--subset", "tiny", "--video-root", tmp_path / "here").exit_code == 0
    again = run(*fetch)
    assert (again.exit_code, again.stdout.startswith("0 videos fetched")) == (0, True)
    assert run("fetch", release, *fetch[2:-2], "--subset", "full", "--to", tmp_path / "here").exit_code == 1


def test_clip_cuts_records_and_frames(tiny: tuple[Path, Path, list[Any]], tmp_path: Path) -> None:
    release, root, records = tiny
    chosen = records[0].record_id
    common = ("clip", release, "--subset", "tiny", "--video-root", root, "--record-id", chosen, "--out", tmp_path / "o")
    code, value = run_json(*common)
    assert code == 0, value
    (made,) = value["done"]
    assert Path(made["path"]).is_file()
    assert (made["start_s"], made["end_s"]) == evidence_span(records[0])
    assert ":" not in Path(made["path"]).name
    pytest.importorskip("PIL", reason="Pillow is missing: pip install 'trace-hf[video]'")
    code, value = run_json(*common, "--frames", "jpg")
    assert (code, value["done"][0]["frames"]) == (0, len(evidence_span(records[0]).sampling_times()))
    assert run(*common, "--record-id", "nobody:1").exit_code == 2


def test_help_is_there_for_every_verb() -> None:
    for verb in ("check", "probe", "index", "fetch", "clip"):
        assert "Example: trace-hf videos" in " ".join(run(verb, "--help").stdout.split())
