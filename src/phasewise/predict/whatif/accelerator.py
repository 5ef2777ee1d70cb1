"""``accelerator=h200-sxm``: the same number of another accelerator."""

from __future__ import annotations

import msgspec

from phasewise.hardware import catalogue
from phasewise.predict.parallel import link
from phasewise.predict.whatif.change import Change, Changed, unless_same
from phasewise.predict.whatif.setup import Setup


def _apply(value: str, setup: Setup) -> Changed:
    row = catalogue.find(value)
    unless_same(
        row.name == setup.machine.name and setup.machine.ceilings[0].basis == "datasheet", f"it runs on {value}"
    )
    machine = catalogue.machine(row, setup.machine.devices)
    changed = msgspec.structs.replace(setup, machine=machine, link=link.of(machine) or setup.link)
    notes = []
    basis = setup.roof.basis
    if basis != "datasheet":
        notes.append(f"datasheet ceilings of {row.name} against {basis} ones before")
    if changed.roof.dtype != setup.roof.dtype:
        notes.append(f"matmuls run in {changed.roof.dtype} there, not in {setup.roof.dtype}")
    return Changed(changed, tuple(notes))


ACCELERATOR = Change("accelerator", "h200-sxm", _apply)
