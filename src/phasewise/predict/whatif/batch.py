"""``batch=32``: more requests in a decode step."""

from __future__ import annotations

import msgspec

from phasewise.predict.whatif.change import Change, Changed, unless_same, whole
from phasewise.predict.whatif.setup import Setup


def _apply(value: str, setup: Setup) -> Changed:
    batch = whole("batch", value, example="32")
    unless_same(batch == setup.batch, f"the batch is {batch}")
    return Changed(msgspec.structs.replace(setup, batch=batch))


BATCH = Change("batch", "32", _apply)
