"""A load run: the verdict, percentiles, goodput, rates, what it was over time, the trials of a search, the recap."""

from __future__ import annotations

import math
from collections.abc import Iterator

from phasewise.record.load import Breaks, Goodput, Limits, Load, LoadPlan, Spread
from phasewise.record.quantity import Quantity
from phasewise.record.run import Run
from phasewise.report.view import crew, power, words
from phasewise.report.view.heading import PHASES, Notice
from phasewise.report.view.table import Cell, Table, columns, give, say

_MEANS: dict[Breaks, str] = {"ttft": "TTFT (prefill and queue)", "tpot": "TPOT (decode)"}

POINTS = ("p50", "p90", "p95", "p99")

_BOTH = ("p50", "p99")

_MOST_REASONS = 8

_NEEDED = {p: math.ceil(math.log(0.025) / math.log(p / 100)) for p in (50, 90, 95, 99)}
"""Values from which on a percentile has an upper end at 95%: the largest of so many lies above it."""


def headline(found: Load) -> str:
    """The verdict in one sentence, or why there is none; and how much of the load it does not speak of."""
    failed = f" {found.failed:,} of {found.sent:,} requests failed." if found.failed and found.window else ""
    return f"{_verdict(found)}{failed}{crew.lighter(found)}"


def _verdict(found: Load) -> str:
    if found.client is not None and not found.client.believed:
        return f"No verdict: {words.clean(found.client.detail)}."
    if found.window is None:
        why = found.missing.get("window", "nothing was measured")
        first = next(iter(found.reasons), "")
        return f"No verdict: {words.clean(why)}{f' ({words.clean(first).rstrip(chr(46))})' if first else ''}."
    if found.found is not None:
        return _sought(found)
    if found.goodput is None:
        return f"{_figures(found)}; no limits were given to hold them against (--ttft, --tpot)."
    good = found.goodput
    of = _requests(good.requests or found.window.requests)
    met = f"{words.share(good.met.value)} ({_between(good.met)}) of {of} met"
    verb = {"holds": "Holds", "breaks": "Does not hold", "undecided": "Cannot be told to hold"}[good.holds]
    return f"{verb} {limits(good.limits)}: {met} them; {_first(good)}."


def limits(asked: Limits) -> str:
    """``TTFT 500 ms and TPOT 50 ms for 90% of requests``."""
    parts = [
        f"{name} {words.number(value, 's')}"
        for name, value in (("TTFT", asked.ttft_s), ("TPOT", asked.tpot_s))
        if value is not None
    ]
    return f"{' and '.join(parts)} for {100 * asked.part:g}% of the requests"


def _sought(found: Load) -> str:
    outcome, trials = found.found, found.trials
    assert outcome is not None
    if not trials:
        return f"No verdict: {words.clean(outcome.text)}."
    asked = limits(trials[0].goodput.limits)
    broken = [trial for trial in trials if trial.rate == outcome.broke]
    first = f"; above, {_MEANS[broken[0].goodput.first]} breaks first" if broken else ""
    if outcome.held is None:
        least = min(trial.rate for trial in trials)
        return f"No rate from {least:.3g} requests a second on holds {asked}{first.replace('above, ', '')}."
    if outcome.broke is None:
        return f"{outcome.held:.3g} requests a second, the most that was tried, hold {asked}."
    return f"Holds {asked} up to between {outcome.held:.3g} and {outcome.broke:.3g} requests a second{first}."


def _figures(found: Load) -> str:
    ttft, tpot, rates = found.waited, found.tpot, found.rates
    parts = [_points(name, spread, shown) for name, spread, shown in (("TTFT", ttft, _BOTH), ("TPOT", tpot, _BOTH[:1]))]
    if rates is not None:
        out = f" and {words.count(rates.tokens_out.value)} tokens out" if rates.tokens_out else ""
        parts.append(f"at {rates.requests.value:,.3g} requests{out} a second")
    return ", ".join(part for part in parts if part)


def _points(name: str, spread: Spread | None, shown: tuple[str, ...]) -> str:
    """``TTFT 3 ms (p50) and 6 ms (p99)``, of those percentiles that there are."""
    if spread is None:
        return ""
    given = [f"{words.amount(spread.points[p])} ({p})" for p in shown if p in spread.points]
    return f"{name} {' and '.join(given) or f'{words.amount(spread.mean)} (mean)'}"


