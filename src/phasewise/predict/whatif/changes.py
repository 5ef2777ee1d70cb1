"""The list of changes, and how they are written: ``weights=int4,kv=fp8``. A new one is a file here and a name below."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.errors import UsageError
from phasewise.predict.whatif.accelerator import ACCELERATOR
from phasewise.predict.whatif.batch import BATCH
from phasewise.predict.whatif.change import Change
from phasewise.predict.whatif.chunk import CHUNK
from phasewise.predict.whatif.draft import DRAFT
from phasewise.predict.whatif.graphs import GRAPHS
from phasewise.predict.whatif.kv import KV
from phasewise.predict.whatif.layout import DP_ATTENTION, EP, PP, TP
from phasewise.predict.whatif.link import LINK
from phasewise.predict.whatif.prefix_hit import PREFIX_HIT
from phasewise.predict.whatif.weights import WEIGHTS

CHANGES = (ACCELERATOR, WEIGHTS, KV, TP, DP_ATTENTION, EP, PP, LINK, BATCH, PREFIX_HIT, CHUNK, DRAFT, GRAPHS)
"""Every change, in the order in which several are made together, whatever the order they are written in."""


def read(written: Iterable[str]) -> tuple[tuple[Change, str], ...]:
    """The changes of ``--what-if``, each with its value, in the order in which they are written.

    Raises:
        UsageError: one that is not known, or without a value.
    """
    named = {change.name: change for change in CHANGES}
    found = []
    for item in (part.strip() for text in written for part in text.split(",")):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in named or not value:
            examples = ", ".join(f"{change.name}={change.example}" for change in CHANGES)
            raise UsageError(f"--what-if {item[:60]!r} is no change that can be made: write one of {examples}.")
        found.append((named[name], value))
    return tuple(found)
