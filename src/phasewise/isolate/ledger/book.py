"""Rows on their way out of the timing process: handed to a child through a pipe, never waited for.

A thread would do the same work under our interpreter lock and die with us. A child takes another core (this process
pays 0.1% of one for it, a thread costs it 0.8%: benchmarks/load_rows.py), and it outlives us: what was handed over is
written even when this process is killed. What it has not said to be written is kept here, so that another child writes
it when the first is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import select
import subprocess
import sys
from collections import deque
from errno import EIO
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from phasewise.isolate.ledger.columns import last
from phasewise.isolate.ledger.schema import PARTS, TABLES, Frame
from phasewise.isolate.ledger.sheet import Sheet

_SET_PIPE_SIZE = 1031
_PIPE = 1 << 20
"""F_SETPIPE_SZ of Linux, and the size that any user may ask for: a burst of rows fits."""

_READY_S = 30.0
"""A child that has not started by then will do so later, or say why not."""

_MOST_KILLED = 5
"""Children that may be killed in one run."""

_READ = 1 << 16
_numbers = itertools.count()


class Book(Sheet):
    """A sheet whose child writes parts into ``folder``/rows; one per trial. It is ready when this returns.

    Args:
        keeps: what cannot be written is kept, for ``rest``, and no failure is raised before the end: whoever fills it
            looks at ``why``.

    Attributes:
        why: rows cannot be written any more; empty while they can.

    Raises:
        OSError: the child cannot be started, or cannot write there.
    """

    def __init__(self, folder: Path, worker: int = 0, *, keeps: bool = False) -> None:
        super().__init__(worker)
        self._keeps = keeps
        self._folder, self._name = folder.absolute(), f"{worker:03}.{os.getpid()}.{next(_numbers)}"
        self._decoder = msgspec.msgpack.Decoder(Frame)
        self._kept: deque[bytes] = deque()
        self._out: deque[memoryview] = deque()
        self._written = self._killed = 0
        self.why = self._said = ""
        self._closed = False
        self._child = self._started()
        try:
            self._wait(_READY_S)
        except BaseException:
            self._end()
            raise
        if self.why and not keeps:
            self.close()

    def add(self, frame: Frame) -> None:
        """Take rows of another worker."""
        self._frame.requests += frame.requests
        self._frame.chunks += frame.chunks

    def push(self) -> None:
        """Hand on what there is, as far as the pipe takes it now."""
        data = self._filled()
        if self.why and not self._keeps:
            return
        if data:
            frame = len(data).to_bytes(4, "little") + data
            self._kept.append(frame)
            self._out.append(memoryview(frame))
        if not self.why:
            self._write()
            self._hear()

    def close(self) -> None:
        """Hand on the rest and wait until it is written.

        Raises:
            OSError: it could not be; says why.
        """
        if self._closed:
            return
        self._closed = True
        self.push()
        while self._kept and not self.why:
            child = self._child
            os.set_blocking(self._into, True)
            self._write()
            _close(child.stdin)
            while self._child is child and self._kept and not self.why:
                self._wait(None)
        self._end()
        if self.why:
            raise OSError(EIO, self.why)

    def rest(self) -> list[Frame]:
        """The rows that are in no part, once this is closed and `why` says why; they must have been kept."""
        have = {table: last(self._folder / PARTS, self._name, table) for table in TABLES}
        found = []
        for number, frame in enumerate(self._kept, self._written):
            whole = self._decoder.decode(frame[4:])
            requests = whole.requests if number > have["requests"] else []
            found.append(Frame(requests, whole.chunks if number > have["chunks"] else []))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        """A child that is to write all that is kept."""
        child = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "phasewise.isolate.ledger.writer",
                str(self._folder),
                self._name,
                str(self._written),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends us, not what we have still to write
        )
        assert child.stdin is not None
        assert child.stdout is not None
        self._into, self._from = child.stdin.fileno(), child.stdout.fileno()
        for pipe in (self._into, self._from):
            os.set_blocking(pipe, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._into, _SET_PIPE_SIZE, _PIPE)
        self._out = deque(memoryview(frame) for frame in self._kept)
        return child

    def _write(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._out:
                written = os.write(self._into, self._out[0])
                self._out[0] = self._out[0][written:]
                if not self._out[0]:
                    self._out.popleft()

    def _wait(self, seconds: float | None) -> None:
        """Until the child says something."""
        select.select([self._from], [], [], seconds)
        self._hear()

    def _hear(self) -> None:
        """Take what the child says: how many frames are written, or why none will be any more."""
        try:
            said = os.read(self._from, _READ)
        except BlockingIOError:
            return
        if not said:
            self._ended()
            return
        *lines, self._said = (self._said + said.decode("utf-8", "replace")).split("\n")
        for line in lines:
            if not line.isdecimal():
                self._give_up(line)
                return
            for _ in range(int(line) - self._written):
                self._kept.popleft()
            self._written = int(line)

    def _ended(self) -> None:
        """The child is gone; another takes over when it was killed."""
        self._end()
        self._killed += 1
        if self._child.returncode >= 0 or self._killed > _MOST_KILLED:
            self._give_up(f"the process that writes rows ended early ({self._child.returncode})")
            return
        self._said = ""
        self._child = self._started()

    def _give_up(self, why: str) -> None:
        self.why = self.why or why
        self._out.clear()
        if not self._keeps:
            self._kept.clear()

    def _end(self) -> None:
        """Let the child end, and see it end."""
        _close(self._child.stdin)
        self._child.wait()
        _close(self._child.stdout)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()
