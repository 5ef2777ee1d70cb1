"""NVTX ranges of an Nsight Systems export: bands, and PyTorch's operators.

PyTorch's ``emit_nvtx`` writes a range per operator, ``aten::mm, seq = 4, op_id = 31, sizes = [[8, 16], [16, 4]]``, and
puts the same tail behind a user's own ranges. The tail is taken off; ``namespace::operator`` with a tail becomes an
operator (with its shapes), anything else a band: TensorRT's ``ExecutionContext::enqueue`` is a step.

A table of over `FLOOD` rows is not read whole. Ranges are counted, on a sample, by family: the namespace before ``::``,
else the text with every number as ``#``. A family of over `FAMILY` ranges cannot be steps or phases unless it says so
(`_WORDS`): it is left out, in SQL, and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Bands, Fault, Ints, Ops
from phasewise.observe.traces.readers.nsys_base import TIME_LIMIT, Advance, Base
from phasewise.observe.traces.readers.nsys_names import Threads, strings
from phasewise.observe.traces.tables import Names, table

NVTX = "NVTX_EVENTS"
FLOOD, FAMILY = 200_000, 50_000
_SAMPLES, _SAMPLE, _FAMILIES = 64, 256, 24
_OPEN = -(2**62)
_RANGES = "(eventType BETWEEN 59 AND 60 OR eventType BETWEEN 70 AND 71)"
"""Push/pop and start/end ranges, of NVTX itself and imported from its text form (ENUM_NSYS_EVENT_TYPE)."""

_TAIL = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = [\d\[].*$", re.DOTALL)
_OPERATOR = re.compile(r"[A-Za-z_]\w*::[\w.]+$|\w+Backward\d*$")
_SIZES = re.compile(r", sizes = (\[.*?\])(?:, input_op_ids|$)", re.DOTALL)
_WORDS = re.compile(r"step|prefill|decod|extend|execut|forward|generat|iter|batch|phase|token|request|verify", re.I)


class Ranges(NamedTuple):
    """What the table holds, before its ids are those of the trace.

    Columns ``start``, ``end`` (before its start: never closed), ``thread`` (a serialised id), ``name`` and ``shape``
    (indices; shape may be -1), ``operator`` (1 or 0). ``note`` says what was left out on purpose, "" nothing.
    """

    columns: dict[str, Ints]
    names: tuple[str, ...]
    shapes: tuple[str, ...]
    note: str


def read(base: Base, advance: Advance) -> Ranges:
    """Every range of the file, but those of a flood."""
    names, shapes = Names(), Names()
    parts = [_columns([], names, shapes)]
    flood: tuple[str, ...] = ()
    if base.has(NVTX, "start", "end"):
        flood = _flood(base)
        where = " AND ".join((_kept(base, flood), _of_ranges(base)))
        thread = base.value(NVTX, "globalTid", NOT_SAID)
        chosen = f'"start", "end", {thread}, {_text(base)}, {base.value(NVTX, "textId", NOT_SAID)}'
        for stretch in base.stretches(NVTX, advance):
            rows = base.rows(f"SELECT {chosen} FROM {NVTX} WHERE {stretch} AND {where}")
            parts.append(_columns(_explained(base, rows), names, shapes))
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Ranges(columns, names.all, shapes.all, _note(base, flood, len(columns["start"])) if flood else "")


def placed(ranges: Ranges, names: Names, threads: Threads, last: int) -> tuple[Bands, Ops, tuple[Fault, ...]]:
    """Bands and operators with the trace's names and threads; what was never closed ends with the recording.

    ``last`` is the end of everything else.
    """
    found = ranges.columns
    still = found["end"] < found["start"]
    last = max(last, *(int(found[key].max(initial=0)) for key in ("start", "end")))
    index = np.array([names(one) for one in ranges.names] or [0], np.int32)
    columns = {
        "start": found["start"],
        "end": np.where(still, last, found["end"]),
        "name": index[found["name"]],
        "thread": threads(found["thread"]),
    }
    operator = found["operator"] == 1
    ops = {**columns, "shape": found["shape"]}
    count = int(np.count_nonzero(still))
    what = f"{count} NVTX ranges were still open when the recording ended: they are closed at its end."
    return (
        table(Bands, {key: column[~operator] for key, column in columns.items()}),
        table(Ops, {key: column[operator] for key, column in ops.items()}),
        (Fault("missing", what),) if count else (),
    )


def _text(base: Base) -> str:
    return "text" if base.has(NVTX, "text") else "NULL"


def _of_ranges(base: Base) -> str:
    return _RANGES if base.has(NVTX, "eventType") else "1"


def _explained(base: Base, rows: Sequence[tuple[Any, ...]]) -> list[tuple[int, int, int, str]]:
    """``start, end, thread, text`` of the rows with sound times; registered texts looked up."""
    known = strings(base, {row[4] for row in rows if row[3] is None})
    sound: list[tuple[int, int, int, str]] = []
    for start, end, thread, text, text_id in rows:
        # A range that is still open has no end; old exports write 0.
        end = _OPEN if end is None or (end == 0 and start != 0) else end
        if not isinstance(start, int) or not isinstance(end, int) or not -TIME_LIMIT < start <= TIME_LIMIT:
            continue
        if end == _OPEN or start <= end <= TIME_LIMIT:
            words = known.get(text_id, "(unnamed)") if text is None else str(text)
            sound.append((start, end, int(thread), words))
    if lost := len(rows) - len(sound):
        base.faults.append(Fault("damaged", f"{lost} NVTX ranges have no sound times: left out."))
    return sound


def _columns(rows: Sequence[tuple[int, int, int, str]], names: Names, shapes: Names) -> dict[str, Ints]:
    numbers = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3)
    told = []
    for *_, text in rows:
        plain = _TAIL.sub("", text)
        operator = plain != text and _OPERATOR.match(plain) is not None
        sizes = _SIZES.search(text) if operator else None
        told.append((names(plain), shapes(sizes[1]) if sizes else NOT_SAID, int(operator)))
    keys = ("start", "end", "thread", "name", "shape", "operator")
    return dict(zip(keys, np.hstack((numbers, np.array(told, np.int64).reshape(-1, 3))).T, strict=True))


def _flood(base: Base) -> tuple[str, ...]:
    """The families that are left out, the largest first."""
    total = base.count(NVTX)
    if total <= FLOOD:
        return ()
    lowest, highest = base.ends(NVTX)
    texts: list[str] = []
    for one in range(_SAMPLES):
        sample = base.rows(
            f"SELECT {_text(base)}, {base.value(NVTX, 'textId', NOT_SAID)} FROM {NVTX}"
            f" WHERE rowid >= {lowest + (highest - lowest) * one // _SAMPLES} AND {_of_ranges(base)} LIMIT {_SAMPLE}"
        )
        known = strings(base, {row[1] for row in sample if row[0] is None})
        texts.extend(known.get(row[1], "") if row[0] is None else str(row[0]) for row in sample)
    least = len(texts) * FAMILY / total
    large = [family for family, count in Counter(map(_family, texts)).most_common(_FAMILIES) if count > least]
    return tuple(family for family in large if family and not _WORDS.search(family))


def _family(text: str) -> str:
    """``aten::`` of ``aten::mm, op_id = 31``; ``layer #`` of ``layer 17``."""
    plain = _TAIL.sub("", text)
    if "::" in plain and _OPERATOR.match(plain):
        return plain.partition("::")[0] + "::"
    return re.sub(r"\d+", "#", text)


