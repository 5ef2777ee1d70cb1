"""The verdict on each phase alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from phasewise.judge import curve, notes, shares, utilisation
from phasewise.judge.case import Case, decode_step, prefill_step, within
from phasewise.judge.shares import Parts
from phasewise.predict.roofline import ridge_tokens
from phasewise.record.judgement import CurvePoint, PhaseVerdict, Utilisation
from phasewise.record.observation import Check, Phase
from phasewise.record.quantity import Quantity, predicted
from phasewise.units import show


def prefill(case: Case) -> PhaseVerdict | None:
    """Prefill judged at the stated prompt, or at the measured length nearest to it."""
    seen = case.observation.prefill
    if seen is None or not seen.points:
        return None
    at = within(float(case.asks[0].prompt), [float(point.tokens) for point in seen.points])
    step = prefill_step(seen, at)
    found = utilisation.of_prefill(case, seen, at)
    parts = shares.of_prefill(*case.ground, seen, at, step.value) if case.ground else None
    said: list[str] = []
    below = False
    if case.ground:
        ridge = ridge_tokens(*case.ground)
        below = at < ridge
        if below:
            said.append(
                f"{at:,.0f} tokens are below the ridge of {ridge:,.0f}: such a prefill waits for the weights, so it is "
                "judged by MBU"
            )
    if seen.fit is None:
        said.append("one length only: overhead and growth cannot be told apart")
    if at != case.asks[0].prompt:
        said.append(
            f"taken apart at {at:,.0f} tokens, the measured length nearest to the stated {case.asks[0].prompt:,}"
        )
    return _verdict(
        case,
        "prefill",
        yardstick="mbu" if below else "mfu",
        at=at,
        step=step,
        parts=parts,
        found=found,
        along=curve.of_prefill(case, seen),
        said=said,
        probed=notes.of_prefill(case.observation.probes),
    )


def decode(case: Case) -> PhaseVerdict | None:
    """Decode at batch 1, judged in the middle of the stated answer, or at the measured context nearest to it."""
    seen = case.observation.decode
    if seen is None:
        return None
    ask = case.asks[0]
    contexts = [point.context for point in seen.points] or [seen.tpot_context]
    at = within(ask.prompt + ask.answer / 2, contexts)
    step = decode_step(seen, at)
    found = utilisation.of_decode(case, seen, at)
    parts = shares.of_decode(*case.ground, seen.fit, at, step.value, _prefill_overhead(case)) if case.ground else None
    said: list[str] = []
    mfu = utilisation.first(found, "mfu")
    by_math = parts is not None and parts.side == "compute"
    if by_math:
        said.append("under these ceilings the math of a step takes longer than its bytes, so it is judged by MFU")
    elif mfu is not None:
        said.append(f"{show(mfu.value, '1', 2)} MFU is normal for decode at batch 1: it waits for bytes, not for math")
    if at != ask.prompt + ask.answer / 2:
        said.append(f"taken apart at {at:,.0f} tokens, the measured context nearest to the middle of the answer")
    return _verdict(
        case,
        "decode",
        yardstick="mfu" if by_math else "mbu",
        at=at,
        step=step,
        parts=parts,
        found=found,
        along=curve.of_decode(case, seen),
        said=said,
        probed=(*(notes.steep(*case.ground, seen) if case.ground else ()), *notes.of_decode(case.observation.probes)),
    )


def _verdict(
    case: Case,
    phase: Phase,
    *,
    yardstick: Literal["mfu", "mbu"],
    at: float,
    step: Quantity,
    parts: Parts | None,
    found: tuple[Utilisation, ...],
    along: tuple[CurvePoint, ...],
    said: Iterable[str],
    probed: Iterable[str],
) -> PhaseVerdict:
    """What both phases are told by; ``said`` and ``probed`` stand before and after what the headline asks for."""
    headline = utilisation.first(found, yardstick)
    return PhaseVerdict(
        phase=phase,
        yardstick=yardstick,
        headline=headline,
        why_null="" if case.ground else case.why_null,
        at_tokens=at,
        step=step,
        floor=_floor(parts),
        bound=parts.bound if parts else "unknown",
        rival=parts.rival if parts else None,
        shares=parts.shares() if parts else (),
        utilisations=found,
        curve=along,
        notes=(*said, *notes.at_ceiling(headline, yardstick), *probed, *_close(parts)),
        believed=believed(case.observation.checks, phase),
    )


def _prefill_overhead(case: Case) -> Quantity | None:
    """Overhead of a prefill pass with its interval, when prefill was measured."""
    seen = case.observation.prefill
    if seen is None or seen.fit is None or case.ground is None:
        return None
    longest = float(max(point.tokens for point in seen.points))
    return shares.of_prefill(*case.ground, seen, longest, prefill_step(seen, longest).value).overhead


def _floor(parts: Parts | None) -> Quantity | None:
    return predicted(parts.floor, "s", f"{parts.side} floor") if parts else None


def _close(parts: Parts | None) -> list[str]:
    """A sentence when the interval of the overhead leaves open which part is the largest."""
    if parts is None or parts.rival is None:
        return []
    low, high = parts.overhead.low or 0.0, parts.overhead.high or 0.0
    return [
        f"whether {parts.bound} or {parts.rival} is the largest part is within the interval of the overhead "
        f"({show(low, 's')} to {show(high, 's')}): a sweep over batch or a trace would tell"
    ]


def believed(checks: tuple[Check, ...], phase: Phase) -> bool:
    """False when a check that voids this phase's figures failed."""
    return not any(c.voids and c.status == "failed" and c.phase in (phase, "run") for c in checks)
