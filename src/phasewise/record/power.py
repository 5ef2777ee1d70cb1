"""Section of power: what each phase drew, beside what was measured or from a monitor's files."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.observation import Check
from phasewise.record.quantity import Quantity

PowerPhase = Literal["prefill", "decode", "mixed", "busy", "all"]
"""``mixed``: both at once: steps of both kinds, a prompt among running decodes. Of a load ``all`` is every request from
its sending to its end; of a file that is joined to nothing the whole of it, and ``busy`` what was at least half
utilised."""


class Metered(msgspec.Struct, frozen=True, kw_only=True):
    """A device whose power was read.

    Attributes:
        index: as its driver counts.
        name: as its driver calls it.
        uuid: of its driver; empty when unknown.
        by: the meter, or the form of the file.
        watts_are: what its watts mean.
        counter: its energy counter, empty when it has none.
        limit_w: enforced power limit, median; None when unknown.
        file: the file that it is from; empty for a meter.
        every_s: median time from one reading to the next.
        fresh_s: median time from one new value to the next, which a driver or exporter may hold longer.
        notes: sentences a reader must know.
    """

    index: int
    name: str
    by: str
    uuid: str = ""
    watts_are: str = ""
    counter: str = ""
    limit_w: Quantity | None = None
    file: str = ""
    every_s: float
    fresh_s: float
    notes: tuple[str, ...] = ()


class DevicePower(msgspec.Struct, frozen=True, kw_only=True):
    """One device in one phase; None is what it does not say.

    Attributes:
        watts: mean over the windows, by time.
        p95: of its readings in them.
        share: of its enforced limit.
        sm_hz: clock of the multiprocessors, median.
        memory_hz: clock of the memory, median.
        celsius: highest.
        utilisation: mean part of time in which any kernel was resident.
        capped: mean part of time in which the power limit held the clock down.
        hot: the same for heat.
        slowed: the same for the board.
    """

    watts: Quantity
    p95: Quantity | None = None
    share: Quantity | None = None
    sm_hz: Quantity | None = None
    memory_hz: Quantity | None = None
    celsius: Quantity | None = None
    utilisation: Quantity | None = None
    capped: Quantity | None = None
    hot: Quantity | None = None
    slowed: Quantity | None = None


class PhasePower(msgspec.Struct, frozen=True, kw_only=True):
    """What a phase drew, all its devices together.

    Attributes:
        phase: which.
        windows: stretches that were measured, repeats merged.
        requests: requests (steps of a trace) in them.
        seconds: their length.
        busy: part of it in which a request (step) of the phase ran; the rest lies between merged repeats.
        left_out: windows that were too short or not covered, and why, a sentence; empty when none was.
        readings: in the windows, of the device with the fewest.
        watts: mean, by time, its interval over the windows.
        p95: of all devices together.
        share: of the sum of the enforced limits; None without them.
        joules: energy, by the counter where it can be, else the integral.
        counted: by the energy counters; None without.
        sampled: trapezoid over the readings; None where there are only counters.
        differ: counted over sampled, less 1; None without both.
        doubted: they differ by more than both can be right; then the readings count.
        net: energy above idle; None without an idle baseline.
        tokens: prompt tokens computed (prefill), tokens made (decode).
        per_token: joules per such a token; None without tokens.
        net_per_token: the same above idle.
        devices: in the order of ``Power.devices``.
        text: what the power of this phase says, one sentence.
        notes: what a reader must know.
    """

    phase: PowerPhase
    windows: int
    requests: int
    seconds: float
    busy: float
    left_out: str = ""
    readings: int
    watts: Quantity
    p95: Quantity | None = None
    share: Quantity | None = None
    joules: Quantity
    counted: Quantity | None = None
    sampled: Quantity | None = None
    differ: float | None = None
    doubted: bool = False
    net: Quantity | None = None
    tokens: int | None = None
    per_token: Quantity | None = None
    net_per_token: Quantity | None = None
    devices: tuple[DevicePower, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()


class BatchPower(msgspec.Struct, frozen=True, kw_only=True):
    """Decode at one batch, in steady state.

    Attributes:
        batch: requests that decoded together.
        prompt_tokens: of each, by the server's count.
        figures: None when no window could be measured.
        why_null: why, a sentence.
    """

    batch: int
    prompt_tokens: int
    figures: PhasePower | None = None
    why_null: str = ""


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """What the devices drew while no request ran, all together.

    Attributes:
        watts: what is taken off for the net figures; None when there was no idle time.
        before: right before the first request.
        after: after the last.
        why_null: why there is none.
    """

    watts: Quantity | None = None
    before: Quantity | None = None
    after: Quantity | None = None
    why_null: str = ""


class PowerPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point of the picture: seconds since the first request (a file's own zero), watts of each device."""

    at_s: float
    watts: tuple[float | None, ...]


class PowerBand(msgspec.Struct, frozen=True, kw_only=True):
    """A window on the picture."""

    phase: PowerPhase
    begin_s: float
    end_s: float


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """Power of a run.

    Attributes:
        devices: those of the run.
        phases: those that could be measured.
        batches: decode by batch, where batches were held one at a time; by prompt length, then batch.
        missing: why there is no power at all, or none of a phase, by phase (``run`` for all).
        idle: the baseline.
        boundary: what begins and ends a phase, one sentence.
        how: who read the power and how often, one sentence.
        checks: what voids or casts doubt on the figures; those of a profile stand in its observation too.
        notes: sentences a reader must know.
        points, bands: for the picture, thinned out.
        rows: file beside the run that holds every reading; empty when there is none.
    """

    devices: tuple[Metered, ...] = ()
    phases: dict[PowerPhase, PhasePower] = {}
    batches: tuple[BatchPower, ...] = ()
    missing: dict[str, str] = {}
    idle: Idle = Idle()
    boundary: str = ""
    how: str = ""
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    points: tuple[PowerPoint, ...] = ()
    bands: tuple[PowerBand, ...] = ()
    rows: str = ""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A telemetry file that is joined to nothing: its name, its form, and what it holds."""

    name: str
    form: str
    power: Power


class Recordings(msgspec.Struct, frozen=True, kw_only=True):
    """Telemetry files side by side, and the checks that speak of them all."""

    files: tuple[Recording, ...]
    checks: tuple[Check, ...]


class MeterState(msgspec.Struct, frozen=True, kw_only=True):
    """A meter of this machine: whether it can be read, and why not, with the cure."""

    name: str
    readable: bool
    why_not: str = ""


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What can be read here, and what was read just now."""

    meters: tuple[MeterState, ...]
    seconds: float
    power: Power
