"""The Hub, spoken to through `huggingface_hub` only: bounded in time, tried again, and with errors that say what to do.

Tokens come from the places of `huggingface_hub` and go nowhere else: no message holds one.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from .. import __version__
from ..errors import TraceError
from ..transfer import timeout_s

T = TypeVar("T")

Kind = Literal["absent", "refused", "conflict", "busy", "unreachable", "failing"]

WAITS_S = (0.5, 1.0, 2.0, 4.0)
"""How long is waited before a request that failed in passing is made again."""

MAX_WAIT_S = 60.0
"""A server that asks for a longer wait gets an error instead."""

_PASSING = (408, 425, 429, 500, 502, 503, 504)
_KINDS: dict[int, Kind] = {401: "refused", 403: "refused", 404: "absent", 409: "conflict", 412: "conflict"}
_TOKEN = re.compile(r"hf_[A-Za-z0-9_]{4,}|(?i:bearer)\s+\S+")
_USER = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY = re.compile(r"\?[^\s'\")\]]+")

# The classes of the libraries that one version of huggingface_hub or another uses, by name.
_NETWORK = {"TransportError", "TimeoutException", "RequestException", "ConnectionError", "Timeout", "TimeoutError"}

_DO = {
    "absent": "check the name; a private repo looks absent to whoever may not see it",
    "refused": "log in with a token that may write there: `hf auth login`, or HF_TOKEN",
    "conflict": "somebody else writes there at the same time; look what is there, then run it again",
    "busy": "run it again later; it goes on where it stopped",
    "unreachable": "check the network and HF_ENDPOINT, then run it again; it goes on where it stopped",
    "failing": "run it again; it goes on where it stopped",
}

sleep = time.sleep


class HubError(TraceError):
    """A request to the Hub that did not do what it should.

    Attributes
    ----------
    kind : str
        ``absent``, ``refused``, ``conflict``, ``busy``, ``unreachable`` or ``failing``.
    passing : bool
        Whether it may work if it is tried again.
    wait_s : float
        How long the server asks to wait.
    """

    def __init__(self, what: str, kind: Kind = "failing", *, passing: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(what, do=_DO[kind])
        self.kind: Kind = kind
        self.passing = passing
        self.wait_s = wait_s


class HubClient:
    """One dataset repo on the Hub.

    Parameters
    ----------
    repo_id
        ``org/name``.
    token
        As `huggingface_hub` takes it; None means the one that is logged in.
    """

    def __init__(self, repo_id: str, token: str | bool | None = None) -> None:
        from huggingface_hub import HfApi

        self.repo_id = repo_id
        self.token = token
        self.api = HfApi(token=token, library_name="trace-hf", library_version=__version__)
        self.endpoint: str = self.api.endpoint

    def call(self, doing: str, function: Callable[..., T], *args: Any, tries: int = len(WAITS_S) + 1, **kw: Any) -> T:
        """Make a request that changes nothing when it is made twice, again as long as it fails in passing.

        Parameters
        ----------
        doing
            What for, for the message.
        function
            A method of `HfApi`; a generator is read to its end.
        tries
            How often at most.

        Raises
        ------
        HubError
        """
        for attempt in range(tries):
            try:
                return self.once(doing, function, *args, **kw)
            except HubError as trouble:
                if not trouble.passing or attempt == tries - 1 or trouble.wait_s > MAX_WAIT_S:
                    raise
                sleep(max(trouble.wait_s, WAITS_S[min(attempt, len(WAITS_S) - 1)]))
        raise AssertionError("unreachable")

    def once(self, doing: str, function: Callable[..., T], *args: Any, **kw: Any) -> T:
        """Make a request once; see `call`."""
        try:
            with _bounded():
                found: Any = function(*args, **kw)
                return list(found) if hasattr(found, "__next__") else found  # type: ignore[return-value]
        except TraceError:
            raise
        except Exception as problem:  # noqa: BLE001 - several libraries are below, by version
            raise self._trouble(doing, problem) from None

    def _trouble(self, doing: str, problem: BaseException) -> HubError:
        place = f"cannot {doing} datasets/{self.repo_id} on {_clean_url(self.endpoint)}"
        response = _response(problem)
        if response is not None:
            status = int(response.status_code)
            kind = _KINDS.get(status, "busy" if status in _PASSING else "failing")
            said = self.clean(str(getattr(problem, "server_message", None) or ""))
            text = f"{place}: the server answered {status}" + (f" ({said})" if said else "")
            if status == 401 and self.token is None and not self._logged_in():
                text = f"{place}: nobody is logged in (the server answered 401)"
            return HubError(text, kind, passing=status in _PASSING, wait_s=_retry_after(response))
        names = {cls.__name__ for error in _chain(problem) for cls in type(error).__mro__}
        if "OfflineModeIsEnabled" in names:
            trouble = HubError(f"{place}: HF_HUB_OFFLINE is set", "unreachable")
            trouble.do = "unset HF_HUB_OFFLINE; for machines with no network, make a folder with --hf-home"
            return trouble
        text = f"{place}: {type(problem).__name__}: {self.clean(str(problem))}"
        if names & _NETWORK:
            return HubError(text, "unreachable", passing=True)
        return HubError(text, "failing", passing=bool(names & {"OSError", "RuntimeError"}))

    def _logged_in(self) -> bool:
        from huggingface_hub import get_token

        return bool(get_token())

    def clean(self, text: str) -> str:
        """Return text on one line, without tokens, users, passwords and queries."""
        from huggingface_hub import get_token

        for secret in (self.token, get_token(), os.environ.get("HF_TOKEN")):
            if isinstance(secret, str) and secret:
                text = text.replace(secret, "…")
        text = _QUERY.sub("?…", _USER.sub("", _TOKEN.sub("…", text)))
        return " ".join(text.split())[:300]

    # --- Xet --------------------------------------------------------------------------------------------------------

    @contextmanager
    def storage(self) -> Iterator[None]:
        """Use plain LFS uploads for as long as the `with` statement, if the endpoint does not have Xet.

        With `hf_xet` installed, `huggingface_hub` asks for a Xet token and knows no other way; it reads
        ``HF_HUB_DISABLE_XET`` when it is imported, so the constant is set beside the variable.
        """
        from huggingface_hub import constants

        if getattr(constants, "HF_HUB_DISABLE_XET", True) or self._has_xet():
            yield
            return
        before = os.environ.get("HF_HUB_DISABLE_XET")
        constants.HF_HUB_DISABLE_XET, os.environ["HF_HUB_DISABLE_XET"] = True, "1"
        try:
            yield
        finally:
            constants.HF_HUB_DISABLE_XET = False
            if before is None:
                os.environ.pop("HF_HUB_DISABLE_XET", None)
            else:
                os.environ["HF_HUB_DISABLE_XET"] = before

    def _has_xet(self) -> bool:
        hub = _utils()

        if self.endpoint == "https://huggingface.co":
            return True

        def ask() -> None:
            url = f"{self.endpoint}/api/datasets/{self.repo_id}/xet-write-token/main"
            hub.hf_raise_for_status(hub.get_session().get(url, headers=hub.build_hf_headers(token=self.token)))

        try:
            self.call("ask for the storage of", ask)
        except HubError as trouble:
            # A gateway that knows nothing of it says so in one way or another.
            if trouble.passing or trouble.kind == "refused":
                raise
            return False
        return True


def _utils() -> Any:
    return importlib.import_module("huggingface_hub.utils")  # which names not all of what it has on purpose


def _clean_url(url: str) -> str:
    return _QUERY.sub("", _USER.sub("", url))


@contextmanager
def _bounded() -> Iterator[None]:
    """Bound how long a silent server is waited for, where `huggingface_hub` waits for ever."""
    session = _utils().get_session()
    before = session.timeout
    session.timeout = timeout_s()
    try:
        yield
    finally:
        session.timeout = before


def _chain(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__ or problem.__context__


def _response(problem: BaseException) -> Any:
    """Return the HTTP answer that an error, or one that it wraps, came from."""
    for error in _chain(problem):
        response = getattr(error, "response", None)
        if isinstance(getattr(response, "status_code", None), int):
            return response
    return None


def _retry_after(response: Any) -> float:
    text = str(response.headers.get("Retry-After", "")).strip()
    return float(text) if text.isdigit() else 0.0
