"""Two models for lmms-eval that read the time out of the frames they are shown and note down every request.

Copied into a folder with an entry point of the group `lmms_eval.models`, so it imports nothing from the tests.
TRACE_TEST_ANSWERS names a JSON file: record ID -> what to say, request by request. TRACE_TEST_LOG names the file to
note requests in, to which the rank is added.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import av
import torch
from lmms_eval.api.instance import GenerationResult
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest
from lmms_eval.protocol import ChatMessages

from trace_hf.sample_video import read_time_code

MANIFESTS = [
    ModelManifest(model_id="trace_chat_reader", chat_class_path="lmms_readers.ChatReader"),
    ModelManifest(model_id="trace_simple_reader", simple_class_path="lmms_readers.SimpleReader"),
]


class Reader(lmms):
    """What both share."""

    def __init__(self, batch_size: Any = 1, **_: Any) -> None:
        super().__init__()
        self.batch_size = int(batch_size)
        self.device = torch.device("cpu")
        self.answers = json.loads(Path(os.environ["TRACE_TEST_ANSWERS"]).read_text(encoding="utf-8"))
        self.log = Path(f"{os.environ['TRACE_TEST_LOG']}.{os.environ.get('RANK', '0')}")
        self.log.touch()

    def loglikelihood(self, requests: Any) -> Any:
        raise NotImplementedError

    def say(self, request: dict[str, Any]) -> str:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(request, ensure_ascii=False) + "\n")
        said = self.answers[request["doc"]["record_id"]]
        return said[request["round"]] if request["round"] < len(said) else "too many rounds"

    def look(self, task: str, doc: dict[str, Any], number: int, visuals: list[Any], texts: list[str]) -> str:
        names = [visual for visual in visuals if isinstance(visual, str)]
        times = [time for visual in visuals for time in shown_times(visual)]
        return self.say({"task": task, "doc": doc, "round": number, "names": names, "times": times, "texts": texts})


def shown_times(visual: Any) -> list[float]:
    """Return the time that each frame of a clip, or an image, shows."""
    if not isinstance(visual, str):
        return [read_time_code(visual)]
    with av.open(visual) as container:
        assert not container.streams.audio
        return [read_time_code(frame) for frame in container.decode(video=0)]


class ChatReader(Reader):
    """Asks for messages, as chat models do."""

    is_simple = False

    def _read(self, task: str, doc: dict[str, Any], number: int, raw: Any) -> str:
        messages = ChatMessages(messages=raw)
        images, videos, audios = messages.extract_media()
        assert not audios
        texts = [part.text for message in messages.messages for part in message.content if part.type == "text"]
        return self.look(task, doc, number, [*images, *videos], texts)

    def generate_until(self, requests: Any) -> list[Any]:
        said = []
        for request in requests:
            _, doc_to_messages, _, doc_id, task, split = request.args
            doc = self.task_dict[task][split][doc_id]
            said.append(GenerationResult(self._read(task, doc, 0, doc_to_messages(doc))))
        return said

    def generate_until_multi_round(self, requests: Any) -> list[list[str]]:
        return [self._rounds(*request.args) for request in requests]

    def _rounds(self, _: str, doc_to_messages: Any, __: Any, doc_id: int, task: str, split: str) -> list[str]:
        doc = self.task_dict[task][split][doc_id]
        said = [self._read(task, doc, 0, doc_to_messages(doc))]
        info = None
        while True:
            raw, over, _, info = doc_to_messages(
                doc, round_idx=len(said), previous_output=list(said), previous_round_info=info
            )
            if over:
                return said
            said.append(self._read(task, doc, len(said), raw))


class SimpleReader(Reader):
    """Asks for visuals and a prompt, as simple models do, and hands its rounds over as a tuple, as some of them do."""

    is_simple = True

    def generate_until(self, requests: Any) -> list[str]:
        said = []
        for request in requests:
            prompt, _, doc_to_visual, doc_id, task, split = request.args
            doc = self.task_dict[task][split][doc_id]
            said.append(self.look(task, doc, 0, doc_to_visual(doc), [prompt]))
        return said

    def generate_until_multi_round(self, requests: Any) -> list[tuple[str, ...]]:
        return [self._rounds(*request.args) for request in requests]

    def _rounds(
        self, prompt: str, _: Any, doc_to_visual: Any, doc_to_text: Any, doc_id: int, task: str, split: str
    ) -> tuple[str, ...]:
        doc = self.task_dict[task][split][doc_id]
        said = [self.look(task, doc, 0, doc_to_visual(doc), [prompt])]
        info = None
        while True:
            visuals, prompt, over, outputs, info = doc_to_text(
                doc, previous_output=said, round_idx=len(said), previous_round_info=info
            )
            if over:
                return tuple(outputs)
            said.append(self.look(task, doc, len(said), visuals, [prompt]))
