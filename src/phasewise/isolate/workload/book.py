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

from phasewise.isolate.workload.rows import Frame
from phasewise.isolate.workload.sheet import Sheet

_SET_PIPE_SIZE = 1031
_PIPE = 1 << 20
"""F_SETPIPE_SZ of Linux, and the size that any user may ask for: a burst of rows fits."""


class Book(Sheet):
    """A sheet whose child writes parts into ``folder``/rows; one per trial.

    Raises:
        OSError: the child cannot be started.
    """

    def __init__(self, folder: Path, worker: int = 0) -> None:
        super().__init__(worker)
        self._out: deque[memoryview] = deque()
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

    def add(self, frame: Frame) -> None:
        """Take rows of another worker."""
        self._frame.requests += frame.requests
        self._frame.chunks += frame.chunks

    def push(self) -> None:
        """Hand on what there is, as far as the pipe takes it now."""
        if data := self._filled():
            self._out.append(memoryview(len(data).to_bytes(4, "little") + data))
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._out:
                written = os.write(self._pipe, self._out[0])
                self._out[0] = self._out[0][written:]
                if not self._out[0]:
                    self._out.popleft()

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
