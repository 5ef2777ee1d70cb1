"""A trace: the answer, what stands against it, and what was read."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.quantity import Quantity, reported
from phasewise.record.run import Run
from phasewise.record.trace import Health, Traced, TracedPhase, TracePart, TracePhase, TraceStep, TraceVerdict
from phasewise.report.view import findings, heading, words
from phasewise.report.view.heading import Notice
from phasewise.report.view.table import Cell, Table, columns, give, say
from phasewise.units import Unit

Pair = tuple[TracePhase, TracePhase]

MAIN: Pair = ("prefill", "decode")
REST: Pair = ("mixed", "unknown")
"""Prefill and decode always stand side by side; what is neither stands below, when there is any."""

NOT_MEASURED = "not measured"
NOT_LISTED = "not listed"
"""Never a zero: what a trace does not hold was not seen to be nothing. Kernels of a graph replay that came as one
interval ran, and are not listed.
"""


def said(value: float | None, unit: Unit, source: str = "the trace's own clock") -> Quantity | None:
    """A number of the trace; None stays None."""
    return None if value is None else reported(value, unit, source)


def percent(value: float | None, missing: str = NOT_MEASURED) -> Cell:
    """A percentage of Nsight Compute, as the ratio that all other figures are."""
    if value is None:
        return Cell(missing)
    return Cell(words.share(value / 100), reported(value / 100, "1", "counters, weighted by kernel time"))


def seen(phase: TracedPhase) -> bool:
    """Whether the trace holds anything of a phase: steps, kernels, replays without kernels, or counters."""
    return bool(phase.steps or phase.kernels or phase.gpu_time_s or phase.speed_of_light)


def absent(found: Traced) -> str:
    """What is said of a phase that `seen` denies: of a trace that is cut off nobody knows what else it held."""
    lost = any(one.status == "failed" and one.check in ("truncated", "device activity") for one in found.health)
    return "not in what could be read" if lost else "not in this trace"


def pairs(found: Traced) -> Iterator[Pair]:
    """Prefill and decode; then mixed and unknown, when the trace holds either."""
    yield MAIN
    if any(seen(found.phases[phase]) for phase in REST):
        yield REST


def device(found: Traced) -> str:
    """Where the kernels ran: ``GPU``, or ``CPU`` when operators stand for them."""
    return "CPU" if found.on_cpu else "GPU"


def kernels(found: Traced) -> str:
    """What is counted: ``kernels``, or ``operators`` on a CPU."""
    return "operators" if found.on_cpu else "kernels"


def headline(run: Run, found: Traced) -> str:
    """The answer in one sentence; without one, why there is none."""
    return words.clean(found.text) or f"No verdict: {words.clean(run.envelope.reason) or 'nothing tells the phases'}."


def subject(run: Run, found: Traced) -> str:
    """What was read, and of what: ``2 files (Kineto), SGLang; qwen3-8b, bf16, on mi300x``."""
    forms = words.listed(list(dict.fromkeys(words.name(file.form) for file in found.files)))
    first = words.name(found.files[0].name) if found.files else "no file"
    files = first if len(found.files) < 2 else f"{len(found.files):,} files"
    parts = [f"{files} ({forms})" if forms else files]
    parts += list(dict.fromkeys(words.name(file.engine) for file in found.files if file.engine))
    where = words.listed(list(dict.fromkeys(words.name(one.name) for one in found.devices if one.name)))
    parts += [where] if where and run.machine is None else []
    if run.model is not None or run.machine is not None:
        parts.append(heading.subject(run))
    return ", ".join(parts)


def notices(run: Run, found: Traced) -> tuple[Notice, ...]:
    """Alarms, failed health checks, a run cut short, and a trace without a GPU; in this order, before any figure."""
    verdicts = (found.phases[phase].verdict for phase in found.phases)
    alarms = [verdict.alarm for verdict in verdicts if verdict is not None and verdict.alarm is not None]
    told = [
        Notice(kind="alarm", text=words.clean(one.text), items=tuple(map(words.clean, one.causes)), ordered=True)
        for one in alarms
    ]
    wrong = [f"{_check(one)}: {words.clean(one.detail)}" for one in found.health if one.status == "failed"]
    if wrong:
        told.append(Notice(kind="doubt", text="What is wrong with this trace:", items=tuple(wrong)))
    if run.envelope.status != "complete":
        reason = words.clean(run.envelope.reason).rstrip(".") or "no reason is recorded"
        told.append(Notice(kind="partial", text=f"{run.envelope.status.capitalize()}: {reason}."))
    if found.on_cpu:
        text = "No GPU in this trace: the operators of its CPU threads stand for kernels."
        told.append(Notice(kind="contradiction", text=text))
    return tuple(told)


def _check(one: Health) -> str:
    return words.name(one.check).replace("_", " ")


def health(found: Traced) -> Table:
    """Every check of the trace, as ordered in the record: failures first."""
    return Table(
        title="Health of the trace",
        columns=columns("status", "check", "what was seen"),
        rows=tuple((say(findings.STATUS[one.status]), say(_check(one)), say(one.detail)) for one in found.health),
        note="" if found.health else "No check was made: none of these figures is known to be whole.",
    )


def tally(found: Traced) -> str:
    """``9 passed, 1 failed, 2 not checked``."""
    status = [one.status for one in found.health]
    counts = [(name, status.count(name)) for name in findings.STATUS]
    return ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts if n) or "none made"


def passed(found: Traced) -> str:
    """The names of the checks that passed."""
    return ", ".join(_check(one) for one in found.health if one.status == "passed")


def unmeasured(found: Traced) -> tuple[str, ...]:
    """What the trace does not hold, and why; a sentence for each reason."""
    names: dict[str, list[str]] = {}
    for name, reason in found.missing.items():
        names.setdefault(words.clean(reason).removeprefix(f"{NOT_MEASURED}: "), []).append(_called(name))
    return tuple(f"{_headed(words.listed(many))}: {NOT_MEASURED} ({reason})." for reason, many in names.items())


def _headed(text: str) -> str:
    return text[:1].upper() + text[1:]


def _called(field: str) -> str:
    """A field of the record in words: ``busy_fraction`` is ``busy fraction``, ``span_s`` is ``span``."""
    return words.name(field).removesuffix("_s").replace("_", " ").replace("gpu", "GPU")


def files(found: Traced) -> Table:
    """One row a file: its form, rank, engine and how graphs were traced."""
    rows = tuple(
        (
            say(words.name(file.name)),
            say(words.name(file.form)),
            say(_rank(file.rank, file.world)),
            say(words.name(file.engine) or words.NOTHING),
            say(words.name(file.graph_mode) or words.NOTHING),
            say(words.listed([words.name(name) for name in file.devices]) or "not named"),
        )
        for file in found.files
    )
    return Table(title="Files", columns=columns("file", "form", "rank", "engine", "graphs", "devices"), rows=rows)


def _rank(rank: int | None, world: int | None) -> str:
    if rank is None:
        return words.NOTHING
    return f"{rank:,}" if world is None else f"{rank:,} of {world:,}"


def devices(found: Traced) -> Table:
    """One row a device: the figures that anybody can recompute from the file."""
    rows = tuple(
        (
            say(f"{one.rank}: {one.device}" if len(found.files) > 1 else one.device),
            say(words.name(one.name) or "not named"),
            Cell(words.count(one.kernels)),
            Cell(words.count(one.copies)),
            Cell(words.count(one.graph_replays)),
            give(said(one.gpu_sum_s, "s", "sum of kernels")),
            give(said(one.gpu_union_s, "s", "union of kernels, copies, sets and graph replays")),
            give(said(one.span_s, "s", "first start to last end")),
            _share(one.busy_fraction, "union over span"),
        )
        for one in found.devices
    )
    heads = columns(
        "rank: device" if len(found.files) > 1 else "device",
        "name",
        f">{kernels(found)}",
        ">copies",
        ">replays",
        ">sum",
        ">union",
        ">span",
        ">busy",
    )
    return Table(title="Devices", columns=heads, rows=rows)


def _share(value: float | None, source: str) -> Cell:
    return Cell(NOT_MEASURED if value is None else words.share(value), said(value, "1", source))


def busy(found: Traced) -> str:
    """How busy the device was as a union, beside what a utilisation counter would say, with the warning."""
    if found.busy_fraction is None:
        return f"Busy: {NOT_MEASURED}."
    union = f"Over its whole span the {device(found)} was busy {words.share(found.busy_fraction)} of the time (union)"
    if found.on_cpu:
        return f"{union}."
    if found.resident_fraction is None:
        return f"{union}; what a utilisation counter would say: {NOT_MEASURED}."
    return (
        f"{union}; a utilisation counter would say {words.number(found.resident_fraction, '1')}. WARNING: that only "
        "means that some kernel was resident, not that the matrix units were busy. Read MFU, MBU and memory %."
    )


def outside(found: Traced) -> str:
    """What belongs to no step; empty when everything has one."""
    if not found.outside_kernels:
        return ""
    took = words.number(found.outside_s, "s")
    return f"{words.count(found.outside_kernels)} {kernels(found)} ({took}) belong to no step."


def evidence(found: Traced, step: TraceStep) -> tuple[str, ...]:
    """Why a step is of its phase. SGLang writes vLLM's annotation too: it names no engine, unless the file does."""
    engines = {file.engine for file in found.files}
    if engines == {"vLLM"}:
        return step.evidence
    return tuple(phrase.replace("vLLM annotation execute_", "annotation execute_") for phrase in step.evidence)


def bound(phase: TracedPhase) -> str:
    """``memory-bound``, ``copy-bound``, ``bound unknown``, ``not judged``: the word that the answer has for it."""
    if phase.verdict is None:
        return "not judged"
    if phase.verdict.bound == "unknown":
        return "bound unknown"
    return words.name(phase.verdict.called) or words.BOUNDS[phase.verdict.bound]


def part(one: TracePart, verdict: TraceVerdict) -> str:
    """What a part of a step is called; without a floor, kernels are all that they took."""
    return "kernels beyond the floor" if one.name == "kernels" and verdict.floor else one.name
