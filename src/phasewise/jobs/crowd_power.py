"""The requests of a run that sends many at once, a load or a sweep, as what its power is joined to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.schema import Frame
from phasewise.judge.power.crowd import NOTHING_COUNTED, Came, Flight, came, loaded, swept, whole
from phasewise.judge.power.power import Joined
from phasewise.record.sweep import Swept

SWEPT = (
    "Prefill: prompts alone and together, one token of answer each, from their sending to the last of these tokens. "
    "Decode: a batch, from the last of its first tokens to the first of its last. Mixed: prompts among running decodes "
    "from sending to first token, with pauses of up to 0.1 s between them. All as the client saw it; the first "
    "request, groups of which a request failed, and the time in which a batch's prompts still run are in none of them."
)

LOADED = (
    "All: every request from its sending to its end as the client saw it; tokens are those of prompts that were "
    "computed and of answers; warm-up left out. Decode: no request was between its sending and its first token, so "
    "only decodes ran. Mixed: some request was, with pauses of up to 0.1 s to the next. There is no finer split: a "
    "client cannot tell a prompt that is computed from one that waits, and others decode meanwhile."
)

ENOUGH = 3
"""Windows of a load in which only decodes ran, or some prompt was in the air: under that they are a chance."""

_COLUMNS = (
    "trial, request, sent_s, ttft_s, ended_s, last_token_s, answer_tokens_planned, prompt_tokens, "
    "prompt_tokens_planned, cached_tokens, completion_tokens, error"
)


def of_load(folder: Path, trial: int, zeros: Mapping[int, float], rest: Sequence[Frame] = ()) -> Joined:
    """The requests of ``trial``; those of the others only kept the machine busy. ``zeros`` are the trials' starts on
    one clock; rows of a trial that is not in it are passed over. ``rest`` are rows that could not be written.

    Raises:
        OSError: the rows cannot be read.
    """
    every = _flights(folder, zeros, rest)
    own = every[trial]
    flights = list(own.values())
    answered = sum(one.answered or 0 for one in flights)
    tokens = answered + sum(one.computed for one in flights)
    return Joined(
        spans=(*whole(flights), *loaded(flights, _came(folder, trial, zeros[trial], own, rest))),
        busy=tuple((one.sent, one.ended) for of in every.values() for one in of.values()),
        boundary=LOADED,
        answers=answered / tokens if tokens else 0.0,
        expected=("decode", "mixed"),
        fewest=ENOUGH,
    )


def of_sweep(folder: Path, zero: float, found: Swept) -> Joined:
    """The requests of a sweep whose times count from ``zero``; ``found`` says which batches were held.

    Raises:
        OSError: the rows cannot be read.
    """
    own = _flights(folder, {0: zero})[0]
    flights, cells = list(own.values()), found.surface.cells if found.surface else ()
    held = [(cell.batch, cell.prompt_tokens) for cell in cells if not cell.trouble]
    return Joined(
        spans=tuple(swept(flights, _came(folder, 0, zero, own), held)),
        busy=tuple((one.sent, one.ended) for one in flights),
        boundary=SWEPT,
        expected=("prefill", "decode", "mixed"),
    )


def _flights(folder: Path, zeros: Mapping[int, float], rest: Sequence[Frame] = ()) -> dict[int, dict[int, Flight]]:
    """The requests that were sent, by trial and number."""
    rows = table.read(folder, "requests", _COLUMNS, rest=rest)
    found: dict[int, dict[int, Flight]] = {trial: {} for trial in zeros}
    for values in zip(*rows.values(), strict=True):
        row = dict(zip(rows, values, strict=True))
        trial = int(row["trial"])
        if trial in found and (one := _flight(row, zeros[trial])) is not None:
            found[trial][int(row["request"])] = one
    return found


def _flight(row: Mapping[str, object], zero: float) -> Flight | None:
    sent, ttft, last, ended = (_number(row[name]) for name in ("sent_s", "ttft_s", "last_token_s", "ended_s"))
    if sent is None:
        return None
    prompt = int(_number(row["prompt_tokens"]) or _number(row["prompt_tokens_planned"]) or 0)
    failed, answered = row["error"] is not None, _number(row["completion_tokens"])
    if answered is None and failed:
        answered = 0.0  # it cost what it drew and made nothing that counts
    return Flight(
        sent=zero + sent,
        ended=zero + max(at for at in (sent, last, ended) if at is not None),
        first=None if ttft is None else zero + sent + ttft,
        last=None if ttft is None or last is None else zero + last,
        asked=int(_number(row["answer_tokens_planned"]) or 0),
        prompt=prompt,
        computed=max(0, prompt - int(_number(row["cached_tokens"]) or 0)),
        answered=None if answered is None else int(answered),
        failed=failed,
    )


def _came(folder: Path, trial: int, zero: float, flights: Mapping[int, Flight], rest: Sequence[Frame] = ()) -> Came:
    """When the tokens of ``flights`` came: their events, as many tokens in all as the server counted."""
    if any(one.answered is None for one in flights.values()):
        return NOTHING_COUNTED
    rows = table.read(folder, "chunks", "request, at_s, tokens, shows_text", f"trial = {trial}", rest=rest)
    counts = np.nan_to_num(np.asarray(rows["tokens"], np.float64), nan=-1.0)
    shown = np.asarray(rows["shows_text"], np.float64) > 0
    are = (shown & (counts != 0)) | (counts > 0)  # as engines.exchange.Arrivals has it
    request, at = rows["request"][are].astype(np.int64), zero + rows["at_s"][are].astype(np.float64)
    tokens = np.where(counts[are] > 0, counts[are], 1.0)
    numbers, which = np.unique(request, return_inverse=True)
    told = np.array([flights[n].answered or 0 if n in flights else 0 for n in numbers.tolist()], np.float64)
    tokens = tokens * (told / np.bincount(which, weights=tokens))[which]
    # An answer that came as one piece has no events.
    seen = set(numbers.tolist())
    pieces = [(n, one.last, one.answered) for n, one in flights.items() if n not in seen and one.last is not None]
    return came(
        np.append(request, np.array([n for n, _, _ in pieces], np.int64)),
        np.append(at, [last for _, last, _ in pieces]),
        np.append(tokens, [count or 0 for _, _, count in pieces]),
    )


def _number(value: object) -> float | None:
    return None if value is None or math.isnan(found := float(str(value))) else found
