"""One phase under somebody's recorder: prompts alone, decode alone whose prefill is over, or prompts into a decode.

The times that a client sees here are those of a slowed engine: they say what the recorder costs, and nothing else. The
phase is timed in a run of its own (`isolate.run`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from phasewise.engines.base import Answer, Crowdable, Engine
from phasewise.isolate.holding import TAIL, Aside, Held
from phasewise.isolate.recorded import LEAD, Recordable, Recorder, Sent, Shape, recording
from phasewise.record.observation import Phase

QUIET_S = 10.0
"""Longest wait for the server's counters to say that nothing runs."""


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
    return _prompts(answers, lengths)


def _prompts(answers: Sequence[Answer], lengths: Sequence[int]) -> Sent:
    counted = [
        sent if answer.prompt_tokens is None else answer.prompt_tokens
        for sent, answer in zip(lengths, answers, strict=True)
    ]
    return Sent(
        requests=len(answers),
        prompt_tokens=tuple(counted),
        all_prompts=sum(counted),
        cached_tokens=tuple(answer.cached_tokens for answer in answers),
        pass_s=statistics.median(answer.ttft for answer in answers),
    )


def decode(engine: Crowdable, recorder: Recorder, shape: Shape, tell: Callable[[str], None]) -> Sent:
    """Record steps of requests that were decoding before the recorder started, and still are when it has stopped.

    Raises:
        EngineError: the engine or its recorder failed, or the answers ended too soon; the recorder is stopped.
    """
    with Held(engine, shape) as held:
        tell(f"waiting until {shape.batch} {_requests(shape.batch)} decode")
        held.together()
        unrecorded = held.counts()
        with recording(Aside(recorder, held)):
            began, before = time.perf_counter(), held.counts()
            tell(f"recording {shape.steps} steps of {shape.batch} {_requests(shape.batch)}")
            held.until(lambda: held.gained(before) >= shape.steps + TAIL)
            ended = time.perf_counter()
            tell("stopping the profiler")
        return held.sent(began, ended, unrecorded, before)


def mixed(
    engine: Crowdable, recorder: Recorder, shape: Shape, tokens: int, requests: int, tell: Callable[[str], None]
) -> Sent:
    """The same, and while it runs ``requests`` prompts of ``tokens`` tokens come into the decode, one by one.

    Raises:
        EngineError: as ``decode``.
    """
    with Held(engine, shape) as held:
        tell(f"waiting until {shape.batch} {_requests(shape.batch)} decode")
        held.together()
        unrecorded = held.counts()
        with recording(Aside(recorder, held)):
            began, before = time.perf_counter(), held.counts()
            held.receive(LEAD * shape.step_s)
            for number in range(requests):
                tell(f"recording a mix: prompt {number + 1} of {requests}, {tokens:,} tokens, into the decode")
                held.insert(tokens)
            held.receive(LEAD * shape.step_s)
            ended = time.perf_counter()
            tell("stopping the profiler")
        return held.sent(began, ended, unrecorded, before)


def in_process(
    engine: Recordable, phase: Phase, shape: Shape, requests: int, path: Path, tell: Callable[[str], None]
) -> Sent:
    """Record one phase of an engine in a process of ours: ``requests`` prompts, or the steps of one batch.

    Raises:
        EngineError: the engine failed, or could not write.
    """
    if phase == "prefill":
        tell(f"recording {requests} prompts of {shape.prompt:,} tokens")
        prompts = [engine.prompt(shape.prompt) for _ in range(requests)]
        answers = engine.record("prefill", prompts, 1, path)
        return _prompts(answers, [prompt.tokens for prompt in prompts])
    tell(f"recording {shape.steps} steps of {shape.batch} {_requests(shape.batch)}")
    prompts = [engine.prompt(shape.prompt) for _ in range(shape.batch)]
    answer = engine.record("decode", prompts, shape.steps + 1, path)[0]
    # The recorder starts between the first token and the second, whose gap therefore tells nothing.
    gaps = np.diff([chunk.at for chunk in answer.chunks])[1:]
    return Sent(
        requests=shape.batch,
        all_prompts=shape.batch * shape.prompt,
        batch=shape.batch,
        received=shape.batch * shape.steps,
        step_s=float(np.median(gaps)) if len(gaps) else None,
        context=shape.prompt + (shape.steps + 1) / 2,
        contexts=(shape.batch * (shape.prompt + 1), shape.batch * (shape.prompt + shape.steps)),
    )


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


def _requests(many: int) -> str:
    return "request" if many == 1 else "requests"
