"""``prefix-hit=0.8``: that part of the prompt is cached, so that only the rest is computed."""

from __future__ import annotations

import msgspec

from phasewise.predict.whatif.change import Change, Changed, Refused, fraction
from phasewise.predict.whatif.setup import Setup


def _apply(value: str, setup: Setup) -> Changed:
    hit = fraction("prefix-hit", value, example="0.8")
    # The last token is computed in any case: its logits give the first one of the answer.
    cached = min(int(hit * setup.prompt), setup.prompt - 1)
    if cached <= setup.cached:
        raise Refused(f"of {setup.prompt:,} tokens no more than now would be cached")
    computed = f"{setup.prompt - cached:,} of {setup.prompt:,} prompt tokens are computed"
    return Changed(msgspec.structs.replace(setup, cached=cached), (computed,))


PREFIX_HIT = Change("prefix-hit", "0.8", _apply)
