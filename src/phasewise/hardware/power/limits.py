"""Power limits of NVIDIA cards, read and set through NVML, in whole milliwatts as NVML counts them.

Only the guard process (guard_child.py) and `phasewise power restore` (held.py) set one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from phasewise.hardware.power.base import Unreadable


class Denied(Exception):
    """A card whose limit must not or cannot be changed; the text is one sentence that names the card and the cure."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One card and its limits.

    Attributes:
        index: as NVML counts, which is the order of PCI addresses.
        uuid: of the card; this names it, as an index may move.
        name: as its driver calls it.
        limit: now, mW.
        least: of its allowed range, mW.
        most: of its allowed range, mW.
    """

    index: int
    uuid: str
    name: str
    limit: int
    least: int
    most: int

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.name})"


class Limits:
    """The cards of ``wanted`` (indices or UUIDs; None: every card of this machine), open until ``close()``.

    Raises:
        Unreadable: no package, no driver or no GPU.
        Denied: a card that is not there or has no limit that can be set.
    """

    def __init__(self, wanted: Sequence[str] | None = None) -> None:
        self._nvml = _started()
        try:
            self._handles: dict[str, Any] = {}
            self.cards = tuple(self._card(name) for name in self._names(wanted))
        except BaseException:
            self.close()
            raise

    def read(self, card: Card) -> int:
        """The limit of ``card`` now, mW.

        Raises:
            Denied: the driver does not tell.
        """
        return int(self._asked(card, "nvmlDeviceGetPowerManagementLimit"))

    def enforced(self, card: Card) -> int | None:
        """The least of all limits that hold now, mW: lower than the one that was set where the board has another."""
        with suppress(Denied):
            return int(self._asked(card, "nvmlDeviceGetEnforcedPowerLimit"))
        return None

    def set(self, card: Card, limit: int) -> int:
        """Set the limit of ``card`` and return what the driver then says it is, mW: it may be another.

        Raises:
            Denied: outside the allowed range, no permission, or the driver fails.
        """
        if not card.least <= limit <= card.most:
            raise Denied(f"{card} takes {card.least / 1000:g} to {card.most / 1000:g} W, not {limit / 1000:g} W.")
        self._asked(card, "nvmlDeviceSetPowerManagementLimit", limit)
        return self.read(card)

    def refuse_slices(self) -> None:
        """A limit of a card that is split by MIG is a limit of every slice.

        Raises:
            Denied: one of the cards is.
        """
        nvml = self._nvml
        for card in self.cards:
            try:
                modes = nvml.nvmlDeviceGetMigMode(self._handles[card.uuid])
            except nvml.NVMLError:
                continue  # no MIG on this card
            if nvml.NVML_DEVICE_MIG_ENABLE in modes:
                raise Denied(
                    f"{card} is split by MIG, and its limit holds for every slice, other people's too: leave "
                    "--set-limits away, or turn MIG off."
                )

    def close(self) -> None:
        """Let go of the driver."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _names(self, wanted: Sequence[str] | None) -> list[str]:
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise Unreadable(f"the NVIDIA driver shows no GPU ({error}): see nvidia-smi") from None
        if not count:
            raise Unreadable("the NVIDIA driver shows no GPU: start the container with --gpus all")
        return [str(index) for index in range(count)] if wanted is None else list(dict.fromkeys(wanted))

    def _card(self, name: str) -> Card:
        nvml = self._nvml
        try:
            if name.isascii() and name.isdigit():
                handle = nvml.nvmlDeviceGetHandleByIndex(int(name[:9]))
            else:
                handle = nvml.nvmlDeviceGetHandleByUUID(name.encode())
            index, uuid = int(nvml.nvmlDeviceGetIndex(handle)), _text(nvml.nvmlDeviceGetUUID(handle))
        except (nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotFound):
            raise Denied(f"there is no GPU {name[:60]!r}: `nvidia-smi -L` lists their indices and UUIDs.") from None
        except nvml.NVMLError as error:
            raise Denied(f"GPU {name[:60]} does not answer ({error}): see nvidia-smi.") from None
        card = Card(index=index, uuid=uuid, name=_text(nvml.nvmlDeviceGetName(handle)), limit=0, least=0, most=0)
        self._handles[uuid] = handle
        least, most = self._asked(card, "nvmlDeviceGetPowerManagementLimitConstraints")
        return msgspec.structs.replace(card, limit=self.read(card), least=int(least), most=int(most))

    def _asked(self, card: Card, function: str, *more: Any) -> Any:
        nvml = self._nvml
        try:
            return getattr(nvml, function)(self._handles[card.uuid], *more)
        except nvml.NVMLError_NoPermission:
            raise Denied(
                f"{card}: a power limit is set by root only: start it with sudo (in a container, as root with the "
                "capability SYS_ADMIN), or leave --set-limits away."
            ) from None
        except nvml.NVMLError_NotSupported:
            raise Denied(f"{card} has no power limit that can be set: leave --set-limits away.") from None
        except nvml.NVMLError as error:
            raise Denied(f"{card}: the driver fails ({error}): see nvidia-smi.") from None


def _started() -> Any:
    try:
        import pynvml
    except ImportError:
        raise Unreadable(
            "the package that reads NVIDIA GPUs is not installed: pip install 'phasewise[nvidia]'"
        ) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unreadable(
            f"no NVIDIA driver answers ({error}): load it, and start a container with --gpus all"
        ) from None
    return pynvml


def _text(name: Any) -> str:
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return "".join(c for c in text if c.isprintable())
