"""One launch a step instead of hundreds, by the gaps that a trace shows."""

from __future__ import annotations

from phasewise.fix.patient import reject, remedy
from phasewise.fix.seen import Seen
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "CUDA graphs"


def measured_graphs(seen: Seen) -> Remedy | Rejected:
    """The gaps between kernels that were launched one by one close as far as those within a graph are closed."""
    launches = seen.found.launches
    if seen.on_cpu or launches is None:
        return reject(seen.timed, NAME, "the trace shows no launches on a device: there is nothing to capture")
    saves = launches.graphs_would_save_s
    if saves is None:
        return reject(
            seen.timed,
            NAME,
            "its kernels are launched by graphs already"
            if launches.graph_launches
            else "its kernels leave no gaps that a graph would close",
        )
    saved = seen.part("launches")
    each = "" if launches.per_step is None else f", {launches.per_step:,.0f} a step,"
    whole = "" if seen.timed.phase == "decode" else " (piecewise, for steps of changing length)"
    return remedy(
        seen.timed,
        NAME,
        saved,
        low=min(saved, saves.low or 0.0),
        high=saved if saves.high is None else saves.high,
        why=f"kernels that are launched one by one{each} leave {show(saved, 's')} of gaps that a graph would not; "
        "recording a trace slows launches down, so that without it there is less to gain",
        verify=f"turn graphs on{whole} and record again: launches a step and gaps should fall",
    )
