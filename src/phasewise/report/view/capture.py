"""A capture: the client's times beside the trace's, what neither explains, the checks, and where the files are."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

from phasewise.record.capture import Capture, Captured, CapturedFile
from phasewise.record.observation import Check
from phasewise.record.run import Run
from phasewise.record.trace import TraceStep
from phasewise.report.view import findings, heading, words
from phasewise.report.view.heading import Notice
from phasewise.report.view.table import Cell, Table, columns, give, say
from phasewise.report.view.traced import said

PARTS = {
    "kernels": "kernels (union)",
    "gaps": "gaps between them",
    "between": "between steps",
    "front end": "outside the steps",
    "profiler": "less the profiler's cost",
}
"""What each part of the client's step is called."""

MIX = "The mix, step by step"

_YARDSTICK = {"prefill": "mfu", "decode": "mbu"}

_LABEL = 48
"""Characters of a step's label that are shown; --json has all."""

_ORDER = {"failed": 0, "not_checked": 1, "passed": 2}


def headline(run: Run, found: Capture) -> str:
    """The comparison of both phases in words; without one, why there is none."""
    said = [f"{one.name.capitalize()}: {words.clean(one.text)}" for one in found.phases if one.text]
    if said:
        return " ".join(said)
    names = words.listed([one.name for one in found.phases])
    if any(file.place == "server" for one in found.phases for file in one.files):
        return f"Recorded {names} alone; the traces lie on the server's disk."
    return f"Recorded {names}; no times stand beside each other." if names else "Nothing was captured."


def subject(run: Run, found: Capture) -> str:
    """What was recorded, by whose profiler."""
    return f"{heading.subject(run)}, recorded by {words.name(found.profiler)}"


def notices(run: Run, found: Capture) -> tuple[Notice, ...]:
    """Checks that failed, why it is not complete, what to copy from where, and what to know of the profiler."""
    failed = [
        f"{_phase(one)}: {_called(one)}: {words.clean(one.detail)}" for one in _checks(found) if one.status == "failed"
    ]
    told = [Notice(kind="doubt", text="What is wrong with this capture:", items=tuple(failed))] if failed else []
    if run.envelope.status != "complete":
        reason = words.clean(run.envelope.reason).rstrip(".") or "no reason is recorded"
        told.append(Notice(kind="partial", text=f"{run.envelope.status.capitalize()}: {reason}."))
    if found.proceed:
        text = (
            "Copy the files and read them (SERVER is your name for its machine, FOLDER what its profiler writes into):"
        )
        told.append(Notice(kind="contradiction", text=text, items=tuple(map(words.clean, found.proceed))))
    told += [Notice(kind="contradiction", text=words.clean(note)) for note in found.notes]
    timed = heading.notices(run) if run.observation is not None else ()
    told += [one for one in timed if one.kind == "doubt"]
    return tuple(told)


def beside(found: Capture) -> Table:
    """One row a time, one column a phase: the client without a profiler and with it, the trace, its kernels."""
    timed = [one for one in found.phases if one.name != "mixed"]
    kernels = "operators" if found.on_cpu else "kernels"
    rows = [
        (say("recorded"), *(say(_what(one)) for one in timed)),
        (
            say("one step is"),
            *(say("a prompt" if one.name == "prefill" else "a token of each request") for one in timed),
        ),
        (say("client, no profiler"), *(give(one.client) for one in timed)),
        (say("client, under the profiler"), *(give(one.slowed) for one in timed)),
        (say("trace, a step"), *(give(one.traced) for one in timed)),
        (say(f"trace, sum of its {kernels}"), *(give(one.kernels) for one in timed)),
        (say("trace against client"), *(say(_against(one)) for one in timed)),
        *_reached(timed),
    ]
    heads = columns("", *(one.name for one in timed))
    return Table(title="Client beside trace", columns=heads, rows=tuple(rows) if timed else ())


def _reached(timed: list[Captured]) -> Iterator[tuple[Cell, ...]]:
    """The floor of a step, MFU of prefill and MBU of decode; nothing without model and machine."""
    if any(one.floor for one in timed):
        yield say("floor, a step"), *(give(one.floor) for one in timed)
    for name, by in (("by the client", "measured"), ("of its kernels", "reported")):
        values = [
            next(
                (u.value for u in one.utilisations if u.yardstick == _YARDSTICK[one.name] and u.value.provenance == by),
                None,
            )
            for one in timed
        ]
        if any(values):
            called = ", ".join(_YARDSTICK[one.name].upper() for one in timed)
            yield say(f"{called} {name}"), *map(give, values)


