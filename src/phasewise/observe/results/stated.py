"""A person's own numbers, as they were written: each is as good as its digits say."""

from __future__ import annotations

import msgspec

from phasewise.errors import UsageError
from phasewise.observe.results import digits
from phasewise.observe.results.figures import MIXED, between, figure, refused, requests
from phasewise.observe.results.read import WHICH
from phasewise.record.observation import Check, Phase
from phasewise.record.quantity import Quantity
from phasewise.record.results import Figure, Reported, Row, Step

_PART_KNOWN, _PART_OPEN = 0.5, 0.25
"""Parts of the rate that latencies make which a counted rate may not fall below: with lengths known, and without."""


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `phasewise judge`, as the user wrote them; see its --help."""

    prefill_tokens: str | None = None
    cached: str | None = None
    ttft: str | None = None
    prefill_tok_s: str | None = None
    prefill_batch: int = 1
    tpot: str | None = None
    decode_tok_s: str | None = None
    context: str | None = None
    batch: int = 1
    answer: str | None = None
    request_time: str | None = None
    output_tok_s: str | None = None
    total_tok_s: str | None = None
    tok_s: str | None = None

    @property
    def any(self) -> bool:
        """Whether any number was given."""
        usual = Stated()
        return any(getattr(self, name) != getattr(usual, name) for name in self.__struct_fields__)


def reported(said: Stated) -> Reported:
    """What the flags say, as one row.

    Raises:
        UsageError: a rate without a phase, a number that is none, or one that is missing beside another.
    """
    if said.tok_s is not None:
        raise UsageError(f"--tok-s {said.tok_s} does not say which phase it is of: {WHICH}.")
    prompt, answer = digits.prompt(said.prefill_tokens), digits.tokens(said.answer, "--answer")
    row = Row(
        label="as stated",
        prompt_tokens=prompt.value if prompt else None,
        answer_tokens=answer.value if answer else None,
        concurrency=requests(float(said.batch), "--batch"),
    )
    row = _whole(said, row, prompt, answer) if _names_whole(said) else _apart(said, row, prompt, answer)
    return Reported(tool="stated by flags", form="flags", rows=(row,), checks=_checks(said, row))


def _names_whole(said: Stated) -> bool:
    return said.request_time is not None or (
        said.ttft is None
        and said.tpot is None
        and said.prefill_tok_s is None
        and said.decode_tok_s is None
        and (said.output_tok_s is not None or said.total_tok_s is not None)
    )


def _apart(said: Stated, row: Row, prompt: Quantity | None, answer: Quantity | None) -> Row:
    """Numbers of each phase."""
    _one_of("--ttft", said.ttft, "--prefill-tok-s", said.prefill_tok_s)
    _one_of("--tpot", said.tpot, "--decode-tok-s", said.decode_tok_s)
    missing: dict[Phase, str] = {}
    first, figures = _first(said, prompt)
    pass_ = None
    if first is None:
        missing["prefill"] = "neither --ttft nor --prefill-tok-s is given"
    elif prompt is None:
        missing["prefill"] = "--prefill-tokens is not given: how many tokens the prompt has"
    else:
        cached = digits.tokens(said.cached, "--cached")
        hit = cached.value if cached else 0.0
        if hit >= prompt.value:
            raise UsageError(
                f"--cached {said.cached} leaves nothing of a prompt of {prompt.value:,.0f} tokens to compute."
            )
        pass_ = Step(
            tokens=_less(prompt, hit),
            batch=requests(float(said.prefill_batch), "--prefill-batch"),
            time=first,
            cached=hit,
        )
    step_time, more = _step(said)
    context = _context(said, prompt, answer)
    step = None
    if step_time is None:
        missing["decode"] = "neither --tpot nor --decode-tok-s is given"
    elif context is None:
        missing["decode"] = "--context is not given: how many tokens of context a request has on average"
    else:
        step = Step(tokens=context, batch=requests(float(said.batch), "--batch"), time=step_time)
    if first is None and step_time is None:
        raise UsageError(
            "there is nothing to judge: name a file of results, or give --ttft with --prefill-tokens, or --tpot with "
            "--context."
        )
    return msgspec.structs.replace(
        row, ttft=first, tpot=step_time, figures=(*figures, *more), prefill=pass_, decode=step, missing=missing
    )


def _first(said: Stated, prompt: Quantity | None) -> tuple[Quantity | None, tuple[Figure, ...]]:
    if said.ttft is not None:
        time = digits.time(said.ttft, "--ttft")
        return time, figure("--ttft", time.value, "s", "ttft", "stated", "a prefill time where nothing else ran")
    if said.prefill_tok_s is None:
        return None, ()
    rate = digits.rate(said.prefill_tok_s, "--prefill-tok-s")
    if prompt is None:
        raise UsageError("--prefill-tok-s needs --prefill-tokens: a pass takes tokens / rate.")
    found = figure("--prefill-tok-s", rate.value, "token/s", "prefill rate", "stated", "a pass takes tokens / rate")
    return _over(prompt.value * said.prefill_batch, rate, "prompt tokens / --prefill-tok-s"), found


def _step(said: Stated) -> tuple[Quantity | None, tuple[Figure, ...]]:
    if said.tpot is not None:
        time = digits.time(said.tpot, "--tpot")
        return time, figure("--tpot", time.value, "s", "tpot", "stated", "a decode step")
    if said.decode_tok_s is None:
        return None, ()
    rate = digits.rate(said.decode_tok_s, "--decode-tok-s")
    how = f"a step gives --batch {said.batch} tokens: batch / rate"
    found = figure("--decode-tok-s", rate.value, "token/s", "decode rate", "stated, of all requests together", how)
    return _over(float(said.batch), rate, "--batch / --decode-tok-s"), found


def _context(said: Stated, prompt: Quantity | None, answer: Quantity | None) -> Quantity | None:
    if said.context is not None:
        return digits.tokens(said.context, "--context")
    if prompt is None:
        return None
    half = answer.value / 2 if answer else 0.0
    return _shifted(prompt, half, "--prefill-tokens and half of --answer")


def _whole(said: Stated, row: Row, prompt: Quantity | None, answer: Quantity | None) -> Row:
    """One time or rate of a request with both phases in it: each phase takes at most all of it."""
    if prompt is None or answer is None:
        raise UsageError(
            "a rate or time of whole requests holds both phases: give --prefill-tokens and --answer with it, so that "
            "each can be held against it."
        )
    time, figures = _request(said, prompt, answer)
    held = "the time of the request as a whole: the answer's decode is in it"
    return msgspec.structs.replace(
        row,
        request_s=time,
        figures=figures,
        prefill=Step(tokens=prompt, batch=requests(1.0), time=time, least=True, notes=(held,)),
        decode=Step(
            tokens=_shifted(prompt, answer.value / 2, "--prefill-tokens and half of --answer"),
            batch=requests(1.0),
            time=_scaled(time, 1 / answer.value, "time of the request / its answer's tokens"),
            least=True,
            notes=("the time of the request over its answer's tokens: its prefill is in it",),
        )
        if said.batch == 1 and said.total_tok_s is None
        else None,
        missing={}
        if said.batch == 1 and said.total_tok_s is None
        else {"decode": "a rate of prompt and answer tokens together does not say how long a decode step took"},
    )


def _request(said: Stated, prompt: Quantity, answer: Quantity) -> tuple[Quantity, tuple[Figure, ...]]:
    if said.request_time is not None:
        time = digits.time(said.request_time, "--request-time")
        generated = answer.value / time.value
        found = figure(
            "--request-time", time.value, "s", "request time", "stated", "both phases take at most all of it"
        )
    elif said.output_tok_s is not None:
        rate = digits.rate(said.output_tok_s, "--output-tok-s")
        time, generated = _over(answer.value, rate, "--answer / --output-tok-s"), rate.value
        found = ()
    else:
        assert said.total_tok_s is not None
        rate = digits.rate(said.total_tok_s, "--total-tok-s")
        time = _over(prompt.value + answer.value, rate, "(prompt + answer) / --total-tok-s")
        generated = answer.value / time.value
        found = refused("--total-tok-s", rate.value, "token/s", "prompt and answer tokens / time, stated", MIXED)
    why = "answer tokens over the time of both phases: no decode rate"
    return time, found + refused("answer tokens / time", generated, "token/s", "prefill included", why)


def _checks(said: Stated, row: Row) -> tuple[Check, ...]:
    """Whether the stated latencies and the stated rate can both be true."""
    if said.output_tok_s is None or row.tpot is None:
        return ()
    rate, tpot = digits.rate(said.output_tok_s, "--output-tok-s").value, row.tpot.value
    made, least = said.batch / tpot, _PART_OPEN
    if row.ttft is not None and row.answer_tokens:
        made, least = said.batch * row.answer_tokens / (row.ttft.value + (row.answer_tokens - 1) * tpot), _PART_KNOWN
    detail = f"{said.batch:,} requests at these latencies make {made:,.0f} tokens a second, and {rate:,.0f} are stated"
    if least * made <= rate <= made / _PART_KNOWN:
        return (Check(name="consistent", phase="run", status="passed", detail=detail),)
    detail += (
        ": the two contradict each other, as when something between buffers the stream and tokens arrive in bursts"
    )
    return (Check(name="consistent", phase="run", status="failed", detail=detail, voids=True),)


def _one_of(first: str, one: str | None, second: str, other: str | None) -> None:
    if one is not None and other is not None:
        raise UsageError(f"{first} and {second} both say how long it took: give one of them.")


def _over(amount: float, rate: Quantity, source: str) -> Quantity:
    return between(
        amount / rate.value,
        None if rate.high is None else amount / rate.high,
        None if rate.low is None else amount / rate.low,
        "s",
        source,
    )


def _scaled(time: Quantity, by: float, source: str) -> Quantity:
    low, high = (None if end is None else end * by for end in (time.low, time.high))
    return between(time.value * by, low, high, time.unit, source)


def _less(tokens: Quantity, fewer: float) -> Quantity:
    return _shifted(tokens, -fewer, tokens.source) if fewer else tokens


def _shifted(tokens: Quantity, by: float, source: str) -> Quantity:
    low, high = (None if end is None else max(1.0, end + by) for end in (tokens.low, tokens.high))
    return between(tokens.value + by, low, high, "token", source)
