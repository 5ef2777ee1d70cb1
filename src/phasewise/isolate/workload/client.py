"""Whether the client kept up: a client that is late makes a server look slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.workload.worker import Done
from phasewise.record.load import Client
from phasewise.units import show

Values = NDArray[np.float64]

MOST_CPU = 0.9
"""CPU seconds of a worker over its wall seconds: above it there is no time left to be on time."""

MOST_SLIP_S = 5e-3
"""p99 of how much later than due a request was sent, connecting left out ..."""

MOST_SLIP = 0.1
"""... or this part of the median TTFT (closed loop: of the median request), whichever is more."""

MOST_LATE = 1
"""Of several workers each is held to the same, but of few requests one may be late."""

MOST_NAMED = 4
"""Faults that are named; with many workers one of them says it all."""


def client(done: Sequence[Done], slips: Mapping[int, Values], pace_s: float) -> Client:
    """Of all workers; ``slips`` (n,) in seconds, one per request of each, should be small against ``pace_s``.

    The lag from the kernel's stamp to the read is told and not judged: it is in no time, and where it delays a request
    it is in that one's slip.
    """
    cpu = max((one.lateness.cpu_share for one in done), default=0.0)
    lags = [one.lateness.lag_p99_s for one in done if one.lateness.lag_p99_s is not None]
    slip = np.concatenate(list(slips.values())) if slips else np.empty(0)
    slip_p99 = float(np.percentile(slip, 99)) if len(slip) else None
    most = max(MOST_SLIP_S, MOST_SLIP * pace_s)
    faults = [
        f"{f'worker {one.worker}' if len(done) > 1 else 'it'} used {one.lateness.cpu_share:.0%} of a core"
        for one in done
        if one.lateness.cpu_share > MOST_CPU
    ]
    if slip_p99 is not None and slip_p99 > most:
        faults.append(f"it sent requests {show(slip_p99, 's')} late (p99)")
    elif len(done) > 1:
        faults += [
            f"worker {worker} sent {late:,} of its {len(slip):,} requests over {show(most, 's')} late"
            for worker, slip in slips.items()
            if (late := int((slip > most).sum())) > max(MOST_LATE, len(slip) // 100)
        ]
    seen = f"{cpu:.0%} of a core"
    if slip_p99 is not None:
        seen += f", requests sent {show(max(0.0, slip_p99), 's')} after they were due (p99)"
    if lags:
        seen += f", bytes read within {show(max(lags), 's')} (p99)"
    return Client(
        workers=len(done),
        cpu_share=cpu,
        slip_p99_s=slip_p99,
        lag_p99_s=max(lags) if lags else None,
        believed=not faults,
        detail=f"the client could not keep up: {_listed(faults)}" if faults else seen,
    )


def _listed(faults: Sequence[str]) -> str:
    others = f" and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
    return ", ".join(faults[:MOST_NAMED]) + others
