"""GitHub-flavoured Markdown, for pasting a profile into an issue."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.observation import Phase
from phasewise.record.run import Run
from phasewise.report.view import findings, heading, phases, request, words
from phasewise.report.view.heading import PHASES, Notice
from phasewise.report.view.recap import recap
from phasewise.report.view.sources import sources
from phasewise.report.view.table import Column, Part, Table, columns, give, say

_SAFE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "#": "&#35;"} | {mark: f"\\{mark}" for mark in "\\`*_[]|~"}
)


def profile(run: Run) -> str:
    """The report of ``run``; what it took is folded away, the recap closes it."""
    return "\n\n".join(block for block in _blocks(run) if block) + "\n"


def _blocks(run: Run) -> Iterator[str]:
    yield f"**{_safe(heading.headline(run))}**"
    yield _safe(heading.subject(run))
    yield from map(_notice, heading.notices(run))
    yield "### Where the time goes"
    yield from _request(run)
    for phase in PHASES:
        yield from _phase(run, phase)
    yield f"### Checks: {findings.tally(run)}"
    yield _table(findings.checks(run))
    yield "### What to change first"
    yield from _fixes(run)
    yield _folded("How every number was obtained", [_legend(), *(_titled(table) for table in sources(run))])
    yield "### Recap"
    yield _table(recap(run))


def _safe(text: str) -> str:
    """Clean text in which nothing is markup, a mention or a link to an issue."""
    return text.translate(_SAFE)


def _notice(notice: Notice) -> str:
    kind = {"alarm": "CAUTION", "doubt": "WARNING", "partial": "IMPORTANT"}.get(notice.kind, "NOTE")
    marks = (f"{i}." if notice.ordered else "-" for i in range(1, len(notice.items) + 1))
    listed = [f"> {mark} {_safe(item)}" for mark, item in zip(marks, notice.items, strict=True)]
    return "\n".join([f"> [!{kind}]", f"> {_safe(notice.text)}", *([">", *listed] if listed else [])])


def _request(run: Run) -> Iterator[str]:
    why = request.why_no_split(run)
    if why or run.judgement is None:
        yield _safe(why)
        return
    first = run.judgement.splits[0]
    yield _safe(request.alone(run, first))
    yield _table(_parts("part", request.parts(first)))
    mix = request.mix(run)
    if mix is not None:
        yield _table(mix)


def _parts(what: str, parts: tuple[Part, ...]) -> Table:
    rows = tuple((say(p.label), give(p.seconds), say(words.share(p.fraction)), say(_bar(p.fraction))) for p in parts)
    return Table(title="", columns=columns(what, ">time", ">share", ""), rows=rows)


def _bar(fraction: float) -> str:
    return "█" * max(0, min(20, round(20 * fraction))) if words.finite(fraction) else ""


def _phase(run: Run, phase: Phase) -> Iterator[str]:
    verdict = heading.verdict_of(run, phase)
    bound = f": {words.bound(verdict.bound, verdict.rival)}" if verdict else ""
    yield f"### {phase.capitalize()}{bound}"
    if verdict is not None:
        time, floor = words.amount(verdict.step), words.amount(verdict.floor)
        yield _safe(phases.scored(run, verdict))
        yield _safe(f"{phases.step(verdict)}: {time} (measured), floor {floor} (predicted).")
        if verdict.shares:
            yield _table(_parts("part of the step", request.shares(run, phase)))
        yield "\n".join(f"- {_safe(words.clean(note))}" for note in verdict.notes)
    yield "\n".join(f"- {_safe(line)}" for line in phases.growth(run, phase))
    points = phases.points(run, phase)
    yield _folded(points.title, [_table(points)]) if points.rows else _safe(points.note)
    facts = phases.facts(run, phase)
    if facts.rows:
        yield _folded(facts.title, [_table(facts)])


def _fixes(run: Run) -> Iterator[str]:
    rows = tuple(
        (
            say(words.name(fix.name)),
            say(fix.phase),
            say(request.seconds(fix.saves)),
            say(words.share(fix.saves_share) if fix.buys == "latency" else ""),
            say(findings.BUYS[fix.buys]),
            say(findings.gain(fix)),
            say(fix.why),
            say(fix.verify),
        )
        for fix in findings.fixes(run)
    )
    if rows:
        heads = columns("fix", "phase", ">saves", f">of {findings.whole(run)}", "what it buys", "time", "why", "verify")
        yield _table(Table(title="", columns=heads, rows=rows))
    yield _safe(findings.note(run))
    useless = [f"- {words.name(r.name)} ({r.phase}): {words.clean(r.reason)}" for r in findings.rejected(run)]
    if useless:
        yield "Would not help:"
        yield "\n".join(f"- {_safe(line[2:])}" for line in useless)


def _legend() -> str:
    return "\n".join(f"- {provenance}: {meaning}" for provenance, (_, meaning) in words.MARKS.items())


def _titled(table: Table) -> str:
    return f"**{_safe(table.title)}**\n\n{_table(table)}"


def _folded(title: str, blocks: list[str]) -> str:
    inside = "\n\n".join(blocks)
    return f"<details><summary>{_safe(title)}</summary>\n\n{inside}\n\n</details>"


def _table(table: Table) -> str:
    if not table.rows:
        return _safe(table.note)
    lines = [_row([column.name for column in table.columns]), _row([_rule(column) for column in table.columns])]
    lines += [_row([_safe(cell.text) for cell in row]) for row in table.rows]
    return "\n".join(lines) + (f"\n\n{_safe(table.note)}" if table.note else "")


def _rule(column: Column) -> str:
    return "---:" if column.numeric else "---"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