def _point(spread: Spread | None, name: str) -> Quantity | None:
    return spread.points.get(name) if spread else None


def _broken(good: Goodput) -> bool:
    """Whether some limit was missed by more than may miss it."""
    near = good.nearness[good.first]
    return good.holds == "breaks" or not math.isfinite(near) or near > 1


def _breaks(good: Goodput) -> str:
    return "yes" if _broken(good) else "no, but nearer"


def _first(good: Goodput) -> str:
    near = good.nearness[good.first]
    if _broken(good):
        return f"{_MEANS[good.first]} breaks first"
    return f"{_MEANS[good.first]} is nearer its limit, at {words.share(near)} of it"


def _between(quantity: Quantity) -> str:
    return f"{words.share(quantity.low)} to {words.share(quantity.high)}"


def subject(run: Run) -> str:
    """What was sent where."""
    found, target = run.load, run.target
    assert found is not None
    where = "" if target is None else f" to {words.name(target.engine)} ({words.name(target.name)})"
    return f"{plan_line(found.plan)}{where}."


def _requests(count: int) -> str:
    return f"{count:,} request{'s' * (count != 1)}"


def plan_line(plan: LoadPlan) -> str:
    """``Poisson, 2 requests a second, 512 tokens in, 128 out``."""
    line = f"{words.clean(plan.arrivals)}; {words.clean(plan.lengths)}"
    return line[:1].upper() + line[1:]


def notices(run: Run) -> tuple[Notice, ...]:
    """What to know before the numbers."""
    found, notes = run.load, []
    assert found is not None
    if found.client is not None and not found.client.believed:
        notes.append(
            Notice(kind="doubt", text=f"The figures must not be believed: {words.clean(found.client.detail)}.")
        )
    if run.envelope.status != "complete":
        reason = words.clean(run.envelope.reason).rstrip(".") or "no reason is recorded"
        kept = "what was measured is below" if found.window else "nothing was measured"
        notes.append(Notice(kind="partial", text=f"{run.envelope.status.capitalize()} run: {reason}; {kept}."))
    notes += crew.notices(found.crew, crew.of_load)
    if found.steady is False:
        text = "Not steady: more and more requests were in flight, so the server does not sustain this load, and "
        notes.append(Notice(kind="doubt", text=f"{text}longer runs give worse figures."))
    if run.power is not None:
        notes += power.notices(run)
    if found.failed:
        reasons = list(found.reasons.items())
        items = [f"{count:,}: {words.clean(reason)}" for reason, count in reasons[:_MOST_REASONS]]
        items += [f"{sum(count for _, count in rest):,}: others"] if (rest := reasons[_MOST_REASONS:]) else []
        text = f"{found.failed:,} of {found.sent:,} requests failed; they count as having met no limit:"
        notes.append(Notice(kind="doubt", text=text, items=tuple(items)))
    if found.broken_off:
        text = f"{found.broken_off:,} of {found.sent:,} requests had not ended when the run did, and were broken off: "
        judged = "those that had missed a limit by then count, no other figure is of them." if found.goodput else ""
        notes.append(Notice(kind="doubt", text=text + (judged or "no figure is of them.")))
    return tuple(notes)


def plan(found: LoadPlan) -> Iterator[str]:
    """The plan, a sentence each."""
    tokens = f"{found.prompt_tokens:,} tokens in and up to {found.answer_tokens:,} out"
    most = "up to " if found.users else ""
    yield f"{plan_line(found)}."
    yield f"{most.capitalize()}{_requests(found.requests)}, {tokens}, sent within {found.seconds:g} s."
    if found.warmup:
        tokens = f" of {found.warmup_tokens:,} tokens in all" if found.warmup_tokens else ""
        warms = "warms" if found.warmup == 1 else "warm"
        yield f"Before that, {_requests(found.warmup)}{tokens} {warms} up; no figure uses them."
    yield (
        f"What is in the air after that has {found.drain_s:g} s to finish. How long answers take, and so what it costs "
        "beyond tokens, is unknown: nothing was measured yet."
    )
    if found.cut:
        yield f"Cut short by {words.clean(found.cut)}."
    yield from (words.clean(note) for note in found.notes)


