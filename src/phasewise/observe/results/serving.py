"""A run of many requests against a server, whichever tool sent them: what its means tell of each phase."""

from __future__ import annotations

from typing import NamedTuple

from phasewise.observe.results.content import Fields
from phasewise.observe.results.figures import MS, between, decode, mean_context, prefill, requests
from phasewise.record.observation import Check, Phase
from phasewise.record.quantity import Quantity, reported
from phasewise.record.results import Figure, Row, Step

_SOME = 0.75
"""A median gap between chunks below this part of TPOT is no token time."""

_APART = 0.5
"""Throughput that the latencies explain may differ by this part: lengths vary, and runs ramp up and down."""


class Served(NamedTuple):
    """Means over the requests of a run, in seconds and in our definitions; None where the file does not say.

    Attributes:
        label: what tells the run from others.
        prompt, answer: tokens of a request.
        requests, duration: how many were completed in how long.
        rate: completed a second; ``requests`` over ``duration`` where it is None.
        most: requests in flight at once as the tool was told; None when it set no limit.
        ttft, tpot: see ``Row``.
        total: send to last token.
        gap: median time between chunks.
        decoding: requests that decode at once while one does, where each request's times are known.
        per_step: tokens that a decode step gives, where speculative decoding gives several.
        figures: the tool's own.
        notes: what to know of the run.
    """

    label: str
    prompt: float | None
    answer: float | None
    requests: float | None = None
    duration: float | None = None
    rate: float | None = None
    most: float | None = None
    ttft: Quantity | None = None
    tpot: Quantity | None = None
    total: float | None = None
    gap: float | None = None
    decoding: float | None = None
    per_step: float | None = None
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        """Whether no two requests can have run together."""
        return self.most == 1 or (self.most is None and self.requests == 1)

    @property
    def completed(self) -> float | None:
        """Requests a second."""
        if self.rate is not None:
            return self.rate
        return self.requests / self.duration if self.requests and self.duration else None

    @property
    def request(self) -> float | None:
        """Seconds of a request, given or made of its parts."""
        if self.total is not None or self.ttft is None:
            return self.total
        if self.answer is None or (self.tpot is None and self.answer > 1):
            return None
        return self.ttft.value + (max(0.0, self.answer - 1) * self.tpot.value if self.tpot else 0.0)

    @property
    def in_flight(self) -> float | None:
        """Mean number of requests in flight: rate times time (Little's law)."""
        return None if self.completed is None or self.request is None else self.completed * self.request


def rest(fields: Fields, total: str, answer: float | None) -> Quantity | None:
    """TPOT where the file gives none: what is left of the mean request after TTFT, over the tokens after the first.

    The mean of TTFT where the file has it, else its median; exact where all answers are as long.
    """
    whole, first = fields.number(total, scale=MS), fields.number("mean_ttft_ms", "median_ttft_ms", scale=MS)
    if whole is None or first is None or answer is None or answer <= 1 or whole <= first:
        return None
    return between((whole - first) / (answer - 1), None, None, "s", f"({total} - TTFT) / (mean tokens - 1)")


def row(run: Served) -> Row:
    """The run in our words: a prefill pass only from requests that ran alone, a decode step at its mean batch."""
    missing: dict[Phase, str] = {}
    pass_, step = _prefill(run), _decode(run)
    if isinstance(pass_, str):
        missing["prefill"] = pass_
    if isinstance(step, str):
        missing["decode"] = step
    return Row(
        label=run.label,
        prompt_tokens=run.prompt,
        answer_tokens=run.answer,
        concurrency=_concurrency(run),
        request_rate=reported(run.completed, "request/s", "over the run's time") if run.completed else None,
        ttft=run.ttft,
        tpot=run.tpot,
        figures=run.figures,
        prefill=pass_ if isinstance(pass_, Step) else None,
        decode=step if isinstance(step, Step) else None,
        missing=missing,
        notes=run.notes,
    )


def _concurrency(run: Served) -> Quantity | None:
    if run.alone:
        return requests(1.0)
    if run.most is not None:
        return requests(run.most, "at most, as the tool was told")
    return requests(run.in_flight, "on average: rate times time of a request") if run.in_flight else None


