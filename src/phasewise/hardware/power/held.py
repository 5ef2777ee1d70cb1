"""The limits that were found before a sweep changed them, on disk, so that not even the end of the guard loses them.

They lie in ``$XDG_STATE_HOME/phasewise/power-limits.json``; where that is not set, under ``/var/lib`` for root and
``~/.local/state`` for others. A lock beside the file says whether a guard lives that will put them back.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from phasewise.errors import InputError
from phasewise.hardware.power.base import Unreadable
from phasewise.hardware.power.limits import Card, Denied, Limits

PATIENCE_S = 5.0
"""How long a driver that fails is asked again to take a limit back."""

_AGAIN_S = 0.1
_LARGEST = 1 << 20


class Busy(Exception):
    """A guard lives: the limits are in its hands."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds: the cards as they were found, and the start of the machine that they were found in."""

    version: Literal[1] = 1
    boot: str
    cards: tuple[Card, ...]


class Back(msgspec.Struct, frozen=True, kw_only=True):
    """How one card's limit was put back.

    Attributes:
        card: as it was found before; its limit is the one to put back.
        met: limit that it had, mW; None when it could not be read.
        now: what the driver says since, mW; None when it could not be read.
        trouble: why it is not back, one sentence with the cure; empty when it is.
    """

    card: Card
    met: int | None
    now: int | None
    trouble: str = ""


def file() -> Path:
    """Where it is."""
    home = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):
        home = "/var/lib" if os.geteuid() == 0 else os.path.expanduser("~/.local/state")
    return Path(home) / "phasewise" / "power-limits.json"


@contextmanager
def lock() -> Iterator[None]:
    """Be the only one that changes limits, until the block or the process ends.

    Raises:
        Busy: another one is.
        OSError: the folder cannot be written to.
    """
    path = file()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not removed at the end: another process may already wait with the file open.
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy from None
        yield
    finally:
        os.close(descriptor)


def keep(cards: tuple[Card, ...]) -> None:
    """Write what was found; it is on disk, not only in the system's memory, when this returns.

    Raises:
        OSError: it cannot be written.
    """
    path = file()
    partial = path.with_suffix(".partial")
    with partial.open("wb") as opened:
        opened.write(msgspec.json.encode(Held(boot=_boot(), cards=cards)))
        opened.flush()
        os.fsync(opened.fileno())
    partial.replace(path)
    _sync(path.parent)


def forget() -> None:
    """Remove it: every limit is back."""
    with suppress(OSError):
        file().unlink()
        _sync(file().parent)


def put_back(limits: Limits, cards: tuple[Card, ...], patience_s: float = PATIENCE_S) -> tuple[Back, ...]:
    """Set the limit of each of ``cards`` to what it was and read it back, again while the driver fails.

    The file goes away once all are back, and stays otherwise.
    """
    until = time.monotonic() + patience_s
    met = {card.uuid: _read(limits, card) for card in cards}
    while True:
        done = tuple(_put(limits, card, met[card.uuid]) for card in cards)
        if not any(back.trouble for back in done):
            forget()
            return done
        if time.monotonic() > until:
            return done
        time.sleep(_AGAIN_S)


def left_over() -> Held | None:
    """What a guard that was killed has left; None when there is nothing to put back.

    Raises:
        InputError: the file is damaged.
    """
    path = file()
    try:
        with path.open("rb") as opened:
            data = opened.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): it says which power limits to restore.") from None
    try:
        return msgspec.json.decode(data, type=Held)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is damaged ({error}): compare each GPU's limit (`nvidia-smi -q -d POWER`) with what it should be, "
            "then remove the file."
        ) from None


def recover() -> tuple[Back, ...]:
    """Put back what a guard that was killed has left; empty when there is nothing.

    Raises:
        Busy: the guard lives.
        InputError: the file is damaged or cannot be reached.
    """
    if not file().exists():
        return ()
    try:
        with lock():
            return recover_locked()
    except OSError as error:
        raise InputError(f"{file()} cannot be locked ({error.strerror}): restore the power limits as root.") from None


def recover_locked() -> tuple[Back, ...]:
    """The same for the one who has the lock.

    A start of the machine undoes every limit that was set before it, ours and the one that was found: then nothing is
    set, for somebody may have set another since, and a card that has not what was found is told with how to set it.
    A card that is gone keeps no other from being put back.
    """
    held = left_over()
    if held is None:
        return ()
    if held.boot != _boot():
        since = tuple(_restarted(card) for card in held.cards)
        if all(back.now is not None for back in since):
            forget()
        return tuple(back for back in since if back.trouble)
    done = tuple(_recovered(card) for card in held.cards)
    if not any(back.trouble for back in done):
        forget()
    return done


def _recovered(card: Card) -> Back:
    return _reached(card, lambda limits: _put(limits, card, _read(limits, card)))


def _restarted(card: Card) -> Back:
    """A card whose machine has started since: only looked at."""

    def look(limits: Limits) -> Back:
        now = _read(limits, card)
        has = "a limit that cannot be read" if now is None else f"{now / 1000:g} W"
        trouble = (
            f"the machine has started since, which undid every limit: {card} had {card.limit / 1000:g} W before and "
            f"has {has}; to set the old one: {_cure(card)}."
        )
        return Back(card=card, met=now, now=now, trouble="" if now == card.limit else trouble)

    return _reached(card, look)


def _reached(card: Card, then: Callable[[Limits], Back]) -> Back:
    try:
        limits = Limits([card.uuid])
    except (Unreadable, Denied) as why:
        return Back(card=card, met=None, now=None, trouble=f"{card} cannot be reached: {str(why).rstrip('.')}.")
    try:
        return then(limits)
    finally:
        limits.close()


def _cure(card: Card) -> str:
    return f"sudo nvidia-smi -i {card.index} -pl {card.limit / 1000:g}"


def _put(limits: Limits, card: Card, met: int | None) -> Back:
    cure = _cure(card)
    try:
        now = limits.set(card, card.limit)
    except Denied as why:
        return Back(card=card, met=met, now=_read(limits, card), trouble=f"{str(why).rstrip('.')}; then: {cure}.")
    if now == card.limit:
        return Back(card=card, met=met, now=now)
    trouble = f"{card} has {now / 1000:g} W although {card.limit / 1000:g} W was set: {cure}."
    return Back(card=card, met=met, now=now, trouble=trouble)


def _read(limits: Limits, card: Card) -> int | None:
    try:
        return limits.read(card)
    except Denied:
        return None


def _boot() -> str:
    """Which start of the machine this is; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that knows no such thing
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
