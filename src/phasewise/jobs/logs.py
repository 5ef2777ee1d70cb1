"""The job behind `phasewise logs`: request logs, a model and a machine to where the accelerator's time goes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from phasewise.jobs.envelope import envelope
from phasewise.jobs.subject import Subject
from phasewise.model import work
from phasewise.model.model import Model
from phasewise.model.work import Work
from phasewise.observe.logs import section
from phasewise.observe.logs.kept import Observed
from phasewise.observe.logs.lengths import Lengths, Steps, together, total
from phasewise.observe.logs.read import read_all
from phasewise.observe.logs.rows import Real
from phasewise.predict.roofline import Roof, decode_floor, prefill_floor, roofs
from phasewise.record.logs import Beyond, Demand, LogFile, Logs
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase
from phasewise.record.prediction import FloorBound
from phasewise.record.quantity import Quantity, predicted
from phasewise.record.run import Run

BATCHES = (1, 8, 32, 128)
"""Decode batches that are shown beside the stated one."""

Part = TypeVar("Part")


class Done(NamedTuple):
    """The run (model, machine) and its logs."""

    run: Run
    logs: Logs


class Ground(NamedTuple):
    """What time is predicted with."""

    model: Model
    roof: Roof


def logs(files: Sequence[Path], subject: Subject, *, batch: int, progress: Callable[[str, float], None]) -> Done:
    """Read ``files`` as one log; with a model and a machine, predict the time that it costs.

    Raises:
        UsageError: a flag or a file that is not what it should be.
    """
    started = time.perf_counter()
    model, machine = subject.load_model(), subject.load_machine(progress)
    found = read_all(files, progress)
    ground = _ground(model, machine)
    run = Run(
        envelope=envelope("logs", files[0].name, started),
        model=model.facts(f"{ground.roof.dtype} ({ground.roof.basis})" if isinstance(ground, Ground) else "")
        if model
        else None,
        machine=machine,
    )
    return Done(run, _section(found, ground, run, batch, _flags(subject)))


def _ground(model: Model | None, machine: Machine | None) -> Ground | str:
    """Model and roof, or what is missing."""
    if model is None:
        return "no model is named: give --model, e.g. --model llama-3-8b"
    if machine is None:
        return "no accelerator is named: give --on, or --peak and --bandwidth"
    if not (found := roofs(model, machine)):
        return f"{machine.name} has no known rate for {' or '.join(model.compute)}: give --peak and --bandwidth"
    return Ground(model, found[0])


def _section(found: tuple[Observed, ...], ground: Ground | str, run: Run, batch: int, flags: str) -> Logs:
    missing: dict[str, str] = {}

    def known(name: str, part: Part | str) -> Part | None:
        if isinstance(part, str):
            missing[name] = part
            return None
        return part

    whole = together(one.lengths for one in found)
    over = known("span", section.span(found))
    on = known("demands", ground)
    return Logs(
        files=tuple(_file(one, on, batch) for one in found),
        requests=whole.requests,
        prompt=section.spread(whole.prompt),
        answer=section.spread(whole.answer),
        tokens_in_per_token_out=whole.prompt.total / whole.answer.total if whole.answer.total else None,
        span=over,
        rates=known("rates", section.rates(whole, over) if over else missing["span"]),
        demands=_demands(whole, on, {*BATCHES, batch}, over) if on else (),
        batch=batch,
        bounds=_bounds(whole, on, batch) if on else {},
        basis=f"{on.roof.basis} ceilings, {on.roof.dtype} matmuls" if on else "",
        beyond=known("beyond", _beyond(whole, run)),
        reuse=known("reuse", section.reuse(found)),
        flags=flags,
        missing=missing,
    )


def _beyond(whole: Lengths, run: Run) -> Beyond | str:
    if run.model is None:
        return "no model is named"
    if run.model.max_context is None:
        return "the model does not say how long a context it takes"
    return section.beyond(whole, run.model.max_context)


def _file(one: Observed, on: Ground | None, batch: int) -> LogFile:
    over = section.span([one])
    seconds = None if isinstance(over, str) else over
    return LogFile(
        name=str(one.path),
        form=one.form,
        requests=one.lengths.requests,
        prompt_tokens=section.tokens(one.lengths.prompt.total),
        answer_tokens=section.tokens(one.lengths.answer.total),
        span=seconds,
        demand=_demands(one.lengths, on, {batch}, seconds)[0] if on else None,
    )


def _demands(lengths: Lengths, on: Ground, batches: set[int], over: Quantity | None) -> tuple[Demand, ...]:
    prefill = total(lengths.prefills(), lambda tokens: prefill_floor(on.model, on.roof, tokens))
    return tuple(_demand(lengths, on, batch, prefill, over) for batch in sorted(batches))


def _demand(lengths: Lengths, on: Ground, batch: int, prefill: float, over: Quantity | None) -> Demand:
    decode = total(lengths.decodes(), lambda context: decode_floor(on.model, on.roof, context, float(batch))) / batch
    both = prefill + decode
    return Demand(
        batch=batch,
        prefill=predicted(prefill, "s", "sum of the floors of all prefills"),
        decode=predicted(decode, "s", f"sum of the floors of all decode steps, each shared by {batch}"),
        prefill_share=prefill / both,
        decode_share=decode / both,
        owner="prefill" if prefill > decode else "decode",
        machines=predicted(both / over.value, "1", "busy time over the log's span") if over and over.value else None,
    )


def _bounds(lengths: Lengths, on: Ground, batch: int) -> dict[Phase, FloorBound]:
    return {
        "prefill": _bound(lengths.prefills, on, lambda tokens: work.prefill(on.model, tokens)),
        "decode": _bound(lengths.decodes, on, lambda context: work.decode(on.model, context, float(batch))),
    }


def _bound(steps: Callable[[], Steps], on: Ground, work_at: Callable[[Real], Work]) -> FloorBound:
    compute = total(steps(), lambda at: work_at(at).flops) / on.roof.compute.value
    memory = total(steps(), lambda at: work_at(at).bytes) / on.roof.bandwidth.value
    return "compute" if compute > memory else "memory"


def _flags(subject: Subject) -> str:
    said, usual = [], Subject()
    for name in subject.__struct_fields__:
        value = getattr(subject, name)
        if value != getattr(usual, name):
            said += [f"--{name}", str(value)]
    return shlex.join(said)
