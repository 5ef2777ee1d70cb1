"""TARGET of a command to a running engine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from phasewise.engines import address, embedded, openai, torch_local
from phasewise.engines.base import Engine
from phasewise.engines.embedded import EmbeddedEngine
from phasewise.engines.openai import OpenAIServer
from phasewise.errors import UsageError
from phasewise.record.local import Device, Dtype, Settings


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a server, and how to run our own engine.

    ``parallel`` (requests at once) is for llama.cpp, the last three are for a transformers model in process.
    """

    served_model: str | None = None
    insecure: bool = False
    stall_s: float = 60.0
    threads: int | None = None
    context: int = 4096
    parallel: int = 1
    device: Device = "auto"
    dtype: Dtype = "auto"
    random_weights: bool = False


def is_ours(target: str | None) -> bool:
    """Whether ``target`` is an engine that we start: none given, ``gguf:FILE`` or ``hf:DIR``."""
    return target is None or not address.is_url(target)


def model_file(target: str | None) -> Path | None:
    """The GGUF, or the directory of a transformers model, that our own engine runs; None for a server."""
    if target is None:
        return embedded.bundled_model()
    prefix = next((prefix for prefix in ("gguf:", "hf:") if target.startswith(prefix)), None)
    return None if prefix is None else Path(target.removeprefix(prefix))


def known(target: str | None) -> None:
    """Refuse what cannot be a target, without a connection.

    Raises:
        UsageError: neither URL nor ``gguf:FILE`` nor ``hf:DIR``.
    """
    if target is not None and address.is_url(target):
        address.parse(target)
    elif model_file(target) is None or target in ("gguf:", "hf:"):
        raise UsageError(_unknown(target or ""))


def open_engine(target: str | None, connection: Connection) -> Engine:
    """Connect to a server or start our own engine.

    Raises:
        UsageError: a target that is neither URL nor ``gguf:FILE`` nor ``hf:DIR``.
        EngineError: it cannot be reached or started.
    """
    known(target)
    if is_ours(target):
        file = model_file(target)
        assert file is not None
        if target is not None and target.startswith("hf:"):
            return torch_local.start(_settings(file, connection), context=connection.context)
        return embedded.start(
            None if target is None else file,
            threads=connection.threads,
            context=connection.context,
            parallel=connection.parallel,
        )
    assert target is not None
    return openai.connect(
        target, model=connection.served_model, insecure=connection.insecure, stall_s=connection.stall_s
    )


def open_server(target: str | None, connection: Connection) -> OpenAIServer | EmbeddedEngine:
    """The same for what sends several requests at once, which a model in process does not take.

    Raises:
        UsageError: as ``open_engine``, or ``hf:DIR``.
        EngineError: it cannot be reached or started.
    """
    if target is not None and target.startswith("hf:"):
        raise UsageError(f"{target} would run one request at a time in process: serve it, and give its URL.")
    engine = open_engine(target, connection)
    assert isinstance(engine, OpenAIServer | EmbeddedEngine)
    return engine


def _settings(directory: Path, connection: Connection) -> Settings:
    return Settings(
        directory=str(directory),
        device=connection.device,
        dtype=connection.dtype,
        threads=connection.threads,
        random_weights=connection.random_weights,
    )


def _unknown(target: str) -> str:
    if target in ("gguf:", "hf:"):
        return f"{target!r} names no file: write gguf:FILE or hf:DIR."
    if target.endswith(".gguf"):
        return f"{target!r} is no target: write gguf:{target}."
    return (
        f"{target!r} is no target: give a URL (http://127.0.0.1:8000), gguf:FILE, hf:DIR, or nothing for the bundled "
        "model."
    )
