"""What an Nsight Systems export says of its recording: version, clock, devices, graph mode, sampled metrics, losses."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from phasewise.engines.text import clean
from phasewise.observe.traces.events import Counters, Device, Fault
from phasewise.observe.traces.readers.nsys_base import TIME_LIMIT, Advance, Base
from phasewise.observe.traces.tables import Names, table

METRICS = "GPU_METRICS"
_EXPORTS = ("META_DATA_EXPORT", "EXPORT_META_DATA")
"""Older exports (3.1) turn the words around."""

_MILLI = 1000
_LOSS = re.compile(r"not all .*collected|\blost\b|dropp|discard|truncat|overflow|incomplete", re.IGNORECASE)
_NO_CUDA = re.compile(r"no cuda events|cuda profiling might have not", re.IGNORECASE)
"""Said of each process that used no CUDA: a loss only where none did."""

_WARNING, _ERROR = 2, 3


def schema(base: Base) -> str:
    """The export's schema version, "" when it does not say."""
    return _export(base).get("EXPORT_SCHEMA_VERSION", "")


def origin(base: Base) -> int:
    """Unix time in ns of the export's zero; 0 when it does not say.

    ``nsys export --ts-normalize`` writes Unix times, and ``--ts-shift`` adds to all times: both stand in the export.
    """
    export = _export(base)
    shift = export.get("EXPORT_PARAM_TIME_SHIFT", "0")
    shifted = int(shift) if re.fullmatch(r"-?\d{1,18}", shift) else 0
    if export.get("EXPORT_PARAM_TIME_NORMALIZE", "").lower() == "true":
        return -shifted
    if not base.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        return 0
    found = base.rows("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1")
    return found[0][0] - shifted if found and isinstance(found[0][0], int) and 0 < found[0][0] < 2**62 else 0


def _export(base: Base) -> dict[str, str]:
    name = next((one for one in _EXPORTS if base.has(one, "name", "value")), None)
    return {} if name is None else {str(key): str(value) for key, value in base.rows(f"SELECT name, value FROM {name}")}


def graph_mode(base: Base, replays: int, in_graphs: int) -> str:
    """``graph`` (a replay is one row) or ``node`` (its kernels are rows): by the rows, else by what was asked for."""
    if replays or in_graphs:
        return "graph" if replays else "node"
    if not base.has("META_DATA_CAPTURE", "name", "value"):
        return ""
    asked = base.rows("SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%CUDA_GRAPH_TRACE_OPTIONS:MODE' LIMIT 1")
    mode = str(asked[0][0]).lower() if asked else ""
    return mode if mode in ("graph", "node") else ""


def devices(base: Base, seen: Iterable[int]) -> tuple[Device, ...]:
    """The GPUs that were used, ``seen``; without a word of the file about one, its number alone."""
    info = "TARGET_INFO_GPU"
    known: dict[int, Device] = {}
    if base.has(info, "id", "name"):
        counts, rate = base.value(info, "smCount", 0), base.value(info, "memoryBandwidth", 0)
        for one, name, multiprocessors, bandwidth in base.rows(f"SELECT id, name, {counts}, {rate} FROM {info}"):
            if isinstance(one, int):
                known[one] = Device(one, str(name or ""), int(multiprocessors), float(bandwidth))
    wanted = [int(one) for one in seen] or sorted(known)
    return tuple(known.get(one, Device(one, "")) for one in wanted)


def counters(base: Base, names: Names, advance: Advance) -> Counters:
    """Samples of GPU metrics under their names, unit included (``SMs Active [Throughput %]``)."""
    if not base.has(METRICS, "timestamp", "typeId", "metricId", "value"):
        return table(Counters)
    columns = {
        "time": "timestamp",
        "type": base.value(METRICS, "typeId", 0),
        "metric": base.value(METRICS, "metricId", -1),
        "value": f"CAST(value * {_MILLI} AS INTEGER)",
    }
    where = f"timestamp <= {TIME_LIMIT} AND typeof(value) IN ('integer', 'real')"
    got = base.integers(METRICS, columns, where, advance)
    titles = _titles(base)
    pairs, inverse = np.unique(np.stack((got["type"], got["metric"])), axis=1, return_inverse=True)
    index = [names(titles.get((int(kind), int(metric)), f"metric {int(metric)}")) for kind, metric in pairs.T]
    return table(
        Counters,
        {
            "time": got["time"],
            "name": np.array(index or [0], np.int32)[inverse],
            "device": got["type"] & 0xFF,
            "value": got["value"] / _MILLI,
        },
    )


def _titles(base: Base) -> dict[tuple[int, int], str]:
    if not base.has("TARGET_INFO_GPU_METRICS", "metricId", "metricName", "typeId"):
        return {}
    rows = base.rows("SELECT typeId, metricId, metricName FROM TARGET_INFO_GPU_METRICS")
    return {(kind, metric): str(name) for kind, metric, name in rows}


def losses(base: Base, cuda: bool) -> tuple[Fault, ...]:
    """Warnings and errors of the profiler itself that say that events are missing; ``cuda``: it recorded kernels."""
    if not base.has("DIAGNOSTIC_EVENT", "severity", "text"):
        return ()
    rows = base.rows(f"SELECT text FROM DIAGNOSTIC_EVENT WHERE severity IN ({_WARNING}, {_ERROR}) LIMIT 10000")
    said = dict.fromkeys(clean(str(text)) for (text,) in rows)
    lost = [text for text in said if _LOSS.search(text) or (not cuda and _NO_CUDA.search(text))]
    return tuple(Fault("missing", f"the profiler said: {text}") for text in lost)
