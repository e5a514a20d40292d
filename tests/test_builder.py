"""`load_dataset("trace", ...)`: typed rows, both views, and a cache that never answers for another snapshot."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from conftest import rewrite_manifest
from helpers import edit_line, edit_manifest

import trace_hf
from trace_hf.errors import IntegrityError, ReleaseNotFoundError, TraceError, UnknownConfigError, UnsafePathError
from trace_hf.schema import CONFIGS

REAL_COUNTS = {
    "proactive_standard": 11,
    "proactive_high_frequency": 8,
    "qa": 21,
    "qa_tiny": 3,
    "proactive": 19,
    "proactive_tiny": 3,
    "changes": 2,
    "exclusions": 1,
}
OFFICIAL_COUNTS = {
    "proactive_standard": 407,
    "proactive_high_frequency": 8,
    "qa": 833,
    "qa_tiny": 9,
    "proactive": 415,
    "proactive_tiny": 9,
    "changes": 380,
    "exclusions": 52,
}


@pytest.mark.parametrize("config", CONFIGS)
def test_scale_one_sample_has_the_official_counts(sample_release: Path, config: str) -> None:
    assert len(trace_hf.load(config, release=sample_release)) == OFFICIAL_COUNTS[config]


@pytest.mark.real
@pytest.mark.parametrize("imports", ["import trace_hf, datasets", "import datasets, trace_hf"])
def test_real_rows_load_offline_from_an_empty_directory(real: Path, tmp_path: Path, imports: str) -> None:
    code = f"{imports}; print({{c: datasets.load_dataset('trace', c)['test'].num_rows for c in {list(REAL_COUNTS)}}})"
    environment = {**os.environ, "TRACE_RELEASE": str(real / "sample_release"), "HF_HUB_OFFLINE": "1"}
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=empty, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(REAL_COUNTS)


@pytest.mark.real
def test_real_values_are_typed(real: Path) -> None:
    row = trace_hf.load("proactive_high_frequency", release=real / "sample_release")[2]
    assert row["record_id"] == "ovo_bench_proactive:1570"
    assert row["windows"][4] == {"start_s": 17.29, "end_s": 21.096, "expected_answer": "5"}
    trigger = row["metadata"]["trigger_annotations"][0]
    assert trigger["interval_start_s"] is None  # null in the file
    assert trigger["accepted_facts"] == []  # empty in the file
    assert trigger["source_window_end_s"] is None  # absent in the file
    adjustment = row["metadata"]["media_boundary_adjustments"][0]
    assert adjustment["field"] == "windows[4].end_s"
    assert adjustment["effective_value_s"] == 21.096


def test_data_dir_is_a_synonym_of_release(small_sample: Path) -> None:
    by_release = datasets.load_dataset("trace", "qa", split="test", release=str(small_sample))
    by_data_dir = datasets.load_dataset("trace", "qa", split="test", data_dir=str(small_sample))
    assert by_release.to_list() == by_data_dir.to_list()


def test_two_places_at_once_are_refused(small_sample: Path, tmp_path: Path) -> None:
    with pytest.raises(ReleaseNotFoundError, match="name two releases"):
        datasets.load_dataset("trace", "qa", release=str(small_sample), data_dir=str(tmp_path))


def test_environment_names_the_release(small_sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_RELEASE", str(small_sample))
    assert datasets.load_dataset("trace", "qa")["test"].num_rows == trace_hf.load("qa").num_rows


def test_tiny_config_follows_the_order_of_its_id_file(small_sample: Path) -> None:
    path = small_sample / "tiny_qa_ids.json"
    ids = json.loads((small_sample / "tiny_qa_ids.json").read_text())[::-1]
    path.write_text(json.dumps(ids, indent=2) + "\n")
    rewrite_manifest(small_sample)
    for streaming in (False, True):
        rows = trace_hf.load("qa_tiny", release=small_sample, streaming=streaming)
        assert [row["record_id"] for row in rows] == ids
    assert [record.record_id for record in trace_hf.Release.open(small_sample).records("qa_tiny")] == ids


def test_model_input_view_holds_nothing_but_inputs(small_sample: Path) -> None:
    for config, spec in CONFIGS.items():
        if not spec.inputs:
            with pytest.raises(UnknownConfigError, match="has no model_input view"):
                trace_hf.load(config, release=small_sample, view="model_input")
            continue
        for streaming in (False, True):
            rows = trace_hf.load(config, release=small_sample, view="model_input", streaming=streaming)
            assert tuple(rows.features) == spec.inputs
            assert {tuple(row) for row in rows} <= {spec.inputs}
    assert CONFIGS["qa"].inputs == ("record_id", "task", "video_path", "question", "options", "question_time_s")
    assert CONFIGS["proactive"].inputs == ("record_id", "task", "video_path", "instruction", "instruction_time_s")


def test_unknown_names_list_the_known_ones(small_sample: Path) -> None:
    with pytest.raises(UnknownConfigError, match="proactive_standard, proactive_high_frequency") as error:
        trace_hf.load("proactive-standard", release=small_sample)
    assert "did you mean 'proactive_standard'?" in str(error.value)
    with pytest.raises(ValueError, match="the configs are qa"):
        datasets.load_dataset("trace", data_dir=str(small_sample))
    with pytest.raises(UnknownConfigError, match="the views are full, model_input"):
        trace_hf.load("qa", release=small_sample, view="inputs")  # type: ignore[arg-type]
    with pytest.raises(UnknownConfigError, match="there is no option 'veiw'") as error:
        trace_hf.load("qa", release=small_sample, veiw="model_input")
    assert "did you mean 'view'?" in str(error.value)
    with pytest.raises(UnknownConfigError, match='neither "error" nor "keep"'):
        trace_hf.load("qa", release=small_sample, unknown="drop")  # type: ignore[arg-type]


def test_datasets_own_keywords_work(small_sample: Path) -> None:
    rows = trace_hf.load("qa", release=small_sample).to_list()
    again = trace_hf.load("qa", release=small_sample, num_proc=1, download_mode="force_redownload")
    assert again.to_list() == rows
    assert trace_hf.load("qa", release=small_sample, split="test[:2]").to_list() == rows[:2]
    assert list(trace_hf.load("qa", release=small_sample, streaming=True)) == rows
    assert list(datasets.load_dataset("trace", "qa", data_dir=str(small_sample))) == ["test"]


def test_names_are_listed(small_sample: Path) -> None:
    assert datasets.get_dataset_config_names("trace") == list(CONFIGS)
    assert datasets.get_dataset_split_names("trace", "qa", data_dir=str(small_sample)) == ["test"]


def test_info_carries_the_provenance(small_sample: Path, tmp_path: Path) -> None:
    dataset = trace_hf.load("qa", release=small_sample)
    release = trace_hf.Release.open(small_sample)
    expected = (release.release_id, release.manifest_sha256, False, True, "synthetic", "full")
    for loaded in (dataset, trace_hf.load("qa", release=small_sample), dataset.filter(lambda _: True)):
        found = trace_hf.provenance(loaded)
        assert found is not None
        assert tuple(vars(found).values()) == expected
        assert release.manifest_sha256 in loaded.info.description
    dataset.save_to_disk(str(tmp_path / "saved"))
    assert trace_hf.provenance(datasets.load_from_disk(str(tmp_path / "saved"))) == trace_hf.provenance(dataset)
    assert trace_hf.provenance(datasets.Dataset.from_dict({"a": [1]})) is None


# --- the cache ------------------------------------------------------------------------------------------------


def ways(folder: Path) -> dict[str, Any]:
    def builder() -> datasets.DatasetBuilder:
        return datasets.load_dataset_builder("trace", "qa", data_dir=str(folder))

    return {
        "load": lambda: trace_hf.load("qa", release=folder),
        "load_dataset": lambda: datasets.load_dataset("trace", "qa", data_dir=str(folder)),
        "streaming": lambda: next(iter(trace_hf.load("qa", release=folder, streaming=True))),
        "as_dataset on a prepared cache": lambda: builder().as_dataset("test"),
        "as_streaming_dataset": lambda: next(iter(builder().as_streaming_dataset("test"))),
        "another config": lambda: trace_hf.load("proactive_tiny", release=folder),
        "records": lambda: next(iter(trace_hf.Release.open(folder).records("qa"))),
    }


def test_one_edited_byte_stops_every_way_of_loading_and_restoring_it_mends(small_sample: Path) -> None:
    for way in ways(small_sample).values():
        way()
    original = (small_sample / "qa.jsonl").read_bytes()
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line.replace(b"qa", b"qb", 1))
    for name, way in ways(small_sample).items():
        with pytest.raises(IntegrityError, match=r"qa\.jsonl differs"):
            pytest.fail(f"{name} gave {way()}")
    (small_sample / "qa.jsonl").write_bytes(original)
    for way in ways(small_sample).values():
        way()


def test_builder_that_was_made_before_the_edit_refuses_as_well(small_sample: Path) -> None:
    builder = datasets.load_dataset_builder("trace", "qa", data_dir=str(small_sample))
    builder.download_and_prepare()
    assert builder.as_dataset("test").num_rows
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line + b" ")
    with pytest.raises(IntegrityError):
        builder.as_dataset("test")
    with pytest.raises(IntegrityError):
        builder.as_streaming_dataset("test")
    with pytest.raises(IntegrityError):
        builder.download_and_prepare()


def test_a_proof_serves_one_load_and_only_while_no_file_is_touched(small_sample: Path) -> None:
    original = (small_sample / "qa.jsonl").read_bytes()
    builder = datasets.load_dataset_builder("trace", "qa", data_dir=str(small_sample))
    builder.download_and_prepare()
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line.replace(b"qa", b"qb", 1))
    with pytest.raises(IntegrityError):
        builder.as_dataset("test")
    with pytest.raises(IntegrityError):
        builder.download_and_prepare()
    with pytest.raises(IntegrityError):
        builder.as_dataset("test")
    (small_sample / "qa.jsonl").write_bytes(original)
    builder.as_streaming_dataset("test")
    edit_line(small_sample / "changes.jsonl", 0, lambda line: line + b" ")
    with pytest.raises(IntegrityError):
        builder.as_dataset("test")
    with pytest.raises(IntegrityError):
        pickle.loads(pickle.dumps(builder)).as_dataset("test")


def test_opened_release_is_read_as_the_load_says(small_sample: Path) -> None:
    opened = {name: trace_hf.Release.open(small_sample, unknown=name) for name in ("error", "keep")}
    for unknown in ("error", "keep", "error"):
        for release in (*opened.values(), small_sample):
            for streaming in (False, True):
                rows = trace_hf.load("qa", release=release, unknown=unknown, streaming=streaming)
                assert ("unknown_fields" in next(iter(rows))) == (unknown == "keep")


def test_stream_says_of_itself_what_is_so(small_sample: Path, isolated_caches: Path) -> None:
    trace_hf.load("qa", release=small_sample)
    (info,) = isolated_caches.rglob("dataset_info.json")
    info.write_text(info.read_text().replace("pinned: false", "pinned: true"))
    for streaming in (False, True):
        found = trace_hf.provenance(trace_hf.load("qa", release=small_sample, streaming=streaming))
        assert found is not None
        assert not found.pinned


def test_another_release_in_the_same_place_is_loaded(small_sample: Path, tmp_path: Path) -> None:
    before = trace_hf.load("qa", release=small_sample).to_list()
    shutil.rmtree(small_sample)
    trace_hf.write_sample(small_sample, scale=0.05, seed=7)
    after = trace_hf.load("qa", release=small_sample)
    assert after.to_list() != before
    provenance = trace_hf.provenance(after)
    assert provenance is not None
    assert provenance.release_id.startswith("sample-7")


def test_file_that_changes_after_it_was_verified_gives_no_row(small_sample: Path) -> None:
    stream = trace_hf.load("qa", release=small_sample, streaming=True)
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line.replace(b"qa", b"qb", 1))
    with pytest.raises(IntegrityError, match="changed while it was read"):
        next(iter(stream))


def test_unverified_rows_warn_and_never_answer_for_verified_ones(small_sample: Path) -> None:
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line.replace(b'"task":"qa"', b'"task":"xx"'))
    with pytest.warns(UserWarning, match="verify=False"):
        rows = trace_hf.load("qa", release=small_sample, verify=False)
    assert rows[0]["task"] == "xx"
    provenance = trace_hf.provenance(rows)
    assert provenance is not None
    assert not provenance.verified
    with pytest.raises(IntegrityError):
        trace_hf.load("qa", release=small_sample)
    edit_line(small_sample / "qa.jsonl", 0, lambda line: line.replace(b'"task":"xx"', b'"task":"yy"'))
    with pytest.warns(UserWarning, match="verify=False"):
        assert trace_hf.load("qa", release=small_sample, verify=False)[0]["task"] == "yy"


_SLOW_LOAD = """
import sys, time
import trace_hf, trace_hf.builder as builder
original = builder.Trace._generate_tables
def slow(self, **kw):
    for item in original(self, **kw):
        yield item
        print("writing", flush=True)
        time.sleep(60)
