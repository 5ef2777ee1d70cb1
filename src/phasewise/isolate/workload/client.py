"""Whether the workers kept up: a client that is late makes a server look slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from phasewise.engines.selfwatch import Watched, lateness_of, verdict
from phasewise.isolate.workload.worker import Done
from phasewise.record.load import Client

Values = NDArray[np.float64]


def client(done: Sequence[Done], slips: Mapping[int, Values], pace_s: float) -> Client:
    """Of all workers; ``slips`` (n,) in seconds, one per request of each, should be small against ``pace_s``."""
    lags = [one.lateness.lag_p99_s for one in done if one.lateness.lag_p99_s is not None]
    watched = [
        Watched(one.lateness, slips.get(one.worker, ()), f"worker {one.worker}" if len(done) > 1 else "it")
        for one in done
    ]
    found = verdict(watched, pace_s=pace_s)
    return Client(
        workers=len(done),
        cpu_share=max((one.lateness.cpu_share for one in done), default=0.0),
        slip_p99_s=lateness_of(np.concatenate(list(slips.values()))) if slips else None,
        lag_p99_s=max(lags) if lags else None,
        believed=found.status != "failed",
        detail=found.detail,
    )
