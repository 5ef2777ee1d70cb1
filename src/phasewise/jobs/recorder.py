"""The profiler of a target, one phase at a time: what was sent while it ran, and the files that came of it."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from phasewise.engines.base import Engine
from phasewise.engines.openai import OpenAIServer
from phasewise.engines.profilers import files
from phasewise.engines.profilers.endpoint import Endpoint, endpoint
from phasewise.engines.profilers.stated import stated
from phasewise.engines.torch_local import TorchEngine
from phasewise.errors import EngineError, InputError, Unreachable, UsageError
from phasewise.isolate import alone
from phasewise.isolate.recorded import Recorder, Sent, Shape
from phasewise.record.capture import CapturedFile, CapturedName

SMALL = 64 << 20
"""Bytes of one phase's files that are copied into the run's folder; larger ones stay where the engine wrote them."""

MOST_STEPS = 512
"""Bound of a recording whose number of steps is not chosen, so that a profiler ends even when nobody stops it."""

SETTLE_S = 15.0
"""Least patience for a trace to appear and be whole once the engine says that it stopped."""

Tell = Callable[[str], None]


class Recording(NamedTuple):
    """One phase as it was recorded: what was sent, the files as they are kept, what to know of them.

    ``ranks`` is how many workers the engine says that it has; None when it does not say.
    """

    name: CapturedName
    sent: Sent
    files: tuple[CapturedFile, ...]
    notes: tuple[str, ...] = ()
    ranks: int | None = None


class Profiler(Protocol):
    """What records a target."""

    folder: str

    @property
    def name(self) -> str:
        """Whose profiler, in words."""

    @property
    def left(self) -> str:
        """What may be left running of it, and how to end it; empty when nothing is."""

    def check(self) -> tuple[str, ...]:
        """See that it can record; what a reader must know. Raises UsageError or EngineError."""

    def record(self, name: CapturedName, shape: Shape, requests: int, tell: Tell) -> Recording:
        """Record one phase. Raises EngineError, with the profiler stopped."""

    def close(self) -> None:
        """Let go of it."""


class InProcess:
    """PyTorch's profiler in the process of ``hf:DIR``."""

    name = "PyTorch's profiler in the model's process"
    folder = ""
    left = ""

    def __init__(self, engine: TorchEngine, run: Path) -> None:
        self._engine, self._run = engine, run

    def check(self) -> tuple[str, ...]:
        """See that the run's folder has room.

        Raises:
            UsageError: it has none.
        """
        _room(self._run)
        return ()

    def record(self, name: CapturedName, shape: Shape, requests: int, tell: Tell) -> Recording:
        """Record one phase.

        Raises:
            EngineError: the model or its profiler failed.
        """
        assert name != "mixed"
        path = self._run.resolve() / "traces" / name / f"{name}.pt.trace.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        sent = alone.in_process(self._engine, name, shape, requests, path, tell)
        shown = str(path.relative_to(self._run.resolve()))
        return Recording(name, sent, (CapturedFile(path=shown, bytes=path.stat().st_size),), ranks=1)

    def close(self) -> None:
        """Nothing is held."""


