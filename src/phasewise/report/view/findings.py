"""What was checked, what would help, and what would not."""

from __future__ import annotations

from phasewise.record.observation import CheckStatus
from phasewise.record.quantity import Quantity, measured, predicted
from phasewise.record.remedies import Rejected, Remedy
from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.heading import measured as was_measured
from phasewise.report.view.table import Table, columns, say

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
    """Names of the checks that passed, once each."""
    found = [check.name for check in (run.observation.checks if run.observation else ()) if check.status == "passed"]
    return ", ".join(words.name(name).replace("_", " ") for name in dict.fromkeys(found))


def fixes(run: Run) -> tuple[Remedy, ...]:
    """Those that help, most seconds saved first."""
    return run.remedies.fixes if run.remedies else ()


def rejected(run: Run) -> tuple[Rejected, ...]:
    """Those that would not help."""
    return run.remedies.rejected if run.remedies else ()


def note(run: Run) -> str:
    """What was not ranked and why; never empty when nothing is ranked."""
    said = words.clean(run.remedies.note) if run.remedies else ""
    if said or fixes(run):
        return said
    if not was_measured(run, "prefill") and not was_measured(run, "decode"):
        return "Measure first: phasewise profile. What was not measured is not judged."
    return "No fix is ranked."


def buys(fix: Remedy) -> str:
    """What kind of time it saves."""
    return "shortens the request" if fix.buys == "latency" else "frees the accelerator"


def step_before(fix: Remedy) -> Quantity:
    """The phase's step as measured."""
    return measured(fix.step_before, "s", f"{fix.phase} step")


def step_after(fix: Remedy) -> Quantity:
    """The same step after the change."""
    return predicted(fix.step_after, "s", f"{fix.phase} step after the change")


def gain(fix: Remedy) -> str:
    """``decode step 6.10 ms, then 2.04 ms``."""
    return f"{fix.phase} step {words.amount(step_before(fix))}, then {words.amount(step_after(fix))} (predicted)"
