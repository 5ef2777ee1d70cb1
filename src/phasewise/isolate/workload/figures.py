"""From the merged rows of one trial to its figures. Nothing is averaged over workers: all start from the rows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.schema import ENDED_BY_US, Frame
from phasewise.isolate.workload.client import client
from phasewise.isolate.workload.gaps import Arrived, arrived, gaps
from phasewise.isolate.workload.goodput import goodput
from phasewise.isolate.workload.percentiles import spread, weighted
from phasewise.isolate.workload.window import window
from phasewise.isolate.workload.worker import Done
from phasewise.record.load import Goodput, Limits, Load, LoadPlan, Moment, Rates, Window
from phasewise.record.quantity import Quantity, measured
from phasewise.units import Unit

Values = NDArray[np.float64]

MOMENTS = 12
"""Stretches that a run is shown in."""

GROWN = 1.5
"""A mean number in flight in the last third of the window, over that of the first, above which it was not steady ..."""

GROWN_BY = 2.0
"""... when it is also more by this many."""

_COLUMNS = (
    "request, worker, user, due_s, connect_s, sent_s, ttft_s, tpot_s, ended_s, prompt_tokens, cached_tokens, "
    "prompt_tokens_planned, answer_tokens_planned, status, error"
)


class Rows(NamedTuple):
    """The requests of a trial in the order in which they were due, an element each, NaN for what did not come.

    ``broken`` are those that we ended ourselves: they did not fail, and what would have become of them is not known.
    """

    due: Values
    sent: Values
    connect: Values
    ttft: Values
    tpot: Values
    ended: Values
    prompt: Values
    cached: Values
    asked: Values
    user: Values
    worker: Values
    failed: NDArray[np.bool_]
    broken: NDArray[np.bool_]
    reasons: tuple[str, ...]

    @property
    def first(self) -> Values:
        """When the first token came."""
        return self.sent + self.ttft

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Those that came to their end."""
        return ~self.failed & ~self.broken

    @property
    def over(self) -> float:
        """The last thing that is known of any."""
        return float(np.nanmax(np.concatenate([self.ended, self.due])))

    @property
    def ttft_from_due(self) -> Values:
        """First token since the request was due."""
        return self.first - self.due


def rows(folder: Path, trial: int, rest: Sequence[Frame] = ()) -> Rows:
    """Read the requests of ``trial``, those that are only in ``rest`` too.

    Raises:
        OSError: they cannot be read.
    """
    found = table.read(folder, "requests", _COLUMNS, f"trial = {trial}", rest)
    due = _real(found["due_s"])
    order = np.argsort(due, kind="stable")
    errors = [found["error"][i] for i in order]
    prompt = _real(found["prompt_tokens"])
    prompt = np.where(np.isfinite(prompt), prompt, _real(found["prompt_tokens_planned"]))
    return Rows(
        due=due[order],
        sent=_real(found["sent_s"])[order],
        connect=_real(found["connect_s"])[order],
        ttft=_real(found["ttft_s"])[order],
        tpot=_real(found["tpot_s"])[order],
        ended=_real(found["ended_s"])[order],
        prompt=prompt[order],
        cached=_real(found["cached_tokens"])[order],
        asked=_real(found["answer_tokens_planned"])[order],
        user=_real(found["user"])[order],
        worker=_real(found["worker"])[order],
        failed=np.array([error is not None and not _ours(error) for error in errors], np.bool_),
        broken=np.array([error is not None and _ours(error) for error in errors], np.bool_),
        reasons=_reasons(errors, _real(found["status"])[order]),
    )


def _ours(error: object) -> bool:
    return str(error).startswith(ENDED_BY_US)


def _real(values: NDArray[Any]) -> Values:
    return values.astype(np.float64)


def _reasons(errors: Sequence[object], status: Values) -> tuple[str, ...]:
    """Why each that failed did; a status of HTTP is one reason, told by the first that had it."""
    told: dict[object, str] = {}
    return tuple(
        told.setdefault(code if np.isfinite(code) and code != 200 else error, str(error))
        for error, code in zip(errors, status.tolist(), strict=True)
        if error is not None and not _ours(error)
    )


