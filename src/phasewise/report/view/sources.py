"""How every number was obtained: target, model, machine, ceilings, sampling, versions."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.envelope import Envelope
from phasewise.record.machine import Machine
from phasewise.record.model import ModelFacts
from phasewise.record.run import Run
from phasewise.record.target import Target
from phasewise.report.view import timings, words
from phasewise.report.view.table import Cell, Table, columns, give, say

Row = tuple[Cell, ...]


def sources(run: Run) -> tuple[Table, ...]:
    """One table per subject; a subject that the run does not have is left out."""
    found = []
    if run.model is not None:
        found.append(Table(title="Model", columns=_COLUMNS, rows=tuple(_model(run.model)), note=remarks(run.model)))
    if run.machine is not None:
        notes = " ".join(map(words.clean, run.machine.notes))
        found.append(Table(title="Machine", columns=_COLUMNS, rows=tuple(_machine(run.machine)), note=notes))
    if run.target is not None:
        found.append(Table(title="Target", columns=_COLUMNS, rows=tuple(_target(run.target))))
    if (told := timings.table(run)) is not None:
        found.append(told)
    return (*found, Table(title="Run", columns=_COLUMNS, rows=tuple(_run(run))))


def summary(run: Run) -> Iterator[str]:
    """A line per subject: what was measured how, with which ceilings, and how long it took."""
    seen, machine, model = run.observation, run.machine, run.model
    if seen is not None:
        took = words.number(run.envelope.duration_s, "s")
        yield f"times: measured at the client over {words.count(seen.requests)} requests in {took}"
    if model is not None:
        beyond = "".join(f"; {words.count(number)} {what}" for what, number in parts(model))
        work = f"work: predicted for {words.name(model.name)} in {words.name(model.weights_format)}{beyond}"
        yield ". ".join(filter(None, (work, remarks(model))))
    yield from (f"machine: {words.clean(note)}" for note in (machine.notes if machine else ()))
    for ceilings in machine.ceilings if machine else ():
        rates = [f"{words.name(dtype)} {words.amount(peak)}" for dtype, peak in ceilings.compute.items()]
        rates += [f"memory {words.amount(ceilings.bandwidth)}"] if ceilings.bandwidth else []
        yield f"ceilings, {ceilings.basis}: {', '.join(rates)}. {words.clean(ceilings.how)}"
    if run.target is not None and run.target.reported:
        said = [f"{words.name(fact.key)} {words.name(fact.value)}" for fact in run.target.reported]
        yield f"reported by the server: {words.listed(said)}"


_COLUMNS = columns("", ">value", "how")


def remarks(model: ModelFacts) -> str:
    """What is not modelled, and what else a reader should know of the counts; empty when nothing is."""
    left_out = words.listed([words.name(part) for part in model.not_modelled])
    said = f"Not modelled, so not in any floor or utilisation: {left_out}." if left_out else ""
    return " ".join(filter(None, (said, *map(words.clean, model.notes))))


def parts(model: ModelFacts) -> Iterator[tuple[str, int]]:
    """Parameter counts of a model that is more than dense layers of text: what each is, and how many."""
    if model.active_parameters != model.parameters:
        yield "parameters active per token", model.active_parameters
        if model.active_without_embedding not in (0, model.active_parameters):
            yield "active without the input embedding", model.active_without_embedding
    if model.vision_parameters:
        yield "parameters of the vision tower, apart", model.vision_parameters
    if model.prediction_parameters:
        yield "parameters of prediction layers, apart", model.prediction_parameters


def _model(model: ModelFacts) -> Iterator[Row]:
    yield say("name"), say(words.name(model.name)), say(model.source)
    yield say("parameters"), Cell(words.count(model.parameters)), say(f"{words.count(model.layers)} layers")
    for what, number in parts(model):
        yield say(what), Cell(words.count(number)), Cell("")
    yield say("embedding"), Cell(words.count(model.embedding_parameters)), say("parameters of the input table")
    yield say("weights"), give(model.weight_bytes, 4), say(words.origin(model.weight_bytes))
    yield say("KV per token"), give(model.kv_bytes_per_token), say(words.origin(model.kv_bytes_per_token))
    yield say("formats"), say(words.name(model.weights_format)), say(f"KV cache in {words.name(model.kv_format)}")
    yield say("matmuls judged in"), say(words.name(model.compute_dtype) or words.NOTHING), Cell("")
    if model.state_bytes_per_request:
        state = words.number(model.state_bytes_per_request, "B")
        yield say("state per request"), Cell(state), say("recurrent states, encoded tokens; of any context")
    if model.max_context is not None:
        yield say("longest context"), Cell(words.number(model.max_context, "token")), say("as trained")


def _machine(machine: Machine) -> Iterator[Row]:
    here = "the machine that phasewise runs on" if machine.local else "as stated"
    yield say("name"), say(words.name(machine.name)), say(f"{machine.kind}, {here}")
    yield say("devices"), Cell(words.count(machine.devices)), say("the figures below are of one device")
    for label, quantity in (("memory", machine.memory_bytes), ("power limit", machine.power_limit_w)):
        if quantity is not None:
            yield say(label), give(quantity), say(words.origin(quantity))
    for ceilings in machine.ceilings:
        for dtype, peak in ceilings.compute.items():
            yield say(f"{words.name(dtype)} matmuls ({ceilings.basis})"), give(peak), say(words.origin(peak))
        for label, rate in (("reading", ceilings.bandwidth), ("copying", ceilings.copy_bandwidth)):
            if rate is not None:
                yield say(f"{label} memory ({ceilings.basis})"), give(rate), say(words.origin(rate))
        if ceilings.how:
            yield say(f"{ceilings.basis} ceilings"), Cell(""), say(ceilings.how)
    if not machine.ceilings:
        yield say("ceilings"), Cell(words.NOTHING), say("none known: give --on, or --peak and --bandwidth")


def _target(target: Target) -> Iterator[Row]:
    yield say("engine"), say(words.name(target.engine)), say(f"at {words.name(target.name)}")
    yield say("model sent"), say(words.name(target.served_model)), say(f"{target.prompting} to {target.endpoint}")
    if target.max_context is not None:
        yield say("longest context"), Cell(words.number(target.max_context, "token")), say("of the server")
    for key, value in target.settings.items():
        yield say(words.name(key)), say(words.name(value)), say("set by phasewise")
    for fact in target.reported:
        yield say(words.name(fact.key)), say(words.name(fact.value)), say(f"reported: {words.name(fact.where)}")
    for one in target.capabilities:
        state = {True: "yes", False: "no", None: "unknown"}[one.present]
        yield say(words.name(one.name).replace("_", " ")), Cell(state), say(one.detail)


def _run(run: Run) -> Iterator[Row]:
    envelope, seen = run.envelope, run.observation
    yield say("made"), say(envelope.created), say(f"in {words.number(envelope.duration_s, 's')}")
    yield say("status"), Cell(envelope.status), say(envelope.reason)
    if seen is not None:
        sent = f"{words.count(seen.prompt_tokens)} tokens sent, {words.count(seen.output_tokens)} received"
        yield say("requests"), Cell(words.count(seen.requests)), say(sent)
        yield say("sampling stopped"), Cell(""), say(seen.stopped)
    if run.prediction is not None:
        bound = f"{words.name(run.prediction.dtype)} matmuls, {words.name(run.prediction.basis)} ceilings"
        yield say("floors"), Cell("predicted"), say(bound)
    for name, version in envelope.versions.items():
        yield say(words.name(name)), say(words.name(version)), say("version")
    if envelope.host:
        yield say("client"), Cell(""), say(envelope.host)
    yield say("command"), Cell(""), say(" ".join(("phasewise", envelope.command, *_after_verb(envelope))))


def _after_verb(envelope: Envelope) -> tuple[str, ...]:
    said = envelope.arguments
    return said[1:] if said[:1] == (envelope.command,) else said
