"""TARGET of a command to a running engine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from phasewise.engines import address, embedded, openai
from phasewise.engines.base import Engine
from phasewise.errors import UsageError


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a server, and how to run our own engine."""

    served_model: str | None = None
    insecure: bool = False
    stall_s: float = 60.0
    threads: int | None = None
    context: int = 4096


def is_ours(target: str | None) -> bool:
    """Whether ``target`` is an engine that we start: none given, or ``gguf:FILE``."""
    return target is None or not address.is_url(target)


def model_file(target: str | None) -> Path | None:
    """The GGUF that our own engine runs; None for a server."""
    if target is None:
        return embedded.bundled_model()
    return Path(target.removeprefix("gguf:")) if target.startswith("gguf:") else None


def open_engine(target: str | None, connection: Connection) -> Engine:
    """Connect to a server or start our own engine.

    Raises:
        UsageError: a target that is neither URL nor ``gguf:FILE``.
        EngineError: it cannot be reached or started.
    """
    if is_ours(target):
        file = model_file(target)
        if file is None or target == "gguf:":
            raise UsageError(_unknown(target or ""))
        return embedded.start(None if target is None else file, threads=connection.threads, context=connection.context)
    assert target is not None
    return openai.connect(
        target, model=connection.served_model, insecure=connection.insecure, stall_s=connection.stall_s
    )


def _unknown(target: str) -> str:
    if target in ("gguf:", "hf:"):
        return f"{target!r} names no file: write gguf:FILE."
    if target.startswith("hf:"):
        return f"{target!r}: measuring a transformers model in process is not there yet; serve it and give its URL."
    if target.endswith(".gguf"):
        return f"{target!r} is no target: write gguf:{target}."
    return f"{target!r} is no target: give a URL (http://127.0.0.1:8000), gguf:FILE, or nothing for the bundled model."