builder.Trace._generate_tables = slow
trace_hf.load("qa", release=sys.argv[1])
"""


def test_killed_load_leaves_nothing_that_a_later_load_trusts(small_sample: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW_LOAD, str(small_sample)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    rows = trace_hf.load("qa", release=small_sample)
    assert trace_hf.attest(rows, "qa", release=small_sample).ok


def test_failed_load_leaves_nothing_that_a_later_load_trusts(small_sample: Path) -> None:
    lines = (small_sample / "qa.jsonl").read_bytes().split(b"\n")
    good = b"\n".join(lines)
    lines[-2] = b"{}"
    (small_sample / "qa.jsonl").write_bytes(b"\n".join(lines))
    rewrite_manifest(small_sample)
    with pytest.raises(TraceError, match="missing field"):
        trace_hf.load("qa", release=small_sample)
    (small_sample / "qa.jsonl").write_bytes(good)
    rewrite_manifest(small_sample)
    assert trace_hf.attest(trace_hf.load("qa", release=small_sample), "qa", release=small_sample).ok


# --- newer schemas --------------------------------------------------------------------------------------------


def test_unknown_fields_are_kept_where_they_were(small_sample: Path) -> None:
    def add(line: bytes) -> bytes:
        record = json.loads(line)
        record["a/b~c"] = {"x": [1, 2.50, None]}
        record["metadata"]["shiny"] = 1e-05
        record["metadata"]["trigger_annotations"][0]["new"] = "新"
        return json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()

    edit_line(small_sample / "proactive.jsonl", 1, add)
    rewrite_manifest(small_sample)
    for streaming in (False, True):
        rows = trace_hf.load("proactive", release=small_sample, unknown="keep", streaming=streaming)
        second = [row for _, row in zip(range(2), rows, strict=False)][1]
        assert json.loads(second["unknown_fields"]) == [
            ["/a~1b~0c", {"x": [1, 2.5, None]}],
            ["/metadata/shiny", 1e-05],
            ["/metadata/trigger_annotations/0/new", "新"],
        ]
    kept = trace_hf.load("proactive", release=small_sample, unknown="keep")
    proof = trace_hf.attest(kept, "proactive", release=trace_hf.Release.open(small_sample, unknown="keep"))
    assert proof.ok, str(proof)
    model = trace_hf.load("proactive", release=small_sample, unknown="keep", view="model_input")
    assert tuple(model.features) == CONFIGS["proactive"].inputs


def test_unknown_fields_in_sidecars_and_manifest_are_kept_from_stopping_a_load(small_sample: Path) -> None:
    path = small_sample / "proactive_subsets.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "new": 1}))
    edit_manifest(small_sample, lambda manifest: manifest.update(new=1))
    rewrite_manifest(small_sample)
    with pytest.raises(TraceError, match="unknown field `new`"):
        trace_hf.load("proactive_standard", release=small_sample)
    assert len(trace_hf.load("proactive_standard", release=small_sample, unknown="keep"))


# --- videos ---------------------------------------------------------------------------------------------------


def test_rows_get_a_video_url(small_sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = trace_hf.load("qa", release=small_sample, video_root="s3://lab/trace")
    assert rows[0]["video_url"] == f"s3://lab/trace/{rows[0]['video_path']}"
    monkeypatch.setenv("TRACE_VIDEO_ROOT", "zip://::https://lab.example/all.zip")
    rows = trace_hf.load("qa", release=small_sample, view="model_input")
    assert rows[0]["video_url"] == f"zip://{rows[0]['video_path']}::https://lab.example/all.zip"
    assert tuple(rows.features) == (*CONFIGS["qa"].inputs, "video_url")
    monkeypatch.setenv("TRACE_VIDEO_ROOT", "")
    assert "video_url" not in trace_hf.load("qa", release=small_sample).features


def test_relative_local_root_gives_absolute_paths(
    small_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = next(iter(trace_hf.load("qa", release=small_sample, video_root="my videos", streaming=True)))
    assert row["video_url"] == str(tmp_path / "my videos" / row["video_path"])


@pytest.mark.parametrize("path", ["../x.mp4", "/x.mp4", "a/../../x.mp4", "a\\x.mp4", "C:/x.mp4", "s3://x/y", "a::b"])
def test_unsafe_video_path_is_refused(small_sample: Path, path: str) -> None:
    def edit(line: bytes) -> bytes:
        record = {**json.loads(line), "video_path": path}
        return json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()

    edit_line(small_sample / "qa.jsonl", 0, edit)
    rewrite_manifest(small_sample)
    for root in ("videos", None):
        with pytest.raises(UnsafePathError) as error:
            trace_hf.load("qa", release=small_sample, video_root=root)
        assert "video_path" in str(error.value)
    with pytest.raises(UnsafePathError):
        list(trace_hf.Release.open(small_sample).records("qa"))


# --- workers --------------------------------------------------------------------------------------------------


def test_stream_can_be_sent_to_a_worker(small_sample: Path) -> None:
    stream = trace_hf.load("qa", release=small_sample, streaming=True, video_root="videos")
    assert list(pickle.loads(pickle.dumps(stream))) == list(stream)


def test_eight_loads_at_once_into_one_cold_cache(small_sample: Path, tmp_path: Path) -> None:
    code = (
        "import sys, trace_hf; rows = trace_hf.load(sys.argv[2], release=sys.argv[1], cache_dir=sys.argv[3]);"
        "print(trace_hf.attest(rows, sys.argv[2], release=sys.argv[1]).ok)"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(small_sample), config, str(tmp_path / "cache")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for config in ["qa", "qa", "qa", "proactive", "proactive", "proactive_standard", "qa_tiny", "changes"]
    ]
    assert [process.communicate()[0] for process in processes] == [b"True\n"] * 8
