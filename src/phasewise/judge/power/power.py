"""Power per phase: telemetry joined to what ran when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import msgspec
import numpy as np

from phasewise.judge.power.checks import phase_checks, run_checks
from phasewise.judge.power.figures import Metering, limit_of, metering, phase_power
from phasewise.judge.power.idle import idle
from phasewise.judge.power.windows import Chosen, Span, Window, chosen, inside, least, merged, union
from phasewise.judge.power.words import text
from phasewise.observe.telemetry.series import Series
from phasewise.record.observation import Check
from phasewise.record.power import BatchPower, Idle, Metered, PhasePower, Power, PowerBand, PowerPhase, PowerPoint
from phasewise.record.quantity import Provenance, Quantity
from phasewise.units import show

_MOST_POINTS, _MOST_BANDS = 600, 400

_BUSY, _RISE = 0.1, 1.15
"""A device took part where its utilisation rose by so much, or its power by this factor, over what it was before."""

_LOOK_S, _CLEAR_S = 10.0, 0.05


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """What ran when, on the clock of the series.

    Attributes:
        spans: every request or step that a figure may use.
        busy: begin and end of everything that ran at all, warm-up among it: idle is what lies outside.
        boundary: what begins and ends a phase, one sentence.
        answers: of whole requests the part of their tokens that answers are; 0 where they are not told apart.
        expected: phases that are said to be missing where none of their spans is there.
        fewest: windows of a phase below which nothing is said of it; `all` needs one.
    """

    spans: tuple[Span, ...]
    busy: tuple[tuple[float, float], ...]
    boundary: str
    answers: float = 0.0
    expected: tuple[PowerPhase, ...] = ()
    fewest: int = 1


def judge(
    series: Sequence[Series],
    joined: Joined,
    *,
    provenance: Provenance,
    how: str,
    files: Sequence[str] = (),
    every: bool = False,
) -> Power:
    """Power of each phase of ``joined`` over the devices of ``series`` that took part in it, or ``every`` one.

    ``files`` names the file of each series, where they come from files.
    """
    devices = [metering(one, provenance) for one in series]
    named = dict(zip(map(id, series), files or [""] * len(series), strict=True))
    sources = {id(device): named[id(one)] for device, one in zip(devices, series, strict=True)}
    first = min(begin for begin, _ in joined.busy)
    last = max(end for _, end in joined.busy)
    took, notes = (devices, []) if every else _took_part(devices, joined, first)
    if not took:
        why = (
            "no device was busier while requests ran than before: is this the machine that served, and does its clock "
            "agree with the run's (--offset, --zone)?"
        )
        return Power(missing={"run": why}, how=how, boundary=joined.boundary)
    baseline = idle([device.series for device in took], first, last, provenance)
    phases, checks, missing = _phases(took, joined, baseline)
    checks += list(run_checks(phases, took, joined.busy))
    notes += [*_answers(phases, joined), *_attributed(phases, joined)]
    return Power(
        devices=tuple(_metered(device, sources[id(device)], provenance) for device in took),
        phases=phases,
        batches=_batches(took, joined, baseline),
        missing=missing,
        idle=baseline,
        boundary=joined.boundary,
        how=how,
        checks=tuple(checks),
        notes=tuple(notes),
        points=_points(took, first, last),
        bands=_bands(joined.spans, first),
    )


def _phases(
    devices: list[Metering], joined: Joined, baseline: Idle
) -> tuple[dict[PowerPhase, PhasePower], list[Check], dict[str, str]]:
    phases: dict[PowerPhase, PhasePower] = {}
    kept: dict[PowerPhase, Chosen] = {}
    missing: dict[str, str] = {}
    for phase in get_args(PowerPhase):
        spans = [span for span in joined.spans if span.phase == phase]
        if not spans:
            if phase in joined.expected:
                missing[phase] = "it was not seen by itself."
            continue
        windows, found = _chosen(spans, devices, joined)
        fewest = 1 if phase == "all" else joined.fewest
        if len(found.windows) < fewest:
            short = f"{len(found.windows)} of the {fewest} windows that it takes. " if found.windows else ""
            missing[phase] = f"{short}{found.left_out} {_cure(windows, devices)}".strip()
            continue
        kept[phase], phases[phase] = found, _figures(phase, found, devices, baseline)
    # What lies in another phase, or is the same rows with idle ones between them, is not checked twice.
    whole = "all" in phases and "busy" not in phases
    checked = [phase for phase in phases if (phase == "all") == whole]
    checks = [check for phase in checked for check in phase_checks(phases[phase], kept[phase].windows, devices)]
    return phases, checks, missing


def _batches(devices: list[Metering], joined: Joined, baseline: Idle) -> tuple[BatchPower, ...]:
    """Decode by batch, of the spans that tell it."""
    cells = {span.cell for span in joined.spans if span.cell is not None}
    found = []
    for batch, prompt in sorted(cells, key=lambda cell: (cell[1], cell[0])):
        spans = [span for span in joined.spans if span.cell == (batch, prompt)]
        _, kept = _chosen(spans, devices, joined)
        figures = _figures("decode", kept, devices, baseline) if kept.windows else None
        why = "" if figures else kept.left_out
        found.append(BatchPower(batch=batch, prompt_tokens=prompt, figures=figures, why_null=why))
    return tuple(found)


def _chosen(spans: Sequence[Span], devices: list[Metering], joined: Joined) -> tuple[tuple[Window, ...], Chosen]:
    """The windows of spans of one phase, and those of them that every device measures."""
    shortest = max(_least(device) for device in devices)
    windows = merged(spans, shortest, [begin for begin, _ in joined.busy])
    return windows, chosen(windows, shortest, lambda window: all(device.measures(window) for device in devices))


def _figures(phase: PowerPhase, found: Chosen, devices: list[Metering], baseline: Idle) -> PhasePower:
    figures = phase_power(phase, found, devices, baseline.watts.value if baseline.watts else None)
    return msgspec.structs.replace(figures, text=text(figures))


def _answers(phases: dict[PowerPhase, PhasePower], joined: Joined) -> list[str]:
    """What others call joules per output token: everything over the tokens of the answers alone."""
    whole = phases.get("all")
    if not joined.answers or whole is None or whole.per_token is None:
        return []
    each = show(whole.per_token.value / joined.answers, "J/token")
    return [f"By the tokens of the answers alone, {show(joined.answers, '1')} of all: {each}, prompts paid with them."]


def _attributed(phases: dict[PowerPhase, PhasePower], joined: Joined) -> list[str]:
    """How much of the run the phases' windows are, where some of it is of none."""
    parts = [figures for phase, figures in phases.items() if phase != "all"]
    if not joined.expected or not parts:
        return []
    ran = sum(end - begin for begin, end in union(joined.busy))
    share = sum(figures.seconds for figures in parts) / ran if ran > 0 else 0.0
    named = " and ".join(figures.phase for figures in parts)
    return [f"The windows of {named} hold {show(min(1.0, share), '1')} of the time in which requests ran."]


