"""Which caps a power sweep sets on which cards, and what the cards had before and after."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from phasewise.engines import address
from phasewise.errors import UsageError
from phasewise.hardware.power.base import Unreadable
from phasewise.hardware.power.guard_child import Now
from phasewise.hardware.power.held import Back
from phasewise.hardware.power.limits import Card, Denied, Limits
from phasewise.record.power_sweep import Held
from phasewise.record.quantity import Quantity, reported


def chosen(cards: Sequence[Card], asked: Sequence[int] | None, steps: int) -> tuple[int, ...]:
    """The caps to set, mW, from the highest down: those asked for, else ``steps`` from the limit found to the least.

    A limit above the one found is set only when it was asked for: somebody may have had a reason.

    Raises:
        UsageError: outside what the cards allow, or nothing lies below the limit found.
    """
    least, most = max(card.least for card in cards), min(card.most for card in cards)
    if asked is not None:
        for cap in asked:
            if not least <= cap <= most:
                said = f"{least / 1000:g} to {most / 1000:g} W"
                raise UsageError(f"--caps {cap / 1000:g}W is outside what the driver allows here, which is {said}.")
        return tuple(sorted(set(asked), reverse=True))
    top = min(card.limit for card in cards)
    if top <= least:
        raise UsageError(
            f"the limit already stands at {top / 1000:g} W, the least that is allowed: give --caps, up to "
            f"{most / 1000:g} W."
        )
    found = [top - (top - least) * step / (steps - 1) for step in range(steps)]
    whole = {min(top, max(least, round(cap / 1000) * 1000)) for cap in found[1:-1]}
    return tuple(sorted({top, least} | whole, reverse=True))


def cards(gpus: str | None) -> tuple[Card, ...]:
    """The cards of ``gpus`` (``--gpus``: indices or UUIDs, or ``all``), or the only one; nothing but read.

    Raises:
        UsageError: none answers, one is not there or is split by MIG, or there are several and none was named.
    """
    names = None if gpus in (None, "all") else [part.strip() for part in gpus.split(",") if part.strip()]
    if names == []:
        raise UsageError(f"--gpus {gpus!r} names no card: write 0,1 or all.")
    try:
        limits = Limits(names)
        try:
            limits.refuse_slices()
        finally:
            limits.close()
    except Unreadable as why:
        raise UsageError(f"no power limit can be read here: {why}.") from None
    except Denied as why:
        raise UsageError(str(why)) from None
    if gpus is None and len(limits.cards) > 1:
        raise UsageError(
            f"this machine has {len(limits.cards)} GPUs, and the limit of one that is somebody else's is not touched: "
            "name those of the server with --gpus 0,1, or --gpus all."
        )
    return limits.cards


def here(target: str | None) -> None:
    """The limits of this machine's cards say something only about an engine on it.

    Raises:
        UsageError: the server's address is no address of this machine.
    """
    if target is None or not address.is_url(target):
        return
    host = address.parse(target).host
    try:
        where = {found[4][0] for found in socket.getaddrinfo(host, None)}
    except OSError:
        return  # the connection will say so
    if not any(_ours(str(one)) for one in where):
        raise UsageError(f"{host} is not this machine, whose power limits do nothing to it: run this where it runs.")


def _ours(ip: str) -> bool:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind((ip, 0))
        except OSError:
            return False
    return True


def ignored(cap: int, now: Sequence[Now]) -> str:
    """Why a cap that was set did not come about at all; empty when it did, or the driver took another one."""
    for one in now:
        if one.limit == one.met != cap:
            return (
                f"{one.card} kept {one.limit / 1000:g} W although {cap / 1000:g} W was set: the driver takes no limit."
            )
    return ""


def disturbed(now: Sequence[Now]) -> str:
    """What somebody else did to the limits since our last order; empty when nobody did anything."""
    for one in now:
        if one.met != one.ours:
            was = f"{one.ours / 1000:g} W to {one.met / 1000:g} W"
            return f"somebody else changed the limit of {one.card} from {was} meanwhile"
    return ""


def held(cards: Sequence[Card], restored: Sequence[Back] | None) -> tuple[Held, ...]:
    """The cards as they were found, and as they were left."""
    after = {back.card.uuid: back for back in restored or ()}
    return tuple(_held(card, after.get(card.uuid)) for card in cards)


def _held(card: Card, back: Back | None) -> Held:
    now, met = (back.now, back.met) if back else (None, None)
    trouble = back.trouble if back else f"{card}: that its limit was put back could not be read; see nvidia-smi."
    return Held(
        name=str(card),
        found=_watts(card.limit, "read before anything was set"),
        least=_watts(card.least, "allowed range"),
        most=_watts(card.most, "allowed range"),
        met=None if met is None else _watts(met, "read right before it was put back"),
        restored=None if now is None else _watts(now, "read back after it was put back"),
        trouble=trouble,
    )


def _watts(milliwatts: int, source: str) -> Quantity:
    return reported(milliwatts / 1000, "W", f"NVML, {source}")
