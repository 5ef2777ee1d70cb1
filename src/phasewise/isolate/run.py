"""Both phases, each alone, within one time budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from phasewise.engines.base import Engine
from phasewise.errors import EngineError, UsageError
from phasewise.isolate import decode, plan, prefill, probes, reasoning, timings
from phasewise.isolate.checks import Evidence, made
from phasewise.isolate.ledger.sheet import FIRST, Sheet, Start
from phasewise.isolate.rows import Row, row, row_beside
from phasewise.isolate.session import Progress, Session
from phasewise.record.observation import Observation, Phase
from phasewise.record.probes import Probes

DEFAULT_BUDGET_S = 90.0


class Isolation:
    """One isolation run; ``observation()`` holds what was measured so far, whatever ended ``run()``.

    Args:
        engine: what to measure.
        phases: which phases, in this order.
        budget_s: seconds that the requests may take in all, a tenth of them for probes beside the profiles. A request
            that may overrun it, by the worst seen of its like, is not begun.
        max_prompt: longest prompt, tokens; None: as the server takes and the budget allows.
        lengths: prompt lengths of the prefill profile instead of the planned ones.
        progress: called before each request.
        clock: seconds, for the budget.
        book: takes the rows.
        start: where they begin.

    Raises:
        UsageError: a budget or a length that is not positive.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        phases: Sequence[Phase] = ("prefill", "decode"),
        budget_s: float = DEFAULT_BUDGET_S,
        max_prompt: int | None = None,
        lengths: Sequence[int] | None = None,
        progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        book: Sheet | None = None,
        start: Start = FIRST,
    ) -> None:
        if not 0 < budget_s < math.inf:
            raise UsageError(f"A budget of {budget_s:g} s measures nothing: give a positive number of seconds.")
        if any(length < 1 for length in (*(lengths or ()), *(() if max_prompt is None else (max_prompt,)))):
            raise UsageError("A prompt has at least one token: give lengths of 1 and more.")
        self._phases, self._budget = tuple(phases), budget_s
        self._max_prompt, self._lengths = max_prompt, lengths
        self._session = Session(engine, budget_s=budget_s, progress=progress, clock=clock, book=book, start=start)
        self._stopped: list[str] = []
        self._probes: Probes | None = None
        if probes.possible(engine):
            self._session.reserved_s = probes.SHARE * budget_s

    @property
    def began(self) -> float:
        """The clock's reading at its beginning, from which the times of ``rows()`` count."""
        return self._session.began

    def after(self) -> Start:
        """Where the rows of the next measurement of the same run begin."""
        return self._session.after()

    def run(self) -> Observation:
        """Measure.

        Raises:
            EngineError: the engine failed, for good or once too often.
            KeyboardInterrupt: the user interrupted.
        """
        self._session.watch()
        try:
            for phase in self._phases:
                self._stopped.append(f"{phase}: {self._measure(phase)}")
            self._session.snapshot(now=True)
            self._probe()
        except (EngineError, KeyboardInterrupt) as cut:
            self._stopped.append("interrupted" if isinstance(cut, KeyboardInterrupt) else str(cut))
            raise
        finally:
            self._session.watch()
        return self.observation()

    def observation(self) -> Observation:
        """What has been measured so far, with its checks."""
        session = self._session
        sent, received = session.tokens()
        return Observation(
            prefill=prefill.observe(session.samples),
            decode=decode.observe(session.samples),
            checks=made(Evidence.of(session, self._probes)),
            requests=len(session.samples) + len(session.beside),
            prompt_tokens=sent,
            output_tokens=received,
            stopped="; ".join(self._stopped),
            timings=timings.observe(session.samples),
            reasoning=reasoning.observe(session.samples),
            probes=self._probes,
        )

    def rows(self) -> list[Row]:
        """One row per request, in the order in which they were sent."""
        session, unused = self._session, self.unused()
        found = [row(sample, began=session.began, warmup=sample.number in unused) for sample in session.samples]
        return found + [row_beside(one, began=session.began) for one in session.beside]

    def unused(self) -> set[int]:
        """Numbers of the requests of a phase that no figure of it uses."""
        samples = self._session.samples
        used = {s.number for kept in (prefill.kept(samples), decode.kept(samples)) for g in kept.values() for s in g}
        return {sample.number for sample in samples} - used

    def _probe(self) -> None:
        """Ask for more than the two profiles, with what the budget keeps for it."""
        session = self._session
        if session.reserved_s:
            allowance, session.reserved_s = session.reserved_s, 0.0
            self._probes = probes.made(session, self._phases, allowance)

    def _measure(self, phase: Phase) -> str:
        if phase == "decode":
            return decode.measure(self._session, max_prompt=self._max_prompt)
        share = plan.PREFILL_SHARE if "decode" in self._phases else 1.0
        return prefill.measure(
            self._session, budget_s=share * self._budget, max_prompt=self._max_prompt, lengths=self._lengths
        )
