"""Whatever fails at any request: a push ends with a complete private mirror, or a clear error and nothing open.

`TRACE_TEST_ALL_FAULTS=1` walks every request with every kind of fault; without it, the slow tests do that.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hub_double import DEFAULT_FAULTS, FAULTS, HubDouble
from mirror_kit import REPO, TARGET, is_complete, leaks

from trace_hf.errors import TraceError
from trace_hf.hub import mirror
from trace_hf.hub.content import Content
from trace_hf.hub.hub_client import HubClient
from trace_hf.hub.mirror_hub import HubMirror

pytest_plugins = ["mirror_fixtures"]

ALL = os.environ.get("TRACE_TEST_ALL_FAULTS") == "1"


def attempt(content: Content, visibility: Any = "private") -> TraceError | None:
    """Push; give the clear error that it ended with, if it did."""
    try:
        HubMirror(HubClient(REPO), visibility).push(content)
    except TraceError as error:
        found = error
    else:
        return None
    assert found.what
    assert found.do
    return found


def walk(hub: HubDouble, content: Content, kind: str, *, prepare: Any = None, visibility: Any = "private") -> int:
    """Inject one kind of fault at every request of a push in turn; return how many were injected."""
    hub.reset()
    if prepare:
        prepare()
    hub.begin()
    assert attempt(content, visibility) is None
    injected = failed = 0
    # A push that meets a fault may make more requests than one that does not.
    for number in range(len(hub.requests) + 4):
        hub.reset()
        if prepare:
            prepare()
        hub.begin({number: kind})
        error = attempt(content, visibility)
        injected += hub.injected
        failed += error is not None
        where = (kind, number, hub.requests[number] if number < len(hub.requests) else None, str(error))
        assert leaks(hub) == [], where
        if visibility == "private":
            assert all(repo.private for repo in hub.repos.values()), where
        assert error is not None or is_complete(hub, content), where
        hub.begin()
        assert attempt(content, visibility) is None, where
        assert is_complete(hub, content), where
        assert hub.repos[REPO].private == (visibility == "private"), where
        hub.begin()
        assert attempt(content, visibility) is None, where
        assert hub.writes == [], where
    print(f"{kind}: {injected} faults injected, {failed} pushes ended with an error, every rerun completed it")
    assert injected >= 8
    return injected


@pytest.mark.parametrize("kind", FAULTS if ALL else DEFAULT_FAULTS)
def test_a_fault_at_any_request_leaves_nothing_open_and_a_rerun_completes_it(
    hub: HubDouble, content: Content, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    walk(hub, content, kind)
    with capsys.disabled():
        print(f"\n  {capsys.readouterr().out.strip()}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind not in DEFAULT_FAULTS])
def test_every_other_kind_of_fault_at_any_request(
    hub: HubDouble, content: Content, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    walk(hub, content, kind)
    with capsys.disabled():
        print(f"\n  {capsys.readouterr().out.strip()}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("before", ["drifted", "public"])
def test_a_fault_at_any_request_of_a_repair_or_a_publication(
    hub: HubDouble, content: Content, public_content: Content, kind: str, before: str
) -> None:
    def drifted() -> None:
        assert attempt(content) is None
        hub.commit(REPO, {"snapshot/qa.jsonl": b"{}\n", "croissant.json": None})

    if before == "drifted":
        walk(hub, content, kind, prepare=drifted)
    elif kind != "flip":  # the first, damaged revision stays in the history, which is then never opened
        walk(hub, public_content, kind, visibility="public")


@pytest.mark.parametrize("kind", ["401", "403", "404", "409", "429", "500", "503", "cut"])
def test_a_hub_that_fails_for_good_gives_a_clear_error(hub: HubDouble, content: Content, kind: str) -> None:
    hub.always = lambda method, path: kind if method == "POST" and "/commit/" in path else None
    error = attempt(content)
    assert error is not None
    assert "cannot commit to datasets/org/trace" in error.what
    assert hub.repos[REPO].private
    hub.begin()
    assert attempt(content) is None
    assert is_complete(hub, content)


def test_a_wait_that_the_server_asks_for_is_kept(
    hub: HubDouble, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_hf.hub import hub_client

    waits: list[float] = []
    monkeypatch.setattr(hub_client, "sleep", waits.append)
    hub.begin({0: "429"})
    assert attempt(content) is None
    assert waits == [1.0]


def test_a_silent_hub_is_not_waited_for_for_ever(hub: HubDouble, content: Content) -> None:
    hub.hang_s = 1.0
    hub.begin({1: "timeout"})
    assert attempt(content) is None
    assert is_complete(hub, content)


# --- no sequence opens a restricted row -------------------------------------------------------------------------------


def _spoil(hub: HubDouble, dice: random.Random) -> None:
    """Let a few requests of the next command fail, and perhaps let somebody open the repo in the middle."""
    faults = {dice.randrange(40): dice.choice([*FAULTS, "public"]) for _ in range(dice.randrange(4))}
    hub.begin({number: kind for number, kind in faults.items() if kind != "timeout"})


def _command(dice: random.Random, sources: dict[str, Path]) -> tuple[str, str, dict[str, Any]]:
    source = dice.choice(list(sources))
    target = dice.choice([TARGET, TARGET, f"{TARGET}/", f"{TARGET}@main", "hf://datasets/org/other", "hf://org/trace"])
    options: dict[str, Any] = {
        "visibility": dice.choice(["private", "private", "gated", "public"]),
        "only_redistributable": dice.random() < 0.3,
        "deep": dice.random() < 0.1,
    }
    return source, target, options


@pytest.mark.parametrize("seed", range(12) if not ALL else range(200))
def test_no_sequence_of_commands_environments_and_faults_opens_a_restricted_row(
    hub: HubDouble, whole: Path, forged: Path, derived: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    sources = {"whole": whole, "forged": forged, "derived": derived}
    if dice.random() < 0.5:
        hub.create(REPO, private=dice.random() < 0.5, gated=dice.choice([False, "auto", "manual"]))
    history = []
    for _ in range(5):
        for name, values in {
            "HF_HUB_DISABLE_XET": ["1", "0"],
            "TRACE_RELEASE": [str(forged), str(derived)],
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": ["0", "1"],
            "TRACE_TERMS": [str(forged)],
            "HF_TOKEN": ["hf_owner_0123456789abcdef", "hf_owner_0123456789abcdef", "hf_other_0123456789abcdef"],
        }.items():
            monkeypatch.setenv(name, dice.choice(values))
        source, target, options = _command(dice, sources)
        _spoil(hub, dice)
        history.append((source, target, options, dict(hub.faults)))
        try:
            mirror.push(sources[source], target, **options)
            history.append("ok")
        except TraceError as error:
            history.append(str(error))
        assert leaks(hub) == [], history


def test_a_mirror_is_used_through_its_life_without_a_leak(hub: HubDouble, whole: Path) -> None:
    mirror.push(whole, TARGET)
    for visibility in ("gated", "public"):
        with pytest.raises(TraceError):
            mirror.push(whole, TARGET, visibility=visibility)  # type: ignore[arg-type]
        with pytest.raises(TraceError):
            mirror.push(whole, TARGET, visibility=visibility, only_redistributable=True)  # type: ignore[arg-type]
        assert hub.repos[REPO].private
    mirror.push(whole, "hf://datasets/org/open", visibility="public", only_redistributable=True)
    with pytest.raises(TraceError, match=r"nothing is pushed to it as a private mirror"):
        mirror.push(whole, "hf://datasets/org/open")
    assert leaks(hub) == []
