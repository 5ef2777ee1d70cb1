"""Section of `phasewise sweep`: what batch and context do to decode, prompts at once to prefill, and the mix."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.crew import Crew
from phasewise.record.observation import CheckStatus
from phasewise.record.quantity import Quantity

Trouble = Literal["", "preempted", "not together", "not proved", "failed"]
Break = Literal["jump", "knee"]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """Decode at one batch and prompt length, in steady state.

    Attributes:
        batch: requests that were sent together.
        prompt_tokens: of each, by the server's count.
        context: mean tokens of context of a request over the windows.
        step: median over ``samples`` windows of the time in which every request gets a token, seconds.
        throughput: tokens per second of all requests together.
        samples: windows that count.
        steps: tokens of a stream in them, in all.
        together: most requests seen running at once.
        proof: whether all of them ran and none waited, throughout.
        proved_by: what says so, with numbers.
        trouble: why it is not fitted; empty when it is.
        streams_differ: by how much mean times per token differ between the streams of a window, median, as a part.
        floor: predicted least time of that step; None without model and machine.
    """

    batch: int
    prompt_tokens: int
    context: float
    step: Quantity | None
    throughput: Quantity | None
    samples: int
    steps: int
    together: int
    proof: CheckStatus
    proved_by: str
    trouble: Trouble = ""
    streams_differ: float = 0.0
    floor: Quantity | None = None


class Plane(msgspec.Struct, frozen=True, kw_only=True):
    """Step time = base + per_request · batch + per_context_token · Σcontext, all non-negative, with intervals.

    Attributes:
        base, per_request, per_context_token: the coefficients.
        residual: median absolute relative error over the cells.
        broken: how the steps leave that plane as the batch grows; None when they do not.
        largest_batch: of the cells that were fitted.
    """

    base: Quantity
    per_request: Quantity
    per_context_token: Quantity
    residual: float
    largest_batch: int
    broken: Broken | None = None

    def at(self, batch: float, context_sum: float) -> float:
        """Step time of ``batch`` requests with ``context_sum`` tokens of context in all, seconds."""
        beyond = self.broken.at(batch) if self.broken else 0.0
        return self.base.value + self.per_request.value * batch + self.per_context_token.value * context_sum + beyond


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A bend or a jump of step time over batch.

    Attributes:
        kind: ``jump`` when the step gets longer at once and by the same amount beyond, as where a batch leaves the
            largest captured graph; ``knee`` when each further request costs more, as where compute takes over.
        after: largest batch before it.
        before: smallest batch beyond it.
        extra: of a jump, seconds added to a step; of a knee, seconds added per further request.
        share: of a jump, ``extra`` over the step right before it; of a knee, the slope beyond over the slope before
            (infinite when that was nothing).
    """

    kind: Break
    after: int
    before: int
    extra: Quantity
    share: float

    def at(self, batch: float) -> float:
        """What it adds to a step of ``batch`` requests, seconds."""
        if self.kind == "jump":
            return self.extra.value if batch > (self.after + self.before) / 2 else 0.0
        return self.extra.value * max(0.0, batch - self.after)


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second at ``batch`` over those at batch 1, both after ``prompt_tokens``; predicted at their floors."""

    batch: int
    prompt_tokens: int
    measured: Quantity
    predicted: Quantity | None = None


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of context of all requests: ``held`` ran together, at about ``full`` some had to wait or start again."""

    held: int
    full: int


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """Decode over batch and context.

    Attributes:
        cells: by prompt length, then batch.
        plane: the fit; None with too few cells.
        gains: throughput over batch 1, per prompt length and batch.
        limit: requests that the server runs at once, when it was met or stated; None when it was not.
        limit_by: how that is known, or why larger batches were not measured.
        room: of the KV cache, when it ran full; None when it did not.
        tokens_per_chunk: mean tokens in a chunk that carried any.
    """

    cells: tuple[Cell, ...]
    plane: Plane | None
    gains: tuple[Gain, ...]
    limit: int | None
    limit_by: str
    room: Room | None
    tokens_per_chunk: float


