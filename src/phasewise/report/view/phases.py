"""One phase: its figures, its bound, and how they grow with tokens."""

from __future__ import annotations

from typing import Literal

from phasewise.record.judgement import PhaseVerdict, Utilisation
from phasewise.record.observation import DecodeObservation, Phase, PrefillObservation
from phasewise.record.quantity import Quantity, measured, predicted
from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.heading import headline, verdict_of
from phasewise.report.view.table import Cell, Table, columns, give, say
from phasewise.report.view.timings import thinking

Yardstick = Literal["mfu", "mbu"]
Row = tuple[Cell, ...]


def utilisation(verdict: PhaseVerdict | None, yardstick: Yardstick) -> Quantity | None:
    """MFU or MBU of a phase: the headline when it is that, else the first whole figure; None when unknown."""
    if verdict is None:
        return None
    if verdict.yardstick == yardstick and verdict.headline is not None:
        return verdict.headline
    return next((u.value for u in verdict.utilisations if u.yardstick == yardstick and u.method == "whole"), None)


def score(run: Run, verdict: PhaseVerdict) -> str:
    """``61.2% MFU``, or why there is none: in full where the verdict's sentence does not say it already."""
    if verdict.headline is None:
        told = bool(verdict.why_null) and words.clean(verdict.why_null) in headline(run)
        first = verdict.phase == "prefill" or verdict_of(run, "prefill") is None
        full = first and not told
        return (words.clean if full else words.short)(verdict.why_null) or words.NOTHING
    return f"{words.amount(verdict.headline)} {verdict.yardstick.upper()}"


def against(verdict: PhaseVerdict) -> str:
    """What the headline is held against: ``of 3.35 TB/s (datasheet)``."""
    found = _behind(verdict)
    return f"of {words.amount(found.ceiling)} ({found.basis})" if found else ""


def headline_at(verdict: PhaseVerdict) -> str:
    """`` at 160 tokens``: where the headline was taken, which is not where the step is taken apart."""
    found = _behind(verdict)
    return f" at {words.count(found.tokens)} tokens" if found else ""


def timed(run: Run, verdict: PhaseVerdict) -> tuple[str, Quantity | None]:
    """``TPOT at 160 tokens of context`` and its time: what the headline is the utilisation of."""
    found, seen = _behind(verdict), run.observation
    tokens = found.tokens if found else verdict.at_tokens
    if verdict.phase == "prefill":
        return f"TTFT at {words.count(tokens)} tokens", verdict.step if tokens == verdict.at_tokens else None
    tpot = seen.decode.tpot if seen and seen.decode and tokens == seen.decode.tpot_context else None
    return f"TPOT at {words.count(tokens)} tokens of context", tpot


def scored(run: Run, verdict: PhaseVerdict) -> str:
    """``TPOT at 160 tokens of context, 5.94 ms: 75.5% MBU of 3.35 TB/s (datasheet)``."""
    if verdict.headline is None:
        return score(run, verdict)
    what, seconds = timed(run, verdict)
    time = f", {words.amount(seconds)}" if seconds else ""
    return f"{what}{time}: {score(run, verdict)} {against(verdict)}".rstrip()


def _behind(verdict: PhaseVerdict) -> Utilisation | None:
    """The figure that the headline is."""
    return next((u for u in verdict.utilisations if u.value == verdict.headline), None)


def step(verdict: PhaseVerdict) -> str:
    """``Step taken apart at 2,000 tokens``."""
    return f"Step{' taken apart' if verdict.shares else ''} {where(verdict)}"


def where(verdict: PhaseVerdict) -> str:
    """``at 2,000 tokens``: where the step is taken apart."""
    return f"at {words.count(verdict.at_tokens)} tokens{'' if verdict.phase == 'prefill' else ' of context'}"