class ServerProfiler:
    """A server's own profiler, and the folder that it writes into.

    Args:
        server: the server.
        trace_dir: where it writes, by the user's word.
        run: the run's folder.
        wait_s: seconds that a start or a stop may take, and then the files.
        prefix: how files are to begin.
    """

    def __init__(self, server: OpenAIServer, *, trace_dir: Path | None, run: Path, wait_s: float, prefix: str) -> None:
        self._server, self._run, self._wait_s, self._prefix = server, run, wait_s, prefix
        engine, client = server.target.engine, server.beside()
        try:
            self._stated = stated(client, server.root, engine)
        except BaseException:
            client.close()
            raise
        own = engine == "SGLang" and self._stated.local and trace_dir is None
        output = str((run / "traces").resolve()) if own else str(trace_dir.resolve()) if trace_dir else ""
        self._endpoint: Endpoint = endpoint(
            engine, client, server.root, wait_s=wait_s, output=output, launcher=self._stated.launcher
        )
        self.folder = output or self._stated.folder
        self._here = trace_dir or (Path(self.folder) if self.folder and self._stated.local else None)
        self._trace_dir = trace_dir

    @property
    def name(self) -> str:
        """Whose profiler, in words."""
        kinds = {"cuda": "range for Nsight (cudaProfilerApi)", "proton": "Proton profiler"}
        return f"{self._endpoint.kind}'s {kinds.get(self._stated.profiler, 'torch profiler')}"

    @property
    def left(self) -> str:
        """What may be left running of it, and how to end it; empty when nothing is."""
        if not self._endpoint.running:
            return ""
        told = "the profiler was told to stop, and nobody waited until it had"
        return f"{told}; should it run on: {self._endpoint.stopping}"

    def check(self) -> tuple[str, ...]:
        """See that it is there and can write, without starting it; what a reader must know.

        Raises:
            UsageError: it is not there, or there is no room.
            EngineError: the server is gone.
        """
        self._endpoint.check()
        if self._trace_dir is not None and not self._trace_dir.is_dir():
            raise InputError(
                f"--trace-dir {self._trace_dir} is no folder here: name the one that the server's profiler writes into."
            )
        if self._stated.profiler == "proton":
            raise UsageError(
                "The server's profiler is Triton's Proton, whose files phasewise does not read: start vLLM with "
                "--profiler-config.profiler=torch and --profiler-config.torch_profiler_dir=/DIR instead."
            )
        if self._here is not None:
            _room(self._here)
        if not self._stated.stacks:
            return ()
        return (
            "The profiler records Python stacks, which make a trace some fifty times as large and slow the host: start "
            "the server with --profiler-config.torch_profiler_with_stack=false.",
        )

    def record(self, name: CapturedName, shape: Shape, requests: int, tell: Tell) -> Recording:
        """Record one phase and wait for its files.

        Raises:
            EngineError: the server or its profiler failed, or no whole trace came; the profiler is stopped.
        """
        before = files.listing(self._here) if self._here is not None else {}
        most = shape.steps if name == "decode" else MOST_STEPS
        session = _Session(self._endpoint, f"{self._prefix}-{name}", most)
        try:
            sent = self._sent(name, session, shape, requests, tell)
        except Unreachable as error:
            raise Unreachable(
                f"The server went away while its profiler recorded {name} ({str(error).rstrip('.')}): it may have run "
                "out of memory; record fewer --requests and --steps, or a shorter --prompt."
            ) from None
        if self._here is None:
            return Recording(name, sent, (self._elsewhere(name),))
        found = self._files(self._here, before, name, tell)
        kept = self._kept(name, sent, found)
        if all(path.name.startswith(session.prefix) for path in found.whole):
            return kept
        guessed = (
            f"{name}: the engine does not name its files as it was told, so those that were new are taken for ours."
        )
        return kept._replace(notes=(*kept.notes, guessed))

    def close(self) -> None:
        """Close its connection."""
        self._endpoint.close()

    def _sent(self, name: CapturedName, session: Recorder, shape: Shape, requests: int, tell: Tell) -> Sent:
        if name == "prefill":
            return alone.prefill(self._server, session, shape.prompt, requests, tell)
        if name == "decode":
            return alone.decode(self._server, session, shape, tell)
        return alone.mixed(self._server, session, shape, shape.prompt, requests, tell)

    def _files(self, here: Path, before: files.Listing, name: CapturedName, tell: Tell) -> files.Found:
        wait_s = max(self._wait_s, SETTLE_S)
        found = files.wait(here, before, f"{self._prefix}-{name}", self._stated.ranks, wait_s=wait_s, tell=tell)
        if found.cut:
            path, why = found.cut[0]
            raise EngineError(
                f"{path} was not whole after {wait_s:g} s ({why}): see whether the disk is full; if it is still being "
                "written, read it with phasewise trace later, or allow more with --timeout."
            )
        if not found.ranks:
            raise EngineError(
                f"The profiler stopped, but no trace came into {here}: see in the server's log whether it may write "
                "there and has room, or name the folder that it writes into with --trace-dir."
            )
        return found

    def _kept(self, name: CapturedName, sent: Sent, found: files.Found) -> Recording:
        """The files copied into the run's folder when they are small and there is room; else as they lie."""
        notes: tuple[str, ...] = ()
        folder, run = self._run / "traces" / name, self._run.resolve()
        inside = all(run in path.resolve().parents for path in found.whole)
        small = sum(path.stat().st_size for path in found.whole) <= SMALL
        if inside:
            kept = tuple(_file(path, path.resolve().relative_to(run)) for path in found.whole)
            return Recording(name, sent, kept, ranks=self._stated.ranks)
        if small:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                made = tuple(
                    _file(path, Path(shutil.copyfile(path, folder / path.name)).relative_to(self._run))
                    for path in found.whole
                )
                return Recording(name, sent, made, ranks=self._stated.ranks)
            except OSError as error:
                shutil.rmtree(folder, ignore_errors=True)
                notes = (f"{name}: its files stay where the engine wrote them, for they {_uncopied(error)}.",)
        left = tuple(_file(path, path.resolve(), place_run=False) for path in found.whole)
        return Recording(name, sent, left, notes, self._stated.ranks)

    def _elsewhere(self, name: CapturedName) -> CapturedFile:
        """The files of a recording on another machine, as a pattern."""
        ending = ".pt.trace.json.gz" if self._endpoint.kind == "vLLM" else ".trace.json.gz"
        folder = self.folder.rstrip("/") or "FOLDER"
        if self._stated.profiler == "cuda":
            return CapturedFile(path=f"{folder}/REPORT.nsys-rep", bytes=None, place="server")
        return CapturedFile(path=f"{folder}/{self._prefix}-{name}*{ending}", bytes=None, place="server")


class _Session(NamedTuple):
    """One recording, as `isolate.recorded.Recorder`."""

    endpoint: Endpoint
    prefix: str
    most: int

    def start(self) -> None:
        """Begin to record."""
        self.endpoint.start(self.prefix, self.most)

    def stop(self) -> None:
        """Stop, if it runs."""
        self.endpoint.stop()


def profiler(engine: Engine, *, trace_dir: Path | None, run: Path, wait_s: float, prefix: str) -> Profiler:
    """What records ``engine``.

    Raises:
        UsageError: nothing that we know does.
        EngineError: the server is gone.
    """
    if isinstance(engine, TorchEngine):
        return InProcess(engine, run)
    assert isinstance(engine, OpenAIServer)
    return ServerProfiler(engine, trace_dir=trace_dir, run=run, wait_s=wait_s, prefix=prefix)


def _file(path: Path, shown: Path, *, place_run: bool = True) -> CapturedFile:
    return CapturedFile(
        path=str(shown),
        bytes=path.stat().st_size,
        role="front end" if files.FRONT_END in path.name else "rank",
        place="run" if place_run else "engine",
    )


def _room(folder: Path) -> None:
    if why := files.full(folder):
        raise UsageError(f"There is no room for a trace: {why}; make some, or have it written to another folder.")


def _uncopied(error: OSError) -> str:
    no_space = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "find no room in the run's folder" if no_space else f"cannot be copied ({error.strerror or error})"