def figures(
    folder: Path,
    plan: LoadPlan,
    done: Sequence[Done],
    limits: Limits | None,
    *,
    trial: int = 0,
    trims: bool = True,
    rest: Sequence[Frame] = (),
) -> Load:
    """The section of one trial; ``rest`` are rows that could not be written.

    Raises:
        OSError: the rows cannot be read.
    """
    seen = rows(folder, trial, rest)
    missing: dict[str, str] = {}
    load = Load(
        plan=plan,
        sent=len(seen.due),
        failed=int(seen.failed.sum()),
        broken_off=int(seen.broken.sum()),
        unsent=sum(one.unsent for one in done),
        reasons=dict(Counter(seen.reasons).most_common()),
        window=None,
        client=client(done, _slips(seen), _pace(seen, plan)) if done else None,
        missing=missing,
    )
    if not seen.answered.any():
        return msgspec.structs.replace(load, missing={"window": "no request was answered"})
    stretch = window(
        due=seen.due, first=seen.first, ended=seen.ended, user=seen.user, seconds=plan.seconds, trims=trims,
        cut=float(seen.due[seen.broken].min(initial=np.inf)),
    )  # fmt: skip
    inside = (seen.due >= stretch.begin_s) & (seen.due <= stretch.end_s)
    counted = inside & seen.answered
    stretch = msgspec.structs.replace(stretch, requests=int((inside & ~seen.broken).sum()))
    came = _arrived(folder, trial, rest)
    between = gaps(came)
    within = (between.at_s >= stretch.begin_s) & (between.at_s <= stretch.end_s)
    flown = _in_flight(seen)
    if limits is None:
        missing["goodput"] = "no limits were given: --ttft and --tpot"
    if not within.any():
        missing["itl"] = missing["icl"] = "no two reads of one answer brought tokens"
    return msgspec.structs.replace(
        load,
        window=stretch,
        ttft=spread(seen.ttft[counted], "s", "TTFT from send"),
        ttft_from_due=spread(seen.ttft_from_due[counted], "s", "TTFT from when it was due"),
        client_queue=spread((seen.sent - seen.due)[counted], "s", "time from due to sent, connecting included"),
        tpot=spread(seen.tpot[counted], "s", "TPOT of requests"),
        itl=weighted(
            between.seconds[within] / between.tokens[within], between.tokens[within], "s", "gap over tokens, per token"
        ),
        icl=spread(between.seconds[within], "s", "gap between reads"),
        e2e=spread((seen.ended - seen.sent)[counted], "s", "send to end"),
        rates=_rates(seen, stretch, came),
        cached=_cached(seen, counted),
        goodput=_goodput(seen, inside, stretch, limits, closed=bool(plan.users)) if limits else None,
        steady=_steady(flown, stretch) if trims and stretch.begin_s > 0 else None,
        moments=_moments(seen, came, flown, closed=bool(plan.users)),
    )


def _goodput(seen: Rows, inside: NDArray[np.bool_], stretch: Window, limits: Limits, *, closed: bool) -> Goodput | None:
    """Of requests that came to their end or failed, and of those broken off that had missed a limit for sure by then.

    None when there are none.
    """
    ttft, since = (seen.ttft, seen.sent) if closed else (seen.ttft_from_due, seen.due)
    steps = np.where(seen.asked > 1, seen.asked - 1, np.nan)
    least = np.where(seen.broken, (seen.over - seen.first) / steps, seen.tpot)
    late = np.where(np.isfinite(ttft), ttft, seen.over - since) > (limits.ttft_s or np.inf)
    missed = seen.broken & (late | (least > (limits.tpot_s or np.inf)))
    judged = inside & (~seen.broken | missed)
    if not judged.any():
        return None
    return goodput(ttft[judged], least[judged], seen.failed[judged], limits, stretch.end_s - stretch.begin_s)


def _slips(seen: Rows) -> dict[int, Values]:
    """How much later than due each worker sent its requests, without the time that connecting took."""
    slip = seen.sent - seen.due - seen.connect
    sent = np.isfinite(slip)
    return {int(worker): slip[sent & (seen.worker == worker)] for worker in np.unique(seen.worker[sent])}


def _pace(seen: Rows, plan: LoadPlan) -> float:
    """The time that a late request must be small against: TTFT; of a closed loop, where it is a pause, the whole."""
    times = seen.ended - seen.sent if plan.users else seen.ttft
    times = times[seen.answered & np.isfinite(times)]
    return float(np.median(times)) if len(times) else 0.0


