"""What the engine in process and the one that started it say to each other: one JSON object per line.

``engines/torch_local.py`` starts ``mark/local_child.py``, writes an ``Ask`` to its standard input for each request, or
a ``Record`` for some under PyTorch's profiler, and reads an ``Introduction`` first, then an ``Answered``, a
``Recorded`` or a ``Failure`` for each. All times are `time.perf_counter()`, which counts for all processes of a machine
alike.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "bf16", "fp16", "fp32"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and how; ``auto`` is the GPU where there is one, and the dtype that the model's config names."""

    directory: str
    device: Device = "auto"
    dtype: Dtype = "auto"
    threads: int | None = None
    random_weights: bool = False


class Introduction(msgspec.Struct, frozen=True, kw_only=True, tag="introduction"):
    """What runs.

    Attributes:
        engine: ``transformers`` and ``torch`` with their versions.
        model: the class of the model.
        device: ``cpu`` or ``cuda``.
        device_name: as the driver calls a GPU; empty for a CPU.
        dtype: of the parameters, ``bf16``, ``fp16`` or ``fp32``; PyTorch's own name for any other.
        attention: the implementation that transformers chose.
        threads: of the CPU.
        parameters: how many.
        vocabulary: size of the input embedding.
        max_context: tokens that the config allows, None when it does not say.
    """

    engine: str
    model: str
    device: Literal["cpu", "cuda"]
    device_name: str
    dtype: str
    attention: str
    threads: int
    parameters: int
    vocabulary: int
    max_context: int | None


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag="ask"):
    """Answer each of ``prompts``, all of one length, with ``tokens`` tokens: the rows of one batch."""

    prompts: tuple[tuple[int, ...], ...]
    tokens: int


class Record(msgspec.Struct, frozen=True, kw_only=True, tag="record"):
    """Answer each of ``prompts`` with ``tokens`` tokens and write a trace to ``path``.

    Of ``prefill`` they come one after the other; of ``decode`` they are the rows of one batch, and the profiler runs
    from the end of its prefill to its last tokens.
    """

    phase: Literal["prefill", "decode"]
    prompts: tuple[tuple[int, ...], ...]
    tokens: int
    path: str


Asked = Ask | Record


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """When the forward of the prompts began, when each token was there (of all rows at once), and when all was done."""

    began: float
    tokens: tuple[float, ...]
    ended: float


class Recorded(msgspec.Struct, frozen=True, kw_only=True, tag="recorded"):
    """The answers to a ``Record``, whose trace is written; of rows of one batch there is one."""

    answers: tuple[Answered, ...]


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag="failure"):
    """Why not, in the library's words; ``memory`` when it ran out of it."""

    text: str
    memory: bool = False


Said = Introduction | Answered | Recorded | Failure
