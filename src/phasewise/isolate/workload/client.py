"""Whether the client kept up: a client that is late makes a server look slow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.workload.worker import Done
from phasewise.record.load import Client
from phasewise.units import show

MOST_CPU = 0.9
"""CPU seconds of a worker over its wall seconds: above it there is no time left to be on time."""

MOST_SLIP_S = 5e-3
"""p99 of how much later than due a request was sent, connecting left out ..."""

MOST_SLIP = 0.1
"""... or this part of the median TTFT (closed loop: of the median request), whichever is more."""


def client(done: Sequence[Done], slip: NDArray[np.float64], pace_s: float) -> Client:
    """The worst of all workers; ``slip`` (n,) in seconds, one per request, should be small against ``pace_s``.

    The lag from the kernel's stamp to the read is told and not judged: it is in no time, and where it delays a request
    it is in that one's slip.
    """
    cpu = max((one.lateness.cpu_share for one in done), default=0.0)
    lags = [one.lateness.lag_p99_s for one in done if one.lateness.lag_p99_s is not None]
    slip_p99 = float(np.percentile(slip, 99)) if len(slip) else None
    faults = []
    if cpu > MOST_CPU:
        faults.append(f"it used {cpu:.0%} of a core")
    if slip_p99 is not None and slip_p99 > max(MOST_SLIP_S, MOST_SLIP * pace_s):
        faults.append(f"it sent requests {show(slip_p99, 's')} late (p99)")
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
        detail=f"the client could not keep up: {', '.join(faults)}" if faults else seen,
    )
