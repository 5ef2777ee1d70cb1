"""Was the engine warm, and was every prompt really computed?"""

from __future__ import annotations

import statistics

from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.isolate.sample import Sample, Shape
from phasewise.record.observation import Check, Phase
from phasewise.units import show

COOLING = 0.20
COOLING_S = 2e-3
"""A first counted request this much slower than the later ones means that the engine was still warming up."""

CACHED = 0.02
"""Part of the prompt tokens that may come from a cache (a template's prefix, a BOS block)."""

FLAT, FLAT_S, FLAT_PER_TOKEN_S = 0.02, 0.2e-3, 50e-9
"""TTFT that grows over at least eightfold length by no more than this part, this time, and this much per token (sending
and parsing a token id takes about as long) is flat."""

LEVEL = 5.0
"""Growth, in units of what counts as flat, that TTFT must have had per token before it stands still."""

STRAYS = 0.3
"""Part of its growth by which TTFT may stray from a line before it stands still: a parabola does by a quarter."""

TELLING_TOKENS = 1024
"""Shorter prompts may honestly cost the same: below the ridge prefill waits for the weights."""


def warm(evidence: Evidence) -> list[Check]:
    """Did the first requests at each shape settle?"""
    found = [_warm(evidence, "prefill", evidence.prefill, 1), _warm(evidence, "decode", evidence.decode, 0)]
    return [check for check in found if check]


def _warm(evidence: Evidence, phase: Phase, groups: dict[Shape, list[Sample]], discarded: int) -> Check | None:
    sent = evidence.sent(phase)
    if not sent:
        return None
    compared, cooling, given_up = 0, 0, len(sent) - sum(len(group) for group in groups.values())
    slowest = 1.0
    for shape, group in groups.items():
        times = [s.repeatable for s in group]
        if len(times) < 2:
            continue
        compared += 1
        later = statistics.median(times[1:])
        cooling += times[0] > later * (1 + COOLING) + COOLING_S
        first = next(s for s in sent if s.shape == shape)
        if phase == "prefill":
            slowest = max(slowest, first.answer.ttft / later)
    if compared == 0:
        return Check(
            name="warm", phase=phase, status="not_checked", detail="no shape was asked for often enough to tell"
        )
    text = f"{given_up} of {many(len(sent), 'request')} {'was' if given_up == 1 else 'were'} given up as warm-up"
    if discarded:
        text += f" (the first at a length took up to {slowest:.2f} times the later ones)"
    if 2 * cooling > compared:
        text += f"; at {cooling} of {many(compared, 'shape')} the first counted one was still over {COOLING:.0%} slower"
        return Check(name="warm", phase=phase, status="failed", detail=text)
    return Check(name="warm", phase=phase, status="passed", detail=f"{text}; the counted ones repeat from the first on")


def uncached(evidence: Evidence) -> list[Check]:
    """Were the prompts computed, by the server's count of cached tokens and by the growth of TTFT?"""
    samples = [sample for group in evidence.prefill.values() for sample in group]
    if not samples:
        return []
    flat, grows = _growth(evidence.prefill)
    known = [s for s in samples if s.answer.cached_tokens is not None]
    cached = sum(s.answer.cached_tokens or 0 for s in known)
    share = cached / max(1, sum(s.prompt_tokens for s in known))
    if share > CACHED:
        text = f"the server took {share:.0%} of the prompt tokens from its cache, though no prompt was sent twice"
        return [Check(name="uncached", phase="prefill", status="failed", detail=text, voids=True)]
    if flat:
        return [Check(name="uncached", phase="prefill", status="failed", detail=grows, voids=True)]
    if not known:
        text = f"the server does not say how many prompt tokens were cached; {grows}"
        return [Check(name="uncached", phase="prefill", status="not_checked", detail=text)]
    text = f"{cached:,} of {many(sum(s.prompt_tokens for s in known), 'prompt token')} came from a cache; {grows}"
    return [Check(name="uncached", phase="prefill", status="passed", detail=text)]


def _growth(groups: dict[Shape, list[Sample]]) -> tuple[bool, str]:
    """Is TTFT flat over length, and what was seen."""
    typical = {
        statistics.median(s.prompt_tokens for s in group): statistics.median(s.answer.ttft for s in group)
        for group in groups.values()
        if group
    }
    short, long = min(typical), max(typical)
    if short == long:
        return False, f"TTFT was {show(typical[short], 's')} at {many(short, 'token')}, and no other length was counted"
    text = (
        f"TTFT was {show(typical[short], 's')} at {many(short, 'token')} and {show(typical[long], 's')} at {long:,.0f}"
    )
    if long < TELLING_TOKENS or long < 8 * short:
        return False, f"{text}, too few tokens to tell whether it grows"
    if _flat(typical, short, long):
        return True, f"{text}: it does not grow with the prompt, so prompts were not computed"
    level = _level(typical)
    if level is not None:
        text += f", no more than at {level:,.0f}: of longer prompts only a part is computed (the first or last chunk, "
        return True, f"{text}what a limit leaves, what no cache holds)"
    return False, text


def _flat(typical: dict[float, float], short: float, long: float) -> bool:
    """Whether TTFT at ``long`` is no more than at ``short``."""
    return typical[long] - typical[short] <= _slack(typical, short, long)


def _slack(typical: dict[float, float], short: float, long: float) -> float:
    return FLAT * typical[short] + FLAT_S + FLAT_PER_TOKEN_S * (long - short)


def _level(typical: dict[float, float]) -> float | None:
    """The length from which on TTFT stands still over at least twice that length, though it grew evenly up to there.

    Evenly: no length between strays from the line. A step alone, as where an engine leaves its graphs, is no growth.
    """
    lengths = sorted(typical)
    short, long = lengths[0], lengths[-1]
    for place, level in enumerate(lengths[2:-1], start=2):
        grown = typical[level] - typical[short]
        slope = grown / (level - short)
        strays = [abs(typical[n] - typical[short] - slope * (n - short)) for n in lengths[1:place]]
        due = slope * (long - level)
        if (
            long >= 2 * level
            and max(strays) < STRAYS * grown
            and due > LEVEL * _slack(typical, level, long)
            and _flat(typical, level, long)
        ):
            return level
    return None