class AtOnce(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts sent at the same moment.

    Attributes:
        prompts: how many.
        all_first: until each had its first token, median, seconds.
        ratio: over one prompt.
        apart: from the first of their first tokens to the last, over ``all_first``: about 0 when they share one pass.
        samples: how often.
        predicted_ratio: of the floors; None without model and machine.
    """

    prompts: int
    all_first: Quantity
    ratio: Quantity
    apart: float
    samples: int
    predicted_ratio: Quantity | None = None


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """Prefill of several prompts of ``tokens`` tokens at once."""

    tokens: int
    rows: tuple[AtOnce, ...]


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt sent into running decodes, and what it cost them.

    Attributes:
        batch: decodes that ran.
        tokens: of the prompt, by the server's count.
        step: undisturbed step around it, seconds.
        stall: time that every decode lost, in all, median, seconds.
        slow_steps: steps that were longer than an undisturbed one, median.
        slowest: longest gap between two tokens of a decode, median, seconds.
        ttft: of the prompt, median, seconds.
        alone: TTFT of such a prompt on the idle server, seconds; None when it was not measured.
        samples: how many prompts.
    """

    batch: int
    tokens: int
    step: Quantity
    stall: Quantity
    slow_steps: float
    slowest: Quantity
    ttft: Quantity
    alone: Quantity | None
    samples: int


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt tokens that the server computes in one step, from how many steps a prompt made slow.

    Attributes:
        least, most: between which it lies; ``most`` is None when no prompt was cut, ``least`` then the longest prompt.
        shared: whether running decodes get a token in these steps; None when it could not be told.
    """

    least: int
    most: int | None
    shared: bool | None


class Interference(msgspec.Struct, frozen=True, kw_only=True):
    """Stall of running decodes = per_step · slow steps + per_token · tokens + per_token2 · tokens², with intervals."""

    per_step: Quantity
    per_token: Quantity
    per_token2: Quantity
    residual: float

    def of_chunk(self, chunk: float, prompt: float) -> float:
        """Seconds that the last, costliest chunk of ``chunk`` tokens adds to a step for a prompt of ``prompt``."""
        chunk = min(chunk, prompt)
        return (
            self.per_step.value
            + self.per_token.value * chunk
            + self.per_token2.value * (prompt * prompt - (prompt - chunk) ** 2)
        )


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts arriving at random (Poisson) while decodes run: the mix beside both phases alone.

    Attributes:
        batch: decodes that ran.
        tokens: of each prompt.
        rate: prompts per second, as they came.
        load: rate times TTFT alone: the part of the time that prefill alone would take.
        ttft_alone: on the idle server, seconds.
        ttft: mean of what was seen, seconds.
        step_alone: undisturbed decode step at that batch, seconds.
        tpot: mean time per token of the decodes meanwhile, seconds.
        itl_p99: 99th percentile of the gaps between tokens meanwhile, seconds.
        arrivals: when each was sent, seconds since the first.
        wait_formula: mean wait of a queue with that constant service time and random arrivals (M/D/1), seconds;
            None at a load of 1 and more.
        wait_arrivals: mean wait of these very arrivals in such a queue, seconds.
        mix: ``ttft`` less alone less ``wait_arrivals``: what sharing the engine with decodes adds, seconds.
    """

    batch: int
    tokens: int
    rate: Quantity
    load: float
    ttft_alone: Quantity
    ttft: Quantity
    step_alone: Quantity
    tpot: Quantity
    itl_p99: Quantity
    arrivals: tuple[float, ...]
    wait_formula: Quantity | None = None
    wait_arrivals: Quantity | None = None
    mix: Quantity | None = None


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """The two phases together: what isolated profiles cannot explain.

    Attributes:
        stalls: the interference matrix, by batch, then tokens.
        fit: of the stalls; None with too few.
        chunk: of chunked prefill; None without stalls.
        traffic: prompts arriving at random; None when there was no time for it.
    """

    stalls: tuple[Stall, ...]
    fit: Interference | None
    chunk: Chunk | None
    traffic: Traffic | None


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """A question about the mix with its answer, the arithmetic behind it and what that assumes."""

    name: Literal["chunk size", "disaggregation"]
    answer: Literal["yes", "no", "unknown"]
    text: str
    arithmetic: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    value: Quantity | None = None


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a sweep found; its checks and counts are those of the run's observation. A part not measured is None.

    Attributes:
        plan: what was to be sent, in sentences.
        together: prefill of 1, 2 and 4 prompts at once.
        surface: decode over batch and context.
        mix: prefill and decode together.
        ridge_tokens: predicted tokens per step at which compute takes over; None without model and machine.
        compute_bound_at: predicted batch from which a decode step is compute-bound, at the shortest contexts measured;
            None when none is, or it is not known.
        advice: what follows for the mix.
        crew: the workers that sent the requests; None when one process did.
    """

    plan: tuple[str, ...]
    together: Together | None
    surface: Surface | None
    mix: Mix | None
    ridge_tokens: Quantity | None = None
    compute_bound_at: int | None = None
    advice: tuple[Advice, ...] = ()
    crew: Crew | None = None

    @property
    def measured(self) -> bool:
        """Whether any part was."""
        return any(part is not None for part in (self.together, self.surface, self.mix))
