"""The verdict in one sentence."""

from __future__ import annotations

from phasewise.record.judgement import Alarm, Bound, PhaseVerdict, Split, Verdict
from phasewise.record.observation import Check
from phasewise.units import show

BOUNDS: dict[Bound, str] = {
    "compute": "compute-bound",
    "memory": "memory-bound",
    "overhead": "bound by overhead (launches, host, scheduler, HTTP)",
    "kernel": "kernel-bound (its kernels take longer than the work needs)",
    "communication": "bound by communication between devices",
    "power": "bound by power",
    "queue": "bound by the queue",
    "client": "bound by the client",
    "unknown": "bound on nothing that could be named",
}
"""Each bound in words."""


def verdict(
    prefill: PhaseVerdict | None,
    decode: PhaseVerdict | None,
    splits: tuple[Split, ...],
    mix: tuple[float, float] | None,
    rung: tuple[Alarm, ...],
    checks: tuple[Check, ...],
) -> Verdict:
    """Which phase owns the time and what it is bound on, or why that cannot be said."""
    if rung:
        return _none(f"No verdict: {rung[0].text}")
    failed = next((check for check in checks if check.voids and check.status == "failed"), None)
    if failed:
        whose = "" if failed.phase == "run" else f"{failed.phase} "
        return _none(f"No verdict: the {whose}figures are not to be believed, {_lower(failed.detail)}")
    if prefill is None or decode is None:
        return _one_phase(prefill or decode)
    return _both(prefill, decode, splits, mix)


def _both(
    prefill: PhaseVerdict, decode: PhaseVerdict, splits: tuple[Split, ...], mix: tuple[float, float] | None
) -> Verdict:
    if not splits or mix is None:
        return _none(
            "No verdict: the prompts that were measured do not tell how long the stated one takes; give more time "
            f"(--budget) or a shorter request (--prompt). Alone, prefill {_short(prefill)}, decode {_short(decode)}."
        )
    owner = prefill if mix[0] > mix[1] else decode
    share = max(mix)
    first = splits[0]
    request = (
        f"a {first.prompt_tokens:,}-in/{first.answer_tokens:,}-out request ({show(first.total.value, 's')})"
        if len(splits) == 1
        else f"the time over the mix of {len(splits)} requests"
    )
    if len(splits) == 1 and not first.sure:
        return _none(
            f"Neither phase owns {request} beyond the noise: prefill takes {show(first.ttft.value, 's')} and "
            f"{_short(prefill)}, decode takes {show(first.decode.value, 's')} and {_short(decode)}."
        )
    text = f"{owner.phase.capitalize()} owns {show(share, '1', 2)} of {request}"
    return Verdict(owner=owner.phase, bound=owner.bound, text=f"{text}{_bound(owner)}.")


def _bound(phase: PhaseVerdict) -> str:
    if not phase.shares or phase.headline is None:
        return f"; what it is bound on cannot be said: {phase.why_null}"
    largest = phase.shares[0]
    yardstick = f"{show(phase.headline.value, '1')} {phase.yardstick.upper()}"
    if phase.rival:
        return f" and is {phase.bound}- or {phase.rival}-bound, which this run cannot tell apart, at {yardstick}"
    return f" and is {BOUNDS[phase.bound]}: {show(largest.fraction.value, '1', 2)} of its step, {yardstick}"


def _short(phase: PhaseVerdict) -> str:
    if not phase.shares or phase.headline is None:
        return "is bound on what cannot be said"
    bound = f"{phase.bound}- or {phase.rival}-bound" if phase.rival else f"{phase.bound}-bound"
    return f"is {bound} ({show(phase.headline.value, '1')} {phase.yardstick.upper()})"


def _one_phase(phase: PhaseVerdict | None) -> Verdict:
    if phase is None:
        return _none("No verdict: nothing was measured.")
    other = "decode" if phase.phase == "prefill" else "prefill"
    text = f"Only {phase.phase} was measured, so who owns the time is open and nothing is said of {other}"
    return Verdict(owner=None, bound=phase.bound, text=f"{text}; {phase.phase}{_tail(phase)}.")


def _tail(phase: PhaseVerdict) -> str:
    return _bound(phase).removeprefix(" and") if phase.shares else f" takes {show(phase.step.value, 's')}"


def _none(text: str) -> Verdict:
    return Verdict(owner=None, bound="unknown", text=text)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
