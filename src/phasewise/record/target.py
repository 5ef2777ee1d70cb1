"""Section of engines/: what was measured and what it can do."""

from __future__ import annotations

from typing import Literal

import msgspec

Prompting = Literal["token_ids", "text", "chat"]


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """One thing the probe asked for, and what it saw.

    ``present`` is None when it could not be told.
    """

    name: str
    present: bool | None
    detail: str


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """One thing the server says of itself: ``key`` (e.g. ``"model"``, ``"parameters"``), ``value`` and ``where``."""

    key: str
    value: str
    where: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a run talked to.

    Attributes:
        name: as the user wrote it, without secrets (URL without credentials, ``gguf:FILE``, ``embedded``).
        engine: what it says or shows that it is: ``llama.cpp``, ``vLLM``, ``SGLang``, ``unknown``, ...
        served_model: the model name sent with each request.
        prompting: how prompts are sent.
        endpoint: path of the requests.
        max_context: tokens of prompt and answer that it takes, when known.
        capabilities: the probe's findings, in the order they were asked.
        reported: what the server says of itself.
        contradictions: sentences, one per place where what it says and what the user said differ.
        settings: what we chose for an engine that we started ourselves (threads, prompt cache off, ...).
    """

    name: str
    engine: str
    served_model: str
    prompting: Prompting
    endpoint: str
    max_context: int | None = None
    capabilities: tuple[Capability, ...] = ()
    reported: tuple[Reported, ...] = ()
    contradictions: tuple[str, ...] = ()
    settings: dict[str, str] = {}
