"""Records of a trace as parts of a document: numbers as what the trace reported, nulls with their reasons."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import Quantity, reported
from phasewise.report.json.leaves import Missing
from phasewise.units import Unit

_INDEX = ("rank", "device", "world")
"""Numbers that name a thing: they have no unit, and come from nowhere but the file."""

_WHY: dict[str, str] = {
    "requests": "no annotation says",
    "tokens": "no annotation says",
    "context": "no annotation says",
    "squares": "no annotation says",
    "products": "no annotation says",
    "prefill": "no annotation names its prompts",
    "decode": "no annotation names its generations",
    "host_s": "nothing on the CPU marks it",
    "between_s": "it takes two steps",
    "per_step": "no step was found",
    "kernels_per_step": "no step was found",
    "median_kernel_s": "no kernel is listed",
    "median_s": "no launch call was recorded",
    "delay_s": "no kernel could be led back to its launch call",
    "graphs_would_save_s": "it runs in graphs, or has no gaps to close",
    "rank": "the file does not say",
    "world": "the file does not say",
    "speed_of_light": "not measured: no counters were collected",
    **dict.fromkeys(
        ("compute", "memory", "dram", "waves", "dram_bytes", "dram_bandwidth", "occupancy", "sm_clock", "duration_s"),
        "not measured: not collected",
    ),
}
"""Why a field of a trace is null, by its name, where the record does not say so itself."""


def fields(record: msgspec.Struct, missing: dict[str, str], *names: str) -> dict[str, object]:
    """The fields of ``record`` (all, or those of ``names``), numbers as what the trace reported.

    A null has the reason that ``missing`` gives for its name, else a general one.
    """
    return {name: _value(getattr(record, name), name, missing) for name in names or record.__struct_fields__}


def _value(value: object, name: str, missing: dict[str, str]) -> object:
    if value is None:
        return Missing(missing.get(name) or _WHY.get(name, "the trace does not hold it"))
    if isinstance(value, (Quantity, bool, str)) or name in _INDEX:
        return value
    if isinstance(value, msgspec.Struct):
        return fields(value, missing)
    if isinstance(value, tuple):
        return [_value(item, name, missing) for item in value]
    if isinstance(value, (int, float)):
        return reported(value, _unit(name), "the trace")
    return value


def _unit(name: str) -> Unit:
    if name.endswith("_s"):
        return "s"
    known: dict[str, Unit] = {
        "requests": "request",
        "tokens": "token",
        "context": "token",
        "dram_bytes": "B",
        "dram_bandwidth": "B/s",
        "sm_clock": "Hz",
    }
    return known.get(name, "1")
