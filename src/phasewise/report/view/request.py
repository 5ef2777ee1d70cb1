"""Where the time goes: a request as a bar of prefill and decode, a step as a bar of its shares."""

from __future__ import annotations

from phasewise.record.judgement import Split
from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity
from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.heading import PHASES, measured, verdict_of
from phasewise.report.view.table import Cell, Part, Table, columns, give, say


def alone(run: Run, split: Split) -> str:
    """What the bar of a request shows, and who owns it where that can be said."""
    return f"One request alone, {split.total.provenance}: {request(split)}. {owners(run, split)}"


def request(split: Split) -> str:
    """``2,000 tokens in, 300 out``."""
    return f"{words.count(split.prompt_tokens)} tokens in, {words.count(split.answer_tokens)} out"


def parts(split: Split) -> tuple[Part, Part]:
    """The request as prefill (its TTFT) and decode."""
    return (
        Part(key="prefill", label="prefill", seconds=split.ttft, fraction=split.prefill_share),
        Part(key="decode", label="decode", seconds=split.decode, fraction=split.decode_share),
    )


def owners(run: Run, split: Split) -> str:
    """Who owns the total and who owns TTFT; nobody where the figures are not to be believed or do not tell."""
    total, ttft = words.amount(split.total), words.amount(split.ttft)
    beyond = "" if split.ttft.provenance == "measured" else " (extended beyond the longest prompt measured)"
    if _doubted(run):
        return f"Total {total}, TTFT {ttft}{beyond}: not to be believed, so nobody is named its owner."
    if split.sure:
        owner = f"{split.owner.capitalize()} owns the total of {total}."
    else:
        owner = f"Which phase owns the total of {total} is within the noise."
    if split.ttft_owner == "unknown":
        return f"{owner} What owns the TTFT of {ttft}{beyond} cannot be said."
    return f"{owner} The largest part of the TTFT of {ttft}{beyond}: {words.part(split.ttft_owner)}."


def _doubted(run: Run) -> bool:
    verdicts = (verdict_of(run, phase) for phase in PHASES)
    rung = run.judgement is not None and bool(run.judgement.alarms)
    return rung or any(verdict is not None and not verdict.believed for verdict in verdicts)


def why_no_split(run: Run) -> str:
    """Why it is not said where the time of a request goes; empty when it is."""
    if run.judgement is not None and run.judgement.splits:
        return ""
    missing = [phase for phase in PHASES if not measured(run, phase)]
    if missing:
        return f"{words.listed(missing).capitalize()} {'was' if len(missing) == 1 else 'were'} not measured."
    if run.judgement is not None:
        return "The measured prompts do not tell how long the stated request takes: see the verdict."
    return "No request was judged."


def mix(run: Run) -> Table | None:
    """Every request of the user's mix with its weight; None when there is only one."""
    judged = run.judgement
    if judged is None or len(judged.splits) < 2:
        return None
    doubted = _doubted(run)
    rows = [
        (
            Cell(words.count(split.prompt_tokens)),
            Cell(words.count(split.answer_tokens)),
            say(f"{split.weight:g}"),
            give(split.ttft),
            give(split.decode),
            give(split.total),
            Cell(words.share(split.decode_share)),
            say(split.owner if split.sure and not doubted else words.NOTHING),
        )
        for split in judged.splits
    ]
    return Table(
        title="The mix",
        columns=columns(">tokens in", ">out", ">weight", ">TTFT", ">decode", ">total", ">decode share", "owner"),
        rows=tuple(rows),
        note=f"Over the whole mix prefill takes {words.share(judged.prefill_share)} and decode "
        f"{words.share(judged.decode_share)} of the time.",
    )


def shares(run: Run, phase: Phase) -> tuple[Part, ...]:
    """A measured step taken apart, largest part first; empty without a floor."""
    verdict = verdict_of(run, phase)
    return tuple(
        Part(key=share.name, label=words.part(share.name), seconds=share.seconds, fraction=share.fraction.value)
        for share in (verdict.shares if verdict else ())
    )


def share_table(run: Run, phase: Phase) -> Table:
    """The shares as rows."""
    verdict = verdict_of(run, phase)
    rows = tuple(
        (say(words.part(share.name)), give(share.seconds), Cell(words.share(share.fraction.value), share.fraction))
        for share in (verdict.shares if verdict else ())
    )
    return Table(title="Where the step goes", columns=columns("part", ">time", ">share"), rows=rows)


def seconds(quantity: Quantity) -> str:
    """A time with its interval in brackets."""
    between = words.interval(quantity)
    return f"{words.amount(quantity)} ({between})" if between else words.amount(quantity)