def growth(run: Run, phase: Phase) -> tuple[str, ...]:
    """Lines with the fit, what its slope reaches of the ceilings, and when a model that thinks began to answer."""
    lines = (_fit_line(run, phase), _slope_line(verdict_of(run, phase)), thinking(run) if phase == "decode" else "")
    return tuple(line for line in lines if line)


def _fit_line(run: Run, phase: Phase) -> str:
    seen, verdict = run.observation, verdict_of(run, phase)
    split = verdict is not None and any(share.name == "overhead" for share in verdict.shares)
    if phase == "prefill":
        fit = seen.prefill.fit if seen and seen.prefill else None
        if fit is None:
            return ""
        terms = [words.amount(fit.overhead), _per(fit.per_token, "token")]
        terms += [_per(fit.per_token2, "token²")] if fit.per_token2.value else []
        why = " (its overhead share: the intercept, less what the floor itself has there)" if split else ""
        return f"TTFT = {' + '.join(terms)}{why}"
    line = seen.decode.fit if seen and seen.decode else None
    if line is None:
        return ""
    return f"step = {words.amount(line.at_zero)} + {_per(line.per_context_token, 'token of context')}"


def _per(coefficient: Quantity, what: str) -> str:
    return f"{words.number(coefficient.value, 's')} per {what}"


def _slope_line(verdict: PhaseVerdict | None) -> str:
    slopes = [u for u in (verdict.utilisations if verdict else ()) if u.method == "slope"]
    reached = [f"{words.amount(u.value)} {u.yardstick.upper()} ({words.name(u.basis)})" for u in slopes]
    return f"Its slope alone, free of overhead: {words.listed(reached)}" if reached else ""


def facts(run: Run, phase: Phase) -> Table:
    """Step, floor, utilisations on each ceiling, and the coefficients of the fit, each with how it was obtained."""
    verdict = verdict_of(run, phase)
    rows = [*(_step(verdict) if verdict else ()), *_fits(run, phase)]
    note = "" if rows else f"{phase.capitalize()} was not measured."
    return Table(
        title=f"All figures of {phase}", columns=columns("", ">value", ">interval", "how"), rows=tuple(rows), note=note
    )


def _step(verdict: PhaseVerdict) -> list[Row]:
    rows = [_fact("step time", verdict.step), _fact("floor", verdict.floor, words.short(verdict.why_null))]
    seen: set[tuple[str, str, str]] = set()
    for one in verdict.utilisations:
        key = (one.yardstick, one.basis, one.method)
        if key not in seen:
            seen.add(key)
            rows.append(_utilisation(one, verdict.at_tokens))
    if not verdict.utilisations:
        rows.append((say("MFU, MBU"), Cell(words.NOTHING), Cell(""), say(words.short(verdict.why_null))))
    return rows


def _utilisation(one: Utilisation, at_tokens: float) -> Row:
    what = f"{one.yardstick.upper()}{' slope' if one.method == 'slope' else ''} ({words.name(one.basis)})"
    elsewhere = "" if one.tokens == at_tokens else f", at {words.count(one.tokens)} tokens"
    how = f"{one.value.provenance}, of {words.amount(one.ceiling)}{elsewhere}"
    return (say(what), give(one.value), Cell(words.interval(one.value)), say(how))


def _fact(what: str, quantity: Quantity | None, why: str = "") -> Row:
    return (say(what), give(quantity), Cell(words.interval(quantity)), say(words.origin(quantity) or why))


def _fits(run: Run, phase: Phase) -> list[Row]:
    seen = run.observation
    if seen is None:
        return []
    if phase == "prefill":
        return _prefill_fit(seen.prefill) if seen.prefill else []
    return _decode_fit(seen.decode) if seen.decode else []


def _prefill_fit(seen: PrefillObservation) -> list[Row]:
    if seen.fit is None:
        return [(say("TTFT fit"), Cell(words.NOTHING), Cell(""), say("needs two prompt lengths"))]
    return [
        _fact("overhead", seen.fit.overhead),
        _fact("per token", seen.fit.per_token),
        _fact("per token²", seen.fit.per_token2),
        (say("error of the fit"), Cell(words.share(seen.fit.residual)), Cell(""), say("median over the lengths")),
    ]


