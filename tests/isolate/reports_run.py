"""Profiles one planted server and tells everything that was said of it; also as a program, from stdin to stdout."""

from __future__ import annotations

import pickle
import subprocess
import sys

import msgspec
from reports_table import FASTER, Said, Setup

from phasewise.engines.openai import connect
from phasewise.engines.simulated import SimulatedServer
from phasewise.engines.simulated.plan import Plan
from phasewise.fix.fix import fix
from phasewise.hardware import catalogue
from phasewise.isolate.run import Isolation
from phasewise.judge.case import Ask, Case
from phasewise.judge.judge import judge
from phasewise.model.load import load
from phasewise.predict.roofline import roofs
from phasewise.record.observation import Observation


def apart(setup: Setup, plan: Plan) -> tuple[Said, ...]:
    """``said`` in a process of its own, so that two at a time do not wait for one interpreter."""
    asked = pickle.dumps((setup, plan))
    done = subprocess.run([sys.executable, __file__], input=asked, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    told: tuple[Said, ...] = pickle.loads(done.stdout)
    return told


def said(setup: Setup, plan: Plan) -> tuple[Said, ...]:
    """Everything that profiling a planted server says."""
    with SimulatedServer(plan) as server:
        engine = connect(server.url)
        try:
            seen = Isolation(
                engine, phases=setup.phases, budget_s=setup.budget, lengths=setup.lengths, max_prompt=setup.max_prompt
            ).run()
        finally:
            engine.close()
    return tuple(_checks(seen) + _judged(setup, seen))


def _checks(seen: Observation) -> list[Said]:
    skipped = seen.probes.skipped if seen.probes else ()
    found = [Said(f"check {check.name} {check.phase} {check.status}", check.detail) for check in seen.checks]
    return found + [Said("skipped", text) for text in skipped]


def _judged(setup: Setup, seen: Observation) -> list[Said]:
    model, machine = None, None
    if setup.judged:
        model, machine = load("llama-3-8b"), catalogue.machine(catalogue.find("h100-sxm"))
        machine = catalogue.with_overrides(machine, FASTER * 989.4e12, FASTER * 3.35e12)
        machine = msgspec.structs.replace(machine, ceilings=machine.ceilings[:1])
    case = Case(
        observation=seen,
        asks=(Ask(prompt=setup.prompt),),
        model=model,
        roofs=roofs(model, machine) if model and machine else (),
    )
    verdict = judge(case)
    found = [Said("verdict", verdict.verdict.text)]
    for phase in (verdict.prefill, verdict.decode):
        if phase is not None:
            found += [Said(f"note {phase.phase}", note) for note in phase.notes]
            found.append(Said(f"bound {phase.phase}", phase.bound))
    return found + [
        Said("fix", f"{remedy.name}, {remedy.saves_share:.0%}") for remedy in fix(case, verdict, machine).fixes
    ]


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(said(*pickle.load(sys.stdin.buffer))))
