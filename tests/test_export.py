"""The exported folder: what is in it, that nobody sees half of it, and that plain libraries read it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from conftest import rewrite_manifest, sha256

import trace_hf
from trace_hf.arrow import UNKNOWN_FIELDS, arrow_schema, features_of, row_of
from trace_hf.cli import main
from trace_hf.errors import IntegrityError, ReleaseNotFoundError, SchemaError, TraceError
from trace_hf.hub.export import STEPS, export, refresh_card
from trace_hf.hub.features import same_features, yaml_features
from trace_hf.hub.proof import attest_export
from trace_hf.manifest import PINS, Pin
from trace_hf.release import Release
from trace_hf.schema import CONFIGS, ROLES


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def contents(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): sha256(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def metadata(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    return found


def parquet(folder: Path, config: str) -> Path:
    (path,) = (folder / config).glob("*.parquet")
    return path


def set_metadata(folder: Path, value: dict[str, Any]) -> None:
    body = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump(value, sort_keys=False)}---\n{body}", encoding="utf-8")


@pytest.fixture
def exported(small_sample: Path, tmp_path: Path) -> Path:
    return export(small_sample, tmp_path / "exports" / "trace").path


def rewrite_rows(path: Path, edit: Any) -> None:
    """Change rows of a Parquet file and leave its name as it is."""
    value = pq.read_table(path)
    rows = value.to_pylist()
    edit(rows)
    pq.write_table(pa.Table.from_pylist(rows, value.schema), path)


# --- what is in it ------------------------------------------------------------------------------------------------


def test_the_folder_holds_card_tables_snapshot_croissant_and_terms(exported: Path, small_sample: Path) -> None:
    names = contents(exported)
    manifest = json.loads((small_sample / "manifest.json").read_text())
    snapshot = {
        name.removeprefix("snapshot/"): digest for name, digest in names.items() if name.startswith("snapshot/")
    }
    assert snapshot == {**manifest["files"], "manifest.json": sha256(small_sample / "manifest.json")}
    rest = {name for name in names if not name.startswith("snapshot/")}
    tables = {name for name in rest if name.endswith(".parquet")}
    assert rest - tables == {"README.md", "croissant.json", "DATA_TERMS.md"}
    assert {name.split("/")[0] for name in tables} == set(CONFIGS)


def test_a_file_is_named_after_the_hash_of_its_content(exported: Path, small_sample: Path) -> None:
    files = json.loads((small_sample / "manifest.json").read_text())["files"]
    for config, name in (("qa", "qa.jsonl"), ("proactive", "proactive.jsonl"), ("changes", "changes.jsonl")):
        assert parquet(exported, config).name == f"test-00000-of-00001-{files[name][:12]}.parquet"
    ids = Release.open(small_sample).ids("proactive_tiny")
    lines = (small_sample / "proactive.jsonl").read_bytes().splitlines(keepends=True)
    due = hashlib.sha256(b"".join(next(x for x in lines if f'"record_id":"{i}"'.encode() in x) for i in ids or ()))
    assert parquet(exported, "proactive_tiny").name == f"test-00000-of-00001-{due.hexdigest()[:12]}.parquet"


def test_parquet_files_carry_no_metadata_of_any_library(exported: Path) -> None:
    for config, spec in CONFIGS.items():
        with pq.ParquetFile(parquet(exported, config)) as file:
            assert file.schema_arrow.metadata is None
            assert file.metadata.metadata is None
            assert file.schema_arrow.names == arrow_schema(spec.record).names


def test_the_same_release_gives_the_same_bytes(small_sample: Path, tmp_path: Path) -> None:
    first = export(small_sample, tmp_path / "a" / "trace").path
    second = export(str(small_sample), tmp_path / "b" / "other").path
    assert contents(first) == contents(second)
    code = "import sys; from trace_hf.hub.export import export; export(sys.argv[1], sys.argv[2])"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    subprocess.run(
        [sys.executable, "-c", code, str(small_sample), str(tmp_path / "c")],
        check=True,
        env=environment,
        cwd=Path(__file__).parents[1],
    )
    assert contents(tmp_path / "c") == contents(first)


def test_exporting_an_export_gives_the_same_bytes(exported: Path, tmp_path: Path) -> None:
    assert contents(export(exported, tmp_path / "again").path) == contents(exported)


def test_the_yaml_states_true_sizes(exported: Path) -> None:
    stated = {entry["config_name"]: entry for entry in metadata(exported)["dataset_info"]}
    bare = metadata(exported)
    del bare["dataset_info"]
    set_metadata(exported, bare)  # so that what datasets records is its own count
    for config in CONFIGS:
        loaded = datasets.load_dataset(str(exported), config, split="test")
        (split,) = stated[config]["splits"]
        assert split == {
            "name": "test",
            "num_bytes": loaded.info.splits["test"].num_bytes,
            "num_examples": len(loaded),
        }
        assert stated[config]["download_size"] == parquet(exported, config).stat().st_size
        assert stated[config]["dataset_size"] == split["num_bytes"]


def test_the_yaml_features_are_those_of_the_package(exported: Path) -> None:
    for entry in metadata(exported)["dataset_info"]:
        due = features_of(arrow_schema(CONFIGS[entry["config_name"]].record))
        assert datasets.Features._from_yaml_list(entry["features"]) == due


def test_features_of_newer_versions_count_as_the_same() -> None:
    due = yaml_features(arrow_schema(CONFIGS["qa"].record))
    newer = json.loads(json.dumps(due).replace('"sequence": "string"', '"list": "string"'))
    assert newer != due
    assert same_features(newer, due)
    assert not same_features(json.loads(json.dumps(due).replace("float64", "float32")), due)


def test_configs_without_rows_are_left_out_and_the_card_says_so(small_sample: Path, tmp_path: Path) -> None:
    (small_sample / "changes.jsonl").write_bytes(b"")
    (small_sample / "tiny_qa_ids.json").write_text("[]\n")
    rewrite_manifest(small_sample)
    made = export(small_sample, tmp_path / "trace")
    assert made.left_out == ("qa_tiny", "changes")
    assert not (made.path / "changes").exists()
    names = [entry["config_name"] for entry in metadata(made.path)["configs"]]
    assert names == [name for name in CONFIGS if name not in made.left_out]
    assert "`qa_tiny`, `changes`" in (made.path / "README.md").read_text(encoding="utf-8")
    assert attest_export(made.path).ok
    assert datasets.get_dataset_config_names(str(made.path)) == names


def test_a_newer_schema_is_exported_with_its_fields_in_a_column(small_sample: Path, tmp_path: Path) -> None:
    path = small_sample / "qa.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(lines[0])
    row["metadata"]["reviewer"] = "r1"
    lines[0] = json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rewrite_manifest(small_sample)
    with pytest.raises(SchemaError, match="reviewer"):
        export(small_sample, tmp_path / "trace")
    made = export(small_sample, tmp_path / "trace", unknown="keep")
    assert (
        datasets.load_dataset(str(made.path), "qa", split="test")[0][UNKNOWN_FIELDS] == '[["/metadata/reviewer","r1"]]'
    )
    assert attest_export(made.path).ok
    before = contents(made.path)
    refresh_card(made.path)
    assert contents(made.path) == before


# --- plain libraries ----------------------------------------------------------------------------------------------


def plain(code: str, cwd: Path, *arguments: object, home: Path) -> str:
    """Run code in a process of its own, where nothing imports trace_hf."""
    environment = {**os.environ, "HF_HOME": str(home), "HF_DATASETS_CACHE": str(home / "d"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nassert 'trace_hf' not in sys.modules\n" + textwrap.dedent(code),
            *map(str, arguments),
        ],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plain_datasets_loads_it_by_path_and_by_name(exported: Path, small_sample: Path, tmp_path: Path) -> None:
    out = plain(
        """
        import json, datasets
        for source in (sys.argv[1], "trace"):
            for config in datasets.get_dataset_config_names(source):
                rows = datasets.load_dataset(source, config, split="test")
                print(json.dumps([config, rows.to_list()]))
        """,
        exported.parent,
        exported,
        home=tmp_path / "home",
    )
    opened = Release.open(small_sample)
    seen = 0
    for line in out.splitlines():
        config, rows = json.loads(line)
        assert rows == [row_of(record) for record in opened.records(config)]
        seen += 1
    assert seen == 2 * len(CONFIGS)


def test_the_cache_never_answers_for_another_folder_of_the_same_name(tmp_path: Path) -> None:
    """The cache of `datasets` is keyed the folder's name and its YAML, not by place or content."""
    places = []
    for seed in (1, 2):
        release = trace_hf.write_sample(tmp_path / f"release-{seed}", scale=0.03, seed=seed)
        places.append(export(release, tmp_path / str(seed) / "trace").path)
    edited = tmp_path / "release-1"
    path = edited / "qa.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"answer":"A"', '"answer":"B"', 1), encoding="utf-8")
    rewrite_manifest(edited)
    code = """
        import json, datasets
        print(json.dumps(datasets.load_dataset("trace", "qa", split="test").to_list()))
    """
    found = [json.loads(plain(code, place.parent, home=tmp_path / "home")) for place in (places[0], places[1])]
    export(edited, places[0], overwrite=True)
    found.append(json.loads(plain(code, places[0].parent, home=tmp_path / "home")))
    assert found[0] != found[1]
    assert found[2] != found[0]
    assert found[2] == pq.read_table(parquet(places[0], "qa")).to_pylist()


