"""The records of a synthetic release: each is made from its ID and the seed alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from . import _sample_text as text
from ._sample_plan import FIRST_NUMBER, FPS, LONG_CUT, SHORT, SHORT_CUT, Cell, Group, Plan, encode, hit
from ._sample_text import Dice
from .schema import (
    ChangeRecord,
    EvidenceSpan,
    ExclusionRecord,
    FieldChange,
    MediaBoundaryAdjustment,
    ProactiveMetadata,
    ProactiveRecord,
    QAMetadata,
    QARecord,
    Trigger,
    Window,
)

if TYPE_CHECKING:
    pass


def _s(ms: int) -> float:
    return ms / 1000


def media_end_ms(plan: Plan, group: Group, slot: int) -> int:
    """Return the time of the last readable frame, which is the same for all records of a video."""
    dice, kind = Dice(plan.seed, group.video(slot)), group.video_kind[slot]
    if kind == SHORT_CUT:
        return dice.ms(20000, 26000, 1000 // FPS)
    if kind == SHORT:
        return dice.ms(28000, 32000, 1000 // FPS)
    return dice.ms(240000, 900000, 1 if kind == LONG_CUT else 1000)


def _moved(name: str, source_ms: int, effective_ms: int) -> MediaBoundaryAdjustment:
    return MediaBoundaryAdjustment(
        field=name,
        source_value_s=_s(source_ms),
        effective_value_s=_s(effective_ms),
        reason="beyond_last_readable_frame",
    )


def _risk(dice: Dice, human: bool) -> str:
    return dice.pick(("high", "medium", "high", "blocking", "missing")) if human else "no_detected_issue"


def _provenance(group: Group, number: int, human: bool) -> dict[str, Any]:
    """Return the metadata that every record has."""
    return {
        "dataset": group.dataset,
        "source_file": f"{group.dataset}_{group.mode}.json",
        "source_question_id": str(number),
        "stable_id": f"{group.dataset}:{group.mode}:{number}",
        "validation_tier": "human_reviewed" if human else "machine_screened",
    }


def _spans(dice: Dice, number: int, anchor: int, asked: int, to_the_end: bool) -> list[EvidenceSpan]:
    """Return one to nine spans that end by the time of the question."""
    count = 1 if to_the_end or dice.chance(0.7) else 1 + dice.below(9)
    low = max(0, anchor - dice.ms(0, 2000))
    piece = (asked - low) // count
    spans = []
    for i in range(count):
        start = low + i * piece + dice.ms(0, piece // 4)
        end = start + max(10, dice.ms(piece // 4, piece // 2))
        if i == count - 1 and (to_the_end or dice.chance(0.25)):
            end = asked
        spans.append(EvidenceSpan(start_s=_s(start), end_s=_s(end), description=text.seen(dice, number)))
    return spans


def qa_record(plan: Plan, group: Group, slot: int) -> QARecord:
    number, (cell, i) = group.numbers[slot], group.cell(slot)
    name, human, task_type = group.name(number), cell.is_human(i), cell.kind.task_type
    dice, media_end = Dice(plan.seed, name), media_end_ms(plan, group, slot)
    cut = group.video_kind[slot] in (SHORT_CUT, LONG_CUT)
    asked = media_end if cut else dice.ms(3000, media_end - 1000, 10 if dice.chance(0.2) else 1000)
    asked_in_source = asked + dice.ms(200, 4000) if cut else asked
    gap = 500 + int(min(asked - 500, 120000) * dice.random() ** 3)
    anchor = 0 if slot % 37 == 4 else dice.ms(max(0, asked - gap - 500), asked - gap, 10 if dice.chance(0.3) else 500)
    memory = asked - anchor
    stated = 1000 * (1 + dice.below(60)) if human and dice.chance(0.5) else asked_in_source - anchor
    to_the_end = human and cut and dice.chance(0.5)
    adjustments = [_moved("question_time_s", asked_in_source, asked)] if cut else []
    if to_the_end:
        adjustments.append(_moved("metadata.evidence_spans[0].end_s", asked_in_source, asked))
    ability = "working memory" if slot % 9 == 5 else "episodic memory"
    options = text.options(dice, task_type, slot)
    return QARecord(
        record_id=name,
        source_id=name,
        task="qa",
        task_type=task_type,
        video_path=group.video(slot),
        question=text.question(dice, task_type, number, slot),
        options=options,
        answer="ABCD"[dice.below(min(4, len(options)))],
        question_time_s=_s(asked),
        evidence_anchor_s=_s(anchor),
        memory_length=_s(memory),
        metadata=QAMetadata(
            **_provenance(group, number, human),
            machine_risk_level=_risk(dice, human),
            required_ability=ability if group.dataset == "streambench" else "",
            retention_gap_s=_s(memory),
            source_memory_length_s=_s(stated),
            source_memory_length_discrepancy_s=_s(stated - memory),
            evidence_spans=_spans(dice, number, anchor, asked, to_the_end) if human else UNSET,
            media_boundary_adjustments=adjustments or UNSET,
        ),
    )


@dataclass
class _Times:
    """When a Proactive record's instruction and windows are, in ms."""

    asked: int
    windows: list[tuple[int, int]]
    deadline: int
    media_end: int
    adjustments: list[MediaBoundaryAdjustment]


