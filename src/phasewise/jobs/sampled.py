"""Power beside a run: what is sampled while it is measured, and its join to the phases."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from phasewise.engines import address
from phasewise.errors import UsageError
from phasewise.hardware.power.sampler import Sampler, Telemetry
from phasewise.isolate.rows import Row
from phasewise.jobs import rows
from phasewise.jobs.target import is_ours
from phasewise.judge.power.power import Joined, judge
from phasewise.judge.power.windows import Span
from phasewise.observe.telemetry.series import Series, of_readings
from phasewise.record.machine import Machine
from phasewise.record.power import Power

ROWS = "telemetry.parquet"

BEFORE_S, AFTER_S = 2.0, 2.0
"""Idle time that is waited for where power can be read: clocks and averages take a second to come down."""

BOUNDARY = (
    "Prefill: from the sending of a request for one token to that token; decode: from the first token to the end of "
    "the answer; both as the client saw them, requests that only warmed up left out."
)

_REMOTE = "the server runs on another machine: name its DCGM exporter with --exporter http://HOST:9400/metrics"
_OFF = "it was not asked for (--no-power)"


class Beside:
    """Sampling beside a run; a block ends it in any case. Nothing of it fails the run.

    Args:
        target: what is measured; meters of this machine are read only where it runs here.
        exporter: DCGM exporter to read instead, none when empty.
        wanted: False reads nothing.

    Raises:
        UsageError: an exporter was named and shows no power.
    """

    def __init__(self, target: str | None, exporter: str = "", *, wanted: bool = True) -> None:
        self._why = _OFF if not wanted else "" if exporter or _is_here(target) else _REMOTE
        self._sampler = None if self._why else Sampler(exporter)
        self._read: Telemetry | None = None
        if exporter and self._sampler is not None and not self._sampler.devices:
            why = "; ".join(self._sampler.stop().why_not.values())
            self.__exit__()
            raise UsageError(f"--exporter {exporter[:80]}: {why}.")

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *error: object) -> None:
        if self._sampler is not None:
            self._sampler.__exit__(None, None, None)

    def before(self) -> None:
        """Let the machine idle before the first request, where that is measured."""
        if self._sampler is not None and self._sampler.devices:
            time.sleep(BEFORE_S)

    def after(self) -> None:
        """The same after the last one; all is measured then, so Ctrl-C only ends the waiting."""
        if self._sampler is not None and self._sampler.devices:
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(AFTER_S)

    def power(self, joined: Joined, machine: Machine | None) -> Power:
        """What was read, joined to what ran on the clock of perf_counter()."""
        if self._sampler is None:
            return Power(missing={"run": self._why})
        self._read = self._sampler.stop()
        series = _of_kind(of_readings(self._read.devices, self._read.readings), machine)
        if not series:
            return Power(missing={"run": why_nothing(self._read.why_not)})
        if not joined.spans:
            return Power(missing={"run": "no request was measured"})
        how = f"{_meters(series)} read every {self._read.every_s * 1e3:.0f} ms by a process of its own"
        power = judge(series, joined, provenance="measured", how=f"{how}; {self._read.ended}".rstrip("; ") + ".")
        return msgspec.structs.replace(power, rows=ROWS if power.devices else "")

    def write(self, folder: Path, began: float) -> None:
        """Keep every reading beside the run, its time from the same zero as the requests'.

        Raises:
            OSError: it cannot be written.
        """
        if self._read is not None:
            moved = [msgspec.structs.replace(one, at=one.at - began) for one in self._read.readings]
            rows.write(moved, folder / ROWS)


def of_requests(found: Sequence[Row], zero: float) -> Joined:
    """The requests of a run as spans, on a clock on which their times' zero is ``zero``."""
    spans = [span for row in found if not row.warmup and (span := _span(row, zero)) is not None]
    busy = tuple((zero + row.sent_at_s, zero + row.ended_at_s) for row in found)
    return Joined(spans=tuple(spans), busy=busy, boundary=BOUNDARY)


def why_nothing(why_not: dict[str, str]) -> str:
    """One sentence on why no power can be read here, with the cure."""
    reasons = "; ".join(f"{name}: {why}" for name, why in why_not.items())
    return f"no power can be read on this machine ({reasons})"


def _span(row: Row, zero: float) -> Span | None:
    first = zero + row.sent_at_s + row.ttft_s
    if row.phase == "prefill":
        return Span("prefill", zero + row.sent_at_s, first, row.prompt_tokens - (row.cached_tokens or 0))
    if row.phase == "decode" and row.tpot_s is not None:
        return Span("decode", first, zero + row.ended_at_s, max(0, row.completion_tokens - 1))
    return None


def _of_kind(series: tuple[Series, ...], machine: Machine | None) -> tuple[Series, ...]:
    """Those of the kind of device that runs the model; CPUs where nothing else is there."""
    on_cpu = machine is not None and machine.kind == "cpu"
    own = tuple(one for one in series if (one.device.kind == "cpu") == on_cpu or one.device.kind == "chip")
    return own or (series if machine is None else ())


def _meters(series: tuple[Series, ...]) -> str:
    return " and ".join(dict.fromkeys(one.device.meter for one in series))


def _is_here(target: str | None) -> bool:
    if is_ours(target):
        return True
    host = address.parse(target or "").host
    return host in ("localhost", "::1") or host.startswith("127.")
