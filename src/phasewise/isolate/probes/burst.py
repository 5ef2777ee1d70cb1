"""A few short requests at the same moment: do they run together, or is their TTFT a place in a queue?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from phasewise.engines.base import Prompt
from phasewise.engines.exchange import Exchange
from phasewise.isolate.probes.asking import Asking, Skipped, typical
from phasewise.record.probes import Burst
from phasewise.record.quantity import measured

SIZES = (1, 4, 8)
"""One alone to compare with; few enough not to disturb a server that others use."""

LEAST_ANSWER, MOST_ANSWER = 16, 96

Floats = NDArray[np.floating]


def measure(asking: Asking) -> Iterator[Burst]:
    """A burst of each size that fits, even if its requests ran one after the other.

    Raises:
        Skipped: a size does not fit, or a request failed; those before it were yielded.
    """
    if asking.session.engine.target.settings.get("parallel", "").startswith("1 "):
        raise Skipped("phasewise started this engine for one request at once")
    costs, answer = asking.session.costs, min(LEAST_ANSWER, asking.room)
    if answer < 3:
        raise Skipped("the context holds no answer")
    took = costs.prefill(asking.short) + answer * costs.step(asking.short)
    before = 1
    for size in SIZES:
        # As if its requests were to run one after the other, unless those of the burst before ran together.
        if took * size / before > asking.left():
            raise Skipped(f"the budget left no time for {size} at once" if size > 1 else "the budget left no time")
        found = _sent(asking, size, answer)
        yield told(found)
        took, before = max(one.ended_at for one in found) - min(one.sent_at for one in found), size
        if size == 1:
            lone = found[0]
            step = max(1e-6, (lone.last_at - lone.first_at) / max(1, answer - 1))
            # Long enough for the first to be still running when the last of the largest burst begins.
            longer = max(LEAST_ANSWER, math.ceil(1.5 * max(SIZES) * lone.ttft / step))
            answer = min(MOST_ANSWER, asking.room, longer)
            took = lone.ttft + answer * step


def _sent(asking: Asking, size: int, answer: int) -> list[Exchange]:
    """The answers to a burst; the quicker one of two where the one is all there is to compare with."""

    def prompts() -> list[Prompt]:
        return [asking.prompt(asking.short) for _ in range(size)]

    times = 2 if size == 1 else 1
    tries = [asking.together(prompts(), answer, fresh=True) for _ in range(times)]
    if failed := next((one.error for found in tries for one in found if one.error), ""):
        raise Skipped(f"of {size} at once one failed, {failed}")
    return min(tries, key=lambda found: max(one.ended_at for one in found) - min(one.sent_at for one in found))


def told(found: Sequence[Exchange]) -> Burst:
    """What the answers to one burst say."""
    times = [one.arrivals.at[one.arrivals.are_tokens] * 1e-9 for one in found]
    begin, end = max(one.first_at for one in found), min(one.last_at for one in found)
    inside = [at[(at >= begin) & (at <= end)] for at in times]
    gaps = [gap for at in inside for gap in np.diff(np.unique(at)).tolist()]
    tokens = sum(one.completion_tokens or len(at) for one, at in zip(found, times, strict=True))
    chunks = sum(map(len, times))
    together = _together(found)
    ttfts = sorted(one.ttft for one in found)
    rate = None
    if gaps and end > begin:
        made = sum(len(at) - 1 for at in inside) * tokens / chunks
        rate = measured(made / (end - begin), "token/s", f"{len(found)} answers while all of them ran")
    return Burst(
        requests=len(found),
        ttft_first=ttfts[0],
        ttft_last=ttfts[-1],
        together=together,
        step=typical([statistics.median(gaps)], "s", f"median gap of {len(found)} answers") if gaps else None,
        throughput=rate,
        tokens_per_chunk=tokens / max(1, chunks),
        spread=_spread(inside) if len(found) > 1 else None,
    )


def _together(found: Sequence[Exchange]) -> int:
    """Most answers that were under way at once."""
    edges = [(one.first_at, 0) for one in found] + [(one.last_at, 1) for one in found]
    running = most = 0
    for _, ended in sorted(edges):
        running += -1 if ended else 1
        most = max(most, running)
    return most


def _spread(inside: Sequence[Floats]) -> float | None:
    """How far apart the events of one step come: from the first stream's to the last one's, typically.

    Steps are told apart by the longest pause between events: what comes between two such pauses is one step.
    """
    every = np.sort(np.concatenate(inside))
    streams, steps = len(inside), min((len(at) for at in inside), default=0)
    if steps < 3:
        return None
    pauses = np.diff(every)
    first = int(np.argmax(pauses[:streams])) + 1
    whole = every[first : first + (len(every) - first) // streams * streams].reshape(-1, streams)
    return float(np.median(whole[:, -1] - whole[:, 0]))
