"""What was checked, what would help, and what would not."""

from __future__ import annotations

from typing import Literal

from phasewise.record.observation import CheckStatus
from phasewise.record.quantity import Quantity, measured, predicted, reported
from phasewise.record.remedies import Rejected, Remedy
from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.heading import measured as was_measured
from phasewise.report.view.table import Table, columns, say

Buys = Literal["latency", "throughput"]

STATUS: dict[CheckStatus, str] = {"passed": "passed", "failed": "FAILED", "not_checked": "not checked"}
"""How a check came out, in words that need no colour."""

_ORDER: dict[CheckStatus, int] = {"failed": 0, "not_checked": 1, "passed": 2}


def checks(run: Run) -> Table:
    """Every check with what it saw, failures first."""
    found = sorted(run.observation.checks if run.observation else (), key=lambda check: _ORDER[check.status])
    rows = tuple(
        (
            say(STATUS[check.status]),
            say(words.name(check.name).replace("_", " ")),
            say("both" if check.phase == "run" else check.phase),
            say(check.detail),
        )
        for check in found
    )
    note = "" if rows else "No check was made: none of these figures is known to be clean."
    return Table(title="Checks", columns=columns("status", "check", "phase", "what was seen"), rows=rows, note=note)


def tally(run: Run) -> str:
    """``9 passed, 1 failed, 2 not checked``."""
    found = [check.status for check in (run.observation.checks if run.observation else ())]
    counts = [(status, found.count(status)) for status in ("passed", "failed", "not_checked")]
    return ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in counts if n) or "none made"


def passed(run: Run) -> str:
    """The checks that passed, each with the phases it speaks of: a twin on another phase may have failed."""
    found: dict[str, list[str]] = {}
    for check in run.observation.checks if run.observation else ():
        if check.status == "passed":
            found.setdefault(words.name(check.name).replace("_", " "), []).append(check.phase)
    return ", ".join(f"{name} ({', '.join(dict.fromkeys(phases))})" for name, phases in found.items())


def fixes(run: Run) -> tuple[Remedy, ...]:
    """Those that help, most seconds saved first: those that shorten the request, then those that free time."""
    return run.remedies.fixes if run.remedies else ()


def rejected(run: Run) -> tuple[Rejected, ...]:
    """Those that would not help."""
    return run.remedies.rejected if run.remedies else ()


def note(run: Run) -> str:
    """What was not ranked and why; never empty when nothing is ranked."""
    said = words.short(run.remedies.note) if run.remedies else ""
    if said or fixes(run):
        return said
    if run.traced is None and not was_measured(run, "prefill") and not was_measured(run, "decode"):
        return "Measure first: phasewise profile. What was not measured is not judged."
    return "No fix is ranked."


BUYS: dict[Buys, str] = {"latency": "shortens the request", "throughput": "frees the accelerator"}
"""What kind of time a fix saves, in the order in which they are sorted."""


def groups(run: Run) -> list[tuple[Buys, tuple[Remedy, ...]]]:
    """The fixes by what they buy: only those of one group compare by their seconds."""
    by_kind = [(kind, tuple(fix for fix in fixes(run) if fix.buys == kind)) for kind in BUYS]
    return [(kind, found) for kind, found in by_kind if found]


def whole(run: Run) -> str:
    """What a share that is saved is a share of: the stated request, or the steps of a trace, which has no request.

    Of ranks that run side by side those of one: what all save at once is waited for once. Of two recordings those of
    the fix's own phase: how much of the other was recorded is no measure of it.
    """
    if run.traced is None:
        return "the request"
    if run.traced.recordings:
        return "its phase's steps"
    ranks = len(run.traced.files) > 1
    return "all steps of a rank" if ranks else "all steps"


def saves(fix: Remedy, amount: str, of: str) -> str:
    """``saves 954 ms, 51.1% of the request``; ``saves 1.62 s of accelerator time per request``."""
    if fix.buys == "throughput":
        return f"saves {amount} of accelerator time per request"
    return f"saves {amount}, {words.share(fix.saves_share)} of {of}"


def step_before(run: Run, fix: Remedy) -> Quantity:
    """The phase's step as measured, or as another tool reported it."""
    return (reported if run.results else measured)(fix.step_before, "s", what(fix))


def step_after(fix: Remedy) -> Quantity:
    """The same after the change."""
    return predicted(fix.step_after, "s", f"{what(fix)} after the change")


def what(fix: Remedy) -> str:
    """What the two times of a fix are: a step that the user waits for, or what the accelerator spends."""
    if fix.buys == "latency":
        return f"{fix.phase} step"
    return "accelerator time per token" if fix.phase == "decode" else "accelerator time per prompt"


def gain(fix: Remedy) -> str:
    """``decode step 6.10 ms, then 2.04 ms``."""
    return f"{what(fix)} {words.number(fix.step_before, 's')}, then {words.amount(step_after(fix))} (predicted)"
