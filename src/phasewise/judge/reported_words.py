"""The verdict on other tools' results in one sentence."""

from __future__ import annotations

from phasewise.judge.sentence import BOUNDS
from phasewise.record.judgement import PhaseVerdict, Split, Verdict
from phasewise.record.observation import Phase
from phasewise.record.results import Results, Row
from phasewise.units import show

NOTHING = Verdict(owner=None, bound="unknown", text="")


def normal(mfu: float, batch: float) -> str:
    """The sentence that keeps a low MFU of decode from being read as a fault."""
    many = "batch 1" if batch == 1 else f"a batch of {batch:,.3g}"
    return f"{show(mfu, '1', 2)} MFU is normal for decode at {many}: it waits for bytes, not for math"


def verdict(found: Results) -> Verdict:
    """Which phase owns the time and what it is bound on, or why that cannot be said."""
    if found.alarms:
        return _none(f"No verdict: {found.alarms[0].text}")
    failed = next((check for check in found.reported.checks if check.voids and check.status == "failed"), None)
    if failed:
        return _none(f"No verdict: these figures are not to be believed: {failed.detail.rstrip('.')}.")
    if found.prefill is None and found.decode is None and found.split is None:
        whys = dict.fromkeys(why for row in found.reported.rows for why in row.missing.values())
        why = "; ".join(list(whys)[:2]) or "the file tells no phase"
        return _none(f"No verdict: neither phase can be told from these figures; {why}.")
    whole = next((row for row in found.reported.rows if row.request_s), None)
    if whole is not None:
        return _whole(found, whole)
    if found.split is None:
        return _phases(found)
    return _split(found, found.split)


def _split(found: Results, split: Split) -> Verdict:
    request = f"a {split.prompt_tokens:,}-in/{split.answer_tokens:,}-out request ({show(split.total.value, 's')})"
    queued = found.prefill is None
    share = max(split.prefill_share, split.decode_share)
    if not split.sure:
        return _none(f"Neither phase owns {request} beyond the rounding of the figures.{_each(found)}")
    if split.owner == "decode":
        waits = " (TTFT, which is the rest, holds the queue)" if queued else ""
        text = f"Decode owns {show(share, '1', 2)} of {request}{waits}{_owned(found.decode)}."
        return Verdict(owner="decode", bound=found.decode.bound if found.decode else "unknown", text=text)
    if queued:
        text = (
            f"The wait for the first token owns {show(share, '1', 2)} of {request}: queue and prefill, which these "
            f"figures do not tell apart.{_each(found)}"
        )
        return Verdict(owner="prefill", bound="unknown", text=text)
    text = f"Prefill owns {show(share, '1', 2)} of {request}{_owned(found.prefill)}."
    return Verdict(owner="prefill", bound=found.prefill.bound if found.prefill else "unknown", text=text)


def _whole(found: Results, row: Row) -> Verdict:
    """Of a time that holds both phases: what each needs of it at least."""
    assert row.request_s is not None
    time, answer = row.request_s.value, row.answer_tokens or 1.0
    needs: dict[Phase, float] = {}
    if found.prefill and found.prefill.floor:
        needs["prefill"] = found.prefill.floor.value
    if found.decode and found.decode.floor:
        needs["decode"] = found.decode.floor.value * max(0.0, answer - 1)
    said = (
        f"A {row.prompt_tokens or 0:,.0f}-in/{answer:,.0f}-out request takes {show(time, 's')}, both phases in it, so "
        f"{answer / time:,.3g} answer tokens a second is no decode rate"
    )
    if not needs:
        return _none(f"{said}; what each phase needs of it cannot be said: {found.why_null}.")
    parts = " and ".join(
        f"{phase} at least {show(least, 's')} ({show(least / time, '1', 2)})" for phase, least in needs.items()
    )
    owner = next((phase for phase, least in needs.items() if least > time / 2), None)
    if owner is None and found.decode and found.decode.bound != "unknown":
        owner = "decode"  # its verdict leaves no room for a prefill that counts
    if owner is None:
        return _none(f"{said}: {parts}; what takes the rest is open, so give --ttft and --tpot.")
    own = found.prefill if owner == "prefill" else found.decode
    text = f"{owner.capitalize()} owns most of it"
    return Verdict(owner=owner, bound=own.bound if own else "unknown", text=f"{said}: {parts}. {text}{_owned(own)}.")


def _phases(found: Results) -> Verdict:
    """Without a request whose parts are known."""
    one = found.prefill or found.decode
    both = found.prefill is not None and found.decode is not None
    said = _each(found).strip()
    if both:
        return _none(f"Who owns the time is open: the figures tell no request. {said}")
    other = "decode" if one and one.phase == "prefill" else "prefill"
    bound = one.bound if one else "unknown"
    return Verdict(
        owner=None,
        bound=bound,
        text=f"{said} Nothing is said of {other}, so who owns the time is open.",
    )


def _each(found: Results) -> str:
    said = [
        f" {one.phase.capitalize()}{_is(one).removeprefix(' and')}." for one in (found.prefill, found.decode) if one
    ]
    return "".join(said)


def _owned(phase: PhaseVerdict | None) -> str:
    """What is said of a phase after what it owns."""
    said = _is(phase)
    if phase is None or said.startswith(" and"):
        return said
    return f"; {'a step of it' if phase.phase == 'decode' else 'it'}{said}"


def _is(phase: PhaseVerdict | None) -> str:
    if phase is None:
        return "; what it is bound on cannot be said"
    if phase.headline is None or phase.floor is None:
        return f" takes {show(phase.step.value, 's')}; what it is bound on cannot be said: {phase.why_null}"
    least = "at least " if any("at least this" in note for note in phase.notes) else ""
    figure = f"{least}{show(phase.headline.value, '1')} {phase.yardstick.upper()}"
    floor = f"{show(phase.step.value, 's')} where its floor is {show(phase.floor.value, 's')}"
    if phase.bound == "unknown":
        return f" reaches {figure} ({floor}); what else is in that time is not told, so its bound is open"
    if phase.rival:
        return (
            f" and is {phase.bound}- or {phase.rival}-bound, which these figures cannot tell apart: {figure}, {floor}"
        )
    return f" and is {BOUNDS[phase.bound]}: {figure}, {floor}"


def _none(text: str) -> Verdict:
    return Verdict(owner=None, bound="unknown", text=text)
