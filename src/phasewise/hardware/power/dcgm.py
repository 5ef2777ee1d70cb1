"""NVIDIA GPUs of any machine through a DCGM exporter: its page of metrics in Prometheus' text form."""

from __future__ import annotations

import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from phasewise.hardware.power.base import MEAN_S, Device, Reading, Unreadable, held

NAME = "DCGM exporter"

_LIMIT_S, _LARGEST = 5.0, 16 << 20

FIELDS: dict[str, tuple[str, float]] = {
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": ("watts", 1.0),
    "DCGM_FI_DEV_POWER_USAGE": ("watts", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("joules", 1e-3),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_hz", 1e6),
    "DCGM_FI_DEV_MEM_CLOCK": ("memory_hz", 1e6),
    "DCGM_FI_DEV_GPU_TEMP": ("celsius", 1.0),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("limit_w", 1.0),
    "DCGM_FI_DEV_GPU_UTIL": ("utilisation", 0.01),
}
"""DCGM's names (dcgm_fields.h), the field of a reading that each fills, and the factor to SI; of two for one field the
first counts. Newer exporters also say BOARD_POWER_WATTS and so on: see ``_ALIASES``."""

_ALIASES = {
    "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS": "DCGM_FI_DEV_POWER_USAGE_INSTANT",
    "DCGM_FI_DEV_BOARD_POWER_WATTS": "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": "DCGM_FI_DEV_GPU_TEMP",
}

REASONS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
"""NVML's bits."""

_SAMPLE = re.compile(r"^(DCGM_[A-Z0-9_]+?)(?:_total)?\{([^\n]*)\}[ \t]+(\S+)(?:[ \t]+(-?\d+))?[ \t]*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    """One line of an exporter's page: the GPU's index, UUID and name, DCGM's field, its value, Unix time or None."""

    gpu: int
    uuid: str
    model: str
    field: str
    value: float
    at: float | None


def open_meter(url: str = "") -> DcgmMeter:
    """Every GPU of the exporter at ``url``.

    Raises:
        Unreadable: no URL, nothing answers there, or no GPU's power on its page.
    """
    if not url:
        raise Unreadable("no exporter was named: --exporter http://HOST:9400/metrics")
    if not url.startswith(("http://", "https://")):
        raise Unreadable(f"{url[:80]!r} is no page of an exporter: write http://HOST:9400/metrics")
    return DcgmMeter(url)


class DcgmMeter:
    """An exporter, read over HTTP; its values are as fresh as its own interval (30 s unless it was set)."""

    def __init__(self, url: str) -> None:
        self._url = url
        found = self._page()
        self._gpus = sorted({(one.gpu, one.uuid) for one in found if _reads(one.field) == "watts"})
        if not self._gpus:
            raise Unreadable(f"{NAME} shows no GPU's power: let it collect DCGM_FI_DEV_POWER_USAGE")
        models = {(one.gpu, one.uuid): one.model for one in found}
        counted = {(one.gpu, one.uuid) for one in found if _reads(one.field) == "joules"}
        self.devices = tuple(
            Device(
                index=gpu,
                name=models[gpu, uuid] or "NVIDIA GPU",
                uuid=uuid,
                meter=NAME,
                watts_are="as DCGM last collected them",
                averages_s=averages_s(found),
                counter="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" if (gpu, uuid) in counted else "",
            )
            for gpu, uuid in self._gpus
        )

    def read(self) -> list[Reading]:
        """One reading of each GPU, stamped when the page was asked for; none when it does not answer."""
        at = time.perf_counter()
        try:
            return readings(self._page(), self._gpus, at)
        except Unreadable:
            return []

    def close(self) -> None:
        """Nothing is held."""

    def _page(self) -> list[Sample]:
        try:
            with urllib.request.urlopen(self._url, timeout=_LIMIT_S) as answer:
                return list(samples(answer.read(_LARGEST).decode(errors="replace")))
        except (OSError, ValueError, urllib.error.URLError) as error:
            why = " ".join(str(getattr(error, "reason", error)).split())[:120]
            raise Unreadable(f"the exporter does not answer ({why}): name its page, http://HOST:9400/metrics") from None


def samples(text: str) -> Iterator[Sample]:
    """Every sample of a GPU on a page of an exporter; other lines are passed over."""
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if not found:
            continue
        labels = dict(_LABEL.findall(found[2]))
        try:
            gpu, value = int(labels.get("gpu", "")), float(found[3])
        except ValueError:
            continue
        if not math.isfinite(value) or "GPU_I_ID" in labels:  # a slice: the card's own line holds its power
            continue
        name = _ALIASES.get(found[1], found[1])
        at = None if found[4] is None else int(found[4]) / 1e3
        yield Sample(gpu, labels.get("UUID", ""), labels.get("modelName", ""), name, value, at)


def readings(found: list[Sample], gpus: list[tuple[int, str]], at: float) -> list[Reading]:
    """The samples of one page as readings of ``gpus``, all at ``at``."""
    values: dict[tuple[int, str], dict[str, float]] = {gpu: {} for gpu in gpus}
    order = [*FIELDS, *REASONS]
    for one in sorted((s for s in found if s.field in order), key=lambda s: order.index(s.field)):
        kept = values.get((one.gpu, one.uuid))
        if kept is None:
            continue
        if one.field in REASONS:
            kept |= held(int(one.value))
        else:
            name, factor = FIELDS[one.field]
            kept.setdefault(name, one.value * factor)
    return [Reading(at=at, device=i, **values[gpu]) for i, gpu in enumerate(gpus) if values[gpu]]


def averages_s(found: Iterable[Sample]) -> float:
    """What the watts of these samples are a mean of, seconds."""
    return 0.0 if any(one.field == "DCGM_FI_DEV_POWER_USAGE_INSTANT" for one in found) else MEAN_S


def _reads(field: str) -> str:
    return FIELDS.get(field, ("", 1.0))[0]
