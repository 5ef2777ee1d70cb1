"""Rows on their way out of the timing process: handed to a child through a pipe, never waited for.

A thread would do the same work under our interpreter lock and die with us. A child takes another core (this process
pays 0.1% of one for it, a thread costs it 0.8%: benchmarks/load_rows.py), and it outlives us: what was handed over is
written even when this process is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from collections import deque
from errno import EIO
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.isolate.workload.rows import Asked, Frame, chunks, row

_SET_PIPE_SIZE = 1031
_PIPE = 1 << 20
"""F_SETPIPE_SZ of Linux, and the size that any user may ask for: a burst of rows fits."""


class Book:
    """Takes what a loop saw; its child writes parts into ``folder``/rows.

    One per worker and trial; ``begin`` says which, and the ``perf_counter`` second that is its zero.

    Raises:
        OSError: the child cannot be started.
    """

    def __init__(self, folder: Path, worker: int = 0) -> None:
        self.worker = worker
        self._trial, self._start = 0, 0.0
        self._frame = Frame(requests=[], chunks=[])
        self._taken: list[tuple[int, Arrivals]] = []
        self._out: deque[memoryview] = deque()
        self._encoder = msgspec.msgpack.Encoder()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "phasewise.isolate.workload.writer", str(folder.absolute()), str(worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends us, not what we have still to write
        )
        assert self._child.stdin is not None
        self._pipe = self._child.stdin.fileno()
        os.set_blocking(self._pipe, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._pipe, _SET_PIPE_SIZE, _PIPE)

    def begin(self, trial: int, start: float) -> None:
        """What comes now is of ``trial``, whose times count from ``start``."""
        self._trial, self._start = trial, start

    def sink(self, key: int, arrivals: Arrivals) -> None:
        """Take events of request ``key``: the sink of a loop."""
        self._taken.append((key, arrivals))

    def ended(self, exchange: Exchange, asked: Asked) -> None:
        """Take a request that is over."""
        self._frame.requests.append(row(exchange, asked, self._start))

    def push(self) -> None:
        """Hand on what there is, as far as the pipe takes it now."""
        self._gather()
        if self._frame.requests or self._frame.chunks:
            data = self._encoder.encode(self._frame)
            self._out.append(memoryview(len(data).to_bytes(4, "little") + data))
            self._frame = Frame(requests=[], chunks=[])
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._out:
                written = os.write(self._pipe, self._out[0])
                self._out[0] = self._out[0][written:]
                if not self._out[0]:
                    self._out.popleft()

    def _gather(self) -> None:
        taken = [(key, arrivals) for key, arrivals in self._taken if len(arrivals.at)]
        self._taken = []
        if taken:
            self._frame.chunks.append(chunks(taken, self._trial, self.worker, self._start))

    def close(self) -> None:
        """Hand on the rest and wait until it is written.

        Raises:
            OSError: it could not be; says why.
        """
        if self._child.stdin is None or self._child.stdin.closed:
            return
        os.set_blocking(self._pipe, True)
        self.push()
        self._child.stdin.close()
        assert self._child.stdout is not None
        with self._child.stdout as told:
            why = told.read().decode("utf-8", "replace").strip()
        if self._child.wait() != 0:
            raise OSError(EIO, why or "the process that writes rows ended early")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
