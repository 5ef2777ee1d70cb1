"""The requests of a run that sends many at once, a load or a sweep, as what its power is joined to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.schema import Frame
from phasewise.jobs.sampled import Whole, of_whole
from phasewise.judge.power.power import Joined

_COLUMNS = (
    "trial, sent_s, ended_s, last_token_s, prompt_tokens, prompt_tokens_planned, cached_tokens, completion_tokens, "
    "error"
)


def of_trial(folder: Path, trial: int, zeros: Mapping[int, float], rest: Sequence[Frame] = ()) -> Joined:
    """The requests of ``trial``; those of the others only kept the machine busy. ``zeros`` are the trials' starts on
    one clock; rows of a trial that is not in it are passed over. ``rest`` are rows that could not be written.

    Raises:
        OSError: the rows cannot be read.
    """
    rows = table.read(folder, "requests", _COLUMNS, rest=rest)
    names = list(rows)
    each: dict[int, list[Whole]] = {number: [] for number in zeros}
    for values in zip(*rows.values(), strict=True):
        row = dict(zip(names, values, strict=True))
        number = int(row["trial"])
        if number in each and (found := _whole(row)) is not None:
            each[number].append(found)
    others = [
        (zeros[number] + one.sent, zeros[number] + one.ended)
        for number, found in each.items()
        if number != trial
        for one in found
    ]
    return of_whole(each.get(trial, []), zeros[trial], others)


def _whole(row: Mapping[str, object]) -> Whole | None:
    sent = _number(row["sent_s"])
    if sent is None:
        return None
    ends = [end for name in ("ended_s", "last_token_s") if (end := _number(row[name])) is not None]
    prompt = _number(row["prompt_tokens"]) or _number(row["prompt_tokens_planned"]) or 0.0
    out = _number(row["completion_tokens"])
    if out is None and row["error"] is not None:
        out = 0.0  # it cost what it drew and made nothing that counts
    computed = int(prompt - (_number(row["cached_tokens"]) or 0.0))
    return Whole(sent, max([sent, *ends]), computed, None if out is None else int(out))


def _number(value: object) -> float | None:
    return None if value is None or math.isnan(found := float(str(value))) else found
