"""The profiler of a target and the files that it writes: where, which, whole or not, copied or left in place."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from phasewise.engines.openai import OpenAIServer
from phasewise.engines.profilers import files
from phasewise.engines.profilers.endpoint import Endpoint, endpoint
from phasewise.engines.profilers.stated import Stated, stated
from phasewise.errors import EngineError, InputError, UsageError
from phasewise.record.capture import CapturedFile, CapturedName

SMALL = 64 << 20
"""Bytes of one phase's files that are copied into the run's folder; larger ones stay where the engine wrote them."""

MOST_STEPS = 512
"""Bound of a recording whose number of steps is not chosen, so that a profiler ends even when nobody stops it."""

SETTLE_S = 15.0
"""Least patience for a trace to appear and be whole once the engine says that it stopped."""


class ServerProfiler:
    """A server's own profiler, and the folder that it writes into.

    Attributes:
        stated: what the server says of it.
        folder: where it writes, on the server's disk; empty when nobody says.
        here: the same on this machine; None when it is on another.
    """

    def __init__(self, server: OpenAIServer, *, trace_dir: Path | None, run: Path, wait_s: float, prefix: str) -> None:
        client = server.beside()
        try:
            self.stated = stated(client, server.root, server.target.engine)
        except BaseException:
            client.close()
            raise
        self._wait_s, self._run, self._prefix = wait_s, run, prefix
        own = server.target.engine == "SGLang" and self.stated.local and trace_dir is None
        output = str((run / "traces").resolve()) if own else str(trace_dir or "")
        self.endpoint: Endpoint = endpoint(server.target.engine, client, server.root, wait_s=wait_s, output=output)
        self.folder = output or self.stated.folder
        self.here = self._here(trace_dir)

    @property
    def name(self) -> str:
        """Whose profiler, in words."""
        kinds = {"cuda": "a range for Nsight (cudaProfilerApi)", "proton": "Triton's Proton"}
        return f"{self.endpoint.kind}'s {kinds.get(self.stated.profiler, 'torch profiler')}"

    def check(self) -> tuple[str, ...]:
        """See that it can be used; returns what a reader must know.

        Raises:
            UsageError: it is not there, or cannot write.
            EngineError: the server is gone.
        """
        self.endpoint.check()
        if self.stated.profiler == "proton":
            raise UsageError(
                "The server's profiler is Triton's Proton, whose files phasewise does not read: start vLLM with "
                "--profiler-config.profiler=torch and --profiler-config.torch_profiler_dir=/DIR instead."
            )
        notes = []
        if self.stated.stacks:
            notes.append(
                "The profiler records Python stacks, which makes traces fifty times as large and slows the host: start "
                "the server with --profiler-config.torch_profiler_with_stack=false."
            )
        if self.here is not None:
            self._room(self.here)
        return tuple(notes)

    def _room(self, here: Path) -> None:
        if why := files.full(here):
            raise UsageError(
                f"There is no room for a trace: {why}; make some, or start the server with another folder."
            )
        at = next((one for one in (here, *here.parents) if one.exists()), here)
        if not os.access(at, os.W_OK | os.X_OK) and not self.stated.local:
            raise UsageError(f"{at} cannot be written to: give --trace-dir the folder that the server writes into.")

    def _here(self, trace_dir: Path | None) -> Path | None:
        if trace_dir is not None:
            if not trace_dir.is_dir():
                raise InputError(
                    f"--trace-dir {trace_dir} is no folder here: name the one that the server's profiler writes into."
                )
            return trace_dir
        return Path(self.folder) if self.folder and self.stated.local else None

    def session(self, name: CapturedName, most: int) -> Session:
        """One recording of it."""
        return Session(self, f"{self._prefix}-{name}", most)

    def close(self) -> None:
        """Close its connection."""
        self.endpoint.close()

    def kept(self, name: CapturedName, found: files.Found) -> tuple[CapturedFile, ...]:
        """What came, copied into the run's folder when it is small; else as it lies.

        Raises:
            OSError: there is no room for the copies; the originals are where they were.
        """
        sizes = {path: path.stat().st_size for path in found.whole}
        inside = self.here is not None and self._run.resolve() in self.here.resolve().parents
        copy = not inside and sum(sizes.values()) <= SMALL
        made = []
        for path, size in sizes.items():
            role = "front end" if files.FRONT_END in path.name else "rank"
            shown, place = str(path.resolve()), "engine"
            if inside:
                shown, place = str(path.resolve().relative_to(self._run.resolve())), "run"
            elif copy:
                target = self._run / "traces" / name / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                shown, place = str(target.relative_to(self._run)), "run"
            made.append(CapturedFile(path=shown, bytes=size, role=role, place=place))  # type: ignore[arg-type]
        return tuple(made)

    def pattern(self, name: CapturedName) -> CapturedFile:
        """The files of a recording on another machine."""
        ending = ".pt.trace.json.gz" if self.endpoint.kind == "vLLM" else ".trace.json.gz"
        folder = self.folder.rstrip("/") or "the profiler's folder"
        return CapturedFile(path=f"{folder}/{self._prefix}-{name}*{ending}", bytes=None, place="server")


class Session:
    """One recording: a `isolate.alone.Recorder`, and the wait for its files."""

    def __init__(self, profiler: ServerProfiler, prefix: str, most: int) -> None:
        self._profiler, self._prefix, self._most = profiler, prefix, most
        self._before: files.Listing = {}

    def start(self) -> None:
        """Begin to record.

        Raises:
            EngineError: it cannot.
        """
        if self._profiler.here is not None:
            self._before = files.listing(self._profiler.here)
        self._profiler.endpoint.start(self._prefix, self._most)

    def stop(self) -> None:
        """Stop recording, if it runs.

        Raises:
            EngineError: it cannot.
        """
        self._profiler.endpoint.stop()

    def files(self, wait_s: float, tell: Callable[[str], None]) -> files.Found | None:
        """What it wrote, whole; None when it writes on another machine.

        Raises:
            EngineError: nothing came, or not all of it.
        """
        here = self._profiler.here
        if here is None:
            return None
        found = files.wait(
            here, self._before, self._prefix, self._profiler.stated.ranks, wait_s=max(wait_s, SETTLE_S), tell=tell
        )
        if found.cut:
            path, why = found.cut[0]
            raise EngineError(
                f"{path} is still being written, or broke off ({why}): wait for it, and read it with phasewise trace; "
                "or allow more with --timeout."
            )
        if not found.ranks:
            raise EngineError(
                f"The profiler stopped, but no trace came into {here}: see in the server's log whether it may write "
                "there and has room, or name the folder that it writes into with --trace-dir."
            )
        return found


class NoRoom(NamedTuple):
    """Why files were left where they are."""

    why: str


def no_room(error: OSError) -> str:
    """``error`` of a copy, in words."""
    return "no space is left" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