def _decode_fit(seen: DecodeObservation) -> list[Row]:
    rows = [_fact(f"TPOT at {words.count(seen.tpot_context)} tokens", seen.tpot)]
    if seen.fit is None:
        return [*rows, (say("step time fit"), Cell(words.NOTHING), Cell(""), say("needs two contexts"))]
    return [
        *rows,
        _fact("at zero context", seen.fit.at_zero),
        _fact("per context token", seen.fit.per_context_token),
        (say("error of the fit"), Cell(words.share(seen.fit.residual)), Cell(""), say("median over the contexts")),
    ]


def points(run: Run, phase: Phase) -> Table:
    """Every measured point beside its fit, its floor and its yardstick; a column that nothing fills is left out."""
    title = "TTFT over prompt length" if phase == "prefill" else "Step time over context"
    heads = (
        ">tokens" if phase == "prefill" else ">context",
        ">measured",
        ">interval",
        ">fit",
        ">floor",
        ">",
        ">samples",
    )
    verdict = verdict_of(run, phase)
    yardstick = verdict.yardstick if verdict else "mfu"
    heads = (*heads[:5], f">{yardstick.upper()}", heads[6])
    rows: list[Row] = []
    for tokens, seconds, fit, samples in _points(run, phase):
        floor, reached = floor_at(run, phase, tokens), _reached(verdict, yardstick, tokens)
        cells = (Cell(words.count(tokens)), give(seconds), Cell(words.interval(seconds)), give(fit), give(floor))
        rows.append((*cells, give(reached), Cell(words.count(samples))))
    filled = [i for i in range(len(heads)) if any(row[i].text not in ("", words.NOTHING) for row in rows)]
    return Table(
        title=title,
        columns=columns(*(heads[i] for i in filled)),
        rows=tuple(tuple(row[i] for i in filled) for row in rows),
        note="" if rows else f"{phase.capitalize()} was not measured.",
    )


def _points(run: Run, phase: Phase) -> list[tuple[float, Quantity, Quantity | None, int]]:
    seen = run.observation
    if seen is None:
        return []
    if phase == "prefill":
        fit = seen.prefill.fit if seen.prefill else None
        lengths = seen.prefill.points if seen.prefill else ()
        return [(p.tokens, p.ttft, _fitted(fit.at(p.tokens)) if fit else None, p.samples) for p in lengths]
    line = seen.decode.fit if seen.decode else None
    contexts = seen.decode.points if seen.decode else ()
    return [(p.context, p.tpot, _fitted(line.at(p.context)) if line else None, p.samples) for p in contexts]


def _fitted(seconds: float) -> Quantity:
    return measured(seconds, "s", "the fit at these tokens")


def _reached(verdict: PhaseVerdict | None, yardstick: Yardstick, tokens: float) -> Quantity | None:
    found = verdict.utilisations if verdict else ()
    basis = found[0].basis if found else ""
    at = (u for u in found if u.yardstick == yardstick and u.method == "whole" and u.basis == basis)
    return next((u.value for u in at if u.tokens == tokens), None)


def floors(run: Run, phase: Phase) -> dict[float, float]:
    """Seconds of the predicted floor by tokens, over what was measured."""
    verdict = verdict_of(run, phase)
    found = {point.tokens: point.floor_s for point in verdict.curve} if verdict else {}
    return {tokens: seconds for tokens, seconds in found.items() if seconds is not None}


def floor_at(run: Run, phase: Phase, tokens: float) -> Quantity | None:
    """The floor at exactly ``tokens``, None where it is unknown."""
    seconds = floors(run, phase).get(tokens)
    basis = f"{words.name(run.prediction.basis)} ceilings" if run.prediction else "the most trusted ceilings"
    return None if seconds is None else predicted(seconds, "s", f"floor under {basis}")
