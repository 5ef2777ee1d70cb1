"""The seed's table beside the measured one, from a results.json: ``python table.py results.json``.

The seed is the text that phasewise grew from; its numbers are napkin math for Llama 3 8B in BF16 on an H100 SXM.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from plan import MODES

from phasewise.units import show

Point = dict[str, Any]

_SEED = {
    "prefill": "32.5 ms of math, 4.79 ms of reading",
    "prefill_mfu": "the yardstick of prefill",
    "decode": "4.87 ms of reading, 0.016 ms of math",
    "decode_mbu": "the yardstick of decode",
    "decode_mfu": "1% is normal",
    "attention_short": "4%",
    "attention_long": "38% at 32k",
    "crossover": "53,250 tokens",
    "batch": "9.8 ms",
    "gain": "×32",
    "gain_short": "×55",
    "prompts": "×4",
    "decode_share": "97%",
    "kernels": "hundreds",
    "launches": "one graph",
    "busy_prefill": "no gaps",
    "busy_decode": "gaps, without graphs",
    "sol_prefill_compute": "high",
    "sol_prefill_memory": "lower",
    "sol_decode_compute": "tiny",
    "sol_decode_memory": "high",
    "power_prefill": "near the limit",
    "power_decode": "",
    "utilisation": "100%",
}


class Row(NamedTuple):
    """One line: a number each, None where it was not measured; ``unit`` is that of all three."""

    key: str
    what: str
    unit: str
    predicted: float | None
    eager: float | None
    graphs: float | None


def rows(found: dict[str, Any]) -> list[Row]:
    """Every line of the table; ``found`` is what results.json holds, complete or not."""
    return [*_times(found), *_batches(found), *_profiles(found)]


def _times(found: dict[str, Any]) -> Iterator[Row]:
    plan, said = found["plan"], found["prediction"]
    prompt, longest, answer = plan["prompt"], plan["lengths"][-1], plan["answer"]

    def use(phase: str, yardstick: str) -> list[float | None]:
        return [(_at(found, phase, prompt, 1, mode) or {}).get(yardstick) for mode in MODES]

    yield Row(
        "prefill", f"prefill of {prompt:,} tokens", "s", said["prefill"]["time_s"], *_both(found, "prefill", prompt, 1)
    )
    yield Row("prefill_mfu", "its MFU", "1", None, *use("prefill", "mfu"))
    yield Row(
        "decode", f"decode step at {prompt:,} tokens", "s", said["decode"]["time_s"], *_both(found, "decode", prompt, 1)
    )
    yield Row("decode_mbu", "its MBU", "1", None, *use("decode", "mbu"))
    yield Row("decode_mfu", "its MFU", "1", None, *use("decode", "mfu"))
    fits = [_fit(found, mode) for mode in MODES]
    for key, length in (("attention_short", prompt), ("attention_long", longest)):
        floor = _floor(found, "prefill", length)
        shares = [fit and fit[2] * length**2 / (fit[0] + fit[1] * length + fit[2] * length**2) for fit in fits]
        yield Row(
            key, f"attention's part of prefill at {length:,}", "1", floor["attention_share"] if floor else None, *shares
        )
    crossings = [fit[1] / fit[2] if fit and fit[2] > 0 else None for fit in fits]
    yield Row("crossover", "attention equals the rest at", "token", said["attention_crossover_tokens"], *crossings)
    request = [
        (answer - 1) * step / (first + (answer - 1) * step) if first and step else None
        for first, step in zip(_both(found, "prefill", prompt, 1), _both(found, "decode", prompt, 1), strict=True)
    ]
    yield Row(
        "decode_share",
        f"decode's part of {prompt:,} in, {answer:,} out",
        "1",
        said["request"]["decode_share"],
        *request,
    )


def _batches(found: dict[str, Any]) -> Iterator[Row]:
    plan, said = found["plan"], found["prediction"]
    prompt, short, batch, prompts = plan["prompt"], plan["short"], plan["batches"][-1], plan["prompts"]
    row = next(one for one in said["batch"] if one["batch"] == batch)
    yield Row(
        "batch",
        f"decode, batch {batch} at {prompt:,} tokens",
        "s",
        row["step_s"],
        *_both(found, "decode", prompt, batch),
    )

    def gains(context: int) -> list[float | None]:
        return [
            batch * one / many if one and many else None
            for one, many in zip(
                _both(found, "decode", context, 1), _both(found, "decode", context, batch), strict=True
            )
        ]

    yield Row("gain", f"throughput of batch {batch} over 1", "x", row["throughput_gain"], *gains(prompt))
    one, many = (_floor(found, "decode", short, n) for n in (1, batch))
    floor = batch * one["time_s"] / many["time_s"] if one and many else None
    yield Row("gain_short", f"the same at {short:,} tokens", "x", floor, *gains(short))
    ratios = [
        together / alone if alone and together else None
        for alone, together in zip(
            _both(found, "prefill", prompt, 1), _both(found, "prefill", prompt, prompts), strict=True
        )
    ]
    yield Row("prompts", f"{prompts} prompts at once over 1", "x", said["prefill_batch"].get(str(prompts)), *ratios)


def _profiles(found: dict[str, Any]) -> Iterator[Row]:
    traces, power = found.get("traces", {}), found.get("power", {})
    prefill, eager, graphs = (traces.get(name, {}) for name in ("prefill", "decode", "decode_graphs"))
    yield Row(
        "kernels", "kernels of a decode step", "", None, *(one.get("kernels_per_step") for one in (eager, graphs))
    )
    launches = [one["graph_launches"] / one["steps"] if one.get("steps") else None for one in (eager, graphs)]
    yield Row("launches", "graph launches of a decode step", "", None, *launches)
    yield Row("busy_prefill", "prefill, time in which a kernel ran", "1", None, prefill.get("busy_fraction"), None)
    yield Row("busy_decode", "decode, the same", "1", None, *(one.get("busy_fraction") for one in (eager, graphs)))
    for phase in ("prefill", "decode"):
        light = found.get("counters", {}).get(phase, {})
        for name in ("compute", "memory"):
            yield Row(f"sol_{phase}_{name}", f"{phase}, Speed Of Light {name}", "1", None, light.get(name), None)
    limit = found["machine"].get("power_limit_w")
    for phase in ("prefill", "decode"):
        watts = power.get(phase, {}).get("power.draw")
        share = watts / limit["value"] if watts and limit else None
        best = (share, None) if phase == "prefill" else (None, share)
        yield Row(f"power_{phase}", f"{phase}, power over the limit", "1", None, *best)
    busy = power.get("decode", {}).get("utilization.gpu")
    yield Row("utilisation", "decode, utilisation by nvidia-smi", "1", None, None, None if busy is None else busy / 100)


def _at(found: dict[str, Any], phase: str, tokens: int, batch: int, mode: str | None = None) -> Point | None:
    wanted = (phase, tokens, batch)
    points: list[Point] = found["points"]
    there = [p for p in points if (p["phase"], p["tokens"], p["batch"]) == wanted and mode in (None, p["mode"])]
    return there[0] if there else None


def _both(found: dict[str, Any], phase: str, tokens: int, batch: int) -> list[float | None]:
    """Seconds, eager and with graphs."""
    points = [_at(found, phase, tokens, batch, mode) for mode in MODES]
    return [point["seconds"]["value"] if point else None for point in points]


def _floor(found: dict[str, Any], phase: str, tokens: int, batch: int = 1) -> Point | None:
    point = _at(found, phase, tokens, batch)
    return next(iter(point["predicted"].values())) if point else None


def _fit(found: dict[str, Any], mode: str) -> tuple[float, float, float] | None:
    """Seconds of a compute-bound prefill as a + b·N + c·N², by relative errors; None with fewer than four lengths."""
    points = [one for one in found["points"] if one["phase"] == "prefill" and one["batch"] == 1 and one["mode"] == mode]
    points = [one for one in points if next(iter(one["predicted"].values()))["bound"] == "compute"]
    if len(points) < 4:
        return None
    lengths = np.array([float(one["tokens"]) for one in points])
    seconds = np.array([one["seconds"]["value"] for one in points])
    design = np.stack((np.ones_like(lengths), lengths, lengths**2), axis=1) / seconds[:, None]
    a, b, c = (float(x) for x in np.linalg.lstsq(design, np.ones_like(seconds), rcond=None)[0])
    return (a, b, c) if b > 0 and c > 0 else None


def text(found: dict[str, Any]) -> str:
    """The table in Markdown; "–" where nothing was measured."""
    seed = found["plan"]["shape"] == "llama-3-8b"
    lines = ["| | the seed, on an H100 | predicted here | eager | CUDA graphs |", "|---|---|---|---|---|"]
    for row in rows(found):
        cells = [_SEED[row.key] if seed else "", *(_shown(x, row.unit) for x in (row.predicted, row.eager, row.graphs))]
        lines.append(f"| {row.what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit in ("x", ""):
        return f"{'×' if unit else ''}{value:,.1f}"
    return show(value, unit)


if __name__ == "__main__":
    print(text(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
