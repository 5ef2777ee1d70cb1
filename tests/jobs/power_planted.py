"""An engine in this process that really takes its planted times, and a GPU whose watts follow its phases."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isolate_fake import Fake

import nvml_fake
from phasewise.engines.base import Answer, Prompt

IDLE_W, PREFILL_W, DECODE_W = 75.0, 620.0, 260.0


@dataclass
class Powered(Fake):
    """Draws ``PREFILL_W`` until the first token and ``DECODE_W`` from then on."""

    load: nvml_fake.Load | None = None
    noise: float = 0.0
    delay: float = 0.0

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        assert self.load is not None
        self.now = time.perf_counter()
        answer = super().ask(prompt, max_tokens)
        self.load.run(answer.sent_at, answer.first_at - answer.sent_at, PREFILL_W)
        _until(answer.first_at)
        if answer.last_at > answer.first_at:
            self.load.run(answer.first_at, answer.ended_at - answer.first_at, DECODE_W)
        _until(answer.ended_at)
        return answer


def _until(at: float) -> None:
    while (left := at - time.perf_counter()) > 0:
        time.sleep(left)


def plant(folder: Path, monkeypatch: Any, **more: Any) -> Powered:
    """A GPU in ``folder`` that child processes see, and the engine that keeps it busy."""
    state, load = folder / "state.json", folder / "load"
    nvml_fake.write(state, nvml_fake.state(nvml_fake.gpu(load=str(load), idle_w=IDLE_W, **more)))
    for name, value in nvml_fake.environment(state).items():
        monkeypatch.setenv(name, value)
    return Powered(load=nvml_fake.Load(load, state), overhead=0.02, per_token=50e-6, step=8e-3)
