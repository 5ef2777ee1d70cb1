"""How many requests met the limits on TTFT and TPOT, and which limit breaks first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.workload.percentiles import share
from phasewise.record.load import Breaks, Goodput, Holds, Limits
from phasewise.record.quantity import Quantity, measured

Values = NDArray[np.float64]

PART = 0.9
"""Part of the requests that must meet the limits unless said otherwise, as in DistServe (Zhong et al. 2024)."""


def goodput(ttft: Values, tpot: Values, failed: NDArray[np.bool_], limits: Limits, seconds: float) -> Goodput:
    """Of requests in order of time, ``seconds`` long: TTFT as its user had it, NaN where there is none.

    A request that failed, or that has no first token, meets nothing; one of a single token has no TPOT to break.
    """
    met_ttft = ~failed & (ttft <= _or_all(limits.ttft_s))
    met_tpot = ~failed & ((tpot <= _or_all(limits.tpot_s)) | np.isnan(tpot))
    both = met_ttft & met_tpot
    met = share(both, "requests that met the limits, of all that were due in the window")
    nearness: dict[Breaks, float] = {}
    if limits.ttft_s is not None:
        nearness["ttft"] = _needed(np.where(failed | np.isnan(ttft), np.inf, ttft), limits.part) / limits.ttft_s
    if limits.tpot_s is not None:
        nearness["tpot"] = _needed(np.where(failed, np.inf, np.nan_to_num(tpot)), limits.part) / limits.tpot_s
    broken: dict[Breaks, int] = {"ttft": int((~met_ttft).sum()), "tpot": int((~met_tpot).sum())}
    first = max(nearness, key=lambda name: (broken[name], nearness[name]))
    offered = len(both) / seconds if seconds > 0 else 0.0
    return Goodput(
        limits=limits,
        met=met,
        met_ttft=share(met_ttft, "requests that met the TTFT limit") if limits.ttft_s is not None else None,
        met_tpot=share(met_tpot, "requests that met the TPOT limit") if limits.tpot_s is not None else None,
        rate=measured(
            met.value * offered,
            "request/s",
            "met the limits, per second",
            low=(met.low or 0.0) * offered,
            high=(1.0 if met.high is None else met.high) * offered,
        ),
        holds=_holds(met, limits.part),
        requests=len(both),
        first=first,
        nearness=nearness,
    )


def _or_all(limit: float | None) -> float:
    return np.inf if limit is None else limit


def _needed(values: Values, part: float) -> float:
    """What ``part`` of the values do not exceed (nearest rank)."""
    return float(np.sort(values)[max(0, int(np.ceil(part * len(values))) - 1)])


def _holds(met: Quantity, part: float) -> Holds:
    if met.low is not None and met.low >= part:
        return "holds"
    return "breaks" if met.high is not None and met.high < part else "undecided"
