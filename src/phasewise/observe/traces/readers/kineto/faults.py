"""What was wrong with a Kineto trace, in sentences."""

from __future__ import annotations

from phasewise.observe.traces.events import Fault
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers.kineto.columns import Columns
from phasewise.observe.traces.readers.kineto.document import Document


def faults(opened: Opened, document: Document, columns: Columns) -> tuple[Fault, ...]:
    """Everything that the reader got past."""
    found = []
    damage = document.damage
    if opened.truncated or not document.complete:
        why = opened.truncated or "the JSON breaks off before its end"
        found.append(Fault("truncated", f"{why}; the {columns.seen} events before it are used: copy the file again."))
    if damage["lost"]:
        found.append(Fault("damaged", f"{_events(damage['lost'])} no JSON and {_left(damage['lost'])} left out."))
    if damage["deep"]:
        found.append(
            Fault("damaged", f"{_events(damage['deep'])} nested too deeply and {_left(damage['deep'])} left out.")
        )
    if damage["behind"]:
        found.append(
            Fault("damaged", "something follows the end of its JSON and is left out: keep one document a file.")
        )
    if damage["quotes"]:
        found.append(
            Fault("damaged", f"{damage['quotes']} quotes inside names were not escaped and are taken as text.")
        )
    if damage["numbers"]:
        found.append(Fault("damaged", f"{damage['numbers']} values are NaN or infinite and count as not said."))
    if damage["header"]:
        found.append(Fault("damaged", "the keys before its events cannot all be read: device and rank may be missing."))
    if document.lists > 1:
        found.append(Fault("damaged", f"traceEvents comes {document.lists} times: the last one is used."))
    if wrong := damage["bytes"] + damage["control"]:
        found.append(Fault("encoding", f"{wrong} bytes are no UTF-8 or control characters and were replaced."))
    if columns.misdated:
        bad = columns.misdated
        found.append(Fault("damaged", f"{_events(bad)} at impossible times (negative, none, after 2261) and left out."))
    return tuple(found)


def refusal(opened: Opened, document: Document, columns: Columns) -> str:
    """Why nothing of the file can be used, in one sentence."""
    cure = "name a trace that PyTorch's profiler exported."
    if not document.lists:
        if document.kind == "object":
            if "traceEvents" in document.header:
                return f"{opened.name} is JSON whose traceEvents are no list: {cure}"
            keys = ", ".join(repr(key[:40]) for key in list(document.header)[:5]) or "no keys"
            return f"{opened.name} is JSON without traceEvents (it has {keys}): {cure}"
        return f"{opened.name} is {'empty' if document.kind == 'empty' else 'no JSON object or list'}: {cure}"
    if document.damage["deep"] and not columns.seen:
        return f"{opened.name} has no events but {document.damage['deep']} nested too deeply: {cure}"
    if columns.misdated:
        return f"{opened.name} has {columns.misdated} events, all at impossible times: {cure}"
    if columns.seen:
        others = ", ".join(repr(name[:40]) for name in sorted(columns.others)[:5])
        return f"{opened.name} has {columns.seen} events, none of them a kernel, call or operator ({others}): {cure}"
    broken = opened.truncated or not document.complete
    return f"{opened.name} {'breaks off before its first event' if broken else 'has no events'}: {cure}"


def _events(count: int) -> str:
    return f"{count} event{' is' if count == 1 else 's are'}"


def _left(count: int) -> str:
    return "is" if count == 1 else "are"
