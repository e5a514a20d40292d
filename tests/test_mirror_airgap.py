"""A folder to carry to machines with no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from mirror_kit import TARGET, cli

import trace_hf
from trace_hf.errors import DataTermsError, TraceError
from trace_hf.hub import mirror
from trace_hf.hub.airgap import HomeMirror, arrow_batches
from trace_hf.hub.content import Content
from trace_hf.hubcache import cached_snapshot

pytest_plugins = ["mirror_fixtures"]

LOAD = (
    "import datasets, json, sys\n"
    "out = {}\n"
    "for config in json.loads(sys.argv[1]):\n"
    "    rows = datasets.load_dataset('org/trace', config, split='test')\n"
    "    out[config] = [rows[i] for i in range(len(rows))]\n"
    "print(json.dumps([datasets.__version__, out]))\n"
)


def offline(home: Path) -> dict[str, str]:
    """Return the environment of a machine with no network whose caches are that folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRACE_"))}
    # A proxy that nobody answers at: whoever asks a server fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    return {**kept, **nowhere, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def rows_of(python: str, home: Path, configs: list[str], cwd: Path) -> tuple[str, dict[str, list[dict[str, object]]]]:
    done = subprocess.run(
        [python, "-c", LOAD, json.dumps(configs)], env=offline(home), cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    version, rows = json.loads(done.stdout.splitlines()[-1])
    return version, rows


@pytest.fixture
def home(content: Content, tmp_path: Path) -> Path:
    HomeMirror(tmp_path / "home", "org/trace").push(content)
    return tmp_path / "home"


def test_the_installed_datasets_loads_it_with_no_network_and_the_rows_attest(
    home: Path, whole: Path, tmp_path: Path
) -> None:
    _, rows = rows_of(sys.executable, home, ["qa", "proactive_standard", "changes"], tmp_path)
    for config, found in rows.items():
        assert trace_hf.attest(found, config, release=whole).ok
    assert mirror.check(home).ok  # what datasets leaves behind there is no drift


@cache
def _python_with(version: str) -> str:
    """Return a Python that has that `datasets` and no trace_hf."""
    shared = Path(__file__).parents[1] / ".venvs" / f"datasets-{version}" / "bin" / "python"
    probe = [str(shared), "-c", f"import datasets; assert datasets.__version__ == {version!r}"]
    if shared.exists() and subprocess.run(probe, capture_output=True).returncode == 0:
        return str(shared)
    folder = Path(tempfile.mkdtemp(prefix=f"datasets-{version}-"))
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", f"datasets=={version}"], capture_output=True, text=True
    )
    if done.returncode:
        shutil.rmtree(folder)
        pytest.skip(f"datasets {version} cannot be installed here: {done.stderr[-300:]}")
    return python


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.21.0", "3.6.0", "4.8.5", "5.2.0"])
def test_every_datasets_loads_every_config_with_no_network(
    home: Path, whole: Path, tmp_path: Path, version: str
) -> None:
    configs = sorted(HomeMirror(home, "org/trace").copies())
    assert len(configs) == 8
    found_version, rows = rows_of(_python_with(version), home, configs, tmp_path)
    assert found_version == version
    for config, found in rows.items():
        assert trace_hf.attest(found, config, release=whole).ok
    assert mirror.check(home).ok


def test_trace_hf_loads_it_with_no_network(home: Path, tmp_path: Path) -> None:
    code = (
        "import trace_hf\n"
        "rows = trace_hf.load('qa', release='hf://datasets/org/trace/snapshot')\n"
        "print(len(rows), trace_hf.provenance(rows).release_id, trace_hf.provenance(rows).verified)\n"
    )
    env = offline(home) | {"TRACE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[1:] == ["v9.9.9", "True"]


def test_the_hub_cache_gives_the_snapshot_and_nothing_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    for url in (TARGET, f"{TARGET}/", f"{TARGET}/snapshot", f"{TARGET}@v9.9.9", f"{TARGET}@main/snapshot"):
        found = cached_snapshot(url)
        assert found is not None
        assert trace_hf.verify(found).ok
    for url in (
        "hf://datasets/org/other",
        f"{TARGET}@v1",
        f"{TARGET}/qa",
        f"{TARGET}/../../..",
        f"{TARGET}@../../x",
        "hf://org/trace",
        "s3://org/trace",
    ):
        assert cached_snapshot(url) is None, url


def test_a_second_push_writes_nothing(home: Path, content: Content) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in home.rglob("*") if path.is_file()}
    assert HomeMirror(home, "org/trace").push(content).plan.steps == ()
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in home.rglob("*") if p.is_file()} == before


