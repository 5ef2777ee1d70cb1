"""Programs that measure nothing but say what a test plants, and the stages that run them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phasewise.hardware import ceilings
from phasewise.hardware.stages import Stage

PROGRAM = """
import json, os, signal, sys, time
task = json.loads(sys.argv[1])
if task.get("crash_without") and task["crash_without"] not in os.environ:
    os.kill(os.getpid(), signal.SIGILL)
time.sleep(task.get("sleep", 0))
for line in task.get("lines", []):
    print(line if isinstance(line, str) else json.dumps(line), flush=True)
if "dies" in task:
    sys.exit(task["dies"])
"""


def round_of(quantity: str, rate: float, cpu_share: float = 1.0) -> dict[str, object]:
    return {"type": "round", "quantity": quantity, "rate": rate, "detail": "planted", "cpu_share": cpu_share}


def end(**more: object) -> dict[str, object]:
    return {"type": "end", "by": "a test", **more}


def stage(share: float = 1.0, environments: tuple[dict[str, str], ...] | None = None, **arguments: object) -> Stage:
    lines = arguments.get("lines", [])
    assert isinstance(lines, list)
    return Stage(
        label="planted matmuls",
        program="planted_program",
        arguments=arguments,
        environments=environments or (dict(os.environ),),
        share=share,
        rounds=max(1, len(lines) - 1),
        where=", 2 threads",
    )


def plant(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make the program importable for children."""
    (folder / "planted_program.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def plant_stages(monkeypatch: pytest.MonkeyPatch, *planted: Stage) -> None:
    """Let these stages measure every machine."""
    monkeypatch.setattr(ceilings, "stages", lambda machine: list(planted))
