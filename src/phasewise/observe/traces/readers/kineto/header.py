"""What a Kineto trace says about itself beside its events."""

from __future__ import annotations

import ast
from typing import Any

from phasewise.observe.traces.events import NOT_SAID, Device, Fault, Source

FORM = "Kineto JSON"

_ENGINES = ("vllm", "sglang", "tensorrt_llm")


def source(path: str, header: dict[str, Any], faults: tuple[Fault, ...]) -> Source:
    """The file, by its own word; what is missing or odd is left unsaid."""
    distributed = header.get("distributedInfo")
    told: dict[str, Any] = distributed if isinstance(distributed, dict) else {}
    return Source(
        path=path,
        form=FORM,
        rank=whole(told.get("rank"), NOT_SAID),
        world=whole(told.get("world_size"), 0),
        devices=_devices(header.get("deviceProperties")),
        engine=next(
            (f"{name} {text(header[f'{name}_version'])}" for name in _ENGINES if f"{name}_version" in header), ""
        ),
        faults=faults,
    )


def whole(value: Any, unsaid: int) -> int:
    """``value`` as an integer of 64 bits, else ``unsaid``."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return unsaid
    return number if abs(number) < 1 << 63 else unsaid


def text(value: Any) -> str:
    """``value`` as text that can be written as UTF-8; "" for None."""
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _devices(told: Any) -> tuple[Device, ...]:
    """One per entry; some writers put the Python text of the list into a string."""
    if isinstance(told, str):
        try:
            told = ast.literal_eval(told)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return ()
    if not isinstance(told, list):
        return ()
    return tuple(
        Device(whole(one.get("id"), place), text(one.get("name")), whole(one.get("numSms"), 0))
        for place, one in enumerate(told)
        if isinstance(one, dict)
    )
