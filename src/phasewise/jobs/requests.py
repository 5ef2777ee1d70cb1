"""The requests of a saved run of one at a time, for what is joined to them by time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from phasewise.errors import InputError
from phasewise.isolate.ledger.schema import WARMUP
from phasewise.isolate.rows import Row

_FIELDS = {
    "phase": "phase",
    "prompt_tokens": "coalesce(prompt_tokens, prompt_tokens_planned)",
    "max_tokens": "answer_tokens_planned",
    "completion_tokens": "coalesce(completion_tokens, answer_tokens_planned)",
    "cached_tokens": "cached_tokens",
    "sent_at_s": "sent_s",
    "ttft_s": "ttft_s",
    "tpot_s": "tpot_s",
    "ended_at_s": "ended_s",
    "warmup": f"trial = {WARMUP}",
}
"""Fields of a `Row` from the columns of the ledger."""

_ANSWERED = "error IS NULL AND phase IS NOT NULL AND sent_s + ttft_s + ended_s IS NOT NULL"


def requests(file: Path) -> list[Row]:
    """The answered requests in ``file``.

    Raises:
        InputError: it is not there, holds something else, or is of an older phasewise.
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
            if "sent_at_s" in rows.columns:
                raise InputError(f"{file} is of an older phasewise, which kept less: make the run again.")
            found = rows.filter(_ANSWERED).project(", ".join(f"{sql} AS {name}" for name, sql in _FIELDS.items()))
            every = found.fetchall()
    except duckdb.Error as error:
        raise OSError(str(error)) from error
    for row in every:
        yield dict(zip(_FIELDS, row, strict=True))
