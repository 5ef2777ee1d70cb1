"""Request logs: who owns the accelerator's time, the lengths, the files, what each decode batch does, the recap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from phasewise.record.logs import Demand, Logs, Spread
from phasewise.record.observation import Phase
from phasewise.record.run import Run
from phasewise.report.view import heading, words
from phasewise.report.view.heading import PHASES
from phasewise.report.view.table import Cell, Part, Table, columns, give, say

_WORTH_CACHING = 0.1
"""A share of repeated blocks from which prefix caching is named first."""


def owner(found: Logs) -> str:
    """Who owns the accelerator's time, in one sentence, or why that cannot be said."""
    alone, stated = found.at(1), found.at(found.batch)
    if alone is None or stated is None:
        return f"No owner of the time: {found.missing.get('demands', 'nothing was predicted')}."
    share = words.share(_largest(stated))
    first = f"{stated.owner.capitalize()} owns {share} of the accelerators' time at a decode batch of {found.batch:,}"
    if found.batch == 1:
        return f"{first} (each request alone)."
    other = "it" if alone.owner == stated.owner else alone.owner
    return f"{first}; alone, at batch 1, {other} owns {words.share(_largest(alone))}."


def _largest(demand: Demand) -> float:
    return max(demand.prefill_share, demand.decode_share)


def _owner(demand: Demand | None) -> Cell:
    return say(words.NOTHING if demand is None else f"{demand.owner} {words.share(_largest(demand))}")


def subject(run: Run, found: Logs) -> str:
    """What the time was predicted for, and how."""
    if not found.demands:
        return "Tokens as the log counts them (reported)."
    return f"Floors for {heading.subject(run)} ({words.clean(found.basis)}, predicted); tokens as the log counts them."


def bars(found: Logs) -> tuple[Part, ...]:
    """Prefill and decode at the stated batch."""
    demand = found.at(found.batch)
    if demand is None:
        return ()
    return (
        Part(key="prefill", label="prefill", seconds=demand.prefill, fraction=demand.prefill_share),
        Part(key="decode", label="decode", seconds=demand.decode, fraction=demand.decode_share),
    )


def lengths(found: Logs) -> Table:
    """Totals and percentiles of prompts and answers."""
    rows = tuple(
        (say(name), give(spread.tokens), *(Cell(words.count(n)) for n in _points(spread)))
        for name, spread in (("prompt", found.prompt), ("answer", found.answer))
    )
    heads = columns("tokens of the", ">all", ">p50", ">p90", ">p99", ">longest", ">empty")
    return Table(title="Lengths", columns=heads, rows=rows)


def _points(spread: Spread) -> tuple[int, ...]:
    return spread.p50, spread.p90, spread.p99, spread.longest, spread.none


def facts(found: Logs) -> Iterator[str]:
    """What else the log says, a sentence each."""
    ratio = found.tokens_in_per_token_out
    per = "no answers" if ratio is None else f"{ratio:,.1f} tokens in per token out"
    yield f"{words.count(found.requests)} requests, {per}."
    if found.rates is not None and found.span is not None:
        yield (
            f"{found.rates.requests_per_s:,.3g} requests, {words.count(found.rates.prompt_tokens.value)} tokens in and "
            f"{words.count(found.rates.answer_tokens.value)} tokens out per second over {words.amount(found.span)}."
        )
    else:
        yield f"No rates: {words.clean(found.missing.get('rates', 'no times'))}."
    if found.reuse is not None:
        share = words.interval(found.reuse.share) or words.share(found.reuse.share.value)
        size = f"{found.reuse.block_tokens}-token " if found.reuse.block_tokens else ""
        yield (
            f"{share} of the prompts' {size}blocks came before: what a prefix cache that forgets nothing would skip "
            "(the floors assume none)."
        )
    if found.beyond is not None and found.beyond.tokens.value:
        yield (
            f"{words.share(found.beyond.share.value)} of the tokens lie beyond the model's longest context of "
            f"{words.count(found.beyond.max_context)}: they are counted as if it took them."
        )


