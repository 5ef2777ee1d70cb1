"""A plain CSV with a header: ``time,prompt_tokens,answer_tokens``, or the names that other tools give these columns."""

from __future__ import annotations

from phasewise.errors import InputError
from phasewise.observe.logs.lines import shown
from phasewise.observe.logs.rows import Head, Log
from phasewise.observe.logs.table import Columns, Header, header, table

PROMPT = (
    "prompttokens", "inputtokens", "contexttokens", "requesttokens", "numprefilltokens", "numprompttokens",
    "inputlength", "promptlength", "inputlen", "promptlen", "promptsize",
)  # fmt: skip
"""Names of the prompt's tokens, without case and punctuation: ours, OpenAI's usage, Azure, BurstGPT, Vidur, Mooncake,
splitwise-sim."""

ANSWER = (
    "answertokens", "outputtokens", "completiontokens", "generatedtokens", "responsetokens", "numdecodetokens",
    "numoutputtokens", "outputlength", "answerlength", "outputlen", "answerlen", "tokensize",
)  # fmt: skip
"""Names of the answer's tokens."""

SECONDS = ("time", "timestamp", "arrivedat", "arrivaltime", "arrivaltimestamp", "starttime", "createdat", "date")
"""Names of the time of a request: a date, or seconds."""

MILLISECONDS = ("timems", "timestampms", "arrivaltimems", "starttimems")
"""Names of the time in milliseconds."""

_SHOWN = 120


def plain(head: Head) -> Log:
    """The log of any CSV whose header names prompt and answer tokens.

    Raises:
        InputError: no such columns, or more than one that could be meant.
    """
    found = header(head)
    prompt, answer = _one(found.find(*PROMPT), head, found), _one(found.find(*ANSWER), head, found)
    seconds, milliseconds = found.find(*SECONDS), found.find(*MILLISECONDS)
    if prompt is None or answer is None:
        missing = "prompt_tokens" if prompt is None else "answer_tokens"
        raise InputError(
            f"{shown(head.path)} line {head.line} names no column {missing} (it reads {head.text[:_SHOWN]!a}): give a "
            "CSV headed time,prompt_tokens,answer_tokens, an Azure trace or a Mooncake trace."
        )
    time = _one(seconds + milliseconds, head, found)
    return table("CSV", head, found, Columns(prompt, answer, time, tick=1e-3 if milliseconds else 1.0))


def _one(columns: list[int], head: Head, found: Header) -> int | None:
    if len(columns) > 1:
        names = " and ".join(f"{found.names[i][:40]!a}" for i in columns)
        raise InputError(
            f"{shown(head.path)} line {head.line} has two columns for one thing, {names}: rename all but one."
        )
    return columns[0] if columns else None
