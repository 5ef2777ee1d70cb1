"""The few shapes that a Markdown report is made of, and the escaping that keeps names from being markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phasewise.record.run import Run
from phasewise.report.view import findings, request, words
from phasewise.report.view.heading import Notice
from phasewise.report.view.table import Column, Part, Table, columns, give, say

_SAFE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "#": "&#35;"} | {mark: f"\\{mark}" for mark in "\\`*_[]|~"}
)


def safe(text: str) -> str:
    """Clean text in which nothing is markup, a mention or a link to an issue."""
    return text.translate(_SAFE)


def notice(one: Notice) -> str:
    """GitHub's alert of the notice's kind."""
    kind = {"alarm": "CAUTION", "doubt": "WARNING", "partial": "IMPORTANT"}.get(one.kind, "NOTE")
    marks = (f"{i}." if one.ordered else "-" for i in range(1, len(one.items) + 1))
    listed = [f"> {mark} {safe(item)}" for mark, item in zip(marks, one.items, strict=True)]
    return "\n".join([f"> [!{kind}]", f"> {safe(one.text)}", *([">", *listed] if listed else [])])


def lines(texts: Iterable[str]) -> str:
    """A list of sentences."""
    return "\n".join(f"- {safe(text)}" for text in texts)


def bars(what: str, parts: tuple[Part, ...]) -> Table:
    """The parts of a whole with a bar for each; ``what`` they are is the heading."""
    rows = tuple((say(p.label), give(p.seconds), say(words.share(p.fraction)), say(_bar(p.fraction))) for p in parts)
    return Table(title="", columns=columns(what, ">time", ">share", ""), rows=rows)


def _bar(fraction: float) -> str:
    return "█" * max(0, min(20, round(20 * fraction))) if words.finite(fraction) else ""


def fixes(run: Run) -> Iterator[str]:
    """What to change, what was not ranked and why, what would not help."""
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
        yield table(Table(title="", columns=heads, rows=rows))
    yield safe(findings.note(run))
    useless = [f"{words.name(r.name)} ({r.phase}): {words.clean(r.reason)}" for r in findings.rejected(run)]
    if useless:
        yield "Would not help:"
        yield lines(useless)


def legend() -> str:
    """What each provenance means."""
    return "\n".join(f"- {provenance}: {meaning}" for provenance, (_, meaning) in words.MARKS.items())


def titled(view: Table) -> str:
    """A table under its name."""
    return f"**{safe(view.title)}**\n\n{table(view)}"


def folded(title: str, blocks: list[str]) -> str:
    """Blocks that a reader opens."""
    inside = "\n\n".join(blocks)
    return f"<details><summary>{safe(title)}</summary>\n\n{inside}\n\n</details>"


def table(view: Table) -> str:
    """A table, and its note below; the note alone when there are no rows."""
    if not view.rows:
        return safe(view.note)
    rows = [_row([column.name for column in view.columns]), _row([_rule(column) for column in view.columns])]
    rows += [_row([safe(cell.text) for cell in row]) for row in view.rows]
    return "\n".join(rows) + (f"\n\n{safe(view.note)}" if view.note else "")


def _rule(column: Column) -> str:
    return "---:" if column.numeric else "---"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
