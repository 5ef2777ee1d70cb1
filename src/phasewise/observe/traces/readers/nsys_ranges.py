"""NVTX ranges of an Nsight Systems export: bands, and PyTorch's operators.

PyTorch's ``emit_nvtx`` writes a range per operator, ``aten::mm, seq = 4, op_id = 31, sizes = [[8, 16], [16, 4]]``, and
puts the same tail behind a user's own ranges. The tail is taken off, ``namespace::operator`` becomes an operator (with
its shapes), anything else a band.

A table of over `FLOOD` rows is not read whole. Ranges are counted, on a sample, by family: the namespace before ``::``,
else the text with every number as ``#``. A family of over `FAMILY` ranges cannot be steps or phases unless it says so
(`_WORDS`): it is left out, in SQL, and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Bands, Fault, Ops
from phasewise.observe.traces.readers.nsys_base import Base, quoted
from phasewise.observe.traces.readers.nsys_names import Threads, strings
from phasewise.observe.traces.tables import Names, table

NVTX = "NVTX_EVENTS"
FLOOD, FAMILY, _PATTERNS = 200_000, 50_000, 24
_SAMPLES, _SAMPLE = 64, 256
_RANGES = "(59, 60, 70, 71)"
"""Push/pop and start/end ranges, of NVTX itself and imported from its text form (ENUM_NSYS_EVENT_TYPE)."""

_TAIL = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = [\d\[].*$", re.DOTALL)
_OPERATOR = re.compile(r"[A-Za-z_]\w*::[\w.]+$|\w+Backward\d*$")
_SIZES = re.compile(r", sizes = (\[.*?\])(?:, input_op_ids|$)", re.DOTALL)
_WORDS = re.compile(r"step|prefill|decod|extend|execut|forward|generat|iter|batch|phase|token|request|verify", re.I)


class Ranges(NamedTuple):
    """What was read; ``note`` says what was left out on purpose, "" when nothing was."""

    bands: Bands
    ops: Ops
    shapes: tuple[str, ...]
    note: str


def read(base: Base, names: Names, threads: Threads, last: int, advance: Callable[[float], None]) -> Ranges:
    """Every range of the file; one that was never closed ends at ``last``, the end of everything else."""
    if not base.has(NVTX, "start", "end"):
        return Ranges(table(Bands), table(Ops), (), "")
    flood = _flood(base)
    columns = ", ".join(
        ("start", '"end"', base.value(NVTX, "globalTid", NOT_SAID), base.value(NVTX, "endGlobalTid", NOT_SAID))
        + (_text(base), base.value(NVTX, "textId", NOT_SAID))
    )
    where = " AND ".join(filter(None, (_of_ranges(base), _kept(base, flood))))
    total, done = max(base.count(NVTX), 1), 0

    def part(stretch: str) -> list[tuple[Any, ...]]:
        nonlocal done
        got = base.rows(f"SELECT {columns} FROM {NVTX} WHERE {stretch} AND {where}")
        done += 1
        advance(min(1.0, done * (1 << 16) / total))
        return got

    rows = [row for rows in base.parallel(part, base.stretches(NVTX)) for row in rows]
    note = _note(base, flood, len(rows)) if flood else ""
    return _made(base, names, threads, rows, last, note)


def _text(base: Base) -> str:
    return "text" if base.has(NVTX, "text") else "NULL"


def _of_ranges(base: Base) -> str:
    return f"eventType IN {_RANGES}" if base.has(NVTX, "eventType") else "1"


def _flood(base: Base) -> tuple[str, ...]:
    """GLOB patterns of the families that are left out, the largest first."""
    lowest, highest = (base.rows(f"SELECT min(rowid), max(rowid) FROM {NVTX}") or [(None, None)])[0]
    total = base.count(NVTX)
    if lowest is None or total <= FLOOD:
        return ()
    texts: list[str] = []
    for one in range(_SAMPLES):
        first = lowest + (highest - lowest) * one // _SAMPLES
        text_id = base.value(NVTX, "textId", NOT_SAID)
        sample = base.rows(
            f"SELECT {_text(base)}, {text_id} FROM {NVTX}"
            f" WHERE rowid >= {first} AND {_of_ranges(base)} LIMIT {_SAMPLE}"
        )
        known = strings(base, {row[1] for row in sample if row[0] is None})
        texts.extend(known.get(row[1], "") if row[0] is None else str(row[0]) for row in sample)
    counted = Counter(_family(text) for text in texts)
    least = len(texts) * FAMILY / total
    large = [family for family, count in counted.most_common(_PATTERNS) if count > least and family]
    return tuple(_pattern(family) for family in large if not _WORDS.search(family))


def _family(text: str) -> str:
    """``aten::`` of ``aten::mm, op_id = 31``; ``layer #`` of ``layer 17``."""
    plain = _TAIL.sub("", text)
    return plain.partition("::")[0] + "::" if _OPERATOR.match(plain) and "::" in plain else re.sub(r"\d+", "#", plain)


