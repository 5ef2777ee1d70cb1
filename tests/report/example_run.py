"""Runs made by hand: two whole ones, and these with something missing, broken or hostile."""

from __future__ import annotations

import math

import msgspec
from example_cpu import cpu
from example_h100 import h100
from example_parts import ALONE, CLEAN, change

from phasewise.record.envelope import Envelope
from phasewise.record.judgement import Alarm, Share, Verdict
from phasewise.record.observation import (
    Check,
)
from phasewise.record.quantity import Quantity, measured
from phasewise.record.remedies import Remedies
from phasewise.record.run import Run


def only_prefill() -> Run:
    """Decode was not asked for: nothing is said of it, and nothing ranked."""
    run = h100()
    assert run.observation
    assert run.judgement
    assert run.remedies
    text = (
        "Only prefill was measured, so who owns the time is open and nothing is said of decode; prefill is "
        "compute-bound: 62% of its step, 61.2% MFU."
    )
    return change(
        run,
        observation=change(run.observation, decode=None),
        judgement=change(
            run.judgement,
            decode=None,
            splits=(),
            prefill_share=None,
            decode_share=None,
            verdict=Verdict(owner=None, bound="compute", text=text),
        ),
        remedies=change(
            run.remedies,
            fixes=run.remedies.fixes[3:4],
            rejected=(),
            note="Decode was not measured, so nothing is ranked for it.",
        ),
    )


NO_ACCELERATOR = "no accelerator is known: give --on"


def unknown() -> Run:
    """Neither model nor machine is known: times and fits only."""
    run = h100()
    assert run.judgement
    bare = [
        change(
            v, headline=None, why_null=NO_ACCELERATOR, floor=None, bound="unknown", shares=(), utilisations=(), notes=()
        )
        for v in (run.judgement.prefill, run.judgement.decode)
        if v
    ]
    text = (
        f"Decode owns 97% of a 2,000-in/300-out request (1.87 s); what it is bound on cannot be said: {NO_ACCELERATOR}."
    )
    return change(
        run,
        model=None,
        machine=None,
        prediction=None,
        judgement=change(
            run.judgement, prefill=bare[0], decode=bare[1], verdict=Verdict(owner="decode", bound="unknown", text=text)
        ),
        remedies=Remedies(fixes=(), rejected=(), note="Nothing is ranked: no accelerator is known, so no bound is."),
    )


def alarmed() -> Run:
    """A prefill over 100% of the peak."""
    run = h100()
    assert run.judgement
    assert run.judgement.prefill
    alarm = Alarm(
        text="prefill at 2,000 tokens reads 131% MFU of the datasheet ceiling 989 TFLOP/s: no machine does more "
        "than it can.",
        causes=("a sparse peak was taken for a dense one", "the wrong accelerator: check --on"),
    )
    doubted = change(
        run.judgement.prefill,
        believed=False,
        headline=measured(1.31, "1", "counted work over measured time", 1.29, 1.33),
    )
    return change(
        run,
        judgement=change(
            run.judgement,
            prefill=doubted,
            alarms=(alarm,),
            verdict=Verdict(owner=None, bound="unknown", text=f"No verdict: {alarm.text}"),
        ),
    )


def doubtful() -> Run:
    """Two checks that void nothing failed, one of them beside a twin that passed; the bound of decode has a rival."""
    run = h100()
    assert run.judgement
    assert run.judgement.decode
    assert run.observation
    clock = Check(name="clock", phase="run", status="failed", detail="times rose by 9% over the run")
    warm = Check(name="warm", phase="decode", status="failed", detail="the first answers were slower by 20%")
    return change(
        run,
        observation=change(run.observation, checks=(*CLEAN[:-1], clock, warm)),
        judgement=change(run.judgement, decode=change(run.judgement.decode, bound="overhead", rival="kernel")),
    )


def unsure() -> Run:
    """The TTFT of the stated request lies beyond the longest prompt measured, and its interval reaches the decode."""
    run = h100()
    assert run.judgement
    ttft = Quantity(
        value=1.7,
        low=0.9,
        high=2.5,
        unit="s",
        provenance="predicted",
        source="fit of TTFT, extended from 8,192 tokens",
    )
    total = change(ttft, value=3.518, low=2.7, high=4.4)
    split = change(
        run.judgement.splits[0], prompt_tokens=50_000, ttft=ttft, total=total, ttft_owner="compute", sure=False
    )
    text = "Which phase owns a 50,000-in/300-out request is within the noise."
    return change(
        run,
        judgement=change(run.judgement, splits=(split,), verdict=Verdict(owner=None, bound="unknown", text=text)),
    )


