"""What starting the kernels cost, phase by phase, and what graphs would save."""

from __future__ import annotations

import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Ints, LaunchKind, Trace
from phasewise.observe.traces.laid import Laid, of_phase
from phasewise.observe.traces.split import Split
from phasewise.record.quantity import Quantity, assumed, predicted
from phasewise.record.trace import TRACE_PHASES, LaunchCost, TracePhase
from phasewise.units import show

GRAPH_GAP_NS = 600
"""What a kernel of a graph costs beside its own time, where the trace holds no graph: 0.58 µs a node, an empty kernel
included (measured in ahrefs/ocannl#488)."""

_ENOUGH = 20
"""Gaps between kernels of graphs from which their median is taken."""


def launch_costs(trace: Trace, split: Split, laid: Laid) -> dict[TracePhase, LaunchCost]:
    """The cost of launching by phase; empty when the trace holds no launches of a device."""
    launches = trace.launches
    starts = (launches.kind == LaunchKind.KERNEL) | (launches.kind == LaunchKind.GRAPH)
    if trace.on_cpu or not starts.any():
        return {}
    launch_phase = of_phase(laid.phase, split.launch)
    delay = _delays(trace, split)
    left, measured = _left(split, laid)
    made: dict[TracePhase, LaunchCost] = {}
    for code, name in enumerate(TRACE_PHASES):
        of = starts & (launch_phase == code)
        lengths = np.maximum(launches.end[of] - launches.start[of], 0)
        known = delay[of]
        known = known[known != NOT_SAID]
        steps = int(np.count_nonzero(laid.phase == code))
        made[name] = LaunchCost(
            launches=len(lengths),
            per_step=len(lengths) / steps if steps else None,
            graph_launches=int(np.count_nonzero(launches.kind[of] == LaunchKind.GRAPH)),
            kernels_in_graphs=int(np.count_nonzero((laid.kernel_phase == code) & (laid.how == LaunchKind.GRAPH))),
            cpu_s=int(lengths.sum()) / 1e9,
            median_s=float(np.median(lengths)) / 1e9 if len(lengths) else None,
            delay_s=float(np.median(known)) / 1e9 if len(known) else None,
            graphs_would_save_s=_saving(laid, code, steps, left, measured),
        )
    return made


def _delays(trace: Trace, split: Split) -> Ints:
    """From each launch call to the first start of what it launched, ns; NOT_SAID when nothing is known of it."""
    far = np.iinfo(np.int64).max
    earliest = np.full(len(trace.launches.start), far, np.int64)
    for by, start in ((split.launched_by, trace.kernels.start), (split.replayed_by, trace.replays.start)):
        known = by >= 0
        np.minimum.at(earliest, by[known], start[known])
    return np.where(earliest == far, NOT_SAID, np.maximum(earliest - trace.launches.start, 0))


def _pairs(laid: Laid) -> tuple[Ints, Ints, Ints]:
    """Kernels of a step that follow each other: the one that ended last before, the one behind, and the ns between."""
    after = laid.cover.after
    before = np.where(after >= 0, laid.row[after], NOT_SAID)
    both = (before >= 0) & (laid.row >= 0)
    return before[both], laid.row[both], laid.cover.idle[both]


def _left(split: Split, laid: Laid) -> tuple[float, bool]:
    """The gap that graphs leave between two of their kernels, and whether the trace itself says so."""
    before, behind, gap = _pairs(laid)
    same = (laid.how[behind] == LaunchKind.GRAPH) & (split.launched_by[before] == split.launched_by[behind])
    return (float(np.median(gap[same])), True) if np.count_nonzero(same) >= _ENOUGH else (float(GRAPH_GAP_NS), False)


def _saving(laid: Laid, code: int, steps: int, left: float, measured: bool) -> Quantity | None:
    """The gaps before kernels that were launched one by one, less what graphs leave, for a mean step."""
    of = laid.kernel_phase == code
    graphs = np.count_nonzero(of & (laid.how == LaunchKind.GRAPH))
    if not steps or 2 * graphs >= np.count_nonzero(of):
        return None
    _, behind, gap = _pairs(laid)
    alone = of[behind] & (laid.how[behind] == LaunchKind.KERNEL)
    saved = float(np.maximum(gap[alone] - left, 0).sum()) / steps / 1e9
    if not saved:
        return None
    what = "gaps between kernels launched one by one, at most (waits for the host are among them), less"
    if measured:
        return predicted(
            saved, "s", f"{what} {show(left / 1e9, 's')}, the median between kernels of this trace's graphs"
        )
    return assumed(saved, "s", f"{what} {show(left / 1e9, 's')} a kernel of a graph (ahrefs/ocannl#488)")