def test_duckdb_reads_every_file_with_nested_columns_typed(exported: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    for config in CONFIGS:
        found = duckdb.sql(f"select * from read_parquet('{parquet(exported, config)}')")
        types = dict(zip(found.columns, map(str, found.types), strict=True))
        if "metadata" in types:
            assert types["metadata"].startswith("STRUCT(dataset VARCHAR, ")
            assert "DOUBLE" in types["metadata"]
        if "windows" in types:
            assert types["windows"] == "STRUCT(start_s DOUBLE, end_s DOUBLE, expected_answer VARCHAR)[]"
        assert len(found.fetchall()) == pq.read_metadata(parquet(exported, config)).num_rows
    ((count,),) = duckdb.sql(
        f"select count(*) from (select unnest(windows) from read_parquet('{parquet(exported, 'proactive')}'))"
    ).fetchall()
    assert count == sum(len(row["windows"]) for row in pq.read_table(parquet(exported, "proactive")).to_pylist())


def test_polars_reads_every_file_with_nested_columns_typed(exported: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    for config in CONFIGS:
        frame = polars.read_parquet(parquet(exported, config))
        assert frame.height == pq.read_metadata(parquet(exported, config)).num_rows
        if "windows" in frame.columns:
            fields = {"start_s": polars.Float64, "end_s": polars.Float64, "expected_answer": polars.String}
            assert frame.schema["windows"] == polars.List(polars.Struct(fields))
        if "metadata" in frame.columns:
            assert isinstance(frame.schema["metadata"], polars.Struct)
        assert trace_hf.attest(frame, config, release=exported).ok


# --- nothing is half written --------------------------------------------------------------------------------------


def test_only_a_release_that_verifies_is_exported(small_sample: Path, tmp_path: Path) -> None:
    with (small_sample / "qa.jsonl").open("ab") as file:
        file.write(b" ")
    with pytest.raises(IntegrityError, match=r"qa\.jsonl"):
        export(small_sample, tmp_path / "out" / "trace")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_the_incomplete_official_release_is_not_exported(real: Path, tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="pinned release"):
        export(real / "official", tmp_path / "trace")


def test_a_file_that_is_not_canonical_cannot_be_exported(small_sample: Path, tmp_path: Path) -> None:
    path = small_sample / "qa.jsonl"
    path.write_bytes(path.read_bytes().replace(b'{"answer":', b'{ "answer":', 1))
    rewrite_manifest(small_sample)
    with pytest.raises(SchemaError, match="not canonically encoded"):
        export(small_sample, tmp_path / "out" / "trace")
    assert not list((tmp_path / "out").iterdir())


def test_an_existing_folder_is_left_alone(exported: Path, small_sample: Path, tmp_path: Path) -> None:
    before = contents(exported)
    with pytest.raises(TraceError, match="overwrite"):
        export(small_sample, exported)
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("work of years")
    for overwrite in (False, True):
        with pytest.raises(TraceError, match="no earlier export"):
            export(small_sample, foreign, overwrite=overwrite)
    (exported / ".git").mkdir()
    with pytest.raises(TraceError, match=r"no part of an export: \.git"):
        export(small_sample, exported, overwrite=True)
    (exported / ".git").rmdir()
    assert contents(exported) == before
    assert (foreign / "thesis.txt").read_text() == "work of years"


def test_an_earlier_export_is_replaced_as_a_whole(exported: Path, tmp_path: Path) -> None:
    other = trace_hf.write_sample(tmp_path / "other", scale=0.02, seed=5)
    export(other, exported, overwrite=True)
    assert contents(exported) == contents(export(other, tmp_path / "fresh").path)
    assert [path.name for path in exported.parent.iterdir()] == ["trace"]


def test_a_failure_leaves_the_earlier_export_as_it_was(
    exported: Path, small_sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(exported)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("trace_hf.hub.export.count_release", fail)
    with pytest.raises(OSError, match="disk full"):
        export(small_sample, exported, overwrite=True)
    monkeypatch.undo()
    real_replace = Path.replace

    def fail_once(self: Path, target: Any) -> Path:
        if Path(target) == exported:
            raise OSError("busy")
        return real_replace(self, target)

    monkeypatch.setattr(Path, "replace", fail_once)
    with pytest.raises(OSError, match="busy"):
        export(small_sample, exported, overwrite=True)
    assert contents(exported) == before
    assert [path.name for path in exported.parent.iterdir()] == ["trace"]


def test_an_empty_folder_and_a_folder_to_be_made_are_fine(small_sample: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert export(small_sample, tmp_path / "empty").path.is_dir()
    assert export(small_sample, tmp_path / "a" / "b" / "trace").path.is_dir()
    assert (tmp_path / "empty").stat().st_mode & 0o777 == tmp_path.joinpath("a").stat().st_mode & 0o777


def test_progress_adds_up(small_sample: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    export(small_sample, tmp_path / "trace", advance=steps.append)
    assert sum(steps) == STEPS


# --- attested as a whole ------------------------------------------------------------------------------------------


def test_an_export_is_attested_in_one_call(exported: Path) -> None:
    found = attest_export(exported)
    assert found.ok
    assert not found.pinned
    assert [proof.config for proof in found.configs] == list(CONFIGS)
    assert "proves consistency with it, not origin" in str(found)


def test_a_changed_parquet_file_is_named(exported: Path) -> None:
    rewrite_rows(parquet(exported, "qa"), lambda rows: rows[1].update(answer="Z"))
    found = attest_export(exported)
    assert not found.ok
    (bad,) = [proof for proof in found.configs if not proof.ok]
    assert (bad.config, bad.differences[0].field) == ("qa", "$.answer")
    assert any("named after other content" in problem.what for problem in found.problems)


def test_every_small_change_in_a_parquet_file_is_named(exported: Path) -> None:
    def spoil(rows: list[dict[str, Any]]) -> None:
        rows[0]["deadline_s"] = math.nextafter(rows[0]["deadline_s"], 0.0)
        trigger = next(
            t for row in rows for t in row["metadata"]["trigger_annotations"] if t["evidence_description"] is None
        )
        trigger["evidence_description"] = ""
        for row in rows:
            for trigger in row["metadata"]["trigger_annotations"]:
                text = trigger["evidence_description"]
                if text and "\u4e00" <= text[0] <= "\u9fff":
                    trigger["evidence_description"] = "\u9f98" + text[1:]
                    rows.reverse()
                    return

    rewrite_rows(parquet(exported, "proactive"), spoil)
    found = attest_export(exported, configs=["proactive"])
    assert not found.ok
    (proof,) = found.configs
    assert proof.reordered
    said = {str(d.field).rsplit(".", 1)[-1]: d.what for d in proof.differences}
    assert "(one unit in the last place)" in said["deadline_s"]
    both = [d.what for d in proof.differences if str(d.field).endswith("evidence_description")]
    assert len(both) == 2
    assert any("an absent field that became empty" in what for what in both)
    assert any("\u9f98" in what for what in both)


def test_an_export_of_a_known_release_is_of_proven_origin(
    exported: Path, small_sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Release.open(small_sample).manifest
    roles = {role: getattr(manifest, role) for role in ROLES}
    counts = {"qa": manifest.counts.qa, "proactive": manifest.counts.proactive}
    monkeypatch.setitem(PINS, manifest.release_id, Pin(manifest.files, roles, counts, manifest.schema_version))
    found = attest_export(exported)
    assert found.ok
    assert found.pinned
    assert all(proof.pinned for proof in found.configs)
    assert "which proves origin" in str(found)
    shutil.rmtree(exported / "snapshot")
    found = attest_export(exported, configs=["qa", "proactive_standard", "changes"])
    assert found.ok, str(found)
    assert found.pinned
    assert found.release_id == manifest.release_id


def test_a_reordered_parquet_file_is_said(exported: Path) -> None:
    rewrite_rows(parquet(exported, "qa"), lambda rows: rows.reverse())
    found = attest_export(exported)
    assert found.ok
    assert [proof.config for proof in found.configs if proof.reordered] == ["qa"]


def test_a_snapshot_that_was_changed_along_with_the_rows_is_caught_where_hashes_are_pinned(
    real_release: Path, tmp_path: Path
) -> None:
    made = export(real_release, tmp_path / "trace").path
    assert not attest_export(made).pinned
    rewrite_manifest(made / "snapshot", release_id="v1.1.0")
    with pytest.raises(IntegrityError, match="pinned"):
        attest_export(made)


def test_a_card_that_makes_load_dataset_give_other_rows_is_caught(exported: Path) -> None:
    value = metadata(exported)
    text = yaml.safe_dump(value["dataset_info"]).replace("float64", "float32")
    set_metadata(exported, {**value, "dataset_info": yaml.safe_load(text)})
    found = attest_export(exported)
    assert not found.ok
    assert all(proof.ok for proof in found.configs)
    assert "states other features" in found.problems[0].what
    other = exported / "qa" / "other.parquet"
    shutil.copy(parquet(exported, "qa"), other)
    value["configs"][0]["data_files"][0]["path"] = "qa/other.parquet"
    set_metadata(exported, value)
    found = attest_export(exported)
    assert not found.ok
    assert "names qa/other.parquet" in str(found)
    value["configs"][0]["data_files"] = [{"split": "train", "path": "qa/*.parquet"}]
    set_metadata(exported, value)
    assert "no form that an export's card has" in str(attest_export(exported))


def test_a_config_whose_file_is_gone_is_named(exported: Path) -> None:
    parquet(exported, "exclusions").unlink()
    found = attest_export(exported)
    assert not found.ok
    assert any(problem.field == "exclusions" and "no Parquet file" in problem.what for problem in found.problems)


def test_an_export_without_a_snapshot_needs_a_release_or_pinned_hashes(exported: Path, small_sample: Path) -> None:
    shutil.rmtree(exported / "snapshot")
    found = attest_export(exported)
    assert not found.ok
    assert "compared with pinned hashes" in str(found)
    assert attest_export(exported, release=small_sample).ok


def test_an_export_at_a_url_is_attested(exported: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(exported), "/mirror/trace", recursive=True)
    try:
        assert attest_export("memory://mirror/trace").ok
        assert attest_export("memory://mirror/trace", configs=["qa"]).configs[0].config == "qa"
    finally:
        memory.rm("/mirror", recursive=True)


def test_what_is_no_export_is_said(tmp_path: Path) -> None:
    with pytest.raises(ReleaseNotFoundError, match="no such folder"):
        attest_export(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReleaseNotFoundError, match="no Parquet file"):
        attest_export(tmp_path / "empty")
    with pytest.raises(ReleaseNotFoundError, match="no export"):
        refresh_card(tmp_path / "empty")


# --- the card alone -----------------------------------------------------------------------------------------------


def test_the_card_alone_is_refreshed(exported: Path) -> None:
    before = contents(exported)
    (exported / "README.md").write_text("gone")
    refresh_card(exported)
    assert contents(exported) == before


def test_no_card_is_written_for_rows_that_are_not_the_releases(exported: Path) -> None:
    rewrite_rows(parquet(exported, "qa"), lambda rows: rows[0].update(answer="Z"))
    with pytest.raises(SchemaError, match=r"\$\.answer"):
        refresh_card(exported)


# --- the real rows ------------------------------------------------------------------------------------------------


def test_the_real_rows_are_exported_and_attested(real_release: Path, tmp_path: Path) -> None:
    made = export(real_release, tmp_path / "trace")
    found = attest_export(made.path)
    assert found.ok
    assert {proof.config: proof.records for proof in found.configs} == {
        "qa": 21,
        "qa_tiny": 3,
        "proactive": 19,
        "proactive_standard": 11,
        "proactive_high_frequency": 8,
        "proactive_tiny": 3,
        "changes": 2,
        "exclusions": 1,
    }
    (known,) = [proof.config for proof in found.configs if proof.pinned_as]
    assert known == "proactive_high_frequency"
    assert parquet(made.path, "proactive_high_frequency").name == "test-00000-of-00001-4de942e70cc8.parquet"
    plain_rows = datasets.load_dataset(str(made.path), "proactive_high_frequency", split="test")
    assert trace_hf.attest(plain_rows, "proactive_high_frequency").sha256 == (
        "4de942e70cc8d58ec6af1f1a142de40b36bb271f32bbf9a3e1e064e021659598"
    )


# --- command line -------------------------------------------------------------------------------------------------


def test_export_and_attest_on_the_command_line(small_sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace"
    done = run("export", small_sample, out, "--json")
    assert done.exit_code == 0, done.output
    made = json.loads(done.output)
    assert [one["config"] for one in made["configs"]] == list(CONFIGS)
    assert run("export", small_sample, out).exit_code == 2
    assert run("export", small_sample, out, "--overwrite").exit_code == 0
    assert run("export", "--card-only", out).exit_code == 0
    assert run("export", small_sample, out, "--card-only").exit_code == 2
    assert run("export", tmp_path / "absent", tmp_path / "x").exit_code == 2

    done = run("attest", out, "--json")
    assert done.exit_code == 0, done.output
    value = json.loads(done.output)
    assert {"ok", "release_id", "pinned", "configs"} <= set(value)
    keys = {"config", "ok", "records", "sha256", "expected", "differences"}
    assert all(
        keys <= set(config) and config["ok"] and config["sha256"] == config["expected"] for config in value["configs"]
    )
    done = run("attest", out, "--config", "qa")
    assert done.exit_code == 0
    assert re.match(r"attested: qa of sample-0-x0.05, \d+ records, sha256 [0-9a-f]{64}", done.output)
    assert run("attest", parquet(out, "qa")).exit_code == 0, "an export's file is compared with its snapshot"
    assert run("attest", parquet(out, "qa"), "--release", small_sample, "--config", "qa").exit_code == 0
    loose = tmp_path / "loose.parquet"
    shutil.copy(parquet(out, "qa"), loose)
    assert run("attest", loose).exit_code == 2
    assert run("attest", loose, "--config", "qa", "--release", out).exit_code == 0
    assert run("attest", loose, "--config", "nonsense").exit_code == 2
    assert run("attest", tmp_path / "absent").exit_code == 2

    rewrite_rows(parquet(out, "qa"), lambda rows: rows[0].update(answer="Z"))
    done = run("attest", out)
    assert done.exit_code == 1
    assert "$.answer" in done.output
    assert "Traceback" not in done.output
