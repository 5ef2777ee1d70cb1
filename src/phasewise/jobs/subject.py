"""What runs where, from the flags: a model and a machine, or the reason why one of them is unknown."""

from __future__ import annotations

import msgspec

from phasewise.errors import UsageError
from phasewise.hardware import catalogue, ceilings, detect
from phasewise.model.load import load
from phasewise.model.model import Model
from phasewise.record.machine import Machine
from phasewise.units import parse

THIS = "this"
"""Value of --on that means the machine phasewise runs on, judged against its measured ceilings."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that say what runs where, as the user wrote them.

    ``image`` is the size of an image in each prompt (``HEIGHTxWIDTH``, pixels), ``skew`` how unevenly a mixture's
    experts are chosen (see docs/physics.md).
    """

    model: str | None = None
    on: str | None = None
    devices: int = 1
    weights: str | None = None
    kv: str | None = None
    peak: str | None = None
    bandwidth: str | None = None
    image: str | None = None
    skew: float = 0.0

    def load_model(self) -> Model | None:
        """The model, or None when --model was not given."""
        if self.model is None:
            if self.weights or self.kv:
                raise UsageError("--weights and --kv say how a model is stored: name the model with --model.")
            return None
        return load(self.model, weights=self.weights, kv=self.kv, image=_size(self.image), skew=self.skew)

    def load_machine(self, progress: ceilings.Progress | None = None) -> Machine | None:
        """The machine, or None when neither --on nor --peak with --bandwidth was given."""
        peak = parse(self.peak, "FLOP/s") if self.peak else None
        bandwidth = parse(self.bandwidth, "B/s") if self.bandwidth else None
        machine = self._machine(progress)
        if machine is None and (peak is None or bandwidth is None):
            if peak or bandwidth:
                raise UsageError("--peak and --bandwidth override an accelerator: give both, or name it with --on.")
            return None
        return catalogue.with_overrides(
            machine or Machine(name="stated by flags", kind="unknown", devices=self.devices), peak, bandwidth
        )

    def _machine(self, progress: ceilings.Progress | None) -> Machine | None:
        if self.on is None:
            return None
        if self.on.lower() != THIS:
            return catalogue.machine(catalogue.find(self.on), self.devices)
        here = msgspec.structs.replace(detect.this_machine(), devices=self.devices)
        return ceilings.with_measured(here, progress)


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    height, times, width = text.lower().partition("x")
    # Ten digits would be an image of gigapixels a side.
    if times and all(side.isascii() and side.isdigit() and 0 < len(side) < 6 and int(side) for side in (height, width)):
        return int(height), int(width)
    raise UsageError(f"--image {text!r} is no size in pixels: write HEIGHTxWIDTH, for example 1024x768.")
