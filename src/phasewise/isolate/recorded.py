"""What is recorded and by what: the recorder, the shape of a recording, and what a client saw of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from phasewise.engines.base import Answer, Engine, Prompt
from phasewise.errors import EngineError, Unreachable
from phasewise.record.observation import Phase

LEAD = 2
"""Least tokens that every request has before the recorder starts: its prefill is over, and so is the step after it."""


class Recorder(Protocol):
    """What records the engine; both raise ``EngineError``."""

    def start(self) -> None:
        """Begin, and return when it has begun."""

    def stop(self) -> None:
        """End, and return when it has ended. Nothing happens when it does not run."""


class Recordable(Engine, Protocol):
    """An engine in a process of ours, which records itself: see `engines.torch_local.TorchEngine`."""

    def together(self, prompts: Sequence[Prompt], max_tokens: int) -> tuple[Answer, ...]:
        """Answer ``prompts``, all of one length, as the rows of one batch."""

    def record(self, phase: Phase, prompts: Sequence[Prompt], max_tokens: int, path: Path) -> tuple[Answer, ...]:
        """Answer ``prompts`` and write a trace to ``path``: of prefill one after the other, of decode together."""


class Shape(NamedTuple):
    """What decodes, and how much of it is recorded.

    Attributes:
        prompt: tokens before each answer.
        batch: requests together.
        steps: to record.
        step_s: seconds of one.
        lead: tokens that every request has before the recorder starts.
        ramp: tokens that the first request may get before the last prompt is in.
    """

    prompt: int
    batch: int
    steps: int
    step_s: float
    lead: int = LEAD
    ramp: int = 0


class Sent(NamedTuple):
    """What was sent while the recorder ran, and what the client saw.

    Attributes:
        requests: how many whose work the recording holds.
        prompt_tokens: of each prompt that it holds, by the server's usage, else as sent.
        all_prompts: tokens of all prompts that were sent, those before the recorder started too; None where the
            length of one is an estimate.
        cached_tokens: of each; None where the server does not say.
        batch: requests that decode together.
        received: tokens that came while it ran; None in a recording of prefill.
        pass_s: median seconds of a prompt (TTFT), None without one.
        step_s: median seconds between two tokens of a request in a row, None without decode.
        context: mean tokens of context of a request in the steps seen; None without decode.
        contexts: least and most tokens that the requests of a recorded step can attend to together, each its new one
            included; None without decode, or where the length of a prompt is an estimate.
    """

    requests: int
    prompt_tokens: tuple[int, ...] = ()
    all_prompts: int | None = None
    cached_tokens: tuple[int | None, ...] = ()
    batch: int = 0
    received: int | None = None
    pass_s: float | None = None
    step_s: float | None = None
    context: float | None = None
    contexts: tuple[int, int] | None = None


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
        except Unreachable:
            pass  # a server that is gone records nothing any more
        except EngineError as error:
            ending.add_note(str(error))
        raise
    recorder.stop()
