"""The requests of a saved run of one at a time, for what is joined to them by time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec

from phasewise.errors import InputError
from phasewise.isolate.ledger.schema import WARMUP
from phasewise.isolate.rows import Row

_LEDGER = f"""
    phase, coalesce(prompt_tokens, prompt_tokens_planned) AS prompt_tokens, answer_tokens_planned AS max_tokens,
    coalesce(completion_tokens, answer_tokens_planned) AS completion_tokens, cached_tokens, sent_s AS sent_at_s, ttft_s,
    tpot_s, ended_s AS ended_at_s, trial = {WARMUP} AS warmup
"""
"""Fields of a `Row` from the columns of the ledger; those that are not here do not matter to what is joined."""

_ANSWERED = "error IS NULL AND phase IS NOT NULL AND sent_s + ttft_s + ended_s IS NOT NULL"


def requests(file: Path) -> list[Row]:
    """The answered requests in ``file``: a ledger, or rows as a power sweep and a capture write them.

    Raises:
        InputError: it is not there, or holds something else.
    """
    if not file.exists():
        raise InputError(f"{file} is not there: name a run of phasewise profile, with its rows.")
    try:
        return [msgspec.convert(row, Row) for row in _read(file)]
    except (OSError, msgspec.ValidationError) as error:
        why = str(error).partition("\n")[0][:160]
        raise InputError(f"{file} holds no requests of a profile ({why}): name a run of phasewise profile.") from None


def _read(file: Path) -> Iterator[dict[str, object]]:
    import duckdb

    try:
        with duckdb.connect() as connection:
            rows = connection.read_parquet(str(file))
            if "sent_s" in rows.columns:
                rows = rows.filter(_ANSWERED).project(_LEDGER)
            names, found = rows.columns, rows.fetchall()
    except duckdb.Error as error:
        raise OSError(str(error)) from error
    for row in found:
        yield {name: _plain(value) for name, value in zip(names, row, strict=True)}


def _plain(value: object) -> object:
    """A cell as the row's field has it; counts that some answers lacked were kept as floats."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else value
    return value
