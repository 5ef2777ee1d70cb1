"""What a run leaves behind: results.json with every number, notes.md to read; both written anew after every point."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import table

from phasewise.units import show


class Notes:
    """The results of one run, kept in ``folder`` as they come, so that a run that is stopped has lost nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, Any] = {"status": "partial", "left_out": [], "points": []}

    def left_out(self, what: str, why: str) -> None:
        """Say what was not measured, and why."""
        self.found["left_out"].append(f"{what}: {why}")
        print(f"left out: {what}: {why}", flush=True)

    def save(self) -> None:
        """Write both files."""
        _written(self.folder / "results.json", msgspec.json.format(msgspec.json.encode(self.found)))
        _written(self.folder / "notes.md", self.text().encode())

    def text(self) -> str:
        """The notes in Markdown."""
        found = self.found
        card = found["card"]
        name = card.get("name") or (found["machine"]["name"] if "machine" in found else card["device"])
        parts = [f"# {found['plan']['shape']} on {name}", f"{found['began']}, {found['status']}.", _facts(card)]
        if "machine" in found:
            parts += ["## Ceilings", _ceilings(found["machine"])]
        if "prediction" in found:
            parts += ["## The seed's table", table.text(found), "## Points", _points(found["points"])]
        for title, key in (("Traces", "traces"), ("Counters", "counters"), ("Power", "power")):
            if found.get(key):
                parts += [f"## {title}", _listed(found[key])]
        if "transformers" in found:
            parts += ["## transformers, by phasewise.instrument(model).profile()", "\n".join(found["transformers"])]
        if found["left_out"]:
            parts += ["## Left out", "\n".join(f"- {line}" for line in found["left_out"])]
        return "\n\n".join(parts) + "\n"


def _facts(card: dict[str, Any]) -> str:
    plain = {key: value for key, value in card.items() if key not in ("clocks", "versions", "nvidia_smi")}
    lines = [f"- {key}: {value}" for key, value in (plain | card.get("nvidia_smi", {}) | card["versions"]).items()]
    clocks = f"\n\n```\n{card['clocks']}\n```" if card.get("clocks") else ""
    return "\n".join(lines) + clocks


def _ceilings(machine: dict[str, Any]) -> str:
    lines = ["| basis | what | rate |", "|---|---|---|"]
    for one in machine["ceilings"]:
        rates = {**one["compute"], "read": one["bandwidth"], "copy": one.get("copy_bandwidth")}
        lines += [
            f"| {one['basis']} | {name} | {show(rate['value'], rate['unit'])} |" for name, rate in rates.items() if rate
        ]
    return "\n".join([*lines, "", *(f"{one['how']}" for one in machine["ceilings"] if one.get("how"))])


def _points(points: list[dict[str, Any]]) -> str:
    lines = [
        "| phase | tokens | batch | mode | time | floor | MFU | MBU | passes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in points:
        floor = next(iter(one["predicted"].values()))["time_s"]
        shares = " | ".join("–" if one[name] is None else f"{one[name]:.1%}" for name in ("mfu", "mbu"))
        times = f"{show(one['seconds']['value'], 's')} | {show(floor, 's')}"
        place = f"{one['phase']} | {one['tokens']:,} | {one['batch']} | {one['mode']}"
        lines.append(f"| {place} | {times} | {shares} | {one['passes']} |")
    return "\n".join(lines)


def _listed(found: dict[str, Any]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in found.items())


def _written(path: Path, data: bytes) -> None:
    aside = path.with_name(f".{path.name}")
    aside.write_bytes(data)
    os.replace(aside, path)
