"""Power per phase: tables, and what is said beside them."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.observation import Check
from phasewise.record.power import DevicePower, PhasePower, Power, PowerPhase, Recordings, Watched
from phasewise.record.quantity import Quantity
from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.findings import STATUS
from phasewise.report.view.heading import Notice, verdict_of
from phasewise.report.view.table import Cell, Table, columns, give, give_share, say

ORDER: tuple[PowerPhase, ...] = ("prefill", "decode", "mixed", "busy", "all")

PER: dict[PowerPhase, str] = {"prefill": "input token", "decode": "output token", "mixed": "token"}

_FULL = 0.9


def headline(run: Run) -> str:
    """What each phase draws, in one sentence each."""
    power = _of(run)
    said = [_sentence(words.clean(figures.text)) for figures in _phases(power)]
    return " ".join(said) if said else f"No power: {words.clean('; '.join(power.missing.values()))}."


def subject(run: Run) -> str:
    """The devices and what they were joined to."""
    power = _of(run)
    names: dict[str, int] = {}
    for device in power.devices:
        names[words.name(device.name)] = names.get(words.name(device.name), 0) + 1
    devices = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
    return f"{devices or 'no device'}; {words.clean(power.how)}"


def notices(run: Run) -> tuple[Notice, ...]:
    """Failed checks: those that void, then those that cast doubt."""
    power = _of(run)
    failed = sorted((check for check in power.checks if check.status == "failed"), key=lambda check: not check.voids)
    return tuple(
        Notice(
            kind="doubt" if check.voids else "partial",
            text=f"{'Not to be compared' if check.voids else 'Mind'}: {words.clean(check.detail)}",
        )
        for check in failed
    )


def phases(power: Power) -> Table:
    """One column per phase; below it those that could not be measured, and why."""
    found = _phases(power)
    rows = [
        ("watts, mean", [give(one.watts) for one in found]),
        ("watts, 95th percentile", [give(one.p95) for one in found]),
        ("of the enforced limit", [give_share(one.share) for one in found]),
        ("energy", [give(one.joules) for one in found]),
        ("per token", [_per(one, one.per_token) for one in found]),
        ("per token, idle power taken off", [_per(one, one.net_per_token) for one in found]),
        ("counter against readings", [Cell(_signed(one.differ)) for one in found]),
        ("clock of the multiprocessors", [_device(one, "sm_hz") for one in found]),
        ("clock of the memory", [_device(one, "memory_hz") for one in found]),
        ("temperature, highest", [_device(one, "celsius") for one in found]),
        ("GPU utilisation", [_device(one, "utilisation") for one in found]),
        ("power limit held the clock", [_device(one, "capped") for one in found]),
        ("windows", [Cell(f"{one.windows:,} of {words.number(one.seconds, 's')}") for one in found]),
        ("readings", [Cell(f"{one.readings:,}") for one in found]),
    ]
    kept = tuple((say(name), *cells) for name, cells in rows if any(cell.text != words.NOTHING for cell in cells))
    heads = columns("", *(f">{one.phase}" for one in found))
    return Table(title="Power per phase", columns=heads, rows=kept if found else (), note=_unmeasured(power))


def batches(power: Power) -> Table:
    """Decode by batch, where batches were held one at a time."""
    rows = []
    for one in power.batches:
        figures = one.figures
        found = (
            (give(figures.watts), give_share(figures.share), _plain(figures.per_token), Cell(""))
            if figures
            else (*([Cell(words.NOTHING)] * 3), say(one.why_null))
        )
        rows.append((Cell(words.count(one.batch)), Cell(words.count(one.prompt_tokens)), *found))
    told = any(one.why_null for one in power.batches)
    heads = columns(">batch", ">prompt each", ">watts", ">of the limit", ">J per output token", "not judged")
    kept = len(heads) if told else len(heads) - 1
    return Table(title="Decode by batch", columns=heads[:kept], rows=tuple(row[:kept] for row in rows))


def devices(power: Power) -> Table:
    """One row per device and phase, where there are several devices."""
    rows = tuple(
        (
            say(about.index),
            say(words.name(about.name)),
            Cell(one.phase),
            give(device.watts),
            give_share(device.share),
            _clock(device.sm_hz),
            give_share(device.utilisation),
        )
        for one in _phases(power)
        for about, device in zip(power.devices, one.devices, strict=True)
    )
    heads = columns(">device", "name", "phase", ">watts", ">of its limit", ">clock", ">utilisation")
    return Table(title="Each device", columns=heads, rows=rows if len(power.devices) > 1 else ())


def facts(run: Run) -> Iterator[str]:
    """How it was measured: boundary, rate, repeats, idle; and what the figures do not mean."""
    power = _of(run)
    if power.boundary and power.phases:
        yield words.clean(power.boundary)
    yield from _rate(power)
    for one in _phases(power):
        yield _windows(one)
    yield from _idle(power)
    yield from _utilisation(run, power)
    for note in (*power.notes, *dict.fromkeys(note for device in power.devices for note in device.notes)):
        yield words.clean(note)


def checks(found: tuple[Check, ...]) -> Table:
    """Every check of the power."""
    rows = tuple(
        (Cell(STATUS[check.status]), say(check.name.replace("_", " ")), Cell(check.phase), say(check.detail))
        for check in found
    )
    return Table(title="Checks of the power", columns=columns("status", "check", "phase", "what was seen"), rows=rows)


def recordings(found: Recordings) -> Table:
    """One row per file and device."""
    rows: list[tuple[Cell, ...]] = []
    for one in found.files:
        power = one.power
        for phase, figures in power.phases.items():
            for about, device in zip(power.devices, figures.devices, strict=True):
                which = f", device {about.index}" if len(power.devices) > 1 else ""
                name = f"{words.name(one.name)}{which}, {phase} ({words.number(figures.seconds, 's')})"
                rows.append((say(name), *_drawn(device), give_share(device.capped), give_share(device.utilisation)))
        if not power.phases:
            why = words.clean("; ".join(power.missing.values()))
            rows.append((say(f"{words.name(one.name)}: {why}"), *([Cell(words.NOTHING)] * 6)))
    heads = columns("file", ">watts", ">p95", ">of limit", ">clock", ">capped", ">utilised")
    note = (
        "Capped: part of the time in which the power limit held the clock. No run was named, so nothing says which "
        "phase ran: phasewise power RUN --telemetry FILE tells them apart."
    )
    left = dict.fromkeys(
        f"{words.name(one.name)}: {words.clean(about)}"
        for one in found.files
        for device in one.power.devices
        for about in device.notes
    )
    note = " ".join([note, *left])
    return Table(title="Telemetry", columns=heads, rows=tuple(rows), note=note)


def meters(found: Watched) -> Table:
    """What can be read here."""
    rows = tuple(
        (say(one.name), Cell("ok" if one.readable else "missing"), say(one.why_not or _reads(found, one.name)))
        for one in found.meters
    )
    return Table(title="Meters", columns=columns("meter", "state", ""), rows=rows)


def now(found: Watched) -> Table:
    """What was drawn just now."""
    figures = found.power.phases.get("all")
    rows = tuple(
        (
            say(f"{about.index}: {words.name(about.name)}"),
            *_drawn(device),
            _clock(device.memory_hz),
            give(device.celsius),
            give_share(device.utilisation),
        )
        for about, device in zip(found.power.devices, figures.devices if figures else (), strict=False)
    )
    heads = columns("device", ">watts", ">p95", ">of limit", ">clock", ">memory", ">heat", ">utilised")
    title = f"Over {words.number(found.seconds, 's')}"
    return Table(title=title, columns=heads, rows=rows, note="" if rows else _nothing(found.power))


def _drawn(device: DevicePower) -> tuple[Cell, ...]:
    return give(device.watts), give(device.p95), give_share(device.share), _clock(device.sm_hz)


def _clock(quantity: Quantity | None) -> Cell:
    """1,605 MHz, not 1.60 GHz: clocks step by 15 MHz."""
    return Cell(words.NOTHING if quantity is None else f"{quantity.value / 1e6:,.0f} MHz", quantity)


def document(run: Run) -> Power:
    """The section of a run that has one."""
    return _of(run)


def _of(run: Run) -> Power:
    assert run.power is not None
    return run.power


def _phases(power: Power) -> list[PhasePower]:
    return [power.phases[phase] for phase in ORDER if phase in power.phases]


def _unmeasured(power: Power) -> str:
    return _nothing(power) or " ".join(
        f"{phase.capitalize()}: {words.clean(why)}" for phase, why in power.missing.items()
    )


def _nothing(power: Power) -> str:
    return "" if power.phases else f"No power: {words.clean('; '.join(power.missing.values()))}."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _per(one: PhasePower, quantity: Quantity | None) -> Cell:
    if quantity is None:
        return Cell(words.NOTHING)
    return Cell(f"{_joules(quantity.value)}/{PER.get(one.phase, 'token')}", quantity)


def _plain(quantity: Quantity | None) -> Cell:
    """Down a column one unit shows how it falls."""
    return Cell(words.NOTHING if quantity is None else f"{quantity.value:,.3g}", quantity)


def _joules(value: float) -> str:
    """0.00352 J as 3.52 mJ: tokens cost little."""
    return f"{words.number(value * 1e3, 'J').removesuffix('J')}mJ" if abs(value) < 1 else words.number(value, "J")


def _signed(value: float | None) -> str:
    return words.NOTHING if value is None else f"{100 * value:+.1f}%"


def _device(one: PhasePower, name: str) -> Cell:
    """A column of the devices: of one its value, of several the range."""
    found = [value for device in one.devices if (value := _named(device, name)) is not None]
    if not found:
        return Cell(words.NOTHING)
    low, high = min(found, key=lambda q: q.value), max(found, key=lambda q: q.value)
    lowest, highest = _said(low), _said(high)
    return Cell(highest if lowest == highest else f"{lowest} to {highest}", high)


def _said(quantity: Quantity) -> str:
    if quantity.unit == "Hz":
        return _clock(quantity).text
    return words.share(quantity.value) if quantity.unit == "1" else words.amount(quantity)


def _named(device: DevicePower, name: str) -> Quantity | None:
    value: Quantity | None = getattr(device, name)
    return value


def _rate(power: Power) -> Iterator[str]:
    for (by, every, fresh), indices in _by_rate(power).items():
        which = f"{by}, device{'s' if len(indices) > 1 else ''} {', '.join(indices)}"
        held = f", with a new value every {words.number(fresh, 's')}" if fresh > 1.5 * every else ""
        yield f"{which}: a reading every {words.number(every, 's')}{held}."
    are = dict.fromkeys(f"{device.by}: {words.clean(device.watts_are)}" for device in power.devices if device.watts_are)
    if are:
        yield f"What the watts are. {'; '.join(are)}."


def _by_rate(power: Power) -> dict[tuple[str, float, float], list[str]]:
    found: dict[tuple[str, float, float], list[str]] = {}
    for device in power.devices:
        key = (words.name(device.by), float(f"{device.every_s:.2g}"), float(f"{device.fresh_s:.2g}"))
        found.setdefault(key, []).append(str(device.index))
    return found


def _windows(one: PhasePower) -> str:
    ran = f", which ran in {words.share(one.busy)} of it" if one.busy < 0.995 else ""
    within = "" if one.watts.low is None else f"; the mean over windows lies in {words.interval(one.watts)}"
    left = f" {words.clean(one.left_out)}" if one.left_out else ""
    length, windows = words.number(one.seconds, "s"), _many(one.windows, "window")
    return f"{one.phase}: {windows}, {length} in all, of {_many(one.requests, 'repeat')}{ran}{within}.{left}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _idle(power: Power) -> Iterator[str]:
    if not power.phases:
        return
    idle = power.idle
    if idle.watts is None:
        if idle.why_null:
            yield f"Idle baseline: none ({words.clean(idle.why_null)}), so nothing is taken off."
        return
    parts = [f"{name} {words.amount(one)}" for name, one in (("before", idle.before), ("after", idle.after)) if one]
    more = f" ({words.clean(idle.why_null)})" if idle.why_null else ""
    yield f"Idle baseline: {words.amount(idle.watts)}, model loaded and no request running ({', '.join(parts)}){more}."


def _utilisation(run: Run, power: Power) -> Iterator[str]:
    """100% utilisation stands next to MBU, or it is taken for a result."""
    for one in _phases(power):
        busy = max((device.utilisation.value for device in one.devices if device.utilisation), default=0.0)
        if busy < _FULL or one.phase not in ("prefill", "decode"):
            continue
        verdict = verdict_of(run, "prefill" if one.phase == "prefill" else "decode")
        if verdict is not None and verdict.headline is not None:
            reached = f"{verdict.yardstick.upper()} is {words.amount(verdict.headline)}"
        else:
            reached = f"{'MFU' if one.phase == 'prefill' else 'MBU'} is not known here, and only it would"
        yield (
            f"GPU utilisation {words.share(busy)} in {one.phase} only means that some kernel was resident, "
            f"not what it reached: {reached}."
        )


def _reads(found: Watched, name: str) -> str:
    own = [
        f"{words.name(device.name)} (energy counter: {words.clean(device.counter) or 'none'})"
        for device in found.power.devices
        if device.by == name
    ]
    return ", ".join(dict.fromkeys(own)) or "no reading came"