def _gap(dice: Dice, room: int, dense: float, step: int) -> int:
    """Return the time from one trigger to the next: more than a second, and no more than there is room for."""
    if room < 5500:
        gap = dice.ms(1100, max(1100, min(room, 4900)))
    elif dice.chance(dense):
        gap = dice.ms(1100, 4900)
    else:
        gap = dice.ms(5500, min(room, 60000))
    return gap // step * step if gap >= 3 * step else gap


def _points(dice: Dice, cell: Cell, count: int, first: int, last: int, human: bool) -> list[int]:
    """Return trigger times from `first`, none after `last` as long as there is room."""
    dense, step = 0.2 if cell.kind.task_type == "REC" else 0.05, 10 if human else 1000
    points = [first]
    for _ in range(count - 1):
        points.append(points[-1] + _gap(dice, (last - first) // (count - 1), dense, step))
    return points


def _states(dice: Dice, count: int, first: int, last: int) -> list[tuple[int, int]]:
    """Return intervals of more than a second; some begin where the one before ends."""
    piece = (last - first) // count
    step = 1000 if piece >= 5000 else 10
    piece = min(piece, 90000) // step * step
    starts = [first + i * piece for i in range(count)]
    return [(at, at + (piece if dice.chance(0.2) else dice.ms(piece * 3 // 5, piece - step, step))) for at in starts]


def _policy(points: list[int], media_end: int | None) -> list[tuple[int, int]]:
    """Return the stored windows of point triggers."""
    ends = [min(at + 5000, after) for at, after in zip(points, [*points[1:], math.inf], strict=True)]
    return [(at, int(end if media_end is None else min(end, media_end))) for at, end in zip(points, ends, strict=True)]


def _standard_times(plan: Plan, group: Group, slot: int, dice: Dice) -> _Times:
    (cell, i), count = group.cell(slot), group.windows[slot]
    human, kind, media_end = cell.is_human(i), group.video_kind[slot], media_end_ms(plan, group, slot)
    task_type, short, cut = cell.kind.task_type, kind in (SHORT, SHORT_CUT), kind in (SHORT_CUT, LONG_CUT)
    step = 10 if human else 1000
    free = 1500 if short else max(0, media_end - 60000 - 6000 * count)
    asked = 0 if task_type == "SSR" or slot % 13 == 6 else dice.ms(0, free, 500)
    first = asked + dice.ms(140, 1600 if short else 15000)
    first = -(-first // step) * step
    if task_type == "SSR":
        windows = _states(dice, count, first, media_end - 1000)
        end_is_cut = False
    else:
        end_is_cut = cut and dice.chance(0.6)
        last = media_end - (6200 if end_is_cut else 10000)
        points = _points(dice, cell, count - end_is_cut, first, last, human) if count > end_is_cut else []
        points += [media_end - dice.ms(1100, 4900)] if end_is_cut else []
        windows = _policy(points, media_end if end_is_cut else None)
    deadline = media_end if cut else windows[-1][1]
    if not cut and (task_type == "CRR" or dice.chance(0.4)):
        deadline = min(media_end, windows[-1][1] + dice.ms(1000, 60000, 500))
    adjustments = []
    if end_is_cut:
        adjustments.append(_moved(f"windows[{count - 1}].end_s", windows[-1][0] + 5000, media_end))
    if cut:
        beyond = windows[-1][0] + 5000 if end_is_cut else media_end + dice.ms(500, 4000)
        adjustments.append(_moved("deadline_s", beyond, media_end))
    return _Times(asked, windows, deadline, media_end, adjustments)


def _burst_times(plan: Plan, group: Group, slot: int, dice: Dice) -> _Times:
    burst = group.bursts[slot]
    asked = dice.ms(0, 12000, 500) if burst.task_type != "SSR" else 0
    first = asked + dice.ms(140, 6000)
    if burst.task_type == "SSR":
        first = 1000 * (3 + dice.below(5))
        windows = [(first, first + 12000), (first + 13000, first + 32000), (first + 36000, first + 37000)]
        return _Times(asked, windows, windows[-1][1] + dice.ms(0, 30000, 1000), windows[-1][1] + 30000, [])
    sizes = {"x": (30, 30), "s": (200, 950), "m": (1100, 4900), "l": (5500, 9000)}
    points = list(accumulate((dice.ms(*sizes[gap]) for gap in burst.gaps), initial=first))
    if not burst.last_ms:
        windows = _policy(points, None)
        return _Times(asked, windows, windows[-1][1], points[-1] + 10000, [])
    end = points[-1] + burst.last_ms
    adjustments = [_moved(name, points[-1] + 5000, end) for name in (f"windows[{len(burst.gaps)}].end_s", "deadline_s")]
    return _Times(asked, _policy(points, end), end, end, adjustments)


def _event_id(dice: Dice, task_type: str, human: bool, i: int, named: int) -> str:
    # An annotation tool numbers later events by its clock, whatever their place in the video.
    if human and task_type in ("REC", "stream bench proactive") and i != named:
        return f"event-{1700000000000 + dice.below(10**9) * 100 + i % 100}"
    return f"event-{i + 1 if task_type in ('CRR', 'SSR') or not human else 1}"


_TRIGGER_TYPES = {"CRR": "clue_sufficient", "SSR": "state_interval", "REC": "event_completion"}


def _triggers(dice: Dice, task_type: str, human: bool, number: int, times: _Times, due: list[str]) -> list[Trigger]:
    named, triggers = dice.below(len(due)), []
    for i, ((start, end), answer) in enumerate(zip(times.windows, due, strict=True)):
        state = task_type == "SSR"
        trigger = Trigger(
            event_id=_event_id(dice, task_type, human, i, named),
            trigger_type=_TRIGGER_TYPES.get(task_type, "event_onset"),
            annotation_source="human_reviewed" if human else "inferred_task_policy",
            answer=answer,
            point_trigger_s=None if state else _s(start),
            interval_start_s=_s(start) if state else None,
            interval_end_s=_s(end) if state else None,
            response_policy="reviewed_state_interval" if state else "up_to_5s_until_next_trigger",
            response_window_start_s=_s(start),
            response_window_end_s=_s(end),
        )
        if human:
            trigger.evidence_description = text.seen(dice, number)
            facts = [trigger.evidence_description] if task_type in ("CRR", "SSR") or dice.chance(0.1) else []
            trigger.accepted_facts = facts
            late = start + 1000 < times.media_end and dice.chance(0.08)
            seen = start if state else start + dice.ms(50, 300) if late else max(0, start - dice.ms(0, 600))
            trigger.evidence_start_s = _s(seen)
            trigger.evidence_end_s = _s(end if state else min(times.media_end, seen + dice.ms(300, 1500)))
        else:
            trigger.source_window_start_s = _s(start)
            source_end = max(end, times.deadline) if task_type == "CRR" else min(times.media_end, start + 1000)
            trigger.source_window_end_s = _s(source_end)
        triggers.append(trigger)
    return triggers


def _stated_memory(dice: Dice, task_type: str, times: _Times) -> int:
    """Return what the source states as memory length, which each source means differently."""
    if task_type == "REC":
        return 1000 * (1 + dice.below(30))
    if task_type in ("CRR", "SSR"):
        source = times.adjustments[-1].source_value_s if times.adjustments else _s(times.deadline)
        return round(source * 1000) - times.asked
    return times.windows[0][0] // 1000 * 1000


def proactive_record(plan: Plan, group: Group, slot: int) -> ProactiveRecord:
    number, (cell, i) = group.numbers[slot], group.cell(slot)
    name, human, task_type = group.name(number), cell.is_human(i), cell.kind.task_type
    dice = Dice(plan.seed, name)
    times = (_burst_times if slot in group.bursts else _standard_times)(plan, group, slot, dice)
    said_in, said = text.instruction(dice, task_type, number)
    due = text.answers(task_type, said, len(times.windows), dice.below(8))
    memory, stated = times.deadline - times.asked, _stated_memory(dice, task_type, times)
    return ProactiveRecord(
        record_id=name,
        source_id=name,
        task="proactive",
        task_type=task_type,
        video_path=group.video(slot),
        instruction=said_in,
        instruction_time_s=_s(times.asked),
        deadline_s=_s(times.deadline),
        memory_length=_s(memory),
        windows=[
            Window(start_s=_s(start), end_s=_s(end), expected_answer=answer)
            for (start, end), answer in zip(times.windows, due, strict=True)
        ],
        metadata=ProactiveMetadata(
            **_provenance(group, number, human),
            machine_risk_level=_risk(dice, human),
            required_ability="",
            video_categories="",
            point_response_tolerance_s=5.0,
            monitoring_horizon_s=_s(memory),
            first_trigger_lead_s=_s(times.windows[0][0] - times.asked),
            retention_gap_s=_s(memory),
            source_memory_length_s=_s(stated),
            source_memory_length_discrepancy_s=_s(stated - memory),
            trigger_annotations=_triggers(dice, task_type, human, number, times, due),
            media_boundary_adjustments=times.adjustments or UNSET,
        ),
    )


def _change(name: str, old: Any, new: Any) -> FieldChange:
    return FieldChange(field=name, old_value=msgspec.Raw(encode(old)), new_value=msgspec.Raw(encode(new)))


def _clock(seconds: float, fraction: bool = True) -> str:
    ms = round(seconds * 1000)
    clock = f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}"
    return f"{clock}.{ms % 1000 // 10:02}" if fraction else clock


def _qa_changes(dice: Dice, record: QARecord) -> list[FieldChange]:
    source, spans = "source_snapshot.question", record.metadata.evidence_spans
    return dice.pick(
        (
            [_change(f"{source}.question", record.question.replace("?", " ??"), record.question)],
            [_change(f"{source}.options", record.options[::-1], record.options)],
            [
                _change(f"{source}.evidence_spans", None, spans),
                _change(f"{source}.time_stamp", "00:00:00", _clock(record.question_time_s)),
            ],
            [_change(f"{source}.remark", "请核对时间", None)],
        )
    )


def _proactive_changes(dice: Dice, record: ProactiveRecord) -> list[FieldChange]:
    source = "source_snapshot.question"
    ends = [w.end_s for w in record.windows]
    times = _change(f"{source}.gt_end_time", [_clock(e + 3, False) for e in ends], [_clock(e) for e in ends])
    if dice.chance(0.2):
        return [_change(f"{source}.question", record.instruction.lower(), record.instruction), times]
    policy = {
        "monitoring_horizon_s": record.metadata.monitoring_horizon_s,
        "observed_completion_s": None,
        "observed_onset_s": None,
        "response_tolerance_s": 5.0,
        "tolerance_after_s": 5.0,
        "tolerance_before_s": 0.0,
    }
    left_out = ("annotation_source", "response_policy", "response_window_start_s", "response_window_end_s")
    triggers = [
        {key: value for key, value in msgspec.to_builtins(trigger).items() if key not in left_out} | policy
        for trigger in record.metadata.trigger_annotations
    ]
    return [times, _change(f"{source}.trigger_annotations", None, triggers)]


def _removal(plan: Plan, group: Group, index: int) -> ExclusionRecord:
    """Return the group's exclusion of that index."""
    number = group.excluded[index]
    before = sum(len(g.excluded) for g in plan.groups[: plan.groups.index(group)])
    duplicate = hit(before + index, plan.duplicates, sum(len(g.excluded) for g in plan.groups))
    # An excluded record is of the same kind as its neighbours that were kept.
    slot = min(number - index - FIRST_NUMBER[plan.groups.index(group)], len(group.numbers) - 1)
    cell = group.cell(slot)[0] if slot >= 0 else group.cells[0]
    codes = text.DUPLICATE_CODES if duplicate else text.REMOVAL_CODES
    return ExclusionRecord(
        record_id=group.name(number),
        stable_id=f"{group.dataset}:{group.mode}:{number}",
        dataset=group.dataset,
        mode=group.mode,
        task_type=cell.kind.task_type,
        reason_codes=list(Dice(plan.seed, "removal", group.name(number)).pick(codes)),
    )


def removals(plan: Plan) -> Iterator[ExclusionRecord]:
    for group in plan.groups:
        for index in sorted(range(len(group.excluded)), key=lambda j: str(group.excluded[j])):
            yield _removal(plan, group, index)


def _edit(plan: Plan, group: Group, slot: int) -> ChangeRecord:
    """Return what the review changed in a record that was kept."""
    number = group.numbers[slot]
    dice = Dice(plan.seed, "edit", group.name(number))
    if group.mode == "qa":
        changes = _qa_changes(dice, qa_record(plan, group, slot))
    else:
        changes = _proactive_changes(dice, proactive_record(plan, group, slot))
    return ChangeRecord(
        record_id=group.name(number),
        stable_id=f"{group.dataset}:{group.mode}:{number}",
        dataset=group.dataset,
        mode=group.mode,
        task_type=group.cell(slot)[0].kind.task_type,
        disposition="edit",
        issue_codes=list(dice.pick(text.EDIT_CODES)),
        changes=changes,
    )


def changes(plan: Plan) -> Iterator[ChangeRecord]:
    for group in plan.groups:
        edited = {group.numbers[s]: s for s in range(len(group.numbers)) if _is_edited(group, s)}
        removed = {number: j for j, number in enumerate(group.excluded)}
        for number in sorted([*edited, *removed], key=str):
            if number in edited:
                yield _edit(plan, group, edited[number])
                continue
            gone = _removal(plan, group, removed[number])
            yield ChangeRecord(
                record_id=gone.record_id,
                stable_id=gone.stable_id,
                dataset=gone.dataset,
                mode=gone.mode,
                task_type=gone.task_type,
                disposition="remove",
                issue_codes=gone.reason_codes,
                changes=[_change("$record", "present", "remove")],
            )


def _is_edited(group: Group, slot: int) -> bool:
    cell, i = group.cell(slot)
    return cell.is_edited(i)
