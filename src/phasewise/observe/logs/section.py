"""What was observed as parts of the record."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.observe.logs.histogram import Histogram
from phasewise.observe.logs.kept import Observed
from phasewise.observe.logs.lengths import Lengths
from phasewise.record.logs import Beyond, Rates, Reuse, Spread
from phasewise.record.quantity import Quantity, reported

_LOG = "the log's own counts"


def tokens(count: int) -> Quantity:
    """A sum of tokens, exact."""
    return reported(count, "token", _LOG)


def spread(lengths: Histogram) -> Spread:
    """Total and percentiles."""
    return Spread(
        tokens=tokens(lengths.total),
        p50=lengths.percentile(50),
        p90=lengths.percentile(90),
        p99=lengths.percentile(99),
        longest=lengths.largest,
        none=lengths.count(0),
    )


def span(found: Sequence[Observed]) -> Quantity | str:
    """Seconds from the earliest to the latest request of all files, or why that cannot be said."""
    known = [(one.first, one.last) for one in found if one.first is not None and one.last is not None]
    if len(known) < len(found):
        return "a log has no column of times"
    if len(found) > 1 and any(one.clock != "date" for one in found):
        return "the files tell time in numbers whose zero may differ: see each file's own span"
    seconds = max(last for _, last in known) - min(first for first, _ in known)
    return reported(seconds, "s", "earliest to latest time in the log")


def rates(lengths: Lengths, over: Quantity) -> Rates | str:
    """Requests and tokens per second over the span, or why that cannot be said."""
    if over.value <= 0:
        return "all requests have one time"
    prompt, answer = lengths.prompt.total / over.value, lengths.answer.total / over.value
    return Rates(
        requests_per_s=lengths.requests / over.value,
        prompt_tokens=reported(prompt, "token/s", "mean over the log's span"),
        answer_tokens=reported(answer, "token/s", "mean over the log's span"),
    )


def beyond(lengths: Lengths, max_context: int) -> Beyond:
    """Tokens beyond the model's context."""
    over, every = lengths.beyond(max_context)
    return Beyond(
        max_context=max_context,
        tokens=tokens(over),
        share=reported(over / every, "1", "of all tokens, prompts' and answers'"),
    )


def reuse(found: Sequence[Observed]) -> Reuse | str:
    """Blocks that repeat, each file for itself, or why that cannot be said."""
    known = [one.reuse for one in found if one.reuse is not None]
    if len(known) < len(found):
        return "the log does not say which prompts share a prefix (Mooncake's hash_ids do)"
    blocks = sum(one.blocks for one in known)
    different = sum(one.different for one in known)
    error = sum(one.error**2 for one in known) ** 0.5
    sizes = {one.tokens for one in known}
    return Reuse(
        block_tokens=sizes.pop() if len(sizes) == 1 else None,
        blocks=blocks,
        share=_repeats(blocks, different, error),
    )


def _repeats(blocks: int, different: float, error: float) -> Quantity:
    share = max(0.0, 1 - different / blocks)
    if not error:
        return reported(share, "1", "of the prompts' blocks, counted by their ids")
    low, high = (max(0.0, 1 - (different + sign * 2 * error) / blocks) for sign in (1, -1))
    source = "of the prompts' blocks, estimated from a sample of their ids, two standard errors"
    return Quantity(value=share, low=low, high=high, unit="1", provenance="reported", source=source)
