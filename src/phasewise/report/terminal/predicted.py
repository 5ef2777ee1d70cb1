"""A prediction: the napkin first, then the counted model, batch, length, the request, and the recap."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.prediction import Prediction
from phasewise.record.run import Run
from phasewise.record.scaling import Scaling
from phasewise.report.terminal import calibrated, parallel, whatif
from phasewise.report.terminal.layout import Bars, Grid, bullets, indented, section, sentence
from phasewise.report.view import heading, predicted, scaling, words
from phasewise.report.view.recap import recap


def prediction(run: Run, explain: bool = False) -> RenderableType:
    """The whole prediction of ``run``; with ``explain`` every formula with its numbers put in."""
    found = run.prediction
    if found is None:
        return Group(sentence(heading.headline(run), "bold"), section("Recap", Grid(recap(run))))
    return Group(
        *_napkin(run, found),
        *_counted(run, found),
        *calibrated.sections(run),
        section(predicted.batches(found).title, Grid(predicted.batches(found))),
        *([section(*_scaling(found.scaling))] if found.scaling else []),
        section(predicted.lengths(found).title, Grid(predicted.lengths(found))),
        section("Where the time goes", *_request(found)),
        *parallel.sections(run),
        *whatif.sections(run),
        *([section("Every formula", *_formulas(found))] if explain else []),
        section("Recap", Grid(recap(run))),
    )


def _napkin(run: Run, found: Prediction) -> Iterator[RenderableType]:
    prefill, decode = predicted.napkin(run, found)
    yield sentence(f"Napkin. {prefill}", "bold")
    yield sentence(decode, "bold")
    yield sentence(f"Predicted for {heading.subject(run)}: {predicted.ceilings(found)}", "dim")
    if run.machine is not None:
        yield from (sentence(words.clean(note), "dim") for note in run.machine.notes)


def _counted(run: Run, found: Prediction) -> Iterator[RenderableType]:
    table = predicted.counted(found)
    yield section("Counted (predicted)", Grid(table), Text(""), Grid(predicted.landmarks(run, found)))


def _scaling(found: Scaling) -> tuple[str, RenderableType, RenderableType]:
    table = scaling.contexts(found)
    return table.title, Grid(table), bullets(scaling.sentences(found))


def _request(found: Prediction) -> Iterator[RenderableType]:
    text, parts = predicted.request(found)
    yield sentence(text)
    yield Bars(parts)


def _formulas(found: Prediction) -> Iterator[RenderableType]:
    for one in predicted.formulas(found):
        yield sentence(f"{one.name}: {one.formula}", "bold")
        yield indented(sentence(f"= {one.numbers}"), sentence(f"= {one.result}"))
