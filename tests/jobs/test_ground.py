"""What runs where: what a server does not say of its devices is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phasewise.jobs.ground import what_runs
from phasewise.jobs.subject import Subject
from phasewise.jobs.target import Connection
from phasewise.record.target import Target


@pytest.mark.parametrize(
    ("engine", "devices", "told"), [("llama.cpp", 2, True), ("llama.cpp", 1, False), ("vLLM", 2, False)]
)
def test_devices_of_a_llama_cpp_server_may_take_turns(engine: str, devices: int, told: bool) -> None:
    subject = Subject(model="llama-3-8b", on="h100-sxm", devices=devices)
    made: Any = SimpleNamespace(
        target=Target(name="http://x", engine=engine, served_model="m", prompting="token_ids", endpoint="/")
    )
    found = what_runs("http://x", Connection(), subject.load_model(), subject.load_machine(), made, lambda d, f: None)
    assert found.machine is not None
    said = [note for note in found.machine.notes if "take turns" in note]
    assert bool(said) == told
    if told:
        assert "1/2 at most. --devices 1" in said[0]