def percentiles(found: Load) -> Table:
    """TTFT, TPOT and the others at each percentile."""
    spreads: tuple[tuple[str, Spread | None], ...] = (
        ("TTFT, from due", found.ttft_from_due),
        ("TTFT, from send", found.ttft),
        ("client queue", found.client_queue),
        ("TPOT", found.tpot),
        ("ITL, per token", found.itl),
        ("ICL, per read", found.icl),
        ("end to end", found.e2e),
    )
    rows = tuple(
        (
            Cell(name),
            Cell(f"{spread.count:,}"),
            give(spread.mean),
            *(give(_point(spread, p)) for p in POINTS),
            Cell(_ends(_point(spread, "p99")), _point(spread, "p99")),
        )
        for name, spread in spreads
        if spread is not None
    )
    heads = columns("", ">n", ">mean", *(f">{p}" for p in POINTS), ">p99 lies in")
    return Table(
        title="Percentiles", columns=heads, rows=rows, note=_enough(found) if rows else "Nothing was answered."
    )


def _ends(point: Quantity | None) -> str:
    if point is None or (point.low is None and point.high is None):
        return words.NOTHING
    if point.high is None:
        return f"over {words.number(point.low, 's')}"
    return words.interval(point) or words.NOTHING


def _enough(found: Load) -> str:
    spread = found.waited
    if spread is None:
        return ""
    few = f"{'is' if spread.count == 1 else 'are'} too few"
    said = []
    if spread.missing:
        said.append(f"{_requests(spread.count)} {few} to give {words.listed(tuple(spread.missing))}.")
    short = [f"p{p} ({n} needed)" for p, n in _NEEDED.items() if f"p{p}" in spread.points and _open(spread, f"p{p}")]
    if short:
        alike = f", which may tell no more than {spread.effective:,.0f} independent ones,"
        alike = alike if spread.effective < 0.95 * spread.count else ""
        said.append(f"{_requests(spread.count)}{alike} {few} to bound {words.listed(short)} from above.")
    return " ".join(said)


def _open(spread: Spread, name: str) -> bool:
    """Whether a percentile has no upper end."""
    return spread.points[name].high is None


def goodput(found: Load) -> Table:
    """Each limit, and how it was met."""
    good = found.goodput
    rows: list[tuple[Cell, ...]] = []
    for name, limit, met in _limits(good):
        near = good.nearness[name] if good else math.nan
        rows.append((Cell(_MEANS[name]), Cell(words.number(limit, "s")), Cell(_met(met), met), Cell(_near(near))))
    if good is not None:
        rows.append((Cell("all of them"), Cell(""), Cell(_met(good.met), good.met), Cell("")))
    note = ""
    if good is not None:
        part = 100 * good.limits.part
        low, high = good.rate.low, good.rate.high
        between = "" if low is None or high is None else f" ({low:,.3g} to {high:,.3g})"
        held = f"what {part:g}% of the requests stay within"
        note = f"Goodput {good.rate.value:,.3g} requests a second{between}. Needed: {held}."
    heads = columns("limit", ">at", ">met by", ">needed, of the limit")
    return Table(
        title="Limits", columns=heads, rows=tuple(rows), note=note or "No limits were given: --ttft and --tpot."
    )


def _limits(good: Goodput | None) -> Iterator[tuple[Breaks, float, Quantity]]:
    if good is not None and good.limits.ttft_s is not None and good.met_ttft is not None:
        yield "ttft", good.limits.ttft_s, good.met_ttft
    if good is not None and good.limits.tpot_s is not None and good.met_tpot is not None:
        yield "tpot", good.limits.tpot_s, good.met_tpot


def _met(met: Quantity) -> str:
    return f"{words.share(met.value)} ({_between(met)})"


def _near(near: float) -> str:
    return words.share(near) if math.isfinite(near) else "more than failed requests leave"


