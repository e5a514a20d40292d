"""Mirrors on the Hub, driven by the real client against a double of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import rewrite_manifest, writable_copy
from hub_double import OTHER_TOKEN, OWNER_TOKEN, HubDouble
from mirror_kit import REPO, TARGET, cli, cli_process, is_complete, json_of, leaks
from test_terms import edited_terms

import trace_hf
from trace_hf.errors import DataTermsError, IntegrityError, ReleaseNotFoundError, TraceError
from trace_hf.hub import mirror
from trace_hf.hub.content import Content
from trace_hf.hub.hub_client import HubClient, HubError
from trace_hf.hub.mirror_hub import HubMirror

pytest_plugins = ["mirror_fixtures"]


def skip_where_nothing_can_be_gated() -> None:
    from huggingface_hub import HfApi

    if not hasattr(HfApi, "update_repo_settings"):
        pytest.skip("this huggingface_hub can gate no repo")


def mirror_of(visibility: Any = "private") -> HubMirror:
    return HubMirror(HubClient(REPO), visibility)


# --- push -------------------------------------------------------------------------------------------------------------


def test_push_makes_a_private_tagged_complete_repo_in_one_commit(hub: HubDouble, whole: Path, content: Content) -> None:
    report = mirror.push(whole, TARGET, deep=True)
    assert report is not None
    assert hub.repos[REPO].private
    assert is_complete(hub, content)
    assert len(hub.repos[REPO].commits) == 2  # the Hub's own first one, and this one
    assert hub.repos[REPO].tags == {"v9.9.9": report.revision}
    assert (report.verified, report.attested) == (len(content.items), True)


def test_a_second_push_makes_no_write_request_at_all(hub: HubDouble, whole: Path) -> None:
    mirror.push(whole, TARGET)
    hub.begin()
    report = mirror.push(whole, TARGET)
    assert report is not None
    assert report.plan.steps == ()
    assert hub.requests
    assert hub.writes == []
    assert [path for method, path in hub.requests if method != "GET"] == []


def test_who_can_read_it_is_asked_before_the_first_byte_and_after_the_last(hub: HubDouble, content: Content) -> None:
    mirror_of().push(content)
    asked = [number for number, request in enumerate(hub.requests) if request == ("GET", f"/api/datasets/{REPO}")]
    sent = [number for number, (_, path) in enumerate(hub.requests) if "/preupload/" in path or "/lfs/" in path]
    stored = [number for number, (method, _) in enumerate(hub.requests) if method == "PUT"]
    created = hub.requests.index(("POST", "/api/repos/create"))
    commit = hub.requests.index(("POST", f"/api/datasets/{REPO}/commit/main"))
    assert any(created < number < sent[0] for number in asked)
    assert any(stored[-1] < number < commit for number in asked)
    assert asked[-1] == len(hub.requests) - 1


def test_plain_datasets_loads_the_mirror_and_its_rows_attest(hub: HubDouble, whole: Path, tmp_path: Path) -> None:
    mirror.push(whole, TARGET)
    code = (
        "import sys, datasets\n"
        "for config in ('qa', 'proactive_standard', 'changes'):\n"
        f"    rows = datasets.load_dataset({REPO!r}, config, split='test')\n"
        "    rows.to_parquet(f'{sys.argv[1]}/{config}.parquet')\n"
    )
    env = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_DATASETS_CACHE": str(tmp_path / "home" / "datasets")}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for config in ("qa", "proactive_standard", "changes"):
        assert trace_hf.attest(str(tmp_path / f"{config}.parquet"), config, release=whole).ok


def test_the_plan_says_what_would_happen_and_writes_nothing(hub: HubDouble, whole: Path, content: Content) -> None:
    plan = mirror.plan(whole, TARGET)
    assert hub.repos == {}
    assert hub.writes == []
    assert [step.action for step in plan.steps if step.action != "upload"] == ["create", "tag"]
    assert plan.size == sum(item.size for item in content.items.values())
    assert plan.decision.to_json()["terms"]["file"] == "built in"


def test_a_damaged_release_is_not_pushed(hub: HubDouble, whole: Path, tmp_path: Path) -> None:
    folder = writable_copy(whole, tmp_path / "r")
    with (folder / "qa.jsonl").open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises(IntegrityError):
        mirror.push(folder, TARGET)
    assert hub.repos == {}


def test_a_stale_table_is_deleted_and_what_is_foreign_is_left_alone(hub: HubDouble, content: Content) -> None:
    mirror_of().push(content)
    hub.commit(REPO, {"qa/test-00000-of-00001-000000000000.parquet": b"old", "notes/ours.txt": b"ours"})
    plan = mirror_of().plan(content)
    assert [(step.action, step.name) for step in plan.steps] == [
        ("delete", "qa/test-00000-of-00001-000000000000.parquet")
    ]
    assert plan.foreign == ("notes/ours.txt",)
    mirror_of().push(content)
    assert hub.files(REPO)["notes/ours.txt"] == b"ours"
    assert "qa/test-00000-of-00001-000000000000.parquet" not in hub.files(REPO)


def test_a_listing_of_many_pages_is_read_to_its_end(hub: HubDouble, content: Content) -> None:
    hub.page = 5
    mirror_of().push(content)
    hub.page = 5
    assert mirror_of().plan(content).steps == ()


def test_large_files_need_no_xet_where_the_endpoint_has_none(
    hub: HubDouble, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    if not hasattr(constants, "HF_HUB_DISABLE_XET"):
        pytest.skip("this huggingface_hub has no Xet")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    monkeypatch.delenv("HF_HUB_DISABLE_XET", raising=False)
    mirror_of().push(content)
    assert any("xet-write-token" in path for _, path in hub.requests)
    assert any(path.endswith("/info/lfs/objects/batch") for _, path in hub.requests)
    assert constants.HF_HUB_DISABLE_XET is False
    assert "HF_HUB_DISABLE_XET" not in os.environ


# --- the terms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("visibility", ["public", "gated"])
def test_restricted_records_are_refused_before_the_hub_is_asked(
    hub: HubDouble, whole: Path, forged: Path, visibility: Any
) -> None:
    for source in (whole, forged):
        with pytest.raises(DataTermsError, match=f"may not go to a {visibility} place"):
            mirror.push(source, TARGET, visibility=visibility)
    assert hub.requests == []


@pytest.mark.parametrize(("visibility", "gated"), [("public", False), ("gated", "manual")])
def test_what_may_be_public_is_filled_while_private_and_opened_last(
    hub: HubDouble, whole: Path, public_content: Content, visibility: Any, gated: str | bool
) -> None:
    if visibility == "gated":
        skip_where_nothing_can_be_gated()
    states = []
    hub.before = lambda *_: states.append(REPO in hub.repos and not hub.repos[REPO].private)
    report = mirror.push(whole, TARGET, visibility=visibility, only_redistributable=True, deep=True)
    assert report is not None
    assert report.plan.steps[-1].to_json() == {"action": "publish", "name": visibility, "size": 0}
    assert (hub.repos[REPO].private, hub.repos[REPO].gated) == (False, gated)
    assert is_complete(hub, public_content)
    commit = hub.requests.index(("POST", f"/api/datasets/{REPO}/commit/main"))
    assert not any(states[: commit + 1])
    assert leaks(hub) == []
    hub.begin()
    again = mirror.push(whole, TARGET, visibility=visibility, only_redistributable=True)
    assert again is not None
    assert again.plan.steps == ()
    assert hub.writes == []


def test_an_open_repo_is_refused_and_left_as_it_is(hub: HubDouble, content: Content) -> None:
    for gated in (False, "auto", "manual"):
        hub.reset()
        hub.create(REPO, private=False, gated=gated)
        before = hub.repos[REPO].commits[:]
        with pytest.raises(DataTermsError, match=r"the repo is (public|gated), and nothing is pushed"):
            mirror_of().push(content)
        assert hub.repos[REPO].commits == before
        assert hub.writes == []


def test_a_mirror_that_was_opened_is_closed_again_and_that_is_said(hub: HubDouble, content: Content) -> None:
    mirror_of().push(content)
    hub.repos[REPO].private = False
    with pytest.raises(DataTermsError, match="the repo was public; it was made private again"):
        mirror_of().push(content)
    assert hub.repos[REPO].private


def test_a_repo_that_turns_public_while_it_is_filled_is_closed_and_the_push_fails(
    hub: HubDouble, content: Content
) -> None:
    def open_it(_number: int, _method: str, path: str) -> None:
        if "/commit/" in path:
            hub.repos[REPO].private = False

    hub.before = open_it
    with pytest.raises(DataTermsError, match="was public; it was made private again"):
        mirror_of().push(content)
    assert hub.repos[REPO].private
    hub.before = None
    mirror_of().push(content)
    assert is_complete(hub, content)


def test_a_repo_that_cannot_be_closed_is_deleted_if_this_push_made_it(hub: HubDouble, content: Content) -> None:
    def open_it(_number: int, _method: str, path: str) -> None:
        if "/commit/" in path:
            hub.repos[REPO].private = False

    hub.before = open_it
    hub.always = lambda _method, path: "403" if path.endswith("/settings") else None
    with pytest.raises(DataTermsError, match="could not be made private, so it was deleted"):
        mirror_of().push(content)
    assert hub.repos == {}


def test_a_repo_with_restricted_rows_in_its_history_is_never_opened(
    hub: HubDouble, content: Content, public_content: Content
) -> None:
    mirror_of().push(content)
    before = hub.repos[REPO].commits[:]
    gates = ("public", "gated") if hasattr(HubClient(REPO).api, "update_repo_settings") else ("public",)
    for visibility in gates:
        with pytest.raises(DataTermsError, match="its history holds rows that may not be public"):
            mirror_of(visibility).push(public_content)
    assert hub.repos[REPO].private
    assert hub.repos[REPO].commits == before


def test_a_public_mirror_takes_the_next_release_that_may_be_public(
    hub: HubDouble, derived: Path, tmp_path: Path
) -> None:
    mirror.push(derived, TARGET, visibility="public")
    folder = writable_copy(derived, tmp_path / "next")
    rewrite_manifest(folder, release_id="v9.9.10+streambench")
    for name in ("review_summary.json", "validation_report.json"):
        side = json.loads((folder / name).read_bytes()) | {"release_id": "v9.9.10+streambench"}
        (folder / name).write_text(json.dumps(side, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    rewrite_manifest(folder)
    mirror.push(folder, TARGET, visibility="public")
    assert set(hub.repos[REPO].tags) == {"v9.9.9+streambench", "v9.9.10+streambench"}
    assert not hub.repos[REPO].private


def test_a_terms_file_is_named_with_its_hash(hub: HubDouble, forged: Path, tmp_path: Path) -> None:
    terms = edited_terms(tmp_path / "ours.json", ovo_bench=True)
    done = cli("push", str(forged), TARGET, "--public", "--terms", str(terms), "--yes", "--json")
    assert done.returncode == 0, done.stderr
    found = json_of(done)["terms"]["terms"]
    assert found["file"] == str(terms)
    assert len(found["sha256"]) == 64


@pytest.mark.parametrize(
    "target",
    [
        "hf://org/trace",
        "hf://models/org/trace",
        "hf://spaces/org/trace",
        "hf://buckets/org/trace",
        "hf://datasets/org/trace/snapshot",
        "hf://datasets/trace",
        "hf://datasets/../trace",
        "simplecache::hf://datasets/org/trace",
        "HF://datasets/org/trace",
        "dir::hf://datasets/org/trace",
        "https://example.org/trace",
        "github://org:trace@main/x",
        "zip://x::file:///tmp/a.zip",
    ],
)
def test_other_places_are_refused_without_a_request(hub: HubDouble, whole: Path, target: str) -> None:
    for verb in (mirror.plan, mirror.push):
        with pytest.raises(DataTermsError):
            verb(whole, target)
    assert hub.requests == []


# --- the tag ----------------------------------------------------------------------------------------------------------


def test_a_tag_is_not_moved_to_other_content(hub: HubDouble, content: Content, whole: Path, tmp_path: Path) -> None:
    folder = writable_copy(whole, tmp_path / "other")
    rewrite_manifest(folder, video_root_notes="another manifest of the same release")
    mirror_of().push(content)
    tagged = dict(hub.repos[REPO].tags)
    with pytest.raises(IntegrityError, match=r"the tag v9\.9\.9 stands for other content; it is not moved"):
        mirror.push(folder, TARGET)
    assert hub.repos[REPO].tags == tagged
    assert is_complete(hub, content)


def test_a_release_id_that_can_be_no_tag_is_refused(hub: HubDouble, whole: Path, tmp_path: Path) -> None:
    folder = writable_copy(whole, tmp_path / "r")
    rewrite_manifest(folder, release_id="../../x")
    with pytest.raises(TraceError, match="can be no tag"):
        mirror.push(folder, TARGET)
    assert hub.requests == []


# --- check and pull ---------------------------------------------------------------------------------------------------


def kinds(report: mirror.CheckReport) -> set[tuple[str, str]]:
    return {(drift.kind, drift.name) for drift in report.drift}


def test_a_mirror_as_it_should_be_is_checked_in_silence(hub: HubDouble, whole: Path) -> None:
    mirror.push(whole, TARGET)
    done = cli("check", TARGET)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    report = mirror.check(TARGET, release=whole)
    assert report.ok
    assert len(report.attested) == 8
    assert (report.visibility, report.pinned) == ("private", False)


def test_each_drift_is_named(hub: HubDouble, content: Content, whole: Path) -> None:
    mirror_of().push(content)
    table = next(path for path in content.items if path.startswith("qa/"))
    hub.commit(
        REPO,
        {
            "snapshot/qa.jsonl": b"{}\n",
            "snapshot/changes.jsonl": None,
            table: b"PAR1",
            "stranger.txt": b"x",
            "croissant.json": None,
        },
    )
    for report in (mirror.check(TARGET), mirror.check(TARGET, release=whole)):
        assert kinds(report) >= {
            ("changed", "snapshot/qa.jsonl"),
            ("missing", "snapshot/changes.jsonl"),
            ("missing", "croissant.json"),
            ("foreign", "stranger.txt"),
            ("tag", "v9.9.9"),
        }
    assert ("changed", table) in kinds(mirror.check(TARGET, release=whole))
    # And a push repairs what is the mirror's own.
    mirror_of().push(content)
    assert kinds(mirror.check(TARGET)) == {("foreign", "stranger.txt")}


def test_a_table_whose_rows_were_changed_is_found_by_attestation(
    hub: HubDouble, content: Content, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    mirror_of().push(content)
    table = next(path for path in content.items if path.startswith("qa/"))
    rows = pq.read_table(content.folder / table).to_pylist()
    rows[0]["answer"] = "Z"
    import pyarrow as pa

    schema = pq.read_schema(content.folder / table)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "x.parquet")
    hub.commit(REPO, {table: (tmp_path / "x.parquet").read_bytes(), "croissant.json": None}, lfs=True)
    found = [drift for drift in mirror.check(TARGET).drift if drift.name == "qa"]
    assert found
    assert "$.answer" in found[0].detail


def test_wrong_visibility_and_a_moved_tag_are_drift(hub: HubDouble, content: Content) -> None:
    mirror_of().push(content)
    hub.repos[REPO].private = False
    assert ("visibility", TARGET) in kinds(mirror.check(TARGET))
    hub.repos[REPO].private = True
    assert mirror.check(TARGET, visibility="private").ok
    assert ("visibility", TARGET) in kinds(mirror.check(TARGET, visibility="gated"))
    hub.repos[REPO].tags["v9.9.9"] = hub.repos[REPO].commits[0][0]
    assert kinds(mirror.check(TARGET)) == {("tag", "v9.9.9")}
    del hub.repos[REPO].tags["v9.9.9"]
    assert kinds(mirror.check(TARGET)) == {("tag", "v9.9.9")}
    done = cli("check", TARGET, "--json")
    assert done.returncode == 1
    assert json_of(done)["drift"] == [{"kind": "tag", "name": "v9.9.9", "detail": "is missing"}]


def test_no_mirror_is_exit_code_2(hub: HubDouble) -> None:
    with pytest.raises(ReleaseNotFoundError):
        mirror.check(TARGET)
    assert cli("check", TARGET).returncode == 2


def test_a_repo_that_is_a_release_is_no_mirror_and_is_left_as_it_is(hub: HubDouble, whole: Path) -> None:
    hub.create(REPO, private=True)
    hub.commit(REPO, {"manifest.json": (whole / "manifest.json").read_bytes()})
    before = hub.files(REPO)
    with pytest.raises(ReleaseNotFoundError, match="is a release, not a mirror"):
        mirror.check(TARGET)
    with pytest.raises(TraceError, match="is a release, not a mirror"):
        mirror.push(whole, TARGET)
    assert hub.files(REPO) == before


def test_pull_brings_a_verified_folder_or_none(hub: HubDouble, content: Content, whole: Path, tmp_path: Path) -> None:
    mirror_of().push(content)
    report = mirror.pull(TARGET, tmp_path / "out")
    assert report.release_id == "v9.9.9"
    pulled = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert pulled == set(content.items)
    assert trace_hf.verify(tmp_path / "out").ok
    hub.commit(REPO, {"snapshot/qa.jsonl": b"{}\n"})
    with pytest.raises(IntegrityError, match=r"snapshot/qa\.jsonl"):
        mirror.pull(TARGET, tmp_path / "out2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    # The tagged revision is still the release.
    mirror.pull(f"{TARGET}@v9.9.9", tmp_path / "out3")
    assert trace_hf.verify(tmp_path / "out3").ok
    with pytest.raises(TraceError, match="is there"):
        mirror.pull(TARGET, tmp_path / "out")


def test_a_store_that_lies_about_its_hashes_is_found_by_deep_and_by_check(hub: HubDouble, whole: Path) -> None:
    hub.always = lambda method, _path: "flip" if method == "PUT" else None
    hub.lies = True
    with pytest.raises(IntegrityError, match="read back"):
        mirror.push(whole, TARGET, deep=True)
    assert not mirror.check(TARGET).ok
    assert hub.repos[REPO].private


def test_the_real_sample_release_is_mirrored_checked_and_found_restricted(hub: HubDouble, real_release: Path) -> None:
    report = mirror.push(real_release, TARGET, deep=True)
    assert report is not None
    assert hub.repos[REPO].private
    assert mirror.check(TARGET, release=real_release).ok
    with pytest.raises(DataTermsError, match="may not go to a public place"):
        mirror.push(real_release, "hf://datasets/org/open", visibility="public")
    opened = mirror.push(real_release, "hf://datasets/org/open", visibility="public", only_redistributable=True)
    assert opened is not None
    assert opened.plan.release_id == "v1.1.0-sample+streambench"
    assert leaks(hub) == []
    assert mirror.check("hf://datasets/org/open").ok


# --- tokens and messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["401", "403", "404", "409", "500", None])
def test_no_token_is_ever_shown(
    hub: HubDouble, whole: Path, status: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.always = lambda _method, path: status if "/commit/" in path else None
    done = cli("push", str(whole), TARGET, "--yes", "--json")
    assert done.returncode == (1 if status else 0)
    said = "".join([done.stdout, done.stderr, *capfd.readouterr()])
    assert said
    assert "hf_owner" not in said


def test_a_process_of_its_own_pushes_through_hf_endpoint(hub: HubDouble, whole: Path, content: Content) -> None:
    done = cli_process("push", str(whole), TARGET, "--yes", "--deep", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json_of(done)["attested"] is True
    assert is_complete(hub, content)
    assert "hf_owner" not in done.stdout
    assert set(hub.auth) <= {"", f"Bearer {OWNER_TOKEN}"}
    assert OWNER_TOKEN.encode() not in b"".join(hub.files(REPO).values())


@pytest.mark.parametrize(("token", "words"), [("", "nobody is logged in"), ("hf_wrong_token", "401")])
def test_without_a_right_token_it_says_what_to_do(
    hub: HubDouble, content: Content, monkeypatch: pytest.MonkeyPatch, token: str, words: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HubError, match=words) as caught:
        mirror_of().push(content)
    assert "hf auth login" in str(caught.value)
    assert "hf_wrong" not in str(caught.value)


def test_a_stranger_may_not_push(hub: HubDouble, content: Content, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror_of().push(content)
    monkeypatch.setenv("HF_TOKEN", OTHER_TOKEN)
    with pytest.raises(HubError, match=r"403|404"):
        mirror_of().push(content)
    assert is_complete(hub, content)


def test_offline_it_says_so(hub: HubDouble, whole: Path) -> None:
    done = cli_process("push", str(whole), TARGET, "--yes", HF_HUB_OFFLINE="1")
    assert done.returncode == 1
    assert "HF_HUB_OFFLINE is set" in done.stderr
    assert "--hf-home" in done.stderr
    assert hub.requests == []


# --- the command line -------------------------------------------------------------------------------------------------


def test_push_asks_for_a_yes_where_nobody_can_be_asked(hub: HubDouble, whole: Path) -> None:
    done = cli("push", str(whole), TARGET)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert "upload\tsnapshot/qa.jsonl" in done.stdout
    assert hub.repos == {}
    done = cli("push", str(whole), TARGET, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    done = cli("push", str(whole), TARGET)
    assert done.returncode == 0
    assert "nothing was written" in done.stdout


def test_plan_prints_json_with_stable_keys(hub: HubDouble, whole: Path) -> None:
    done = cli("plan", str(whole), TARGET, "--json")
    assert done.returncode == 0, done.stderr
    found = json_of(done)
    assert {"target", "release_id", "pinned", "visibility", "steps", "upload_bytes", "foreign", "terms"} <= set(found)
    assert found["visibility"] == "private"
    assert hub.writes == []


def test_refusals_are_exit_code_1_with_a_reason(hub: HubDouble, whole: Path) -> None:
    done = cli("push", str(whole), TARGET, "--public", "--yes")
    assert done.returncode == 1
    assert "OVO-Bench" in done.stderr
    assert "Traceback" not in done.stderr
    assert cli("push", str(whole), TARGET, "--public", "--gated", "--yes").returncode == 2
    assert hub.requests == []


def test_pull_and_check_from_the_command_line(hub: HubDouble, content: Content, tmp_path: Path) -> None:
    mirror_of().push(content)
    done = cli("pull", TARGET, str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "v9.9.9, verified" in done.stdout
    assert cli("check", str(tmp_path / "out")).returncode == 0
    shutil.rmtree(tmp_path / "out" / "qa")
    assert cli("check", str(tmp_path / "out")).returncode == 1
