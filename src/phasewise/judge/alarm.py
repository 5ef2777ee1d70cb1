"""The impossibility alarm: more than 100% of a ceiling stops the verdict."""

from __future__ import annotations

from phasewise.record.judgement import Alarm, PhaseVerdict, Utilisation
from phasewise.units import show

CAUSES = (
    "a sparse peak was taken for a dense one, or the peak or bandwidth given is not this accelerator's",
    "the wrong accelerator: check --on",
    "the wrong dtype: the weights that ran are smaller than said (--weights), or the matmuls run in another dtype",
    "all experts were counted where a few are active",
    "the prompt was cached: the server skipped the work",
    "only one batch, chunk or part of the pass was timed",
    "devices were miscounted: check --devices",
)
"""Likely causes, likeliest first (design, rule 5)."""


def alarms(verdicts: tuple[PhaseVerdict | None, ...]) -> tuple[Alarm, ...]:
    """One alarm per phase and yardstick whose utilisation is over 100% even at its lower end."""
    return tuple(one for verdict in verdicts if verdict for one in of_phase(verdict.phase, verdict.utilisations))


def of_phase(phase: str, utilisations: tuple[Utilisation, ...]) -> tuple[Alarm, ...]:
    """The alarms of one phase."""
    found = []
    for yardstick in ("mfu", "mbu"):
        over = [u for u in utilisations if u.yardstick == yardstick and _impossible(u)]
        if over:
            found.append(_alarm(phase, max(over, key=lambda u: u.value.value)))
    return tuple(found)


def _impossible(seen: Utilisation) -> bool:
    return (seen.value.value if seen.value.low is None else seen.value.low) > 1.0


def _alarm(phase: str, seen: Utilisation) -> Alarm:
    where = "at" if seen.method == "whole" else "by its slope up to"
    text = (
        f"{phase} {where} {seen.tokens:,.0f} tokens reads {show(seen.value.value, '1')} {seen.yardstick.upper()} of "
        f"the {seen.basis} ceiling {show(seen.ceiling.value, seen.ceiling.unit)}: no machine does more than it can."
    )
    return Alarm(text=text, causes=CAUSES)
