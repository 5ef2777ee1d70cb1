"""TTFT taken apart by asking for the same in different ways, in turns, so that a drift looks like no part."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from phasewise.engines.base import Prompt
from phasewise.engines.exchange import Exchange
from phasewise.engines.timings import own
from phasewise.isolate import prefill
from phasewise.isolate.probes.asking import Asking, Skipped, answered, later, typical
from phasewise.record.probes import TtftParts
from phasewise.record.quantity import Quantity, reported

REPEATS = 3

IDLE_S = 1.5
"""Pause after which clocks have fallen on the accelerators that let them fall."""

IDLES = 2

LONGER = 1.05
"""Texts of so many more tokens than words still fit whatever fitted the measured length."""

REQUESTS_SHARE, IDLE_SHARE = 0.25, 0.17
"""Parts of the allowance for all requests and for one pause."""


def measure(asking: Asking) -> TtftParts:
    """Take TTFT apart at the longest measured length of which the requests fit.

    Raises:
        Skipped: none does, or a plain request failed.
    """
    tokens = _length(asking)
    answered(asking.one(asking.prompt(tokens)))  # opens the connection that is kept
    text = asking.engine.text(round(tokens / LONGER))
    first = asking.one(text) if text else None
    counted = first.prompt_tokens if first and not first.error and first.prompt_tokens else 0
    if not 0 < counted <= LONGER * tokens:
        text, counted = None, tokens
    ways: dict[str, list[Exchange]] = {name: [] for name in ("kept", "again", "fresh", "text", "idle")}
    for _ in range(REPEATS):
        prompt = asking.prompt(counted)
        ways["kept"].append(answered(asking.one(prompt)))
        ways["again"].append(answered(asking.one(prompt)))
        ways["fresh"].append(answered(asking.one(asking.prompt(counted), fresh=True)))
        if text is not None:
            ways["text"].append(answered(asking.one(_text(asking, round(tokens / LONGER)))))
    idle_s = min(IDLE_S, IDLE_SHARE * asking.allowance_s)
    for _ in range(IDLES):
        time.sleep(idle_s)
        ways["idle"].append(answered(asking.one(asking.prompt(counted))))
    return _parts(ways, idle_s)


def _length(asking: Asking) -> int:
    requests = REPEATS * 4 + IDLES + 2
    room = REQUESTS_SHARE * asking.allowance_s
    for shape, group in reversed(prefill.kept(asking.session.samples).items()):
        if group and requests * statistics.median(sample.wall_s for sample in group) <= room:
            return shape.prompt
    raise Skipped("the budget left no time for it")


def _text(asking: Asking, tokens: int) -> Prompt:
    text = asking.engine.text(tokens)
    assert text is not None
    return text


def _parts(ways: dict[str, list[Exchange]], idle_s: float) -> TtftParts:
    times = {name: [exchange.ttft for exchange in found] for name, found in ways.items()}
    kept, again, many = ways["kept"], ways["again"], f"{REPEATS} requests"
    told = [said for one in kept if (said := own(one)) is not None]
    who = told[0].who if told else ""
    return TtftParts(
        tokens=round(statistics.median(_counted(kept) or [0])),
        ttft=typical(times["kept"], "s", f"median of {many}"),
        client=typical([max(0.0, one.slip) for one in kept], "s", "due to sent"),
        connection=typical([one.connect_s for one in ways["fresh"]], "s", f"opening {REPEATS} connections"),
        kept=later(times["kept"], times["fresh"], "TTFT on a kept connection less on a new one"),
        front_end=_front_end(ways, times),
        queue=_told([said.queue for said in told], who),
        prefill=_told([said.prefill for said in told], who),
        idle_s=idle_s,
        idle=later(times["idle"], times["kept"], f"TTFT after a pause of {idle_s:.2g} s less without"),
        again=typical(times["again"], "s", f"median of {many} with a prompt sent before"),
        cached_tokens=_median([one.cached_tokens for one in again]),
        counted_again=_median([one.prompt_tokens for one in again]),
    )


def _front_end(ways: dict[str, list[Exchange]], times: dict[str, list[float]]) -> Quantity | None:
    """Text less token ids; the texts are a little shorter or longer, which TTFT per token puts right."""
    counted, sent = _counted(ways["text"]), _counted(ways["kept"])
    if not counted or not sent:
        return None
    scale = statistics.median(sent)
    fair = [time * scale / tokens for time, tokens in zip(times["text"], counted, strict=True)]
    return later(fair, times["kept"], "TTFT of text less of as many token ids")


def _counted(found: Sequence[Exchange]) -> list[int]:
    return [one.prompt_tokens for one in found if one.prompt_tokens]


def _median(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return round(statistics.median(known)) if known else None


def _told(values: Sequence[float | None], who: str) -> Quantity | None:
    """The server's own time; None when it tells none."""
    known = [value for value in values if value is not None]
    return reported(statistics.median(known), "s", who) if known else None
