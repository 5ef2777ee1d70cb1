"""The process that runs llama.cpp's server for ``engines.embedded``: ``python -m phasewise.engines.embedded_child``.

It takes its settings as one JSON argument, writes one line with its address, and ends when its standard input does.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

READY = b"phasewise-embedded-ready "
"""Starts the line that tells the address."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the server runs with: the GGUF file, compute threads, requests at once, and each one's tokens of context."""

    model: str
    threads: int
    context: int
    parallel: int = 1


def main(argument: str) -> None:
    """Serve until standard input ends."""
    threading.Thread(target=_watch, daemon=True).start()
    server = _serve(msgspec.json.decode(argument, type=Settings))
    os.write(1, READY + server.listening_address.encode("ascii") + b"\n")
    # Nobody reads the pipe after this line; anything the library prints must not fill it.
    os.dup2(2, 1)
    threading.Event().wait()


def _serve(settings: Settings) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings.model
    parameters.model_alias = {Path(settings.model).name}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    # llama.cpp gives each of the parallel requests its part of the context.
    parameters.n_ctx = settings.context * settings.parallel
    parameters.n_parallel = settings.parallel
    parameters.cpuparams.n_threads = settings.threads
    parameters.cpuparams_batch.n_threads = settings.threads
    # Every prompt must be computed: neither the slot's own prefix nor the cache in memory may serve one.
    parameters.cache_prompt = False
    parameters.cache_ram_mib = 0
    # What we state must hold: no quiet change of the context to fit the memory.
    parameters.fit_params = False
    parameters.endpoint_metrics = True
    parameters.endpoint_props = True
    parameters.ui = False
    parameters.verbosity = 1
    return xllamacpp.Server(parameters)


def _watch() -> None:
    # The parent holds the other end: it closes it to stop us, and the system closes it when the parent dies.
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
