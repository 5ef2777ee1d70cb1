"""The steps of a trace, and the step of every event: `split`.

A step is the outermost band that marks one; where a rank has no such bands, a pass of the model found by its rhythm.
Events belong to the step that launched them.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces import attribution, phase
from phasewise.observe.traces.annotations import is_capture
from phasewise.observe.traces.attribution import NONE, Spans
from phasewise.observe.traces.events import Ints, LaunchKind, Small, Trace
from phasewise.observe.traces.found import Found, find
from phasewise.observe.traces.shapes import widths
from phasewise.observe.traces.split import Split, Step
from phasewise.observe.traces.strays import strays
from phasewise.record.trace import Tokens, TracePhase

_ASKED = 512
"""Ranges of the user's own that are held against their evidence: a swap shows in the first ones."""


def split(trace: Trace) -> Split:
    """The steps of ``trace`` and every event's place, see `Split`.

    A trace without a device goes through `cpu.on_cpu` first, one with a graph's capture beside it through
    `capture.named`.
    """
    kernels, launches = trace.kernels, trace.launches
    by, copied, replayed = (
        attribution.launched_by(launches, table.rank, table.correlation, table.start)
        for table in (kernels, trace.copies, trace.replays)
    )
    captured = _captured(trace)
    found = find(trace, by, replayed, captured)
    launch, elsewhere = _launches(trace, found, captured)
    if idle := _marked_elsewhere(trace, found, launch, captured):
        found = find(trace, by, replayed, captured, unmarked=idle)
        launch, elsewhere = _launches(trace, found, captured)
    found, launch = _without_idle(found, launch, launches.kind)
    stream = attribution.stream_number(kernels.rank, kernels.device, kernels.stream)
    kernel = attribution.through_launch(by, launch)
    kernel = attribution.between_neighbours(kernel, by, stream, kernels.start)
    kernel = _on_devices(trace, found, kernel)
    by_time = np.bincount(launch[elsewhere & (launch >= 0)], minlength=len(found))
    return Split(
        steps=_steps(trace, found, kernel, launch, by, replayed, by_time),
        kernel=kernel,
        copy=attribution.through_launch(copied, launch),
        replay=attribution.through_launch(replayed, launch),
        launch=launch,
        launched_by=by,
        replayed_by=replayed,
        stray=strays(kernels, kernel, stream, len(found)),
        how=_how(found, by),
    )


def _captured(trace: Trace) -> NDArray[np.bool_]:
    """Launches inside the capture of a graph: they run nothing."""
    bands, launches = trace.bands, trace.launches
    names = [index for index in np.unique(bands.name).tolist() if index >= 0 and is_capture(trace.names[index])]
    rows = np.flatnonzero(np.isin(bands.name, names))
    spans = Spans(bands.start[rows], bands.end[rows], bands.thread[rows].astype(np.int64), np.arange(len(rows)))
    return attribution.step_of(launches.start, launches.thread, spans, trace.threads)[0] >= 0


def _launches(trace: Trace, found: list[Found], captured: NDArray[np.bool_]) -> tuple[Small, NDArray[np.bool_]]:
    """The step of each launch, and whether its mark is another thread's."""
    launch, elsewhere = attribution.step_of(trace.launches.start, trace.launches.thread, _spans(found), trace.threads)
    launch[captured] = NONE
    return launch, elsewhere


def _marked_elsewhere(trace: Trace, found: list[Found], launch: Small, captured: NDArray[np.bool_]) -> set[int]:
    """Ranks that launch work, none of it inside their marks: another process than the working one wrote those."""
    working = np.isin(trace.launches.kind, (LaunchKind.KERNEL, LaunchKind.GRAPH)) & ~captured
    ranks = set(np.unique(trace.launches.rank[working]).tolist())
    ranks -= set(np.unique(trace.launches.rank[working & (launch >= 0)]).tolist())
    return ranks & {one.rank for one in found if one.mark is not None}


def _spans(found: list[Found]) -> Spans:
    numbers = np.array([(one.start, one.end, one.thread) for one in found], np.int64).reshape(-1, 3)
    rows = np.flatnonzero(numbers[:, 2] >= 0)
    return Spans(numbers[rows, 0], numbers[rows, 1], numbers[rows, 2], rows)


def _host_spans(found: list[Found]) -> Spans:
    """Spans for operators: they begin before what they launch, so a pass found by rhythm reaches back to the last."""
    spans = _spans(found)
    start = spans.start.copy()
    for thread in np.unique(spans.thread).tolist():
        rows = np.flatnonzero(spans.thread == thread)
        start[rows[1:]] = np.minimum(start[rows[1:]], spans.end[rows[:-1]] + 1)
    unmarked = np.array([found[row].mark is None for row in spans.step.tolist()], np.bool_)
    return spans._replace(start=np.where(unmarked, start, spans.start))


def _without_idle(found: list[Found], launch: Small, kind: Small) -> tuple[list[Found], Small]:
    """The steps but those that an engine marks as idle and that launched nothing."""
    works = np.isin(kind, (LaunchKind.KERNEL, LaunchKind.GRAPH)) & (launch >= 0)
    busy = np.bincount(launch[works], minlength=len(found)) > 0
    kept = np.array(
        [busy[row] or one.mark is None or not one.mark.mark.idle for row, one in enumerate(found)], np.bool_
    )
    number = np.append(np.where(kept, np.cumsum(kept) - 1, NONE), NONE).astype(np.int32)
    return [one for one, keep in zip(found, kept.tolist(), strict=True) if keep], number[launch]