def test_another_release_takes_its_place_wholly(home: Path, public_content: Content, tmp_path: Path) -> None:
    report = HomeMirror(home, "org/trace").push(public_content)
    assert {"upload", "replace", "delete"} == {step.action for step in report.plan.steps}
    assert mirror.check(home).ok
    assert len(list((home / "datasets" / "org___trace" / "qa" / "0.0.0").iterdir())) == 1
    _, rows = rows_of(sys.executable, home, ["qa"], tmp_path)
    assert {row["metadata"]["dataset"] for row in rows["qa"]} == {"streambench"}  # type: ignore[index]


def test_a_damaged_arrow_copy_is_found_and_repaired(home: Path, content: Content) -> None:
    folder = HomeMirror(home, "org/trace").copies()["qa"]
    (file,) = folder.glob("*.arrow")
    table = pa.Table.from_batches(list(arrow_batches(folder)))
    rows = table.to_pylist()
    rows[0]["answer"] = "Z"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=table.schema))
    (drift,) = mirror.check(home).drift
    assert (drift.kind, drift.name) == ("changed", "datasets/qa")
    assert "$.answer" in drift.detail
    done = cli("check", str(home))
    assert done.returncode == 1
    HomeMirror(home, "org/trace").push(content)
    assert mirror.check(home).ok


def test_each_kind_of_drift_is_named(home: Path) -> None:
    copies = HomeMirror(home, "org/trace").copies()
    info = copies["proactive"] / "dataset_info.json"
    value = json.loads(info.read_bytes())
    value["features"]["deadline_s"]["dtype"] = "float32"
    info.write_text(json.dumps(value), encoding="utf-8")
    shutil.copytree(copies["qa"], copies["qa"].parent / ("0" * 40))
    shutil.rmtree(copies["changes"].parent)
    (copies["exclusions"] / "trace-test.arrow").write_bytes(b"no arrow")
    found = {(drift.kind, drift.name) for drift in mirror.check(home).drift}
    assert found == {
        ("changed", "datasets/proactive"),
        ("foreign", "datasets/qa"),
        ("missing", "datasets/changes"),
        ("changed", "datasets/exclusions"),
    }


def test_somebody_s_own_cache_is_not_touched(content: Content, tmp_path: Path) -> None:
    own = tmp_path / "home" / "datasets" / "org___trace" / "qa" / "0.0.0" / "abc"
    own.mkdir(parents=True)
    (own / "dataset_info.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataTermsError, match="was not made by `trace-hf mirror`"):
        HomeMirror(tmp_path / "home", "org/trace").push(content)
    assert [path.name for path in own.iterdir()] == ["dataset_info.json"]
    assert not (tmp_path / "home" / "hub").exists()


def test_the_command_line_makes_and_checks_it(whole: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "usb")
    done = cli("push", str(whole), TARGET, "--hf-home", folder, "--yes", "--deep")
    assert done.returncode == 0, done.stderr
    assert "rows attested" in done.stdout
    for arguments in ((folder,), (TARGET, "--hf-home", folder), (folder, "--release", str(whole))):
        done = cli("check", *arguments)
        assert (done.returncode, done.stdout) == (0, "")
    assert cli("pull", folder, str(tmp_path / "out")).returncode == 0
    assert trace_hf.verify(tmp_path / "out").ok
    with pytest.raises(TraceError, match="is no dataset repo"):
        mirror.push(whole, tmp_path / "x", hf_home=folder)