def _least(device: Metering) -> float:
    """The shortest window that a device tells of: by its counter, else by its watts."""
    return least(_fresh(device), 0.0 if device.counter is not None else device.averages_s)


def _cure(windows: Sequence[Window], devices: Sequence[Metering]) -> str:
    slowest = max(devices, key=_least)
    if slowest.counter is None and slowest.averages_s > 0:
        return "Its watts are means of a second: record power.draw.instant, or let longer requests run."
    if _fresh(slowest) > 0.1:
        return f"Read more often than every {_fresh(slowest):.3g} s (nvidia-smi -lms 50), or let longer requests run."
    longest = max(window.end - window.begin for window in windows)
    return f"The longest is {longest:.3g} s: let longer requests, or more of them one after another, run."


def _took_part(devices: list[Metering], joined: Joined, first: float) -> tuple[list[Metering], list[str]]:
    """The devices that the run kept busy; all of one that says nothing of utilisation."""
    windows = merged([span._replace(phase="all", tokens=None) for span in joined.spans])
    took = [device for device in devices if _busy(device, windows, first)]
    left = [device.series.device for device in devices if device not in took]
    if not left or not took:
        return took, []
    names = ", ".join(str(device.index) for device in left)
    return took, [f"Devices that the run did not use are left out: {names}."]


def _busy(device: Metering, windows: Sequence[Window], first: float) -> bool:
    """Whether it was busier in the windows than before them, by its utilisation or its watts."""
    within = inside(device.series, windows)
    if not len(within.time):
        return False
    if device.series.device.kind != "gpu":
        return True
    before = device.series.between(first - _LOOK_S, first - _CLEAR_S)
    if within.says("utilisation"):
        rest = float(np.nanmean(before.utilisation)) if before.says("utilisation") else 0.0
        if float(np.nanmean(within.utilisation)) - rest >= _BUSY:
            return True
    if len(before.time) < 3:
        return not within.says("utilisation")
    return bool(np.mean(within.watts) >= _RISE * np.median(before.watts))


def _fresh(device: Metering) -> float:
    """How often values are new: by the counter where there is one, else as often as they were read.

    A DCGM exporter shows what it last collected until it collects again, so its watts tell.
    """
    series = device.series
    column = None
    if device.counter is not None:
        time, column = device.counter.time, device.counter.joules
    elif series.device.meter.startswith("DCGM"):
        time, column = series.time, series.watts
    if column is None or len(column) < 3:
        return series.every_s
    changes = time[1:][np.diff(column) != 0]
    return float(np.median(np.diff(changes))) if len(changes) > 2 else series.every_s


def _metered(device: Metering, file: str, provenance: Provenance) -> Metered:
    about, limit = device.series.device, limit_of(device.series)
    source = "enforced power limit, median of the readings"
    return Metered(
        index=about.index,
        name=about.name,
        by=about.meter,
        uuid=about.uuid,
        watts_are=about.watts_are or ("steps of its energy counter" if device.derived else ""),
        counter=about.counter,
        limit_w=Quantity(value=limit, unit="W", provenance=provenance, source=source) if limit else None,
        file=file,
        every_s=device.series.every_s,
        fresh_s=_fresh(device),
        notes=about.notes,
    )


def _points(devices: list[Metering], first: float, last: float) -> tuple[PowerPoint, ...]:
    """The series from shortly before the first request to shortly after the last, thinned out."""
    series = [device.series.between(first - 3.0, last + 3.0) for device in devices]
    if not len(series[0].time):
        return ()
    at = np.linspace(series[0].time[0], series[0].time[-1], min(_MOST_POINTS, max(2, len(series[0].time))))
    drawn = [np.interp(at, one.time, one.watts) if len(one.time) else np.full(len(at), np.nan) for one in series]
    return tuple(
        PowerPoint(
            at_s=float(time - first),
            watts=tuple(None if np.isnan(one[i]) else float(one[i]) for one in drawn),
        )
        for i, time in enumerate(at)
    )


def _bands(spans: Sequence[Span], first: float) -> tuple[PowerBand, ...]:
    told = {span.phase for span in spans}
    bands = [
        PowerBand(phase=phase, begin_s=window.begin - first, end_s=window.end - first)
        for phase in (told - {"all"} or told)
        for window in merged([span for span in spans if span.phase == phase])
    ]
    longest = sorted(bands, key=lambda band: band.begin_s - band.end_s)[:_MOST_BANDS]
    return tuple(sorted(longest, key=lambda band: band.begin_s))