def _on_devices(trace: Trace, found: list[Found], kernel: Small) -> Small:
    """``kernel`` with the steps of the devices whose launches were not recorded."""
    table = trace.kernels
    placed = kernel.copy()
    for rank, device in sorted({(one.rank, one.device) for one in found if one.thread < 0}):
        rows = np.flatnonzero((table.rank == rank) & (table.device == device))
        mine = [row for row, one in enumerate(found) if (one.rank, one.device, one.thread) == (rank, device, NONE)]
        start = np.array([found[row].start for row in mine], np.int64)
        at = np.searchsorted(start, table.start[rows], "right") - 1
        late = table.start[rows] > np.array([found[row].end for row in mine], np.int64)[at]
        placed[rows] = np.where((at < 0) | late, NONE, np.array(mine, np.int32)[at])
    return placed


def _steps(
    trace: Trace,
    found: list[Found],
    kernel: Small,
    launch: Small,
    by: Ints,
    replayed: Ints,
    by_time: Ints,
) -> tuple[Step, ...]:
    """Every step with its phase: as its mark says, else by the evidence of what it ran.

    Ranges of the user's own decide too, and are held against that evidence: the first ``_ASKED`` of them.
    """
    asked = [row for row, one in enumerate(found) if not _said(one)]
    asked += [row for row, one in enumerate(found) if _said(one) and _own(one)][:_ASKED]
    verdicts: dict[int, phase.Verdict] = {}
    if asked:
        ops, _ = attribution.step_of(trace.ops.start, trace.ops.thread, _host_spans(found), trace.threads)
        rank = np.array([one.rank for one in found], np.int32)
        facts = phase.facts(trace, kernel, launch, by, replayed, widths(trace, ops, len(found)), rank)
        verdicts = {row: phase.judge(facts, row, trace.names) for row in asked}
    steps: list[Step] = []
    for row, one in enumerate(found):
        steps.append(_step(trace, one, verdicts.get(row), steps[-1] if steps else None, int(by_time[row])))
    return tuple(steps)


def _said(one: Found) -> bool:
    mark = one.mark and one.mark.mark
    return bool(mark and mark.phase != "unknown" and not mark.request)


def _own(one: Found) -> bool:
    return bool(one.mark and not one.mark.mark.exact and not one.mark.mark.speculative)


def _told(verdict: phase.Verdict) -> TracePhase:
    return verdict.phase if verdict.confidence >= phase.SURE else "unknown"


def _step(trace: Trace, one: Found, verdict: phase.Verdict | None, before: Step | None, by_time: int) -> Step:
    if one.mark is None:
        verdict = verdict or phase.Verdict("unknown", (), 0.0)
        return Step(one.rank, "", NONE, one.start, one.end, *verdict)
    mark, label = one.mark.mark, trace.names[trace.bands.name[one.mark.band]]
    evidence = [f"{mark.dialect} annotation {label[:200]}"]
    if one.parts > 1:
        evidence.append(f"pass {one.part} of {one.parts} in it, by their rhythm")
    if by_time:
        evidence.append(f"{by_time} launches from threads of its process without marks: by time")
    said, sure = mark.phase, 1.0 if mark.exact else 0.9 if one.parts > 1 else 0.95
    if mark.draft and before is not None and before.rank == one.rank:
        said = before.phase
    if mark.idle:
        evidence.append("no requests, and yet it launched work")
        said, sure = "unknown", 0.0
    elif verdict is not None and _said(one):
        if {_told(verdict), said} == {"prefill", "decode"}:
            evidence.append(f"though {verdict.evidence[0]}")
    elif verdict is not None:
        evidence += verdict.evidence
        said, sure = (
            (verdict.phase, verdict.confidence) if verdict.phase != "unknown" or not mark.request else (said, 0.7)
        )
    told = _told(verdict) if verdict is not None and _said(one) else None
    prefill, decode = _counts(one) if said == mark.phase else (None, None)
    return Step(
        rank=one.rank,
        label=label,
        band=one.mark.band,
        start=one.start,
        end=one.end,
        phase=said,
        evidence=tuple(evidence),
        confidence=sure,
        prefill=prefill,
        decode=decode,
        speculative=mark.speculative,
        told=told,
    )


def _counts(one: Found) -> tuple[Tokens | None, Tokens | None]:
    """The two halves that its mark gives a step; of a pass among several only the requests that each of them serves."""
    mark = one.mark.mark if one.mark else None
    if mark is None or one.parts == 1:
        return (mark.prefill, mark.decode) if mark else (None, None)
    each = mark.decode.requests if mark.decode else None
    return None, Tokens(requests=each, tokens=each) if each else None


def _how(found: list[Found], by: Ints) -> str:
    """One sentence on where the steps come from."""
    dialects = Counter(one.mark.mark.dialect for one in found if one.mark and one.parts == 1)
    parts = sum(one.parts > 1 for one in found)
    rhythm = sum(one.mark is None for one in found)
    said = [f"{count} from {dialect} annotations, outermost band first" for dialect, count in dialects.most_common()]
    if parts:
        said.append(f"{parts} passes inside ranges of the user's own, by their rhythm")
    if rhythm:
        source = "launches" if (by >= 0).any() else "kernels (no launch was recorded)"
        said.append(f"{rhythm} by the rhythm of the {source}, nothing marks them")
    return f"Steps: {'; '.join(said)}." if said else "No steps: nothing marks any, and nothing was launched."
