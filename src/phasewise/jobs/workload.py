"""What `phasewise load` was asked to send: flags and files to plans."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from phasewise.errors import UsageError
from phasewise.isolate.workload import plan as plans
from phasewise.isolate.workload.arrivals import Arrivals, Process
from phasewise.isolate.workload.plan import Bounds, Plan
from phasewise.isolate.workload.replay import Logged, Slice, replay
from phasewise.isolate.workload.shapes import Shape, length, mix
from phasewise.observe.logs.lines import shown
from phasewise.observe.logs.requests import requests
from phasewise.record.load import LoadPlan
from phasewise.units import show

Progress = Callable[[str, float], None]


_PROMPT, _ANSWER = "512", "128"
"""Tokens in and out unless said otherwise."""


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends what when, as the user wrote it; see `phasewise load --help`."""

    users: int | None = None
    rate: float | None = None
    arrivals: Process | None = None
    burstiness: float | None = None
    burst: int | None = None
    ramp_to: float | None = None
    prompt: str | None = None
    answer: str | None = None
    mix: str | None = None
    replay: Path | None = None
    begin_s: float = 0.0
    slice_s: float | None = None
    speed: float = 1.0
    bounds: Bounds = Bounds()
    seed: int = 0


class Workload:
    """Makes plans: one for a run, or one per rate that is tried.

    Raises:
        UsageError: flags that do not go together, or a log that cannot be read.
    """

    def __init__(self, sending: Sending, progress: Progress) -> None:
        self.sending = sending
        self._salt = int.from_bytes(os.urandom(7), "little")
        self._shapes: tuple[Shape, ...] = ()
        self._log: Logged | None = None
        self.form = ""
        _sane(sending)
        if sending.replay is not None:
            self._read(sending.replay, progress)
        else:
            self._shapes = mix(sending.mix) if sending.mix is not None else (_shape(sending),)

    @property
    def steady(self) -> bool:
        """Whether there should be a stretch in which all is as it was before."""
        return self._process() not in ("burst", "ramp")

    def plan(self, *, rate: float | None = None, bounds: Bounds | None = None, trial: int = 0) -> Plan:
        """The plan; at another ``rate``, within other ``bounds``, with prompts of its own when asked."""
        sending, seed, salt = self.sending, self.sending.seed + trial, self._salt + trial
        bounds = bounds or sending.bounds
        arrivals = self._arrivals(sending.rate if rate is None else rate)
        if self._log is not None:
            part = Slice(sending.begin_s, sending.slice_s, sending.speed)
            found = replay(self._log, part, bounds, arrivals=arrivals, users=sending.users or 0, seed=seed, salt=salt)
        elif arrivals is not None:
            found = plans.open_loop(arrivals, self._shapes, bounds, seed=seed, salt=salt)
        else:
            found = plans.closed(sending.users or 1, self._shapes, bounds, seed=seed, salt=salt)
        if not len(found):
            raise UsageError(
                f"the bounds leave nothing to send ({found.cut or 'no request comes in time'}): raise them."
            )
        return found

    def words(self, plan: Plan, *, drain_s: float, warmup: int, left_out: int = 0) -> LoadPlan:
        """The plan in words, for the record and for whoever must agree before it is sent."""
        tokens_in, tokens_out = plan.tokens
        before = plans.warmup(plan, warmup)
        return LoadPlan(
            arrivals=self._said(),
            lengths=self._lengths(),
            requests=len(plan),
            prompt_tokens=tokens_in,
            answer_tokens=tokens_out,
            seconds=plan.seconds,
            drain_s=drain_s,
            warmup=len(before),
            warmup_tokens=sum(before.tokens),
            seed=self.sending.seed,
            users=plan.users,
            cut=plan.cut,
            notes=tuple(self._notes(plan, left_out)),
        )

    def _process(self) -> Process | None:
        """The arrival process; None for a closed loop and for a log's own times."""
        sending = self.sending
        if sending.rate is None:
            return None
        if sending.arrivals is not None:
            return sending.arrivals
        if sending.burst is not None:
            return "burst"
        if sending.ramp_to is not None:
            return "ramp"
        return "gamma" if sending.burstiness is not None else "poisson"

    def _arrivals(self, rate: float | None) -> Arrivals | None:
        process, sending = self._process(), self.sending
        if process is None or rate is None:
            return None
        return Arrivals(
            process=process,
            rate=rate,
            burstiness=1.0 if sending.burstiness is None else sending.burstiness,
            size=sending.burst or 1,
            to_rate=sending.ramp_to or 0.0,
        )

    def _read(self, path: Path, progress: Progress) -> None:
        found = requests(path, lambda done: progress(f"reading {shown(Path(path.name))}", 0.0))
        self.form = found.form
        self._log = Logged(
            name=shown(path),
            prompt=found.prompt,
            answer=found.answer,
            time_s=found.time,
            ids=found.block_ids,
            counts=found.block_counts,
            texts=found.texts,
        )

    def _said(self) -> str:
        sending, process = self.sending, self._process()
        if process is None and sending.users:
            return f"closed loop of {sending.users:,} user{'s' * (sending.users > 1)}"
        if process is None:
            speed = "" if sending.speed == 1 else f", {sending.speed:g} times as fast"
            return f"the times of the log{speed}"
        rate = f"{sending.rate:g} requests a second"
        if process == "gamma":
            return f"gamma of burstiness {sending.burstiness or 1:g}, {rate}"
        if process == "burst":
            size = sending.burst or 1
            return f"bursts of {size:,} every {show(size / (sending.rate or 1), 's')}"
        return (
            f"ramp from {sending.rate:g} to {sending.ramp_to:g} requests a second"
            if process == "ramp"
            else (f"{'Poisson' if process == 'poisson' else 'constant'}, {rate}")
        )

    def _lengths(self) -> str:
        sending = self.sending
        if sending.replay is not None:
            return f"of {shown(Path(sending.replay.name))} ({self.form})"
        prompt, answer = _asked(sending)
        return f"mix {sending.mix}" if sending.mix is not None else f"{prompt} tokens in, {answer} out"

    def _notes(self, plan: Plan, left_out: int) -> list[str]:
        notes = []
        if left_out:
            notes.append(f"{left_out:,} requests do not fit the server's context and are left out.")
        if plan.blocks is not None:
            ids = plan.blocks.ids
            again = 1 - len(set(ids.tolist())) / max(1, len(ids))
            notes.append(
                f"Equal hash_ids are equal blocks of {plan.blocks.tokens} tokens: {again:.1%} of the blocks come again."
            )
        if plan.texts:
            notes.append("Prompts are the log's own words; their tokens are estimated, 4 characters each.")
        return notes


