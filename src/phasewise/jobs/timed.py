"""What a capture records, timed by a client first: prompts alone, then the batch held together, without a profiler."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from phasewise.engines.base import Crowdable, Engine
from phasewise.engines.torch_local import TorchEngine
from phasewise.isolate.batch import BatchRun
from phasewise.isolate.crowd import Crowd, Progress
from phasewise.isolate.group import Group, InStep
from phasewise.isolate.ledger.sheet import FIRST, Sheet, Start
from phasewise.isolate.plan import PREFILL_SHARE
from phasewise.isolate.recorded import Shape
from phasewise.isolate.run import Isolation
from phasewise.judge.captured import Timed
from phasewise.record.observation import Observation, Phase

_PART = 0.5
"""Of the bar, at which prefill is timed."""


class Client:
    """Times ``phases``; what it saw so far stays, whatever ends ``run``.

    Args:
        engine: what to time.
        phases: which.
        shape: the prompts and the batch.
        budget_s: seconds that all requests may take.
        progress: told what is being timed, and the part of the budget that is spent.
        book: takes the rows.
    """

    def __init__(
        self,
        engine: Engine,
        phases: Sequence[Phase],
        shape: Shape,
        *,
        budget_s: float,
        progress: Callable[[str, float], None],
        book: Sheet | None,
    ) -> None:
        self._engine, self._phases, self._shape = engine, phases, shape
        self._budget_s, self._progress, self._book = budget_s, progress, book
        self._prompts: Isolation | None = None
        self._batch: BatchRun | None = None

    def run(self) -> Shape:
        """Measure; what is to be recorded, at the pace and the context at which it was timed.

        Raises:
            EngineError: the engine failed.
            UsageError: it does not hold the batch.
        """
        decode, start = "decode" in self._phases, FIRST
        began = time.perf_counter()
        if "prefill" in self._phases:
            self._prompts = Isolation(
                self._engine,
                phases=("prefill",),
                budget_s=(PREFILL_SHARE if decode else 1.0) * self._budget_s,
                lengths=(self._shape.prompt,),
                max_prompt=self._shape.prompt,
                progress=lambda now: self._tell(f"prefill without the profiler: {now.doing}", _PART * now.fraction),
                book=self._book,
            )
            self._prompts.run()
            start = self._prompts.after()
        if not decode:
            return self._shape
        left = self._budget_s - (time.perf_counter() - began)
        self._batch = BatchRun(
            self._group(max(left, (1 - PREFILL_SHARE) * self._budget_s), start),
            batch=self._shape.batch,
            prompt=self._shape.prompt,
            context=self._engine.target.max_context,
            before=start.requests,
        )
        self._batch.run()
        return self._batch.recordable(self._shape)

    @property
    def zero(self) -> float | None:
        """``perf_counter()`` second from which the times of the rows count; None before any."""
        return self._prompts.began if self._prompts else self._batch.group.began if self._batch else None

    def unused(self) -> set[int]:
        """Numbers of the requests that no figure uses."""
        return {number for one in (self._prompts, self._batch) if one for number in one.unused()}

    def timed(self) -> Timed:
        """What is to stand beside the traces."""
        seen = self._prompts.observation() if self._prompts else None
        held = self._batch
        return Timed(seen.prefill if seen else None, held.cell() if held else None, held.why_not() if held else "")

    def observation(self) -> Observation | None:
        """What was sent, and the checks; None when nothing was. The batch is no profile of a request alone."""
        seen = self._prompts.observation() if self._prompts else None
        if self._batch is None:
            return seen
        group = self._batch.group
        sent, received = group.tokens()
        return Observation(
            prefill=seen.prefill if seen else None,
            decode=None,
            checks=(*(seen.checks if seen else ()), *self._batch.checks()),
            requests=(seen.requests if seen else 0) + len(group.streams),
            prompt_tokens=(seen.prompt_tokens if seen else 0) + sent,
            output_tokens=(seen.output_tokens if seen else 0) + received,
            stopped="; ".join(filter(None, (seen.stopped if seen else "", self._batch.stopped))),
            timings=seen.timings if seen else None,
            probes=seen.probes if seen else None,
        )

    def _group(self, budget_s: float, start: Start) -> Group:
        """What sends the requests of the batch."""

        def progress(now: Progress) -> None:
            self._tell(f"decode without the profiler: {now.doing}", _PART + (1 - _PART) * now.fraction)

        engine, book = self._engine, self._book
        if isinstance(engine, TorchEngine):
            return InStep(engine, budget_s=budget_s, progress=progress, book=book, start=start)
        assert isinstance(engine, Crowdable)
        return Crowd(engine, budget_s=budget_s, max_tokens=sys.maxsize, progress=progress, book=book, start=start)

    def _tell(self, doing: str, part: float) -> None:
        self._progress(f"timing {doing}", part)
