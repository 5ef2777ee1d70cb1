"""The catalogues: a line for each row, and everything about one row."""

from __future__ import annotations

import re
from collections.abc import Iterator

from phasewise.record.catalogue import AcceleratorFacts, ModelEntry
from phasewise.record.quantity import Quantity
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, give, say

_REPOSITORY = re.compile(r"(?:^|(?<=\s))[\w.-]+/([\w.-]+)(?=@|\s|$)")
_SOURCE = 19
"""Characters of a source in a list."""


def accelerators(rows: tuple[AcceleratorFacts, ...]) -> Table:
    """One line each: memory, bandwidth, dense rates, and where they were read."""
    return Table(
        title="Accelerators",
        columns=columns("name", ">GB", ">GB/s", ">16 bit", ">8 bit", "source"),
        rows=tuple(
            (
                say(row.name),
                _in(row.memory_bytes, 1e9),
                _in(row.bandwidth, 1e9),
                _in(row.peaks.get("bf16", row.peaks.get("fp16")), 1e12),
                _in(row.peaks.get("fp8", row.peaks.get("int8")), 1e12),
                say(_source(row.source, row.origin)),
            )
            for row in rows
        ),
        note=f"{len(rows)} accelerators. One device; 16 and 8 bit are dense TFLOP/s; ~ is assumed: its source was not "
        "seen, or sources disagree. All facts and sources: phasewise accelerators NAME, or --json.",
    )


def models(rows: tuple[ModelEntry, ...]) -> Table:
    """One line each: parameters in billions, KV bytes, context, format, and where the shape was read."""
    return Table(
        title="Models",
        columns=columns("name", ">billions", ">active", ">KV B/token", ">context", "weights", "source"),
        rows=tuple(
            (
                say(row.name),
                Cell(_billions(row.facts.parameters)),
                Cell(
                    ""
                    if row.facts.active_parameters == row.facts.parameters
                    else _billions(row.facts.active_parameters)
                ),
                Cell(words.count(row.facts.kv_bytes_per_token.value), row.facts.kv_bytes_per_token),
                Cell(words.count(row.facts.max_context)),
                say(row.facts.weights_format),
                say(_source(row.source, row.origin)),
            )
            for row in rows
        ),
        note=f"{len(rows)} models. All facts and sources: phasewise models NAME, or --json.",
    )


def accelerator(row: AcceleratorFacts) -> tuple[Table, tuple[str, ...]]:
    """Every figure of one accelerator with its provenance, and what else is known of it."""
    figures: dict[str, Quantity | None] = {
        "memory": row.memory_bytes,
        "usable memory": row.usable_bytes,
        "bandwidth": row.bandwidth,
        **{f"{dtype} matmuls, dense": peak for dtype, peak in row.peaks.items()},
        **{f"{dtype} matmuls as others measured": rate for dtype, rate in row.measured.items()},
        f"link ({row.link}), one direction": row.link_rate,
        "power": row.tdp,
    }
    table = Table(
        title=words.name(row.name),
        columns=columns("", ">of one device", "provenance"),
        rows=tuple((say(what), give(one, 4), say(one.provenance)) for what, one in figures.items() if one),
    )
    return table, tuple(
        _lines(
            {
                "vendor": f"{row.vendor} ({row.kind})",
                "confidence": row.confidence,
                "unverified": ", ".join(row.unverified),
                "note": row.notes,
                "source": row.source,
                "also called": "; ".join(row.aliases),
                "not for": "; ".join(row.shared_names) and f"{'; '.join(row.shared_names)} (which version?)",
                "your own row": row.origin,
            }
        )
    )


def model(row: ModelEntry) -> tuple[Table, tuple[str, ...]]:
    """Every figure of one model, and what else is known of it."""
    facts = row.facts
    figures = {
        "family": row.family,
        "parameters": words.count(facts.parameters),
        "active for one token": words.count(facts.active_parameters),
        "of them the input embedding": words.count(facts.embedding_parameters),
        "vision tower, apart": words.count(facts.vision_parameters) if facts.vision_parameters else "",
        "prediction layers, apart": words.count(facts.prediction_parameters) if facts.prediction_parameters else "",
        "layers": words.count(facts.layers),
        "weights": f"{words.amount(facts.weight_bytes, 4)} in {facts.weights_format}",
        "KV per token": f"{words.count(facts.kv_bytes_per_token.value)} B in {facts.kv_format}",
        "state per request": words.number(facts.state_bytes_per_request, "B") if facts.state_bytes_per_request else "",
        "context": f"{words.count(facts.max_context)} tokens" if facts.max_context else "",
        **{f"config: {key}": value for key, value in row.config.items()},
    }
    table = Table(
        title=words.name(row.name),
        columns=columns("", "value"),
        rows=tuple((say(what), say(value)) for what, value in figures.items() if value != ""),
    )
    return table, tuple(
        _lines(
            {
                "not modelled": "; ".join(facts.not_modelled),
                "note": " ".join(facts.notes),
                "source": row.source,
                "also called": "; ".join(row.aliases),
                "your own row": row.origin,
            }
        )
    )


def _lines(facts: dict[str, str]) -> Iterator[str]:
    for what, text in facts.items():
        if text:
            yield f"{what}: {words.clean(text)}"


def _in(quantity: Quantity | None, scale: float) -> Cell:
    if quantity is None:
        return Cell("")
    doubt = "~" if quantity.provenance == "assumed" else ""
    return Cell(f"{quantity.value / scale:.4g}{doubt}", quantity)


def _billions(count: int) -> str:
    return f"{count / 1e9:,.3g}"


def _source(text: str, origin: str) -> str:
    """The first source by its repository or site, and how many more there are."""
    if origin:
        return "your own"
    first, *others = (part.strip() for part in text.split(";"))
    repository = _REPOSITORY.search(first)
    named = first.split("/")[2] if "://" in first else repository[1] if repository else first
    more = f" +{len(others)}" if others else ""
    return words.clean(named, _SOURCE - len(more)) + more
