"""What is recorded and by what: the recorder, the shape of a recording, and what a client saw of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from phasewise.engines.base import Answer, Engine, Prompt
from phasewise.errors import EngineError, Unreachable
from phasewise.record.observation import Phase


class Recorder(Protocol):
    """What records the engine; both raise ``EngineError``."""

    def start(self) -> None:
        """Begin, and return when it has begun."""

    def stop(self) -> None:
        """End, and return when it has ended. Nothing happens when it does not run."""


class Recordable(Engine, Protocol):
    """An engine that records itself: see `engines.torch_local.TorchEngine.record`."""

    def record(self, phase: Phase, prompts: Sequence[Prompt], max_tokens: int, path: Path) -> tuple[Answer, ...]:
        """Answer ``prompts`` one after the other and write a trace to ``path``; of decode, without its prefill."""


class Shape(NamedTuple):
    """What decodes: ``batch`` requests after prompts of ``prompt`` tokens, ``steps`` to record, seconds of a step."""

    prompt: int
    batch: int
    steps: int
    step_s: float


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
        context: mean tokens of context of the steps seen; None without decode.
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
