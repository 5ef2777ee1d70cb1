"""One phase under somebody's recorder: prompts alone, decode alone whose prefill is over, or prompts into a decode.

The times that a client sees here are those of a slowed engine: they say what the recorder costs, and nothing else. The
phase is timed in a run of its own (`isolate.run`).
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from phasewise.engines.base import Crowdable, Engine
from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.errors import EngineError

SLICE_S = 0.05
"""The loop is asked for what has come this often."""

LEAD = 2
"""Tokens that every request must have before the recorder starts: its prefill is over, and so is the step after it."""

TAIL = 2
"""Tokens beyond the asked steps before the recorder is told to stop."""

LEAST_ROOM_S = 4.0
"""Seconds of answer kept for starting the recorder, and for tokens that are told late."""

QUIET_S = 10.0
"""Longest wait for the server's counters to say that nothing runs."""


class Recorder(Protocol):
    """What records the engine; both raise ``EngineError``."""

    def start(self) -> None:
        """Begin, and return when it has begun."""

    def stop(self) -> None:
        """End, and return when it has ended. Nothing happens when it does not run."""


class Sent(NamedTuple):
    """What was sent while the recorder ran, and what the client saw.

    Attributes:
        requests: how many whose work the recording holds.
        prompt_tokens: of each prompt that it holds, by the server's usage, else as sent.
        all_prompts: tokens of all prompts that were sent, those before the recorder started too.
        cached_tokens: of each; None where the server does not say.
        batch: requests that decode together.
        received: tokens that came while it ran; None in a recording of prefill.
        pass_s: median seconds of a prompt (TTFT), None without one.
        step_s: median seconds between two tokens of a request in a row, None without decode.
        context: mean tokens of context of the steps seen; None without decode.
    """

    requests: int
    prompt_tokens: tuple[int, ...] = ()
    all_prompts: int = 0
    cached_tokens: tuple[int | None, ...] = ()
    batch: int = 0
    received: int | None = None
    pass_s: float | None = None
    step_s: float | None = None
    context: float | None = None


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """The recorder runs while the block does; whatever ends the block, it is stopped.

    A failure to stop does not hide what ended the block.
    """
    try:
        recorder.start()
        yield
    except BaseException as ending:
        try:
            recorder.stop()
        except EngineError as error:
            ending.add_note(str(error))
        raise
    recorder.stop()


def prefill(engine: Engine, recorder: Recorder, tokens: int, requests: int, tell: Callable[[str], None]) -> Sent:
    """Record ``requests`` new prompts of ``tokens`` tokens, one after the other, with one token of answer each.

    Raises:
        EngineError: the engine or its recorder failed; the recorder is stopped.
    """
    answers, lengths = [], []
    with recording(recorder):
        for number in range(requests):
            tell(f"recording prompt {number + 1} of {requests}, {tokens:,} tokens")
            prompt = engine.prompt(tokens)
            answers.append(engine.ask(prompt, 1))
            lengths.append(prompt.tokens)
        tell("stopping the profiler")
    counted = [
        sent if answer.prompt_tokens is None else answer.prompt_tokens
        for sent, answer in zip(lengths, answers, strict=True)
    ]
    return Sent(
        requests=requests,
        prompt_tokens=tuple(counted),
        all_prompts=sum(counted),
        cached_tokens=tuple(answer.cached_tokens for answer in answers),
        pass_s=statistics.median(answer.ttft for answer in answers),
    )


class Shape(NamedTuple):
    """What decodes: ``batch`` requests after prompts of ``prompt`` tokens, ``steps`` to record, seconds of a step."""

    prompt: int
    batch: int
    steps: int
    step_s: float