def _pattern(family: str) -> str:
    escaped = re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", family).replace("#", "[0-9]*")
    return escaped + "*" if family.endswith("::") else escaped


def _kept(base: Base, flood: tuple[str, ...]) -> str:
    """SQL that holds for ranges of no family of the flood."""
    if not flood:
        return ""
    literals = ["'" + pattern.replace("'", "''") + "'" for pattern in flood]
    kept = "(" + " AND ".join(f"text NOT GLOB {one}" for one in literals) + ")" if base.has(NVTX, "text") else "1"
    if not base.has(NVTX, "textId"):
        return f"(text IS NULL OR {kept})"
    registered = " OR ".join(f"value GLOB {one}" for one in literals)
    by_id = f"(textId IS NULL OR textId NOT IN (SELECT id FROM StringIds WHERE {registered}))"
    return f"CASE WHEN {_text(base)} IS NULL THEN {by_id} ELSE {kept} END"


def _note(base: Base, flood: tuple[str, ...], read_rows: int) -> str:
    total = base.rows(f"SELECT count(*) FROM {NVTX} WHERE {_of_ranges(base)}")
    left = (int(total[0][0]) if total else read_rows) - read_rows
    some = ", ".join(flood[:3]) + (", ..." if len(flood) > 3 else "")
    return f"{left:,} of {left + read_rows:,} NVTX ranges are one of an operator each ({some}) and were not read"


def _made(
    base: Base, names: Names, threads: Threads, rows: list[tuple[Any, ...]], last: int, note: str
) -> Ranges:
    sound = [row for row in rows if _timed(row)]
    if lost := len(rows) - len(sound):
        base.faults.append(Fault("times", f"{lost} of {len(rows)} NVTX ranges have no sound times and are left out."))
    known = strings(base, {row[5] for row in sound if row[4] is None})
    ends = [row[1] if isinstance(row[1], int) and row[1] >= row[0] else None for row in sound]
    last = max([last, *(row[0] for row in sound), *(end for end in ends if end is not None)], default=last)
    if still := ends.count(None):
        base.faults.append(
            Fault("missing", f"{still} NVTX ranges were open when the recording ended: they are closed at its end.")
        )
    texts = [known.get(row[5], "(unnamed)") if row[4] is None else str(row[4]) for row in sound]
    plain = [_TAIL.sub("", text) for text in texts]
    start = np.array([row[0] for row in sound], np.int64)
    end = np.array([last if end is None else end for end in ends], np.int64)
    thread = threads(np.array([row[2] for row in sound], np.int64))
    ended = threads(np.array([row[2] if row[3] in (NOT_SAID, 0) else row[3] for row in sound], np.int64))
    name = np.array([names(one) for one in plain], np.int32)
    operator = np.array([_OPERATOR.match(one) is not None for one in plain], bool)
    shapes = Names()
    shape = [
        shapes(found[1]) if is_operator and (found := _SIZES.search(text)) else NOT_SAID
        for text, is_operator in zip(texts, operator, strict=True)
    ]
    band = ~operator
    bands = {"start": start, "end": end, "name": name, "thread": thread, "end_thread": ended}
    ops = {"start": start, "end": end, "name": name, "thread": thread, "shape": np.array(shape, np.int32)}
    return Ranges(
        table(Bands, {key: column[band] for key, column in bands.items()}),
        table(Ops, {key: column[operator] for key, column in ops.items()}),
        shapes.all,
        note,
    )


def _timed(row: tuple[Any, ...]) -> bool:
    """Whether a range has times: its end may be absent (NULL, or 0 in old exports: still open)."""
    start, end = row[:2]
    if not isinstance(start, int) or abs(start) > 2**61:
        return False
    return end is None or (isinstance(end, int) and (start <= end <= 2**61 or end <= 0))
