"""Pieces that the example runs share."""

from __future__ import annotations

import msgspec

from phasewise.record.judgement import Share, Utilisation
from phasewise.record.observation import (
    Check,
)
from phasewise.record.quantity import Quantity, measured
from phasewise.record.remedies import Remedy

change = msgspec.structs.replace


def about(value: float, unit: str, source: str, spread: float = 0.01) -> Quantity:
    return measured(value, unit, source, value * (1 - spread), value * (1 + spread))  # type: ignore[arg-type]


def sheet(value: float, unit: str) -> Quantity:
    return Quantity(value=value, unit=unit, provenance="datasheet", source="H100 SXM5 datasheet, dense")  # type: ignore[arg-type]


def used(yardstick: str, basis: str, method: str, tokens: float, value: float, ceiling: Quantity) -> Utilisation:
    share = about(value, "1", "counted work over measured time")
    return Utilisation(yardstick=yardstick, basis=basis, method=method, tokens=tokens, value=share, ceiling=ceiling)  # type: ignore[arg-type]


def parts(step: float, *named: tuple[str, float]) -> tuple[Share, ...]:
    return tuple(
        Share(name=name, seconds=measured(s, "s", "share of the step"), fraction=measured(s / step, "1", "of the step"))  # type: ignore[arg-type]
        for name, s in named
    )


def passed(*names: str) -> tuple[Check, ...]:
    return tuple(
        Check(name=name, phase=phase, status="passed", detail=detail, voids=True)  # type: ignore[arg-type]
        for name, phase, detail in (n.split("|") for n in names)
    )


CLEAN = passed(
    "warm|prefill|the last three of 6 warm-up requests at each length agree within 1.1%",
    "uncached|prefill|0 of 24,816 prompt tokens came from a cache, by the server's usage",
    "streamed|decode|256 chunks in 256 reads over 1.52 s",
    "tokens_by_usage|decode|usage counts 256 tokens, 256 were asked for",
    "ended_by_length|decode|8 of 8 answers ended with finish_reason length",
    "chunks_per_token|decode|1.00 tokens per chunk",
    "client|run|the client used 3.1% of one core",
    "clock|run|monotonic and wall clock agree within 0.02 ms over 71 s",
)
ALONE = Check(name="alone", phase="run", status="not_checked", detail="the server publishes no metrics page")


def fix_of(
    name: str, phase: str, saves: float, before: float, after: float, why: str, verify: str, of: float
) -> Remedy:
    gain = Quantity(
        value=saves, low=saves * 0.8, high=saves * 1.1, unit="s", provenance="predicted", source="of the bound's share"
    )
    return Remedy(
        name=name,
        phase=phase,
        saves=gain,
        saves_share=saves / of,
        step_before=before,
        step_after=after,
        why=why,
        verify=verify,  # type: ignore[arg-type]
    )
