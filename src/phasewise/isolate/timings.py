"""The server's own times beside ours, request by request."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from phasewise.engines.timings import Own, own
from phasewise.isolate import decode, prefill
from phasewise.isolate.sample import Sample
from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity, measured, reported
from phasewise.record.timings import Beside, ServerTimings


def observe(samples: Sequence[Sample]) -> ServerTimings | None:
    """What the counted requests say; None when the server told no times of its own."""
    prompts, answers = prefill.kept(samples).values(), decode.kept(samples).values()
    rows = [*_rows("prefill", prompts), *_rows("decode", answers)]
    told = [said for sample in samples if (said := own(sample.answer)) is not None]
    if not rows or not told:
        return None
    return ServerTimings(
        who=told[-1].who,
        rows=tuple(rows),
        queue=_typical([said.queue for said in told], told[-1]),
        load=_typical([said.load for said in told], told[-1]),
    )


def _rows(phase: Phase, groups: Iterable[list[Sample]]) -> Iterator[Beside]:
    for group in groups:
        pairs = [pair for sample in group if (pair := _pair(phase, sample)) is not None]
        if pairs:
            yield _beside(phase, group, pairs)


def _pair(phase: Phase, sample: Sample) -> tuple[float, float, str] | None:
    """Our time of the phase, the server's, and whose that is; None when there is only one of them."""
    said = own(sample.answer)
    ours = sample.answer.ttft if phase == "prefill" else sample.tpot
    theirs = None if said is None else said.prefill if phase == "prefill" else said.step
    return None if ours is None or theirs is None or said is None else (ours, theirs, said.who)


def _beside(phase: Phase, group: list[Sample], pairs: list[tuple[float, float, str]]) -> Beside:
    unit = "TTFT" if phase == "prefill" else "TPOT"
    return Beside(
        phase=phase,
        tokens=round(statistics.median(sample.prompt_tokens for sample in group)),
        ours=measured(statistics.median(p[0] for p in pairs), "s", f"median {unit} of {len(pairs)} requests"),
        theirs=reported(statistics.median(p[1] for p in pairs), "s", f"median of {pairs[-1][2]}"),
        rest=measured(statistics.median(p[0] - p[1] for p in pairs), "s", f"median of {unit} less {pairs[-1][2]}"),
        samples=len(pairs),
    )


def _typical(values: Sequence[float | None], said: Own) -> Quantity | None:
    known = [value for value in values if value is not None]
    return reported(statistics.median(known), "s", f"median of {said.who}") if known else None
