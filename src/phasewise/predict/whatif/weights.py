"""``weights=int4``: the weights in another format."""

from __future__ import annotations

import msgspec

from phasewise.predict.whatif.change import Change, Changed, unless_same
from phasewise.predict.whatif.setup import Setup


def _apply(value: str, setup: Setup) -> Changed:
    before = setup.model
    changed = msgspec.structs.replace(setup, weights=value)
    after = changed.model
    unless_same(after.weight_bytes == before.weight_bytes, f"the weights are in {before.weights_format}")
    was, now = setup.roof.dtype, changed.roof.dtype
    if was != now:
        return Changed(changed, (f"matmuls run in {now}, no longer in {was}",))
    if after.resident_bytes < before.resident_bytes:
        return Changed(changed, (f"matmuls still run in {now}, so math takes as long",))
    return Changed(changed)


WEIGHTS = Change("weights", "int4", _apply)
