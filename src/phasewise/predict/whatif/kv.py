"""``kv=fp8``: the KV cache in another format."""

from __future__ import annotations

import msgspec

from phasewise.predict.whatif.change import Change, Changed, Refused, unless_same
from phasewise.predict.whatif.setup import Setup


def _apply(value: str, setup: Setup) -> Changed:
    changed = msgspec.structs.replace(setup, kv=value)
    before, after = setup.model, changed.model
    unless_same(after.kv_element_bytes == before.kv_element_bytes, f"the KV cache is in {before.kv_format}")
    if not before.kv_bytes_per_token:
        raise Refused("the model has no KV cache")
    return Changed(changed)


KV = Change("kv", "fp8", _apply)
