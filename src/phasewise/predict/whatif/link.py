"""``link=NVLink4``, ``link=64GB/s``: another link between the devices."""

from __future__ import annotations

import msgspec

from phasewise.predict.parallel.link import stated
from phasewise.predict.whatif.change import Change, Changed, Refused, unless_same
from phasewise.predict.whatif.setup import Setup


def _apply(value: str, setup: Setup) -> Changed:
    link = stated(value, setup.machine)
    if setup.layout.devices == 1:
        raise Refused("one device talks to nobody")
    unless_same(setup.link == link, f"they are joined by {link.name}")
    return Changed(msgspec.structs.replace(setup, link=link))


LINK = Change("link", "NVLink4", _apply)