def parts(found: Capture) -> Iterator[Table]:
    """For each phase what the client's step is made of."""
    for one in found.phases:
        if not one.parts or one.client is None:
            continue
        whole = one.client
        rows = [
            (
                say(PARTS[part.name].replace("kernels", "operators") if found.on_cpu else PARTS[part.name]),
                give(part.seconds),
                Cell(words.share(part.seconds.value / whole.value)),
                say(part.means),
            )
            for part in one.parts
        ]
        rows.append((say("client, no profiler"), give(whole), Cell(words.share(1.0)), say("what users wait")))
        title = f"{one.name.capitalize()}: what a {'prompt' if one.name == 'prefill' else 'step'} is made of"
        yield Table(title=title, columns=columns("part", ">time", ">share", "what it is"), rows=tuple(rows))


def unexplained(found: Capture) -> tuple[str, ...]:
    """Why times are missing, a sentence for each phase."""
    return tuple(f"{one.name.capitalize()}: {words.clean(one.why_null)}." for one in found.phases if one.why_null)


def mix(found: Capture) -> Table:
    """The first rank's steps of the mix in order and what each is by its label; like ones in a row in one row."""
    every = [step for one in found.phases for step in one.marked]
    ranks = sorted({step.rank for step in every})
    steps = sorted((step for step in every if step.rank == ranks[0]), key=lambda step: step.start_s)
    rows, first = [], 1
    for (phase, prompts, answers), grouped in itertools.groupby(steps, _marked):
        alike = list(grouped)
        spans = [step.span_s for step in alike]
        last = first + len(spans) - 1
        rows.append(
            (
                say(f"{first}" if first == last else f"{first} to {last}"),
                say(phase),
                Cell(words.count(prompts)),
                Cell(words.count(answers)),
                give(said(statistics.median(spans), "s", "span of the step, median")),
                Cell(words.clean(alike[0].label, _LABEL)),
            )
        )
        first = last + 1
    heads = columns("step", "phase", ">prompt tokens", ">decode tokens", ">span", "label")
    return Table(
        title=f"{MIX}{f', on one of {len(ranks)} ranks' if len(ranks) > 1 else ''}", columns=heads, rows=tuple(rows)
    )


def _marked(step: TraceStep) -> tuple[str, int | None, int | None]:
    """What steps that stand in one row share."""
    prompts, answers = (half.tokens if half else 0 for half in (step.prefill, step.decode))
    return step.phase, prompts, answers


def checks(found: Capture) -> Table:
    """Every check of the recordings, failures first."""
    rows = tuple(
        (say(findings.STATUS[one.status]), say(_called(one)), say(_phase(one)), say(one.detail))
        for one in sorted(_checks(found), key=lambda one: _ORDER[one.status])
    )
    return Table(title="Are they clean", columns=columns("status", "check", "phase", "what was seen"), rows=rows)


def files(found: Capture) -> Table:
    """Every file, and where it lies."""
    rows = tuple(
        (say(one.name), say(file.role), say(_place(file)), say(file.path), say(_size(file)))
        for one in found.phases
        for file in one.files
    )
    return Table(title="Files", columns=columns("phase", "of", "place", "path", ">size"), rows=rows)


def _what(one: Captured) -> str:
    if one.name == "prefill":
        tokens = sorted(set(one.prompt_tokens))
        told = f"{tokens[0]:,}" if len(tokens) == 1 else f"{tokens[0]:,} to {tokens[-1]:,}" if tokens else "?"
        return f"{one.requests} prompts of {told} tokens"
    steps = one.steps.get("decode")
    ranks = sum(file.role == "rank" for file in one.files)
    many = "" if steps is None else f"{steps // max(1, ranks)} "
    each = f", on each of {ranks} ranks" if steps is not None and ranks > 1 else ""
    return f"{many}steps of {one.batch} {'request' if one.batch == 1 else 'requests'}{each}"


def _against(one: Captured) -> str:
    if one.client is None or one.traced is None:
        return words.NOTHING
    off = (one.traced.value - one.client.value) / one.client.value
    return f"{100 * off:+.1f}%, {'agrees within 5%' if one.agrees else 'see what it is made of'}"


def _checks(found: Capture) -> list[Check]:
    return [check for one in found.phases for check in one.checks]


def _called(check: Check) -> str:
    return words.name(check.name).replace("_", " ")


def _phase(check: Check) -> str:
    return "mix" if check.phase == "run" else check.phase


def _place(file: CapturedFile) -> str:
    return {"run": "in the run's folder", "engine": "where the engine wrote it", "server": "on the server"}[file.place]


def _size(file: CapturedFile) -> str:
    return words.NOTHING if file.bytes is None else words.number(float(file.bytes), "B")