def _belongs(column: str, family: str) -> str:
    """SQL: whether a text is of a family. GLOB knows no run of digits, so a digit and some letters stand for one."""
    escaped = re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", family).replace("'", "''")
    if family.endswith("::"):
        return f"{column} GLOB '{escaped}*'"
    longest = len(family) + 9 * family.count("#")
    pattern = escaped.replace("#", "[0-9]*")
    return f"({column} GLOB '{pattern}' AND length({column}) <= {longest})"


def _kept(base: Base, flood: tuple[str, ...]) -> str:
    """SQL that holds for ranges of no family of the flood."""
    if not flood:
        return "1"
    text, registered = _text(base), "1"
    if base.has(NVTX, "textId") and base.has("StringIds", "id", "value"):
        some = " OR ".join(_belongs("value", family) for family in flood)
        registered = f"ifnull(textId NOT IN (SELECT id FROM StringIds WHERE {some}), 1)"
    spelled = " OR ".join(_belongs(text, family) for family in flood)
    return f"CASE WHEN {text} IS NULL THEN {registered} ELSE NOT ({spelled}) END"


def _note(base: Base, flood: tuple[str, ...], kept: int) -> str:
    total = base.count(NVTX)
    some = ", ".join(family + "*" * family.endswith("::") for family in flood[:3]) + ", ..." * (len(flood) > 3)
    return f"{total - kept:,} of {total:,} NVTX events are too many to be steps or phases ({some}) and were not read"
