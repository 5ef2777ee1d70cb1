"""What has to be said beside the figures: the formulas of a step over several devices, and what they leave out."""

from __future__ import annotations

from phasewise.predict.parallel.share import kept_whole
from phasewise.predict.parallel.spread import Spread, Step
from phasewise.record.prediction import Formula
from phasewise.units import show

_NODE = 8
"""Devices that a node's link joins in most machines."""


def notes(spread: Spread, tokens: int, batch: int, memory: float | None) -> list[str]:
    """Sentences that a reader of the figures must know.

    ``tokens`` are those of each of ``batch`` requests, ``memory`` the bytes of one device.
    """
    layout, link = spread.layout, spread.link
    found = []
    if layout.devices > 1 and link is None:
        found.append(
            "What the devices say to each other is not counted, because no link is known: give --link, such as "
            "--link 64GB/s."
        )
    elif layout.devices > 1 and link is not None and not link.latencies:
        found.append(f"No latency is known for {link.name}: communication counts bytes alone, a lower bound.")
    if layout.stage > _NODE and link is not None and "NVL72" not in link.name and "ICI" not in link.name:
        found.append(
            f"{layout.stage} devices are taken to be joined by {link.name} as {_NODE} of one node are: give --link for "
            "a slower network between nodes."
        )
    whole = kept_whole(spread.model, layout)
    if whole:
        found.append(f"Counted whole on every device, because no way to cut them is known: {', '.join(whole)}.")
    held = spread.held(batch, tokens)
    if memory is not None and held > memory:
        found.append(
            f"Weights and KV cache take {show(held, 'B')} on a device of {show(memory, 'B')}: they do not fit."
        )
    return found


def formulas(spread: Spread, steps: dict[str, Step]) -> list[Formula]:
    """Communication and the step, with their numbers put in."""
    return [
        *(_communication(spread, name, step) for name, step in steps.items() if spread.link and step.collectives),
        *(_time(spread, name, step) for name, step in steps.items()),
    ]


def _communication(spread: Spread, name: str, step: Step) -> Formula:
    link = spread.link
    assert link is not None
    terms = [
        f"{one.times:g} {one.kind} × ({show(link.latency(one.kind, one.devices), 's')} + "
        f"{show(float(one.sent), 'B')} / {show(link.rate.value, 'B/s')})"
        for one in step.collectives
    ]
    return Formula(
        name=f"{name}, communication",
        formula="sum over messages of count · (latency + bytes sent / rate of the link)",
        numbers=" + ".join(terms),
        result=show(float(step.communication_s), "s"),
    )


def _time(spread: Spread, name: str, step: Step) -> Formula:
    layout = spread.layout
    return Formula(
        name=f"{name} over {layout.devices} devices ({layout})",
        formula="floor of one device's share + communication + waiting for other stages",
        numbers=f"{show(float(step.floor_s), 's')} + {show(float(step.communication_s), 's')} + "
        f"{show(float(step.waiting_s), 's')}",
        result=show(float(step.time_s), "s"),
    )
