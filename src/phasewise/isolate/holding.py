"""Requests that decode while a recorder starts, runs and stops, in one thread that goes on receiving tokens."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from phasewise.engines.base import Crowdable
from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.errors import EngineError
from phasewise.isolate.plan import MARGIN
from phasewise.isolate.recorded import LEAD, Recorder, Sent, Shape

SLICE_S = 0.02
"""The loop is asked for what has come this often."""

TAIL = 2
"""Tokens beyond the asked steps before the recorder is told to stop."""

SLACK = 32
"""Tokens that may come while the recorder starts, at the least."""

LEAST_ROOM_S = 4.0
"""Seconds of answer kept for starting the recorder, and for tokens that are told late."""


CHUNK = 256
"""Tokens of a prompt that a step takes at the least, where nobody has seen more: while the other prompts come in, the
first request gets a token in every such step."""


def ramp(batch: int, prompt: int) -> int:
    """Tokens that the first of ``batch`` requests may get before the last prompt is in."""
    return (batch - 1) * math.ceil(prompt / CHUNK)


def least_answer(steps: int, batch: int, prompt: int) -> int:
    """Tokens after the prompt that recording ``steps`` of decode takes, with a margin for what the server adds."""
    return ramp(batch, prompt) + LEAD + steps + TAIL + SLACK + MARGIN


class Held:
    """Requests that decode while the recorder starts, runs and stops; broken off at the end."""

    def __init__(self, engine: Crowdable, shape: Shape) -> None:
        self._engine, self._shape = engine, shape
        self._arrivals: dict[int, list[Arrivals]] = {}
        self._loop = engine.loop(sink=self._take)
        self._lengths: dict[int, int] = {}
        self._exact = True
        self._inserted: list[Exchange] = []
        self._done: dict[int, Exchange] = {}
        context = engine.target.max_context
        room = 2**20 if context is None else context - shape.prompt - MARGIN
        after = shape.steps + TAIL + SLACK + int(LEAST_ROOM_S / max(shape.step_s, 1e-4))
        self._answer = min(room, max(shape.ramp, ramp(shape.batch, shape.prompt)) + shape.lead + after)
        for key in range(shape.batch):
            self._submit(key, shape.prompt, self._answer)
        self._keys = range(shape.batch)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.cancel()
        self._loop.close()

    def counts(self) -> list[int]:
        """Tokens of each request so far."""
        return [sum(int(one.are_tokens.sum()) for one in self._arrivals.get(key, [])) for key in self._keys]

    def least(self) -> int:
        """Tokens that every request has."""
        return min(self.counts())

    def gained(self, before: Sequence[int]) -> int:
        """Tokens that every request got since ``before``."""
        return min(now - then for now, then in zip(self.counts(), before, strict=True))

    def receive(self, seconds: float) -> None:
        """Receive for so long.

        Raises:
            EngineError: a request failed.
        """
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            self.step(until)

    def step(self, until: float | None = None) -> None:
        """Receive for a moment, or until ``until`` (``perf_counter`` seconds) when that is sooner.

        Raises:
            EngineError: a request failed.
        """
        slice_end = time.perf_counter() + SLICE_S
        ended = self._loop.step(slice_end if until is None else min(until, slice_end))
        self._loop.flush()
        for exchange in ended:
            if exchange.error:
                raise EngineError(exchange.error)
            self._done[exchange.key] = exchange

    def together(self) -> None:
        """Receive until every request has the tokens that it is to have before the recorder starts.

        Raises:
            EngineError: a request failed, or ended before the others had them.
        """
        while self.least() < self._shape.lead:
            self.step()
            if any(key in self._done for key in self._keys) and self.least() < self._shape.lead:
                ran = sum(count > 0 for count in self.counts())
                raise EngineError(
                    f"{ran} of {self._shape.batch} requests decoded when the first of them had its {self._answer:,} "
                    f"tokens: the others waited, for the server runs or holds no more at once; give a smaller --batch."
                )

    def until(self, reached: Callable[[], bool]) -> None:
        """Receive until ``reached``, which must be so before any request ends.

        Raises:
            EngineError: a request failed, or ended before.
        """
        while True:
            met = reached()
            if any(key in self._done for key in self._keys):
                raise EngineError(
                    f"An answer of {self._answer:,} tokens ended before {self._shape.steps} steps were recorded: give "
                    "fewer --steps, or a shorter --prompt."
                )
            if met:
                return
            self.step()

    def insert(self, tokens: int) -> None:
        """Send a prompt for one token of answer, and receive until it has come."""
        key = self._shape.batch + len(self._inserted)
        self._submit(key, tokens, 1)
        self.until(lambda: key in self._done)
        self._inserted.append(self._done[key])

    def sent(self, began: float, ended: float, unrecorded: Sequence[int], before: Sequence[int]) -> Sent:
        """What was recorded between ``began`` and ``ended`` (``perf_counter`` seconds).

        Every request had ``unrecorded`` tokens before the recorder was told to start, and ``before`` at ``began``.
        """
        self._loop.cancel()  # they are over, and all that came is told
        gaps, received = [], 0
        for key in self._keys:
            at = np.concatenate([one.at[one.are_tokens] for one in self._arrivals[key]]) * 1e-9
            inside = at[(at >= began) & (at <= ended)]
            received += len(inside)
            gaps.append(np.diff(inside[: self._shape.steps + 1]))
        every = np.concatenate(gaps)
        prompts = self._inserted
        mean = float(np.mean(before)) + self._shape.steps / 2
        held = sum(self._lengths[key] for key in self._keys)
        return Sent(
            requests=len(prompts) or self._shape.batch,
            prompt_tokens=tuple(
                self._lengths[one.key] if one.prompt_tokens is None else one.prompt_tokens for one in prompts
            ),
            cached_tokens=tuple(one.cached_tokens for one in prompts),
            all_prompts=sum(self._lengths.values()) if self._exact else None,
            batch=self._shape.batch,
            received=received,
            pass_s=statistics.median(one.ttft for one in prompts) if prompts else None,
            step_s=float(np.median(every)) if len(every) else None,
            context=self._shape.prompt + mean,
            # The first recorded step adds to the tokens that had come by then, the last to no more than have come now.
            contexts=(held + sum(unrecorded), held + sum(self.counts())) if self._exact else None,
        )

    def _submit(self, key: int, tokens: int, answer: int) -> None:
        prompt = self._engine.prompt(tokens)
        self._lengths[key] = prompt.tokens
        self._exact = self._exact and prompt.exact
        self._loop.submit(self._engine.order(key, prompt, answer))

    def _take(self, key: int, arrivals: Arrivals) -> None:
        self._arrivals.setdefault(key, []).append(arrivals)


class Aside:
    """A recorder that starts and stops in a thread, while the client goes on receiving tokens."""

    def __init__(self, recorder: Recorder, held: Held) -> None:
        self._recorder, self._held = recorder, held

    def start(self) -> None:
        """Begin, receiving meanwhile."""
        self._beside(self._recorder.start)

    def stop(self) -> None:
        """End, receiving meanwhile."""
        self._beside(self._recorder.stop)

    def _beside(self, call: Callable[[], None]) -> None:
        failed: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        while thread.is_alive():
            try:
                self._held.step()
            except EngineError:
                thread.join()  # a request that failed says less than the recorder, which may know why
        if failed:
            raise failed[0]