def batches(found: Logs) -> Table:
    """What the decode batch does to the time."""
    rows = tuple(
        (
            Cell(words.count(demand.batch) + (" (stated)" if demand.batch == found.batch else "")),
            give(demand.prefill),
            give(demand.decode),
            _owner(demand),
            Cell(words.NOTHING if demand.machines is None else f"{demand.machines.value:,.3g}", demand.machines),
        )
        for demand in found.demands
    )
    heads = columns(">decode batch", ">prefill", ">decode", "owner", ">machines busy")
    note = (
        "Each prompt is prefilled alone, nothing of it cached; a decode step costs each of its requests its part. "
        "Machines busy: how many such machines the log keeps busy on average, at the floor."
    )
    return Table(title="Accelerator time by decode batch", columns=heads, rows=rows, note=note if rows else "")


def files(found: Logs) -> Table:
    """A line per file, at the stated batch."""
    rows = tuple(
        (
            say(f"{words.name(Path(one.name).name)} ({one.form})"),
            Cell(words.count(one.requests)),
            Cell(words.count(one.prompt_tokens.value), one.prompt_tokens),
            Cell(words.count(one.answer_tokens.value), one.answer_tokens),
            give(one.span),
            _owner(one.demand),
        )
        for one in found.files
    )
    heads = columns("file", ">requests", ">tokens in", ">tokens out", ">span", "owner")
    return Table(title="Files", columns=heads, rows=rows)


def next_step(found: Logs) -> str:
    """What to do next, one sentence and a command."""
    demand = found.at(found.batch)
    if demand is None:
        return "Say what serves it: phasewise logs FILE --model llama-3-8b --on h100-sxm --batch 32"
    prompt, answer = max(1, found.prompt.p50), max(1, found.answer.p50)
    command = f"phasewise profile http://HOST:PORT {found.flags} --prompt {prompt} --answer {answer}"
    return f"{_lever(demand.owner, found)}; measure both phases at this log's median request: {words.clean(command)}"


def _lever(owner: Phase, found: Logs) -> str:
    bound = found.bounds.get(owner)
    if owner == "prefill" and found.reuse is not None and found.reuse.share.value >= _WORTH_CACHING:
        return f"Prefix caching comes first: {words.share(found.reuse.share.value)} of the prompts' blocks repeat"
    if bound == "memory":
        return f"{owner.capitalize()} pays for bytes: larger batches, fewer bytes per weight and per token of KV"
    return f"{owner.capitalize()} pays for math: fewer tokens (prefix caching) or a faster dtype"


def recap(found: Logs) -> Table:
    """Prefill beside decode."""
    alone, stated = found.at(1), found.at(found.batch)
    tokens = give(found.prompt.tokens, 4), give(found.answer.tokens, 4)
    sides = {
        "bound": tuple(_bound(found, phase) for phase in PHASES),
        "yardstick": (say("MFU"), say("MBU")),
        "value": (Cell("not measured"),) * 2,
        "tokens": tokens,
        f"floor at batch {found.batch:,}": tuple(_time(stated, phase) for phase in PHASES),
        "floor alone": tuple(_time(alone, phase) for phase in PHASES),
        "fixes": (Cell("measure first: phasewise profile"),) * 2,
    }
    rows = tuple((say(name), *cells) for name, cells in sides.items())
    return Table(title="Recap", columns=columns("", *PHASES), rows=rows)


def _bound(found: Logs, phase: Phase) -> Cell:
    bound = found.bounds.get(phase)
    return Cell(f"{words.BOUNDS[bound]} (predicted)" if bound else words.NOTHING)


def _time(demand: Demand | None, phase: Phase) -> Cell:
    if demand is None:
        return Cell(words.NOTHING)
    seconds, share = (
        (demand.prefill, demand.prefill_share) if phase == "prefill" else (demand.decode, demand.decode_share)
    )
    return Cell(f"{words.amount(seconds)}, {words.share(share)}", seconds)
