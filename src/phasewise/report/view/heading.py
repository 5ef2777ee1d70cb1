"""The first lines: the verdict, what was profiled, and what stands against believing it."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.judgement import PhaseVerdict
from phasewise.record.observation import Phase
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
    """Alarms first, then figures not to be believed, a run cut short, and contradictions."""
    found = [
        Notice(kind="alarm", text=words.clean(alarm.text), items=tuple(map(words.clean, alarm.causes)), ordered=True)
        for alarm in (run.judgement.alarms if run.judgement else ())
    ]
    found += [_doubt(run, phase) for phase in PHASES if (seen := verdict_of(run, phase)) and not seen.believed]
    if run.envelope.status != "complete":
        kept = "what was measured until then is below" if run.observation else "nothing was measured"
        reason = words.clean(run.envelope.reason).rstrip(".") or "no reason is recorded"
        found.append(Notice(kind="partial", text=f"{run.envelope.status.capitalize()} run: {reason}; {kept}."))
    if run.target is not None and run.target.contradictions:
        items = tuple(map(words.clean, run.target.contradictions))
        found.append(
            Notice(kind="contradiction", text="What the server says and what it was said to be differ:", items=items)
        )
    return tuple(found)


def _doubt(run: Run, phase: Phase) -> Notice:
    checks = run.observation.checks if run.observation else ()
    failed = tuple(
        f"{words.name(check.name)}: {words.clean(check.detail)}"
        for check in checks
        if check.voids and check.status == "failed" and check.phase in (phase, "run")
    )
    why = "these checks failed:" if failed else "the alarm above says why."
    return Notice(kind="doubt", text=f"The {phase} figures must not be believed, {why}", items=failed)