def _prefill(run: Served) -> Step | str:
    if run.ttft is None:
        return "no TTFT is given: the tool did not stream, or does not say"
    if not run.alone:
        many = f"up to {run.most:,.0f} requests ran together" if run.most else "requests ran together"
        return (
            f"{many}, so TTFT holds their queue and each other's prefills and is no prefill time: measure with one "
            "request at a time"
        )
    if run.prompt is None:
        return "the file does not say how many tokens a prompt has"
    return prefill(run.prompt, run.ttft, notes="TTFT as the client saw it: transport and tokenising are in it")


def _decode(run: Served) -> Step | str:
    if run.tpot is None:
        return "no time per output token is given: answers of one token, no streaming, or the file does not say"
    if run.per_step and run.per_step > 1:
        return (
            f"speculative decoding gives {run.per_step:.3g} tokens a step on average, so TPOT is no step's time: judge "
            "a run without it"
        )
    if run.prompt is None or run.answer is None:
        return "the file does not say how long prompts and answers are, so the context of a step is open"
    context = mean_context(run.prompt, run.answer)
    if run.alone:
        return decode(context, run.tpot)
    batch = _batch(run)
    if batch is None:
        return "the file does not say how many requests shared a decode step"
    return Step(
        tokens=reported(context, "token", "mean context of a request"),
        batch=batch,
        time=run.tpot,
        least=True,
        notes=("its steps also hold other requests' prefills, so decode alone is at least this fast",),
    )


def _batch(run: Served) -> Quantity | None:
    """Requests that decode at once, on average: tokens decoded a second times the time of each."""
    if run.decoding is not None:
        return requests(max(1.0, run.decoding), "mean over the decoding time of all requests, from their own times")
    if run.completed is None or run.tpot is None or run.answer is None:
        return requests(run.most, "as many as may run at once") if run.most else None
    mean = run.completed * max(0.0, run.answer - 1) * run.tpot.value
    if run.most is not None:
        mean = min(mean, run.most)
    source = "decode tokens a second times TPOT, over the whole run; at most as many as may run at once"
    return between(max(1.0, mean), max(1.0, mean), run.most, "request", source)


def checks(runs: list[Served]) -> tuple[Check, ...]:
    """What the runs' own numbers tell of whether they can be believed."""
    found = [*_consistent(runs), *_chunks(runs)]
    unknown = "the file does not say: a prefix cache makes TTFT of repeated prompts far too short"
    found.append(Check(name="uncached", phase="prefill", status="not_checked", detail=unknown))
    return tuple(found)


def _consistent(runs: list[Served]) -> list[Check]:
    """Whether latencies and throughput of each run can both be true."""
    seen = 0
    for run in runs:
        if run.ttft and run.total and run.ttft.value > run.total * 1.001:
            detail = (
                f"{run.label}: the first token came after {run.ttft.value:.3g} s, the last after {run.total:.3g} s of "
                "the request: one of the two is not in the unit that it should be in"
            )
            return [Check(name="consistent", phase="run", status="failed", detail=detail, voids=True)]
        busy, most = run.in_flight, run.most
        if busy is None or most is None:
            continue
        seen += 1
        if busy > most * (1 + _APART):
            detail = (
                f"{run.label}: its rate and the time of a request make {busy:,.1f} requests in flight, and {most:,.0f} "
                "were allowed: times and throughput contradict each other"
            )
            return [Check(name="consistent", phase="run", status="failed", detail=detail, voids=True)]
    if not seen:
        detail = "not enough is given to hold times against throughput"
        return [Check(name="consistent", phase="run", status="not_checked", detail=detail)]
    detail = "rate times the time of a request is no more than the requests that were allowed at once"
    return [Check(name="consistent", phase="run", status="passed", detail=detail)]


def _chunks(runs: list[Served]) -> list[Check]:
    """Whether gaps between chunks are gaps between tokens."""
    held = [run for run in runs if run.gap is not None and run.tpot is not None]
    if not held:
        return []
    for run in held:
        gap, tpot = run.gap or 0.0, run.tpot.value if run.tpot else 0.0
        if gap < _SOME * tpot or gap > tpot / _SOME:
            why = "arrive in bursts" if gap < tpot else "hold several tokens each"
            detail = (
                f"{run.label}: the median gap between chunks is {gap * 1e3:.3g} ms where a token takes "
                f"{tpot * 1e3:.3g} ms: chunks {why}, so percentiles of ITL say nothing of the engine"
            )
            return [Check(name="chunks_per_token", phase="decode", status="failed", detail=detail)]
    detail = "the median gap between chunks is about the time of a token"
    return [Check(name="chunks_per_token", phase="decode", status="passed", detail=detail)]
