"""The verdict on what another tool or a person measured: each row's prefill and decode, and the phases over all rows.

One figure of a phase tells its floor and what is beyond it, not whether that is overhead, kernels or communication: a
part is only named for sure where it must be the largest (see ``_bound``). Several lengths or contexts at batch 1 tell
more, and then are judged as a profile is.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.judge import alarm, reported_fit, reported_request, reported_scaling, reported_words, utilisation
from phasewise.judge.reported_bound import SURE, Beyond, beyond, bound
from phasewise.judge.shares import side
from phasewise.judge.utilisation import ratio
from phasewise.model import work
from phasewise.model.model import Model
from phasewise.model.work import Work
from phasewise.predict.roofline import Roof, decode_floor, prefill_floor, roofs
from phasewise.record.judgement import Alarm, PhaseVerdict, Share, Utilisation
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity, predicted, reported
from phasewise.record.results import Judged, Reported, Results, Row, Step


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures are judged on; ``roofs`` is empty and ``why_null`` says why when it cannot be done."""

    model: Model | None
    machine: Machine | None
    roofs: tuple[Roof, ...]
    why_null: str
    notes: tuple[str, ...] = ()

    def for_step(self, step: Step) -> Ground:
        """The same for ``step``: of devices that take turns, the ceilings of as many as work at once."""
        if step.at_once is None or self.model is None or self.machine is None or step.at_once >= self.machine.devices:
            return self
        alone = msgspec.structs.replace(self.machine, devices=1)  # they add nothing up, but hand on what one has made
        return msgspec.structs.replace(self, machine=alone, roofs=roofs(self.model, self.machine, step.at_once))

    @property
    def known(self) -> tuple[Model, Machine, Roof] | None:
        """Model, machine and the most trusted roof, when all are known."""
        if self.model is None or self.machine is None or not self.roofs:
            return None
        return self.model, self.machine, self.roofs[0]


def ground(model: Model | None, machine: Machine | None, missing: tuple[str, ...], notes: tuple[str, ...]) -> Ground:
    """Model and machine side by side; ``missing`` says which of them is not known and why."""
    if model is None or machine is None:
        return Ground(model=model, machine=machine, roofs=(), why_null="; ".join(missing), notes=notes)
    found = roofs(model, machine)
    why = "" if found else f"{machine.name} has no known rate for {model.compute[0]}: give --peak and --bandwidth"
    more = [f"Not counted in the work: {', '.join(model.architecture.not_modelled)}."]
    return Ground(
        model=model,
        machine=machine,
        roofs=found,
        why_null=why,
        notes=(*notes, *(more if model.architecture.not_modelled else ())),
    )


def judge(said: Reported, on: Ground) -> Results:
    """Judge every row, then each phase by the row that speaks for it."""
    rows = tuple(_row(row, on) for row in said.rows)
    first, step = _speaker(said, "prefill"), _speaker(said, "decode")
    prefill, decode = (
        None if first is None else _fitted(said, "prefill", on) or rows[first].prefill,
        None if step is None else _fitted(said, "decode", on) or rows[step].decode,
    )
    rung = _alarms((prefill, decode, *(one for row in rows for one in (row.prefill, row.decode))))
    doubted = any(check.voids and check.status == "failed" for check in said.checks)
    judged = Results(
        reported=said,
        rows=rows,
        prefill_row=first,
        decode_row=step,
        prefill=_believed(prefill, rung, doubted),
        decode=_believed(decode, rung, doubted),
        split=reported_request.split(said, rows, first, step),
        scaling=reported_scaling.gains(said, on.known),
        basis=f"{on.roofs[0].basis} ceilings, {on.roofs[0].dtype} matmuls" if on.roofs else "",
        why_null=on.why_null,
        notes=on.notes,
        alarms=rung,
        verdict=reported_words.NOTHING,
    )
    return msgspec.structs.replace(judged, verdict=reported_words.verdict(judged))


