"""The guard: the only process that changes limits during a sweep, and that puts them back however the sweep ends.

``python -m phasewise.hardware.power.guard_child PARENT GPU,...`` finds the limits, writes them to disk, says so, and
takes orders on standard input. When that ends, for any reason, SIGKILL of its parent among them, it puts the limits
back, reads them back, tells and exits. A terminal's Ctrl-C, SIGTERM and SIGHUP do not end it.

An order is a limit in milliwatts for all its cards, or 0 for a look at what they have; a line each. An answer is a line
of JSON.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from phasewise.errors import InputError
from phasewise.hardware.power import held
from phasewise.hardware.power.base import Unreadable
from phasewise.hardware.power.limits import Card, Denied, Limits

_LOOK_S = 0.2
"""Between two looks at the parent. A child of it may have inherited its end of our input, which then does not end."""


class Refused(msgspec.Struct, tag="refused", frozen=True):
    """Nothing was changed by this order, or not all of it; ``why`` is one sentence."""

    why: str


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """The limits are held, in this process and on disk. ``recovered`` are those of a sweep that was killed before."""

    cards: tuple[Card, ...]
    recovered: tuple[held.Back, ...]


class Now(msgspec.Struct, tag="now", frozen=True, kw_only=True):
    """One card after an order.

    Attributes:
        card: as found.
        ours: limit that it had after our last order, mW.
        met: limit that it had before this one, mW; another than ``ours`` was set by somebody else.
        limit: what the driver says now, mW.
        enforced: the least of all limits that hold now, mW; None when it does not say.
    """

    card: Card
    ours: int
    met: int
    limit: int
    enforced: int | None


class Cards(msgspec.Struct, tag="cards", frozen=True):
    """The answer to an order; ``order`` repeats which, counted from 1."""

    order: int
    cards: tuple[Now, ...]
    trouble: str = ""


class Restored(msgspec.Struct, tag="restored", frozen=True):
    """The last word."""

    cards: tuple[held.Back, ...]


Said = Refused | Ready | Cards | Restored


def main(parent: int, gpus: str) -> int:
    """Guard until standard input ends; 0 when every limit is back."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    try:
        with held.lock():
            return _guarded(parent, gpus.split(",") if gpus else None)
    except held.Busy:
        _say(Refused("another sweep holds the power limits of this machine: wait until it ends."))
    except OSError as error:
        _say(Refused(f"{held.file()} cannot be written ({error.strerror}), and no limit is changed without it."))
    except (InputError, Unreadable, Denied) as why:
        _say(Refused(str(why)))
    return 2


def _guarded(parent: int, wanted: list[str] | None) -> int:
    recovered = held.recover_locked()
    for back in recovered:
        if back.trouble:
            raise Denied(f"an earlier sweep was killed, and its limit is not back: {back.trouble}")
    limits = Limits(wanted)
    try:
        limits.refuse_slices()
        cards = limits.cards
        held.keep(cards)
        _see_whether_we_may(limits)
        try:
            _say(Ready(cards, recovered))
            _obey(limits, parent)
        finally:
            done = held.put_back(limits, cards)
            _say(Restored(done))
    finally:
        limits.close()
    return 3 if any(back.trouble for back in done) else 0


def _see_whether_we_may(limits: Limits) -> None:
    """Set each limit to what it is, which changes nothing."""
    try:
        for card in limits.cards:
            limits.set(card, card.limit)
    except Denied:
        held.forget()
        raise


def _obey(limits: Limits, parent: int) -> None:
    ours = {card.uuid: card.limit for card in limits.cards}
    for number, order in enumerate(_orders(parent), 1):
        done: list[Now] = []
        trouble = ""
        try:
            for card in limits.cards:
                met = limits.read(card)
                limit = limits.set(card, order) if order else met
                done.append(Now(card=card, ours=ours[card.uuid], met=met, limit=limit, enforced=limits.enforced(card)))
                if order:
                    ours[card.uuid] = limit
        except Denied as why:
            trouble = str(why)
        _say(Cards(number, tuple(done), trouble))


def _orders(parent: int) -> Iterator[int]:
    """Each order, until input ends or the parent is gone."""
    waiting = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], _LOOK_S)[0]:
            continue
        read = os.read(0, 4096)
        if not read:
            return
        *lines, waiting = (waiting + read).split(b"\n")
        yield from map(int, lines)


def _say(message: Said) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(1, msgspec.json.encode(message) + b"\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
