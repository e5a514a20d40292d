"""The invented words of a synthetic release, and the dice that choose among them.

Nothing here comes from TRACE: every sentence, name and path was made up for this module. Numbers in the sentences
make each record's content unique, whatever the size of the release.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Random choices that are the same in every process and on every Python version.

    Only `random.Random.random` and string seeding are used: their results are the ones that Python promises to keep.

    Parameters
    ----------
    *key
        What the choices are for; the same key gives the same choices, independent of all other keys.
    """

    def __init__(self, *key: object) -> None:
        self.random = random.Random("|".join(str(part) for part in key)).random

    def below(self, stop: int) -> int:
        """Return a number from 0 to `stop` - 1."""
        return int(self.random() * stop)

    def chance(self, probability: float) -> bool:
        """Return True with that probability."""
        return self.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.below(len(items))]

    def ms(self, low: int, high: int, step: int = 10) -> int:
        """Return milliseconds from `low` to `high`, both multiples of `step` after rounding down."""
        low, high = low // step, max(low, high) // step
        return (low + self.below(high - low + 1)) * step


# --- videos ---------------------------------------------------------------------------------------------------

_FOLDERS = ("Ego4D/clips", "COIN", "star", "MovieNet", "perception_test")


def video_path(dataset: str, group: str, index: int) -> str:
    """Return a path that looks like a real one and is none.

    Parameters
    ----------
    dataset : str
        The source benchmark, which gives the form of the path.
    group : str
        One letter that keeps the videos of the groups apart: ``q``, ``p`` or ``h``.
    index : int
        The video's number in its group.
    """
    if dataset == "streambench":
        # Real numbers have at most three digits, so a synthetic path never finds a real video.
        suffix = "proactive" if group != "q" else ("real", "Anomaly_Context_Understanding", "real")[index % 3]
        return f"videos/sample_{900000 + index}_{suffix}.mp4"
    folder = _FOLDERS[index % len(_FOLDERS)]
    name = {
        "Ego4D/clips": f"{'qph'.index(group):08x}-0000-4000-8000-{index:012x}",
        "COIN": f"{'-_Zk'[index // 5 % 4]}{group}nt{index:07d}",
        "star": f"{group.upper()}{index:04d}",
        "MovieNet": f"tt000{'qph'.index(group)}{index:05d}",
        "perception_test": f"video_{group}{90000 + index}",
    }[folder]
    return f"src_videos/{folder}/{name}.mp4"


# --- QA -------------------------------------------------------------------------------------------------------

_COLOURS = ("teal", "ochre", "lilac", "crimson", "mint", "amber", "navy", "ivory")
_THINGS = ("teapot", "ladder", "parcel", "lantern", "kite", "spanner", "crêpe pan", "drum", "umbrella", "abacus")
_PLACES = (
    "under the long bench",
    "on the window sill",
    "inside the wicker basket",
    "behind the café counter",
    "next to the blue kettle",
    "on top of the piano",
    "between the two crates",
    "in the left-hand drawer",
)
_DEEDS = (
    "Folded the paper boat.",
    "Tied the knot again.",
    "Wiped the counter/table.",
    "Handed over the “spare” key.",
    "Lifted the lid.",
    "Stacked the saucers.",
    "Turned the sign around.",
    "Peeled the second orange.",
)
_SCENES = (
    "The lighthouse keeper sorts postcards into three trays, then signs the last one with a green pen.",
    "The gardener builds a trellis out of bamboo; nobody helps until the rope runs out.",
    "A puppet theatre is assembled on a quay, and its curtain falls before the first line is spoken.",
    "The clockmaker’s apprentice oils every wheel of the tower clock and forgets the smallest one.",
    "Two bakers argue about the résumé of a third one while their dough rises over the edge of its bowl.",
    'A violinist tunes by ear, plays "the slow part" twice, and leaves with the wrong case.',
    "The ferry captain counts barrels aloud, loses track at nineteen and begins again from one.",
    "A painter mixes a grey that dries blue，and paints the whole fence with it anyway.",
)
_ODDITIES = (
    "The statue in the middle of the fountain sneezes, and the pigeons applaud.",
    "The chess clock runs backwards while neither player touches it.",
    "A suitcase rolls uphill by itself and stops beside its owner.",
    "The conductor's baton turns into a daffodil in the middle of the waltz.",
    "The soup freezes in the ladle as soon as the bell rings.",
    "The shadow of the cyclist arrives at the corner before the cyclist does.",
    "Every umbrella in the queue opens at the same moment indoors.",
    "The portrait on the wall swaps its hat with the portrait beside it.",
)
_REASONS = (
    "Because the rope was measured in the wrong unit.",
    "Because the kettle hides the only switch.",
    "Because somebody moved the ladder during the break.",
    "Because the label says “fragile” on the wrong side.",
    "Because the naïve plan had no second step.",
    "Because the lamp is wired to the doorbell.",
    "Because the paint on the handle is still wet.",
    "Because the whistle was taken for the signal.",
)
_ASK = {
    "EPM": (
        "where did I leave the {colour} {thing} of crate {n}",
        "Where did I put the {colour} {thing} from crate {n}?",
    ),
    "HLD": (
        "Where was the {colour} {thing} when I passed post {n}?",
        "In which place did I find the {colour} {thing} number {n}?",
    ),
    "ASI": (
        "What did the person do before tray {n} was carried away?",
        "Which step came right after the {colour} {thing} of tray {n}?",
    ),
    "Anomaly Context Understanding": (
        "What strange thing has just happened at gate {n}?",
        "What was out of the ordinary in scene “{n}”?",
    ),
    "Clips Summarize": (
        "Which sentence sums up chapter {n} so far?",
        "What best describes the part of reel {n} that was just seen?",
    ),
    "Causal Reasoning": (
        "Why does the {colour} {thing} of team {n} stop moving?",
        'Why is the sign "{n}" turned to the wall?',
    ),
}
_CHOICES = {
    "EPM": _PLACES,
    "HLD": _PLACES,
    "ASI": _DEEDS,
    "Anomaly Context Understanding": _ODDITIES,
    "Clips Summarize": _SCENES,
    "Causal Reasoning": _REASONS,
}


