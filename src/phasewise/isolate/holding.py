"""Requests that decode while a recorder starts, runs and stops, in one thread that goes on receiving tokens."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from phasewise.engines.base import Crowdable
from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.errors import EngineError
from phasewise.isolate.plan import MARGIN
from phasewise.isolate.recorded import Recorder, Sent, Shape

SLICE_S = 0.05
"""The loop is asked for what has come this often."""

LEAD = 2
"""Tokens that every request must have before the recorder starts: its prefill is over, and so is the step after it."""

TAIL = 2
"""Tokens beyond the asked steps before the recorder is told to stop."""

SLACK = 32
"""Tokens that may come while the recorder starts, at the least."""

LEAST_ROOM_S = 4.0
"""Seconds of answer kept for starting the recorder, and for tokens that are told late."""


def least_answer(steps: int) -> int:
    """Tokens after the prompt that recording ``steps`` of decode takes, with a margin for what the server adds."""
    return LEAD + steps + TAIL + SLACK + MARGIN


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
        self._answer = min(room, LEAD + shape.steps + TAIL + SLACK + int(LEAST_ROOM_S / max(shape.step_s, 1e-4)))
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
        for exchange in self._loop.step(slice_end if until is None else min(until, slice_end)):
            if exchange.error:
                raise EngineError(exchange.error)
            self._done[exchange.key] = exchange

    def until(self, reached: Callable[[], bool]) -> None:
        """Receive until ``reached``.

        Raises:
            EngineError: a request failed, or ended before.
        """
        while not reached():
            self.step()
            if any(key in self._done for key in self._keys) and not reached():
                raise EngineError(
                    f"An answer of {self._answer:,} tokens ended before {self._shape.steps} steps were recorded: give "
                    "fewer --steps, or a shorter --prompt."
                )

    def insert(self, tokens: int) -> None:
        """Send a prompt for one token of answer, and receive until it has come."""
        key = self._shape.batch + len(self._inserted)
        self._submit(key, tokens, 1)
        self.until(lambda: key in self._done)
        self._inserted.append(self._done[key])

    def sent(self, began: float, ended: float, before: Sequence[int]) -> Sent:
        """What was recorded between ``began`` and ``ended`` (``perf_counter`` seconds)."""
        gaps, received = [], 0
        for key in self._keys:
            at = np.concatenate([one.at[one.are_tokens] for one in self._arrivals[key]]) * 1e-9
            inside = at[(at >= began) & (at <= ended)]
            received += len(inside)
            gaps.append(np.diff(inside[: self._shape.steps + 1]))
        every = np.concatenate(gaps)
        prompts = self._inserted
        mean = float(np.mean(before)) + self._shape.steps / 2
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