def mixture() -> Run:
    """A model that is more than dense layers of text, on a machine with a note."""
    run = h100()
    assert run.model
    assert run.machine
    model = change(
        run.model,
        active_parameters=3_000_000_000,
        active_without_embedding=2_500_000_000,
        vision_parameters=400_000_000,
        prediction_parameters=90_000_000,
        state_bytes_per_request=12_000_000.0,
        notes=("the router's choice is taken to be even",),
        not_modelled=("audio encoder",),
    )
    return change(run, model=model, machine=change(run.machine, notes=("The ceilings are those of all 8 cores.",)))


def failed() -> Run:
    """The prompt was cached."""
    run = h100()
    assert run.judgement
    assert run.judgement.prefill
    assert run.observation
    cached = Check(
        name="uncached",
        phase="prefill",
        status="failed",
        voids=True,
        detail="1,984 of 2,000 prompt tokens came from a cache, by the server's usage",
    )
    text = f"No verdict: the prefill figures are not to be believed, {cached.detail}."
    return change(
        run,
        observation=change(run.observation, checks=(*CLEAN[:1], cached, *CLEAN[2:], ALONE)),
        judgement=change(
            run.judgement,
            prefill=change(run.judgement.prefill, believed=False),
            verdict=Verdict(owner=None, bound="unknown", text=text),
        ),
    )


def interrupted() -> Run:
    """Ctrl-C after two lengths, before anything was judged."""
    run = h100()
    assert run.observation
    assert run.observation.prefill
    seen = change(
        run.observation,
        prefill=change(run.observation.prefill, points=run.observation.prefill.points[:1], fit=None),
        decode=None,
        checks=(ALONE,),
        stopped="interrupted",
    )
    return change(
        run,
        envelope=change(run.envelope, status="interrupted", reason="stopped by Ctrl-C after 9 s"),
        observation=seen,
        judgement=None,
        remedies=None,
    )


def forecast() -> Run:
    """What ``predict`` hands on: nothing was measured."""
    run = h100()
    return change(
        run,
        envelope=change(run.envelope, command="predict", arguments=("llama-3-8b", "--on", "h100-sxm")),
        target=None,
        observation=None,
        judgement=None,
        remedies=None,
    )


def nothing() -> Run:
    """An envelope alone."""
    return Run(envelope=Envelope(id="x", command="profile", arguments=(), created="", duration_s=0.0, status="partial"))


HOSTILE = (
    "</script><script>alert(1)</script><!--\x1b[31mred\x1b]0;title\x07[bold red]x[/]\u202egnp.exe"
    "|`a`*b*\n# @all &lt; {{7*7}} {% raw %}"
)


def twisted(value: object, text: str | None = None, real: float | None = None) -> object:
    """``value`` with every free text replaced by ``text`` and every measured number by ``real``."""
    if isinstance(value, Quantity):
        changed = {} if real is None else {"value": real, "low": real, "high": real}
        return change(value, **changed, **({} if text is None else {"source": text}))
    if isinstance(value, msgspec.Struct):
        free = [name for name in value.__struct_fields__ if _free(value, name)]
        return change(value, **{name: twisted(getattr(value, name), text, real) for name in free})
    if isinstance(value, dict):
        return {(text or k) if isinstance(k, str) else k: twisted(v, text, real) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(twisted(item, text, real) for item in value)
    if isinstance(value, str):
        return value if text is None else text
    if isinstance(value, float) and real is not None:
        return real
    return value


_CLOSED = {
    "phase",
    "status",
    "owner",
    "ttft_owner",
    "bound",
    "basis",
    "method",
    "yardstick",
    "unit",
    "provenance",
    "kind",
    "prompting",
    "command",
    "buys",
    "rival",
}


def _free(struct: msgspec.Struct, field: str) -> bool:
    return field not in _CLOSED and not (field == "name" and isinstance(struct, Share))


def hostile() -> Run:
    """Every free text is an attack."""
    run = twisted(h100(), text=HOSTILE)
    assert isinstance(run, Run)
    return run


def long_winded() -> Run:
    """Every free text is 5,000 characters without a space."""
    run = twisted(h100(), text="x" * 5000)
    assert isinstance(run, Run)
    return run


def without_numbers(value: float = math.nan) -> Run:
    """Every number is NaN (or infinite)."""
    run = twisted(h100(), real=value)
    assert isinstance(run, Run)
    return run


EVERY = (
    h100,
    cpu,
    only_prefill,
    unknown,
    alarmed,
    failed,
    doubtful,
    unsure,
    mixture,
    interrupted,
    forecast,
    nothing,
    hostile,
    long_winded,
    without_numbers,
)
"""All of them, for tests that hold for any run."""
