"""An OpenAI-compatible judge of answers that may be phrased in several ways. It compares texts; it sees no video."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..errors import TraceError

__all__ = ["Judge", "JudgeError"]

ENV_URL = "TRACE_VLM_JUDGE_BASE_URL"
"""Where the judge is, for example ``http://127.0.0.1:8000/v1``; empty counts as unset."""

ENV_MODEL = "TRACE_VLM_JUDGE_MODEL"
"""Which model judges."""

ENV_KEY = "TRACE_VLM_JUDGE_API_KEY"
"""Its key, where it needs one; never written anywhere."""

PROMPT_VERSION = "trace-hf-judge-1"

_PROMPT = """\
Somebody watched a video and answered an instruction. Compare the answer with the reference.

Instruction: {instruction}
Reference: {expected}
Answer: {said}

How far does the answer say what the reference says? Other words for the same action, step or cause are as good.
1 means all of it, 0 means none of it; a number in between means a part. Reply with that number alone."""

_NUMBER = re.compile(r"(?<![\d.])(?:0(?:\.\d+)?|1(?:\.0+)?)(?![\d.])")
_TRIES = 3


class JudgeError(TraceError):
    """The judge did not answer, or not with a number."""


@dataclass(frozen=True)
class Judge:
    """A judge behind an OpenAI-compatible endpoint.

    Attributes
    ----------
    url : str
        The base URL; ``/chat/completions`` is added.
    model : str
    key : str
        Bearer token, or empty.
    timeout_s : float
        For one request, in seconds.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    _known: dict[tuple[str, str, str], float] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @classmethod
    def from_environment(cls) -> Judge | None:
        """Return the judge that the environment names, or None.

        Raises
        ------
        TraceError
            If it names half of one, or a URL that is none.
        """
        url, model = os.environ.get(ENV_URL, "").rstrip("/"), os.environ.get(ENV_MODEL, "")
        if not url and not model:
            return None
        if not (url and model):
            raise TraceError(
                f"only one of {ENV_URL} and {ENV_MODEL} is set",
                why="A score must say which model judged.",
                do="Set both for a judge, or neither for exact matching.",
            )
        if urlsplit(url).scheme not in ("http", "https"):
            raise TraceError(f"{ENV_URL}={url!r} is no http or https URL", do="Name it like http://127.0.0.1:8000/v1")
        return cls(url, model, os.environ.get(ENV_KEY, ""))

    @property
    def description(self) -> str:
        """What a result says about the judge."""
        return f"judge {self.model} ({PROMPT_VERSION})"

    def score(self, instruction: str, expected: str, said: str) -> float:
        """Return how far an answer says what is expected, from 0 to 1.

        Raises
        ------
        JudgeError
            If it does not answer with a number in three tries.
        """
        question = (instruction, expected, said)
        with self._lock:
            known = self._known.get(question)
        if known is None:
            known = self._ask(_PROMPT.format(instruction=instruction, expected=expected, said=said))
            with self._lock:
                self._known[question] = known
        return known

    def _ask(self, prompt: str) -> float:
        problem = ""
        for number in range(_TRIES):
            if number:
                time.sleep(0.5 * 2**number)
            try:
                reply = self._post(prompt)
            except (OSError, ValueError, LookupError, TypeError) as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            found = _NUMBER.findall(re.sub(r"<think>.*?</think>", "", reply, flags=re.DOTALL))
            if len(found) == 1:
                return float(found[0])
            problem = f"it replied {reply[:80]!r}"
        raise JudgeError(
            f"the judge {self.model} gave no number",
            why=problem,
            do=f"See whether {ENV_URL} is reachable, and score again; the model need not be run again.",
        )

    def _post(self, prompt: str) -> str:
        body = {"model": self.model, "temperature": 0, "messages": [{"role": "user", "content": prompt}]}
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(  # noqa: S310 - `from_environment` lets http and https through only
            f"{self.url}/chat/completions", json.dumps(body).encode(), headers
        )
        with urllib.request.urlopen(request, timeout=self.timeout_s) as response:  # noqa: S310
            return str(json.load(response)["choices"][0]["message"]["content"])
