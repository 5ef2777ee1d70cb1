"""Programs that measure in a process of their own, and what they say to the one that started them.

A process of its own gets its own environment (BLAS libraries read theirs once, when they load), may crash in a kernel
that this CPU lacks without taking phasewise along, and gives its gigabytes back when it ends.

A program prints one JSON object per line on stdout: a ``Round`` each time it has measured a quantity once more, and an
``End`` when it is through. Without an ``End`` it has failed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO

import msgspec

ROUNDS = 5
"""How often a program measures each quantity: the best round is its value, all rounds are its spread."""

PINNED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Variables that make OpenBLAS use the kernels of another CPU than this one."""

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS")


class Round(msgspec.Struct, tag="round", frozen=True, kw_only=True):
    """One measurement of one quantity.

    Attributes:
        quantity: ``read`` or ``copy`` (bytes/s), or the dtype of a matmul (FLOP/s).
        rate: the best rate of this round.
        detail: what was run, in a few words.
        cpu_share: CPU time that the computing threads got, over what they could have got: under 1 when other programs
            took some of it.
    """

    quantity: str
    rate: float
    detail: str
    cpu_share: float = 1.0


class End(msgspec.Struct, tag="end", frozen=True, kw_only=True):
    """The last word of a program.

    Attributes:
        by: the library that computed, with its version.
        device: the GPU that computed, as its driver calls it; empty for a CPU.
        left_out: quantities that this machine or library cannot do, with the reason.
    """

    by: str
    device: str = ""
    left_out: dict[str, str] = {}


class Failed(Exception):
    """The program crashed, gave up, or took far too long; the text says which."""


def say(message: Round | End) -> None:
    """Tell the process that started this program."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def environment(threads: int, *, pinned: bool) -> dict[str, str]:
    """This process's environment with BLAS on ``threads`` threads, with or without the variables in ``PINNED``."""
    kept = {name: value for name, value in os.environ.items() if pinned or name not in PINNED}
    return kept | dict.fromkeys(_THREADS, str(threads))


def run(
    program: str, arguments: Mapping[str, object], env: Mapping[str, str], limit: float, heard: Callable[[Round], None]
) -> End:
    """Run module ``program`` with ``arguments`` for at most ``limit`` seconds and pass on each round as it comes.

    Raises:
        Failed: it ended without an ``End``.
    """
    command = [sys.executable, "-P", "-m", program, msgspec.json.encode(arguments).decode()]
    with tempfile.TemporaryFile() as complaints, _started(command, env, complaints, limit) as process:
        assert process.stdout is not None
        for line in process.stdout:
            message = _message(line)
            if isinstance(message, End):
                return message
            if message is not None:
                heard(message)
        raise Failed(_reason(process.wait(), complaints))


@contextlib.contextmanager
def _started(
    command: list[str], env: Mapping[str, str], complaints: IO[bytes], limit: float
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which never outlives the block or ``limit``: Ctrl-C ends it through us, not on its own."""
    try:
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,
        )
    except OSError as error:
        raise Failed(f"it could not be started ({error.strerror})") from None
    clock = threading.Timer(limit, process.kill)
    clock.start()
    try:
        yield process
    finally:
        clock.cancel()
        process.kill()
        process.communicate()


def _message(line: bytes) -> Round | End | None:
    try:
        return msgspec.json.decode(line, type=Round | End)
    except msgspec.DecodeError:
        return None


def _reason(code: int, complaints: IO[bytes]) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"it was ended by {signal.Signals(-code).name}"
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    last = "".join(c for c in lines[-1] if c.isprintable())[:200] if lines else ""
    return last or f"it ended with exit code {code}"