def _fitted(said: Reported, phase: Phase, on: Ground) -> PhaseVerdict | None:
    """The verdict from the fit over all rows; None where there are too few, or not all meet the same ceilings."""
    steps = [row.prefill if phase == "prefill" else row.decode for row in said.rows]
    grounds = [on.for_step(step) for step in steps if step]
    if any(one.roofs != grounds[0].roofs for one in grounds):
        return None
    fit = reported_fit.prefill if phase == "prefill" else reported_fit.decode
    return fit(said, on.model, grounds[0].roofs, on.why_null)


def _row(row: Row, on: Ground) -> Judged:
    return Judged(
        prefill=_judged("prefill", row, row.prefill, on.for_step(row.prefill)) if row.prefill else None,
        decode=_judged("decode", row, row.decode, on.for_step(row.decode)) if row.decode else None,
        split=reported_request.own(row),
    )


def _judged(phase: Phase, row: Row, step: Step, on: Ground) -> PhaseVerdict:
    """One pass or step against its floor."""
    if on.known is None:
        return PhaseVerdict(
            phase=phase,
            yardstick="mfu" if phase == "prefill" else "mbu",
            headline=None,
            why_null=on.why_null,
            at_tokens=step.tokens.value,
            step=step.time,
            floor=None,
            bound="unknown",
            shares=(),
            utilisations=(),
            notes=step.notes,
        )
    model, machine, roof = on.known
    time = _time(phase, row, step, model, roof)
    if phase == "decode" and row.request_s and _negligible(row, row.request_s, model, roof):
        step = msgspec.structs.replace(step, least=False)
    done, least = _work(phase, step, model), _floor(phase, step, model, roof)
    meets = side(done, roof)
    yardstick: Literal["mfu", "mbu"] = "mfu" if meets == "compute" else "mbu"
    found = _utilisations(phase, step, model, on.roofs, time)
    share = min(1.0, least / time.value)
    rest = beyond(phase, done, model, machine, roof)
    name, rival = bound(share, meets, rest) if not step.least else (meets if share >= SURE else "unknown", None)
    return PhaseVerdict(
        phase=phase,
        yardstick=yardstick,
        headline=utilisation.first(found, yardstick),
        why_null="",
        at_tokens=step.tokens.value,
        step=time,
        floor=predicted(least, "s", f"{meets} floor, {roof.basis} ceilings"),
        bound=name,
        rival=rival,
        shares=_shares(least, time, meets),
        utilisations=found,
        notes=(*step.notes, *_notes(phase, step, found, share, rest, meets)),
    )


def _work(phase: Phase, step: Step, model: Model, end: Literal["low", "value", "high"] = "value") -> Work:
    """What the step must do, at one end of what is known of its tokens and its batch."""
    at, batch = (getattr(q, end) or q.value for q in (step.tokens, step.batch))
    if phase == "prefill":
        return work.prefill(model, at + step.cached, batch, step.cached)
    return work.decode(model, at, batch)


def _floor(phase: Phase, step: Step, model: Model, roof: Roof) -> float:
    at, batch = step.tokens.value, step.batch.value
    if phase == "prefill":
        return float(prefill_floor(model, roof, at + step.cached, batch, step.cached))
    return float(decode_floor(model, roof, at, batch))


def _time(phase: Phase, row: Row, step: Step, model: Model, roof: Roof) -> Quantity:
    """The step's time; of a time that holds both phases, less what the other one needs at least."""
    whole, answer = row.request_s, row.answer_tokens
    if whole is None or row.prompt_tokens is None or not answer:
        return step.time
    if phase == "prefill":
        rest = max(0.0, answer - 1) * float(decode_floor(model, roof, row.prompt_tokens + answer / 2))
        fits = row.concurrency is not None and row.concurrency.value == 1
        low = whole.value - rest if fits else None
    else:
        low = (whole.value - float(prefill_floor(model, roof, row.prompt_tokens))) / max(1.0, answer - 1)
    if low is None or not 0 < low < step.time.value:
        return step.time
    return msgspec.structs.replace(step.time, low=low, high=step.time.high or step.time.value)


