"""The window: which stretch of a run its figures are of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phasewise.record.load import Window

Values = NDArray[np.float64]

LEAST = 0.1
"""A window of less than this part of the run tells too little: then all requests count, and the rule says so."""


def window(
    *, due: Values, first: Values, ended: Values, user: Values, seconds: float, trims: bool, cut: float = np.inf
) -> Window:
    """The stretch in which all were running; arrays are one element per request, NaN for what did not come.

    Closed loop: from when every user has had a first token to when the first user has nothing more to send, or the
    time to send is over. Open loop: from one median request after the start, when requests of every age are in flight,
    to the last arrival. ``trims`` is False where nothing is steady by intent (bursts, ramps): all counts. ``cut`` is
    when the first request was due that we broke off: of those due later only short ones are known to their end.
    """
    end_of_all = float(np.nanmax(np.concatenate([ended, due]))) if len(due) else 0.0
    if not trims:
        return _all(due, end_of_all, "all requests: the load is not steady by intent")
    users = np.unique(user[np.isfinite(user)])
    if len(users):
        of = [user == one for one in users]
        begins = [np.nanmin(first[mask]) if np.isfinite(first[mask]).any() else np.inf for mask in of]
        begin, last = max(begins), min(float(np.nanmax(np.where(mask, due, -np.inf))) for mask in of)
        over = [float(np.nanmax(ended[mask])) for mask in of if np.isfinite(ended[mask]).any()]
        end = min([seconds, *over]) if over else last
        rule = "closed loop: from when every user has had a first token to when the first has nothing more to send"
    else:
        took = (ended - due)[np.isfinite(ended)]
        begin, end = float(due.min() + (np.median(took) if len(took) else np.inf)), float(due.max())
        rule = "open loop: from one median request after the first arrival to the last arrival"
    if cut < end:
        end, rule = cut, f"{rule}, or when the first was due that was broken off"
    if not end - begin >= LEAST * max(end_of_all, 1e-9):
        return _all(due, end_of_all, "all requests: all were running in less than a tenth of the run")
    return Window(
        begin_s=float(begin), end_s=float(end), rule=rule, requests=int(((due >= begin) & (due <= end)).sum())
    )


def _all(due: Values, end: float, rule: str) -> Window:
    begin = min(0.0, float(due.min())) if len(due) else 0.0
    return Window(begin_s=float(begin), end_s=float(end), rule=rule, requests=len(due))