def _shape(sending: Sending) -> Shape:
    prompt, answer = _asked(sending)
    return Shape(length(prompt), length(answer))


def _asked(sending: Sending) -> tuple[str, str]:
    """Tokens in and out, as written."""
    return (
        _PROMPT if sending.prompt is None else sending.prompt,
        _ANSWER if sending.answer is None else sending.answer,
    )


def _sane(sending: Sending) -> None:
    """Refuse flags that do not go together."""
    if sending.users is not None and sending.rate is not None:
        raise UsageError("--users waits for answers, --rate does not: give one of them.")
    if sending.users is None and sending.rate is None and sending.replay is None:
        raise UsageError("say who sends: --users 8 (a closed loop), --rate 2 (requests a second) or --replay FILE.")
    about_rate = {
        "--arrivals": sending.arrivals, "--burstiness": sending.burstiness, "--burst": sending.burst,
        "--ramp-to": sending.ramp_to,
    }  # fmt: skip
    given = [flag for flag, value in about_rate.items() if value is not None]
    if given and sending.rate is None:
        raise UsageError(f"{given[0]} shapes arrivals at a rate: give --rate too.")
    wanted = {"--burstiness": "gamma", "--burst": "burst", "--ramp-to": "ramp"}
    for flag, process in wanted.items():
        if flag in given and sending.arrivals not in (None, process):
            raise UsageError(f"{flag} belongs to --arrivals {process}, not {sending.arrivals}.")
        if sending.arrivals == process and flag not in given:
            raise UsageError(f"--arrivals {process} needs {flag}.")
    if len([flag for flag in wanted if flag in given]) > 1:
        raise UsageError(
            f"{' and '.join(flag for flag in wanted if flag in given)} are of different processes: give one."
        )
    if sending.replay is None and (sending.begin_s or sending.slice_s is not None or sending.speed != 1):
        raise UsageError("--from, --for and --speed are of a log: name it with --replay FILE.")
    lengths = {"--prompt": sending.prompt, "--answer": sending.answer}
    said = {"--replay": sending.replay, "--mix": sending.mix}
    ways = [flag for flag, value in said.items() if value is not None]
    ways += [flag for flag, value in lengths.items() if value is not None][: 2 if ways else 0]
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} all say how long requests are: give one of them.")
    if (sending.rate is not None or sending.users) and sending.speed != 1:
        raise UsageError("--speed scales the times of a log, which --rate and --users replace: give one of them.")