def _arrived(folder: Path, trial: int, rest: Sequence[Frame]) -> Arrived:
    columns = "request, read, at_s, tokens, shows_text"
    found = table.read(folder, "chunks", columns, f"trial = {trial}", rest)
    return arrived(
        found["request"].astype(np.int64),
        _real(found["at_s"]),
        found["read"].astype(np.int64),
        _real(found["tokens"]),
        found["shows_text"].astype(np.bool_),
    )


def _rates(seen: Rows, stretch: Window, came: Arrived) -> Rates | None:
    seconds = stretch.end_s - stretch.begin_s
    if seconds <= 0:
        return None

    def per_second(total: float, unit: Unit, what: str) -> Quantity:
        return measured(total / seconds, unit, what)

    def inside(at: Values) -> NDArray[np.bool_]:
        return np.asarray((at >= stretch.begin_s) & (at <= stretch.end_s))

    return Rates(
        offered=per_second(float(inside(seen.due).sum()), "request/s", "due in the window"),
        requests=per_second(float((seen.answered & inside(seen.ended)).sum()), "request/s", "ended in the window"),
        tokens_in=per_second(
            float(np.nansum(seen.prompt[inside(seen.first)])), "token/s", "prompts whose first token came in the window"
        ),
        tokens_out=per_second(float(came.tokens[inside(came.at_s)].sum()), "token/s", "came in the window")
        if len(came.tokens)
        else None,
    )


def _cached(seen: Rows, counted: NDArray[np.bool_]) -> Quantity | None:
    known = counted & np.isfinite(seen.cached)
    total = float(seen.prompt[known].sum())
    if not total:
        return None
    return Quantity(
        value=float(seen.cached[known].sum()) / total,
        unit="1",
        provenance="reported",
        source="prompt tokens from the server's cache, of those of the window's requests",
    )


def _in_flight(seen: Rows) -> tuple[Values, Values]:
    """When the number of requests in flight changes, and what it is from then on."""
    begins = np.where(np.isfinite(seen.sent), seen.sent, seen.due)
    ends = np.where(np.isfinite(seen.ended), seen.ended, seen.over)
    at = np.concatenate([begins, np.maximum(ends, begins)])
    change = np.repeat([1.0, -1.0], len(begins))
    order = np.argsort(at, kind="stable")
    return at[order], np.cumsum(change[order])


def _mean_in_flight(flown: tuple[Values, Values], begin: float, end: float) -> float:
    at, number = flown
    edges = np.clip(np.concatenate([[begin], at, [end]]), begin, end)
    return float((np.diff(edges) * np.concatenate([[0.0], number])).sum() / (end - begin))


def _steady(flown: tuple[Values, Values], stretch: Window) -> bool | None:
    third = (stretch.end_s - stretch.begin_s) / 3
    if third <= 0:
        return None
    first = _mean_in_flight(flown, stretch.begin_s, stretch.begin_s + third)
    last = _mean_in_flight(flown, stretch.end_s - third, stretch.end_s)
    return not (last > GROWN * first and last > first + GROWN_BY)


def _moments(seen: Rows, came: Arrived, flown: tuple[Values, Values], *, closed: bool) -> tuple[Moment, ...]:
    end = seen.over
    begin = min(0.0, float(seen.due.min()))
    if not end > begin:
        return ()
    edges = np.linspace(begin, end, MOMENTS + 1)
    found = []
    for left, right in itertools.pairwise(edges):
        last = right == edges[-1]
        due = (seen.due >= left) & ((seen.due < right) | last)
        good = due & seen.answered
        tokens = came.tokens[(came.at_s >= left) & ((came.at_s < right) | last)].sum()
        place = int(np.searchsorted(flown[0], right, side="right")) - 1
        found.append(
            Moment(
                begin_s=float(left),
                end_s=float(right),
                due=int(due.sum()),
                failed=int((due & seen.failed).sum()),
                in_flight=int(flown[1][place]) if place >= 0 else 0,
                ttft_s=_median(seen.first[good] - (seen.sent if closed else seen.due)[good]),
                tpot_s=_median(seen.tpot[good]),
                tokens_out_per_s=float(tokens) / float(right - left) if len(came.tokens) else None,
            )
        )
    return tuple(found)


def _median(values: Values) -> float | None:
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else None
