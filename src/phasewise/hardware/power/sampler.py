"""Sampling beside something else: start a process that reads the meters, stop it, take what it read."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import IO

import msgspec

from phasewise.hardware.power.base import Device, Reading
from phasewise.hardware.power.sampling import Ready, Settings

EVERY_S = 0.05
"""As Ma et al. sample (arXiv 2605.11999): NVML at 50 ms agrees with the energy counter within 2% from 200 ms on."""

EXPORTER_EVERY_S = 0.5
"""An exporter's values change every second at best."""

_ENDS_S = 5.0


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """What was read.

    Attributes:
        devices: in the order that ``Reading.device`` counts; empty when no meter can be read here.
        readings: in the order in which they were taken.
        every_s: how often they were to be.
        why_not: why each meter that is not read cannot be, by its name.
        ended: why the sampling ended before it was stopped; empty when it did not.
    """

    devices: tuple[Device, ...]
    readings: tuple[Reading, ...]
    every_s: float
    why_not: dict[str, str]
    ended: str = ""


class Sampler:
    """Samples from its making to ``stop()``; a block ends it in any case. Nothing it meets fails what it samples."""

    def __init__(self, exporter: str = "", every_s: float | None = None) -> None:
        self._settings = Settings(every_s=every_s or (EXPORTER_EVERY_S if exporter else EVERY_S), exporter=exporter)
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - read at the end
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the same
        self._ready: Ready | None = None
        self._process = self._start()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
        self._file.close()
        self._complaints.close()

    @property
    def devices(self) -> tuple[Device, ...]:
        """What is read; waits until the meters are open."""
        return self._opened().devices

    def so_far(self) -> tuple[Reading, ...]:
        """What was read until now."""
        return tuple(_readings(os.pread(self._file.fileno(), os.fstat(self._file.fileno()).st_size, 0)))

    def stop(self) -> Telemetry:
        """End the sampling and take what was read."""
        ready = self._opened()
        ended = self._process.poll() if self._process else None
        self._end()
        self._file.seek(0)
        early = bool(ready.devices) and ended is not None
        return Telemetry(
            devices=ready.devices,
            readings=tuple(_readings(self._file.read())),
            every_s=self._settings.every_s,
            why_not=ready.why_not,
            ended=f"the sampling ended by itself (exit code {ended})" if early else "",
        )

    def _start(self) -> subprocess.Popen[bytes] | None:
        file = self._file.fileno()
        settings = msgspec.json.encode(self._settings).decode()
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "phasewise.hardware.power.sampling", settings, str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                pass_fds=(file,),
                start_new_session=True,  # Ctrl-C is ours: it ends when we say so
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        except OSError:
            return None

    def _opened(self) -> Ready:
        if self._ready is None:
            line = self._process.stdout.readline() if self._process and self._process.stdout else b""
            try:
                self._ready = msgspec.json.decode(line, type=Ready)
            except msgspec.DecodeError:
                self._ready = Ready(devices=(), why_not={"sampling": f"its process failed ({self._said()}): report it"})
        return self._ready

    def _said(self) -> str:
        """The last that the process said before it failed."""
        self._end()
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").split("\n")
        return next((" ".join(line.split())[:120] for line in reversed(lines) if line.strip()), "it said nothing")

    def _end(self) -> None:
        process = self._process
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:  # a driver that hangs
            process.kill()
            process.wait()


def _readings(data: bytes) -> list[Reading]:
    """The rows that are whole: of a process that was killed the last one may not be."""
    found = []
    decode = msgspec.json.Decoder(Reading).decode
    for line in data.splitlines():
        with contextlib.suppress(msgspec.DecodeError):
            found.append(decode(line))
    return found