def decode(engine: Crowdable, recorder: Recorder, shape: Shape, tell: Callable[[str], None]) -> Sent:
    """Record steps of requests that were decoding before the recorder started, and still are when it has stopped.

    Raises:
        EngineError: the engine or its recorder failed, or the answers ended too soon; the recorder is stopped.
    """
    with _Held(engine, shape) as held:
        tell(f"waiting until {shape.batch} {_requests(shape.batch)} decode")
        held.until(lambda: held.least() >= LEAD)
        with recording(_Aside(recorder, held)):
            began, before = time.perf_counter(), held.counts()
            tell(f"recording {shape.steps} steps of {shape.batch} {_requests(shape.batch)}")
            held.until(lambda: held.gained(before) >= shape.steps + TAIL)
            ended = time.perf_counter()
            tell("stopping the profiler")
        return held.sent(began, ended, before)


def mixed(
    engine: Crowdable, recorder: Recorder, shape: Shape, tokens: int, requests: int, tell: Callable[[str], None]
) -> Sent:
    """The same, and while it runs ``requests`` prompts of ``tokens`` tokens come into the decode, one by one.

    Raises:
        EngineError: as ``decode``.
    """
    with _Held(engine, shape) as held:
        tell(f"waiting until {shape.batch} {_requests(shape.batch)} decode")
        held.until(lambda: held.least() >= LEAD)
        with recording(_Aside(recorder, held)):
            began, before = time.perf_counter(), held.counts()
            held.until(lambda: held.gained(before) >= LEAD)
            for number in range(requests):
                tell(f"recording a mix: prompt {number + 1} of {requests}, {tokens:,} tokens, into the decode")
                held.insert(tokens)
            after = held.counts()
            held.until(lambda: held.gained(after) >= LEAD)
            ended = time.perf_counter()
            tell("stopping the profiler")
        return held.sent(began, ended, before)


def settled(engine: Engine) -> bool:
    """Wait until the server's counters say that nothing runs; False when they still do not after ``QUIET_S``."""
    until = time.monotonic() + QUIET_S
    while True:
        activity = engine.activity()
        if activity is None or not (activity.running or activity.waiting):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)


class _Held:
    """Requests that decode while the recorder starts, runs and stops; broken off at the end."""

    def __init__(self, engine: Crowdable, shape: Shape) -> None:
        self._engine, self._shape = engine, shape
        self._arrivals: dict[int, list[Arrivals]] = {}
        self._loop = engine.loop(sink=self._take)
        self._lengths: dict[int, int] = {}
        self._inserted: list[Exchange] = []
        self._done: dict[int, Exchange] = {}
        context = engine.target.max_context
        room = 2**20 if context is None else context - shape.prompt - 16
        self._answer = min(room, LEAD + shape.steps + TAIL + 32 + int(LEAST_ROOM_S / max(shape.step_s, 1e-4)))
        for key in range(shape.batch):
            self._submit(key, shape.prompt, self._answer)
        self._keys = range(shape.batch)

    def __enter__(self) -> _Held:
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

    def step(self) -> None:
        """Receive for a moment.

        Raises:
            EngineError: a request failed.
        """
        for exchange in self._loop.step(time.perf_counter() + SLICE_S):
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
            all_prompts=sum(self._lengths.values()),
            batch=self._shape.batch,
            received=received,
            pass_s=statistics.median(one.ttft for one in prompts) if prompts else None,
            step_s=float(np.median(every)) if len(every) else None,
            context=self._shape.prompt + mean,
        )

    def _submit(self, key: int, tokens: int, answer: int) -> None:
        prompt = self._engine.prompt(tokens)
        self._lengths[key] = prompt.tokens
        self._loop.submit(self._engine.order(key, prompt, answer))

    def _take(self, key: int, arrivals: Arrivals) -> None:
        self._arrivals.setdefault(key, []).append(arrivals)


class _Aside:
    """A recorder that starts and stops in a thread, while the client goes on receiving tokens."""

    def __init__(self, recorder: Recorder, held: _Held) -> None:
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


def _requests(many: int) -> str:
    return "request" if many == 1 else "requests"
