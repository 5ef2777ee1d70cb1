"""Setups that the what-if tests start from."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from phasewise.hardware import catalogue
from phasewise.model.load import load
from phasewise.predict.parallel import link
from phasewise.predict.whatif.changes import read
from phasewise.predict.whatif.setup import Setup
from phasewise.predict.whatif.whatif import what_if
from phasewise.record.whatif import Trial, WhatIf

LLAMA = partial(load, "llama-3-8b")


def setup(accelerator: str = "h100-sxm", **fields: Any) -> Setup:
    """Llama 3 8B in bf16, 2,000 tokens in, 300 out, alone."""
    machine = catalogue.machine(catalogue.find(accelerator))
    plain = Setup(variant=LLAMA, machine=machine, prompt=2000, answer=300, batch=1, link=link.of(machine))
    return msgspec.structs.replace(plain, **fields)


def tried(*changes: str, on: Setup | None = None) -> WhatIf:
    return what_if(on or setup(), read(changes))


def alone(change: str, on: Setup | None = None) -> Trial:
    (trial,) = tried(change, on=on).trials
    return trial
