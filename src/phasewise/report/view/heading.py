"""The first lines: the verdict, what was profiled, and what stands against believing it."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.judgement import PhaseVerdict
from phasewise.record.observation import Check, Phase
from phasewise.record.run import Run
from phasewise.report.view import words

PHASES: tuple[Phase, Phase] = ("prefill", "decode")
"""In the order in which a request meets them."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something to know before the numbers: a sentence, and a list under it."""

    kind: Literal["alarm", "doubt", "partial", "contradiction"]
    text: str
    items: tuple[str, ...] = ()
    ordered: bool = False


def verdict_of(run: Run, phase: Phase) -> PhaseVerdict | None:
    """The verdict on one phase, None when it was not judged."""
    if run.judgement is None:
        return None
    return run.judgement.prefill if phase == "prefill" else run.judgement.decode


def measured(run: Run, phase: Phase) -> bool:
    """Whether anything was measured of ``phase``."""
    seen = run.observation
    return seen is not None and (seen.prefill if phase == "prefill" else seen.decode) is not None


def headline(run: Run) -> str:
    """The verdict in one sentence; without one, why there is none."""
    if run.judgement is not None and run.judgement.verdict.text.strip():
        return words.clean(run.judgement.verdict.text)
    return f"No verdict: {words.clean(run.envelope.reason) or 'nothing was measured'}."


def subject(run: Run) -> str:
    """What ran where: ``llama-3-8b, bf16, on h100-sxm, vLLM (http://...)``."""
    parts = []
    if run.model is not None:
        parts.append(f"{words.name(run.model.name)}, {words.name(run.model.weights_format)}")
    if run.machine is not None:
        many = f"{run.machine.devices} × " if run.machine.devices != 1 else ""
        parts.append(f"on {many}{words.name(run.machine.name)}")
    if run.target is not None:
        engine, name = words.name(run.target.engine), words.name(run.target.name)
        parts.append(name if engine in ("", "unknown", name) else f"{engine} ({name})")
    return ", ".join(parts) or "No model, machine or target is recorded."


def notices(run: Run) -> tuple[Notice, ...]:
    """Alarms first, then figures not to be believed, other failed checks, a run cut short, and contradictions."""
    found = [
        Notice(kind="alarm", text=words.clean(alarm.text), items=tuple(map(words.clean, alarm.causes)), ordered=True)
        for alarm in (run.judgement.alarms if run.judgement else ())
    ]
    found += _disbelieved(run)
    found += [Notice(kind="doubt", text=f"Doubt: {_said(check)}") for check in failed(run, voids=False)]
    if run.envelope.status != "complete":
        kept = "what was measured until then is below" if _anything(run) else "there is no figure"
        reason = words.clean(run.envelope.reason).rstrip(".") or "no reason is recorded"
        found.append(Notice(kind="partial", text=f"{run.envelope.status.capitalize()} run: {reason}; {kept}."))
    if run.target is not None and run.target.contradictions:
        items = tuple(map(words.clean, run.target.contradictions))
        found.append(
            Notice(kind="contradiction", text="What the server says and what it was said to be differ:", items=items)
        )
    return tuple(found)


def failed(run: Run, phase: Phase | None = None, *, voids: bool) -> tuple[Check, ...]:
    """The failed checks that void what they speak of, or those that only cast doubt; all, or those of one phase."""
    checks = run.observation.checks if run.observation else ()
    of = (phase, "run") if phase else (*PHASES, "run")
    return tuple(check for check in checks if check.status == "failed" and check.voids == voids and check.phase in of)


def check_name(check: Check) -> str:
    """``tokens by usage (decode)``, ``clock (run)``."""
    return f"{words.name(check.name).replace('_', ' ')} ({check.phase})"


def _said(check: Check) -> str:
    return f"{check_name(check)}: {words.clean(check.detail)}"


def _anything(run: Run) -> bool:
    swept = run.sweep is not None and run.sweep.measured
    return any(measured(run, phase) for phase in PHASES) or swept or run.power_sweep is not None


def _disbelieved(run: Run) -> list[Notice]:
    """One notice a phase whose figures are void, judged or not; one for the run where no phase is left to void."""
    found = []
    for phase in PHASES:
        verdict = verdict_of(run, phase)
        own = any(check.phase == phase for check in failed(run, phase, voids=True))
        if own or (verdict is not None and not verdict.believed):
            found.append(_void(f"The {phase} figures", failed(run, phase, voids=True)))
    if not found and failed(run, voids=True):
        found.append(_void("The figures", failed(run, voids=True)))
    return found


def _void(what: str, checks: tuple[Check, ...]) -> Notice:
    why = "these checks failed:" if checks else "the alarm above says why."
    return Notice(kind="doubt", text=f"{what} must not be believed, {why}", items=tuple(map(_said, checks)))
