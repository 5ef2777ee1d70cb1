"""A sweep written down by hand, and the ways in which parts of one may be missing."""

from __future__ import annotations

import math

import msgspec
from example_parts import about
from example_run import h100, nothing

from phasewise.record.observation import Check, Observation
from phasewise.record.quantity import measured, predicted
from phasewise.record.run import Run
from phasewise.record.sweep import (
    Advice,
    AtOnce,
    Broken,
    Cell,
    Chunk,
    Gain,
    Interference,
    Mix,
    Plane,
    Room,
    Stall,
    Surface,
    Swept,
    Together,
    Traffic,
)

change = msgspec.structs.replace
SOURCE = "median of 3 steady windows"


def cell(batch: int, step: float, *, context: int = 60, trouble: str = "") -> Cell:
    known = not trouble
    return Cell(
        batch=batch,
        prompt_tokens=32 if context < 100 else 1024,
        context=float(context),
        step=about(step, "s", SOURCE) if known else None,
        throughput=about(batch / step, "token/s", "a token of every request per step") if known else None,
        samples=3 if known else 0,
        steps=180,
        together=batch if known else 30,
        proof="passed" if known else "failed",
        proved_by="all running" if known else "2 of 64 streams stopped for over 4 steps",
        trouble=trouble,  # type: ignore[arg-type]
        floor=predicted(0.9 * step, "s", "floor") if known else None,
    )


def gain(batch: int, value: float, context: int = 32) -> Gain:
    return Gain(
        batch=batch,
        prompt_tokens=context,
        measured=about(value, "1", "over batch 1"),
        predicted=predicted(value, "1", ""),
    )


def stall(batch: int, tokens: int, seconds: float, slow: int) -> Stall:
    return Stall(
        batch=batch,
        tokens=tokens,
        step=about(8e-3, "s", SOURCE),
        stall=about(seconds, "s", SOURCE),
        slow_steps=float(slow),
        slowest=about(seconds / slow + 8e-3, "s", SOURCE),
        ttft=about(seconds + 10e-3, "s", SOURCE),
        alone=about(seconds, "s", SOURCE) if tokens > 100 else None,
        samples=3,
    )


SURFACE = Surface(
    cells=(
        cell(1, 5.6e-3),
        cell(8, 5.8e-3),
        cell(32, 6.4e-3),
        cell(64, 13.2e-3),
        cell(1, 5.65e-3, context=1060),
        cell(64, 0.0, context=1060, trouble="preempted"),
    ),
    plane=Plane(
        base=about(5.57e-3, "s", "fit"),
        per_request=about(2.2e-5, "s", "fit"),
        per_context_token=about(4.6e-8, "s/token", "fit"),
        residual=0.002,
        largest_batch=64,
        broken=Broken(kind="jump", after=32, before=48, extra=about(6e-3, "s", "fit"), share=0.94),
    ),
    gains=(gain(8, 7.7), gain(32, 28.0), gain(64, 27.2)),
    limit=None,
    limit_by="",
    room=Room(held=31_000, full=40_000),
    tokens_per_chunk=1.0,
)

MIX = Mix(
    stalls=(stall(1, 64, 9e-3, 1), stall(1, 4096, 0.105, 2), stall(32, 1024, 29e-3, 1), stall(32, 4096, 0.105, 2)),
    fit=Interference(
        per_step=about(8e-3, "s", "fit"),
        per_token=about(2e-5, "s/token", "fit"),
        per_token2=about(3.8e-10, "s/token^2", "fit"),
        residual=0.001,
    ),
    chunk=Chunk(least=2048, most=4095, shared=True),
    traffic=Traffic(
        batch=5,
        tokens=1024,
        rate=about(9.0, "request/s", "as sent"),
        load=0.26,
        ttft_alone=about(29e-3, "s", SOURCE),
        ttft=about(60e-3, "s", SOURCE),
        step_alone=about(5.7e-3, "s", SOURCE),
        tpot=about(8.7e-3, "s", SOURCE),
        itl_p99=about(35e-3, "s", SOURCE),
        arrivals=(0.0, 0.1, 0.15),
        wait_formula=predicted(5e-3, "s", "M/D/1"),
        wait_arrivals=predicted(4e-3, "s", "Lindley"),
        mix=about(27e-3, "s", "the rest"),
    ),
)

ADVICE = (
    Advice(
        name="chunk size",
        answer="yes",
        text="Chunks of up to 711 tokens hold 30.0 ms.",
        arithmetic=("an undisturbed step takes 6.55 ms",),
        assumes=("a chunk costs what the stalls measured here cost",),
        value=predicted(711, "token", "by the fit of stalls"),
    ),
)


def swept() -> Run:
    """Every part there."""
    rows = tuple(
        AtOnce(
            prompts=n,
            all_first=about(0.029 * n, "s", SOURCE),
            ratio=about(n, "1", "over one"),
            apart=1 - 1 / n,
            samples=4,
            predicted_ratio=predicted(0.97 * n, "1", "of the floors"),
        )
        for n in (1, 2, 4)
    )
    found = Swept(
        plan=("Decode at batches 1, 8, 32, 64.",),
        together=Together(tokens=1024, rows=rows),
        surface=SURFACE,
        mix=MIX,
        ridge_tokens=predicted(295.0, "token", "ridge"),
        compute_bound_at=358,
        advice=ADVICE,
    )
    checks = (Check(name="held", phase="decode", status="passed", detail="5 of 5 were proved to have run together"),)
    seen = Observation(
        prefill=None, decode=None, checks=checks, requests=500, prompt_tokens=1000, output_tokens=2000, stopped="spent"
    )
    whole = h100()
    return change(
        whole,
        envelope=change(whole.envelope, command="sweep"),
        observation=seen,
        sweep=found,
        judgement=None,
        remedies=None,
        prediction=None,
    )


def with_sweep(**parts: object) -> Run:
    run = swept()
    assert run.sweep is not None
    return change(run, sweep=change(run.sweep, **parts))


def bare() -> Run:
    """Nothing of it was measured, nothing is known."""
    return change(nothing(), sweep=Swept(plan=(), together=None, surface=None, mix=None))


def unfitted() -> Run:
    """Neither a fit nor a model."""
    cells = tuple(change(c, floor=None) for c in SURFACE.cells[:1])
    surface = change(SURFACE, cells=cells, plane=None, gains=(), room=None, limit=1, limit_by="stated by the server")
    mix = change(MIX, fit=None, chunk=None, traffic=None)
    run = with_sweep(surface=surface, mix=mix, together=None, ridge_tokens=None, compute_bound_at=None, advice=())
    return change(run, model=None, machine=None)


def knee() -> Run:
    broken = Broken(kind="knee", after=16, before=32, extra=about(4e-4, "s", "fit"), share=math.inf)
    plane = change(SURFACE.plane, broken=broken, per_request=measured(0.0, "s", "fit"))
    mix = change(MIX, stalls=(), chunk=Chunk(least=4096, most=None, shared=None))
    return with_sweep(surface=change(SURFACE, plane=plane, tokens_per_chunk=2.5), mix=mix)


EVERY = (swept, bare, unfitted, knee)
