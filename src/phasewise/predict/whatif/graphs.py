"""``graphs=on``: one graph launch a step in place of a launch for every kernel (``off``: the other way round).

The host launches ahead of the device, so that a step takes as long as the slower of the two.
"""

from __future__ import annotations

import msgspec

from phasewise.errors import UsageError
from phasewise.predict.launches import GRAPH_S, KERNELS_PER_LAYER, LAUNCH_S, SLOW_LAUNCH_S, launches
from phasewise.predict.whatif.change import Change, Changed, Refused
from phasewise.predict.whatif.outcome import decode_of, host_of
from phasewise.predict.whatif.setup import Setup
from phasewise.record.quantity import assumed, predicted
from phasewise.units import show


def _before(setup: Setup) -> Setup:
    return msgspec.structs.replace(setup, launches="eager") if setup.launches == "free" else setup


def _apply(value: str, setup: Setup) -> Changed:
    if value not in ("on", "off"):
        raise UsageError(f"--what-if graphs={value[:40]!r} is neither on nor off: write graphs=on.")
    if setup.machine.kind not in ("gpu", "unknown"):
        raise Refused(f"{setup.machine.name} is no GPU: there is nothing to capture")
    if value == "off":
        return Changed(msgspec.structs.replace(setup, launches="eager"))
    eager = msgspec.structs.replace(setup, launches="eager")
    device, host = decode_of(msgspec.structs.replace(setup, launches="free")).time_s, host_of(eager)
    slow = host_of(msgspec.structs.replace(eager, launch_s=SLOW_LAUNCH_S))
    count = launches(setup.model)
    note = (
        f"{count} launches ({KERNELS_PER_LAYER} a layer) at {show(LAUNCH_S, 's')} keep the host busy for "
        f"{show(host, 's')}, at {show(SLOW_LAUNCH_S, 's')} for {show(slow, 's')}; the device needs {show(device, 's')} "
        "at least"
    )
    if host <= device:
        note += f", so graphs gain nothing unless a launch takes over {show(LAUNCH_S * device / host, 's')}"
    figures = {
        "launches": predicted(count, "1", f"{KERNELS_PER_LAYER} kernels a layer"),
        "host_s": assumed(host, "s", f"{show(LAUNCH_S, 's')} a launch"),
        "host_slow_s": assumed(slow, "s", f"{show(SLOW_LAUNCH_S, 's')} a launch"),
        "graph_launch_s": assumed(GRAPH_S, "s", "one graph launch"),
    }
    return Changed(msgspec.structs.replace(setup, launches="graph"), (note,), figures)


GRAPHS = Change("graphs", "on", _apply, _before)