def _negligible(row: Row, whole: Quantity, model: Model, roof: Roof) -> bool:
    """Whether a prompt is so short that its prefill hardly counts, should it run at a tenth of what it can."""
    return 10 * float(prefill_floor(model, roof, row.prompt_tokens or 1.0)) < 0.01 * whole.value


def _utilisations(
    phase: Phase, step: Step, model: Model, under: tuple[Roof, ...], time: Quantity
) -> tuple[Utilisation, ...]:
    ends: tuple[Literal["low", "value", "high"], ...] = ("low", "value", "high")
    least, done, most = (_work(phase, step, model, end) for end in ends)
    known = step.tokens.low is None and step.batch.low is None
    found: list[Utilisation] = []
    for roof in under:
        for yardstick, unit in (("mfu", "FLOP"), ("mbu", "B")):
            low, value, high = (float(w.flops if unit == "FLOP" else w.bytes) for w in (least, done, most))
            amount = Quantity(
                value=value,
                low=None if known else low,
                high=None if known else high,
                unit=unit,  # type: ignore[arg-type]
                provenance="predicted",
                source="counted work",
            )
            found.append(ratio(yardstick, "whole", roof, step.tokens.value, amount, time))  # type: ignore[arg-type]
    return tuple(found)


def _shares(least: float, time: Quantity, meets: str) -> tuple[Share, ...]:
    """The floor and what is beyond it, which one figure does not take apart; the larger first."""
    floor = min(least, time.value)
    parts = [
        (meets, predicted(floor, "s", "floor")),
        ("unknown", reported(time.value - floor, "s", "overhead, kernels, communication: what is beyond the floor")),
    ]
    parts.sort(key=lambda part: -part[1].value)
    return tuple(
        Share(
            name=name,  # type: ignore[arg-type]
            seconds=seconds,
            fraction=reported(seconds.value / time.value, "1", f"{seconds.source} over the step"),
        )
        for name, seconds in parts
    )


def _notes(
    phase: Phase, step: Step, found: tuple[Utilisation, ...], share: float, rest: Beyond, meets: str
) -> list[str]:
    notes = []
    if step.least:
        notes.append("the time holds more than the step, so its utilisation is at least this")
    mfu = utilisation.first(found, "mfu")
    if phase == "decode" and meets == "memory" and mfu is not None and not alarm.of_phase(phase, found):
        notes.append(reported_words.normal(mfu.value, step.batch.value))
    if phase == "prefill" and meets == "memory":
        notes.append(
            f"{step.tokens.value * step.batch.value:,.0f} tokens are few: such a pass waits for the weights, so it is "
            "judged by MBU"
        )
    if share >= 1.0 and not alarm.of_phase(phase, found):
        notes.append(
            "at the roof, within the rounding of what was stated: no setting makes this step faster, only less work "
            "(cached or shorter prompts, fewer bytes) or a faster machine does"
        )
    if share < SURE and not step.least:
        notes.append(rest.why)
    return notes


def _alarms(verdicts: tuple[PhaseVerdict | None, ...]) -> tuple[Alarm, ...]:
    """Those of the phases first, then those of rows; each text once."""
    return tuple({one.text: one for one in alarm.alarms(verdicts)}.values())


def _believed(verdict: PhaseVerdict | None, rung: tuple[Alarm, ...], doubted: bool) -> PhaseVerdict | None:
    if verdict is None or not (doubted or any(one.text.startswith(verdict.phase) for one in rung)):
        return verdict
    return msgspec.structs.replace(verdict, believed=False)


def _speaker(said: Reported, phase: Phase) -> int | None:
    """The row that speaks for a phase: the smallest batch, then nothing cached and the longest prompt, or the shortest
    context."""

    def order(index: int) -> tuple[float, ...]:
        row = said.rows[index]
        step = row.prefill if phase == "prefill" else row.decode
        assert step is not None
        tokens = step.tokens.value
        return (step.least, step.batch.value, step.cached, -tokens if phase == "prefill" else tokens)

    having = [i for i, row in enumerate(said.rows) if (row.prefill if phase == "prefill" else row.decode)]
    return min(having, key=order) if having else None
