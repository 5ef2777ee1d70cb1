"""Section of `phasewise judge`: what another tool or a person measured, in our words, and the verdict on it."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.judgement import Alarm, PhaseVerdict, Split, Verdict
from phasewise.record.observation import Check, Phase
from phasewise.record.quantity import Quantity

Meaning = Literal[
    "ttft",
    "tpot",
    "icl",
    "prefill time",
    "decode step",
    "prefill rate",
    "decode rate",
    "combined rate",
    "request time",
    "request rate",
    "count",
    "other",
]
"""What a tool's figure is in our words. ``combined rate``: tokens of both phases, or of one over the time of both."""

Conversion = Literal["exact", "within bounds", "none"]
"""How a figure became ours: as it stands or by exact arithmetic; with an interval; or not at all."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number as the tool gives it.

    Attributes:
        called: the tool's own name for it.
        defined: how it is defined there.
        means: what it is here.
        conversion: whether it could be converted.
        how: by which arithmetic, or why not.
        value: the number itself in SI, ``reported``.
    """

    called: str
    defined: str
    means: Meaning
    conversion: Conversion
    how: str
    value: Quantity


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One prefill pass or one decode step that the figures tell.

    Attributes:
        tokens: new tokens of each prompt (prefill), mean context of each request (decode).
        batch: prompts of the pass, requests of the step.
        time: seconds of the whole pass or step.
        cached: tokens before the new ones that were computed earlier (prefill).
        least: True when the time holds more than the step, so that its utilisation is a lower bound.
        at_once: as how many of the devices together they work on it, where they take turns; None for all.
        notes: what a reader must know of it.
    """

    tokens: Quantity
    batch: Quantity
    time: Quantity
    cached: float = 0.0
    least: bool = False
    at_once: float | None = None
    notes: tuple[str, ...] = ()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: a run at one load, or one size.

    Attributes:
        label: what tells it from the others.
        prompt_tokens, answer_tokens: of a request, on average; None when the file does not say.
        concurrency: requests in flight at once, at most or on average (its source says which).
        request_rate: requests a second that were completed.
        ttft, tpot: of a request, in our definitions. TTFT holds the queue wherever requests ran together.
        request_s: the machine's time for a request, both phases, where no more than that is known.
        figures: the tool's own numbers.
        prefill, decode: the step that can be judged.
        missing: why a phase has none.
        gpu_layers: layers of the model that were on the accelerator; None for all, or where it is not said.
        notes: what a reader should know of the row.
    """

    label: str
    prompt_tokens: float | None = None
    answer_tokens: float | None = None
    concurrency: Quantity | None = None
    request_rate: Quantity | None = None
    ttft: Quantity | None = None
    tpot: Quantity | None = None
    request_s: Quantity | None = None
    figures: tuple[Figure, ...] = ()
    prefill: Step | None = None
    decode: Step | None = None
    missing: dict[Phase, str] = {}
    gpu_layers: int | None = None
    notes: tuple[str, ...] = ()


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """What one file, or the flags, say.

    Attributes:
        tool: who measured.
        form: which of its forms the file is in.
        file: its name; empty for flags.
        model: the model as the file names it; empty when it does not.
        accelerators: the devices as the file names them.
        devices: how many share the model, as the file says.
        weight_bytes: of the model's weights, as the file says.
        kv: format of the KV cache, as the file says; empty where it is the usual one.
        rows: the measurements.
        checks: what the file's own numbers tell of whether they can be believed.
    """

    tool: str
    form: str
    file: str = ""
    model: str = ""
    accelerators: tuple[str, ...] = ()
    devices: int | None = None
    weight_bytes: float | None = None
    kv: str = ""
    rows: tuple[Row, ...]
    checks: tuple[Check, ...] = ()


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One row judged; a phase is None when the row does not tell it, ``split`` when both are not known."""

    prefill: PhaseVerdict | None
    decode: PhaseVerdict | None
    split: Split | None


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """A decode step of a larger batch beside that of the smallest: tokens a second over it, seen and predicted."""

    row: int
    batch: Quantity
    step: Quantity
    throughput: Quantity
    gain: Quantity
    predicted: Quantity | None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What was reported, and what it is worth.

    Attributes:
        reported: the file in our words.
        rows: the verdicts of its rows, in their order.
        prefill_row, decode_row: the row that speaks for the phase; None when none can.
        prefill, decode: the verdict on the phase.
        split: of the request of the row that speaks for decode, else of the first row that has one.
        scaling: decode over batch, the smallest first.
        basis: whose ceilings, with the dtype of the matmuls.
        why_null: why there is no utilisation.
        notes: what was assumed of model and devices.
        alarms: utilisations over 100%.
        verdict: the answer in one sentence.
    """

    reported: Reported
    rows: tuple[Judged, ...]
    prefill_row: int | None
    decode_row: int | None
    prefill: PhaseVerdict | None
    decode: PhaseVerdict | None
    split: Split | None
    scaling: tuple[Gain, ...]
    basis: str
    why_null: str
    notes: tuple[str, ...]
    alarms: tuple[Alarm, ...]
    verdict: Verdict