def question(dice: Dice, task_type: str, number: int, slot: int) -> str:
    """Return the question of a QA record."""
    if slot % 67 == 30:
        return f"第{number}号箱子里的东西后来放在哪里？（只选一项）"
    text = dice.pick(_ASK[task_type]).format(colour=dice.pick(_COLOURS), thing=dice.pick(_THINGS), n=number)
    return text + " " if slot % 300 == 10 else text


def options(dice: Dice, task_type: str, slot: int) -> list[str]:
    """Return labelled options, with the oddities of labels that real releases have."""
    if slot % 23 == 3:
        return ["A. yes", "B. no"]
    if slot % 250 == 52:
        return [*options(dice, task_type, 1)[:4], "E."]
    size = {7: 3, 29: 5, 41: 6}.get(slot % 53, 4)
    texts, start = _CHOICES[task_type], dice.below(8)
    chosen = [texts[(start + 3 * i) % len(texts)] for i in range(size)]
    if slot % 47 == 9:
        chosen = [f"{'ABCDEF'[i]}.{text}" for i, text in enumerate(chosen)]
    if slot % 500 == 60:
        chosen[1] = f"C.{chosen[1]}"
    return [f"{'ABCDEF'[i]}. {text}" for i, text in enumerate(chosen)]


_SEEN = (
    "画面左侧的人把{thing}放下，随后离开（镜头未移动）",
    "店员打开第{n}号箱子，取出一盏灯笼",
    "风筝第二次飞过码头上方的片段",
    "木匠用尺子量了梯子，又把尺子放回“工具袋”",
    "The {thing} is set down, and the hand lets go of it",
    "钟敲响后，{thing}从桌边滚到墙角",
)
_THINGS_ZH = ("茶壶", "梯子", "包裹", "灯笼", "风筝", "雨伞")


def seen(dice: Dice, number: int) -> str:
    """Return what a reviewer saw, mostly in Chinese."""
    return dice.pick(_SEEN).format(thing=dice.pick(_THINGS_ZH), n=number)


# --- Proactive ------------------------------------------------------------------------------------------------

_STEPS = (
    "loosen the brass ring",
    "lay the spokes out in a circle",
    "glue the second layer",
    "Let the varnish dry",
    "thread the cord through the eyelet",
    "fold the canvas over the frame",
    "press the seam flat",
    "tighten the brass ring",
)
_CLUES = ("She hides it in the organ.", "He gives way.", "They row back.", "She tears the map in two.", "Nobody moves.")
_TELL = {
    "CRR": (
        "The courier of story {n} stops at the bridge; what does she do with the {thing}?",
        "The twins see the {colour} {thing} (page {n}). What happens next?",
    ),
    "SSR": (
        "Walk me through mending the {colour} {thing} of lot {n}.",
        "Tell me each step of kit {n} while it is done: the {colour} {thing}.",
    ),
    "REC": (
        'How often has "tapping the {thing} on board {n}" happened?',
        "How many times has the {colour} {thing} of lane {n} been turned over?",
    ),
}


def instruction(dice: Dice, task_type: str, number: int) -> tuple[str, str]:
    """Return the instruction of a Proactive record, and the output that it asks for."""
    colour, thing = dice.pick(_COLOURS), dice.pick(_THINGS)
    if task_type in _TELL:
        return dice.pick(_TELL[task_type]).format(colour=colour, thing=thing, n=number), dice.pick(_CLUES)
    said = f"{colour} {thing}"
    return f'When the {said} passes buoy {number}, output "{said}".', said


def answers(task_type: str, said: str, count: int, start: int) -> list[str]:
    """Return the due answers of a record's windows, in order of time."""
    if task_type == "REC":
        return [str(i + 1) for i in range(count)]
    if task_type == "SSR":
        return [_STEPS[(start + i) % len(_STEPS)] for i in range(count)]
    return [said] * count


# --- audit ----------------------------------------------------------------------------------------------------

EDIT_CODES = (
    ("TIME_ANNOTATION_ERROR",),
    ("OTHER", "TIME_ANNOTATION_ERROR"),
    ("TEXT_FORMAT_ERROR",),
    ("MULTIPLE_VALID_ANSWERS",),
)
REMOVAL_CODES = (
    ("NO_VALID_ANSWER",),
    ("TEXT_FORMAT_ERROR",),
    ("FUTURE_LEAKAGE",),
    ("NON_VISUAL_DEPENDENCY",),
)
DUPLICATE_CODES = (
    ("DUPLICATE_RECORD",),
    ("DUPLICATE_RECORD",),
    ("DUPLICATE_RECORD", "OTHER", "TIME_ANNOTATION_ERROR"),
    ("DUPLICATE_RECORD", "NON_VISUAL_DEPENDENCY"),
)