def facts(found: Load) -> Iterator[str]:
    """What else was seen, a sentence each."""
    if found.window is not None:
        yield (
            f"Figures are of {_requests(found.window.requests)} due from {found.window.begin_s:,.1f} to "
            f"{found.window.end_s:,.1f} s ({words.clean(found.window.rule)})."
        )
    if found.rates is not None:
        tokens_in = "" if found.rates.tokens_in is None else f", {words.count(found.rates.tokens_in.value)} tokens in"
        out = "" if found.rates.tokens_out is None else f", {words.count(found.rates.tokens_out.value)} tokens out"
        yield (
            f"{found.rates.requests.value:,.3g} requests answered{tokens_in}{out} a second, of "
            f"{found.rates.offered.value:,.3g} requests a second that were due."
        )
    if found.cached is not None:
        yield f"{words.share(found.cached.value)} of the prompt tokens came from the server's prefix cache (reported)."
    if found.client is not None:
        detail = words.clean(found.client.detail)
        yield f"{detail[:1].upper()}{detail[1:]}."
    yield from crew.facts(found.crew)
    if found.unsent and not found.plan.users:
        yield f"{found.unsent:,} requests of the plan were not sent."
    if found.rows:
        yield f"Rows: {words.listed(found.rows)} beside run.json."


def workers(found: Load) -> Table:
    """A row for each worker; none when one process sent alone."""
    return crew.table(found.crew, "up to " if found.plan.users else "")


def moments(found: Load) -> Table:
    """Over time."""
    rows = tuple(
        (
            Cell(f"{one.begin_s:,.1f} to {one.end_s:,.1f} s"),
            Cell(f"{one.due:,}"),
            Cell(f"{one.failed:,}"),
            Cell(f"{one.in_flight:,}"),
            Cell(words.number(one.ttft_s, "s")),
            Cell(words.number(one.tpot_s, "s")),
            Cell(words.count(one.tokens_out_per_s)),
        )
        for one in found.moments
    )
    heads = columns("time", ">due", ">failed", ">in flight", ">TTFT p50", ">TPOT p50", ">tokens out/s")
    return Table(title="Over time", columns=heads, rows=rows, note="In flight: at the end of the stretch.")


def trials(found: Load) -> Table:
    """Each rate that was tried."""
    rows = tuple(
        (
            Cell(f"{one.rate:,.3g}"),
            Cell(f"{one.achieved:,.3g}"),
            Cell(f"{one.requests:,}"),
            Cell(f"{one.failed:,}"),
            Cell(_met(one.goodput.met), one.goodput.met),
            say(one.goodput.holds),
            Cell(one.goodput.first.upper()),
        )
        for one in sorted(found.trials, key=lambda one: one.rate)
    )
    heads = columns(">requests/s", ">answered/s", ">requests", ">failed", ">met limits", "verdict", "first to break")
    text = words.clean(found.found.text) if found.found else ""
    note = f"{text[:1].upper()}{text[1:]}." if text else ""
    return Table(title="Rates tried", columns=heads, rows=rows, note=note)


def next_step(found: Load, target: str) -> str:
    """What to do next."""
    where = words.name(target) if ":" in target else ""  # none is the embedded engine
    if found.window is None:
        return f"See why with one request at a time: phasewise profile {where}".rstrip()
    if found.client is not None and not found.client.believed:
        return "Run the client on an idle machine, or with fewer users or a lower rate, and measure again."
    if found.goodput is None:
        return "State what users may wait: --ttft 500ms --tpot 50ms"
    phase = "prefill" if found.goodput.first == "ttft" else "decode"
    command = " ".join(part for part in ("phasewise profile", where, "--phase", phase) if part)
    return f"See what {phase} alone is bound by: {command}"


def recap(found: Load) -> Table:
    """Prefill (and queue) beside decode."""
    good = found.goodput
    spreads = found.waited, found.tpot
    given = (good.limits.ttft_s, good.limits.tpot_s) if good else (None, None)
    met = (good.met_ttft, good.met_tpot) if good else (None, None)
    sides: dict[str, tuple[str, ...]] = {
        "users see": ("TTFT, queue included", "TPOT"),
        **{name: tuple(words.amount(_point(one, name)) for one in spreads) for name in _BOTH},
        "limit": tuple(words.number(one, "s") if one is not None else "none given" for one in given),
        "met by": tuple(words.NOTHING if one is None else _met(one) for one in met),
        "first to break": tuple(
            words.NOTHING if good is None else _breaks(good) if good.first == name else "no"
            for name in ("ttft", "tpot")
        ),
    }
    rows = tuple((say(name), *map(Cell, cells)) for name, cells in sides.items())
    return Table(title="Recap", columns=columns("", *PHASES), rows=rows)
