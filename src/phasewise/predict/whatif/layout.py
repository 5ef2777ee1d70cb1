"""``tp=2``, ``pp=2``, ``ep=8``, ``dp-attention=8``: the model over other devices."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from phasewise.errors import UsageError
from phasewise.predict.parallel.layout import MOST, check, layout
from phasewise.predict.whatif.change import Change, Changed, Refused, unless_same, whole
from phasewise.predict.whatif.setup import Setup


def _change(name: str, field: str, example: str) -> Change:
    return Change(name, example, _apply(name, field, example))


def _apply(name: str, field: str, example: str) -> Callable[[str, Setup], Changed]:
    def apply(value: str, setup: Setup) -> Changed:
        now = setup.layout
        parts = {"tp": now.tp, "dp": now.dp, "ep": now.ep, "pp": now.pp}
        wanted = whole(name, value, example=example, most=MOST)
        unless_same(parts[field] == wanted, f"{name} is {wanted}")
        try:
            changed = layout(**{**parts, field: wanted}, head=now.head)
            check(setup.model, changed)
            after = msgspec.structs.replace(setup, layout=changed)
            _ = after.spread.own
        except UsageError as mistake:
            raise Refused(str(mistake).rstrip(".")) from None
        if changed.devices > 1 and setup.link is None:
            return Changed(after, ("no link is known, so communication is not counted: give --link",))
        return Changed(after)

    return apply


TP = _change("tp", "tp", "2")
PP = _change("pp", "pp", "2")
EP = _change("ep", "ep", "8")
DP_ATTENTION = _change("dp-attention", "dp", "8")
