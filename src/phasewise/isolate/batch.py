"""One batch as a client times it: so many requests held together after prompts of one length, window after window."""

from __future__ import annotations

import math

import msgspec

from phasewise.errors import UsageError
from phasewise.isolate import plan
from phasewise.isolate.group import Group
from phasewise.isolate.holding import least_answer
from phasewise.isolate.pace import Pace
from phasewise.isolate.recorded import LEAD, Shape
from phasewise.isolate.surface import SurfaceRun
from phasewise.isolate.sweep_checks import Evidence, made
from phasewise.record.observation import Check
from phasewise.record.sweep import Cell

UNKNOWN_ROOM = 8192
"""Tokens of prompt and answer when the server does not say what it takes."""

WARM_TOKENS = 8
"""Answers of the first requests, which warm up and say what a prompt and a step take."""


class BatchRun:
    """Holds ``batch`` requests with prompts of ``prompt`` tokens as often as the budget of ``group`` allows.

    ``cell`` and ``checks`` say what that showed so far, whatever ended ``run``.

    Args:
        group: what asks.
        batch, prompt: what is held.
        context: tokens of prompt and answer that the engine takes; None when it does not say.
        before: requests that were numbered before its first.
    """

    def __init__(self, group: Group, *, batch: int, prompt: int, context: int | None, before: int = 0) -> None:
        self.group, self._batch, self._prompt = group, batch, prompt
        self._room = max(prompt + 2, (context or prompt + UNKNOWN_ROOM) - plan.MARGIN)
        self._pace = Pace()
        self._surface = self._planned()
        self._before, self._warmed = before, 0
        self.stopped = ""

    def run(self) -> None:
        """Measure.

        Raises:
            EngineError: the engine failed.
            UsageError: it does not run so many at once.
        """
        with self.group:
            self._warm()
            self.stopped = f"decode: {self._surface.run(0.0)}"
            if self._short_of_batch() and not self._pace.outlasting:
                # The first answers may have ended before the last prompt was in: once more, with longer ones.
                self._pace.outlast()
                self._surface = self._planned()
                self.stopped = f"decode: {self._surface.run(0.0)}"
            self.group.finish()
        self._refuse()

    def recordable(self, shape: Shape) -> Shape:
        """``shape`` at the pace and the context of the batch as it was held; as it is when it was not."""
        cell = self.cell()
        if cell is None or cell.step is None:
            return shape
        lead = round(cell.context - cell.prompt_tokens - shape.steps / 2)
        most = self._room - self._prompt - least_answer(shape.steps, self._batch, self._prompt)
        return shape._replace(step_s=cell.step.value, lead=max(LEAD, min(lead, most)), ramp=self._surface.ramp)

    def cell(self) -> Cell | None:
        """The batch as it was held; None when it was not."""
        return next((one for one in self._surface.cells() if one.batch == self._batch), None)

    def checks(self) -> tuple[Check, ...]:
        """Whether its figures can be believed; all of them speak of decode, of which alone requests were sent."""
        found = made(Evidence.of(self.group, self._surface.cells()))
        return tuple(msgspec.structs.replace(one, phase="decode") for one in found)

    def unused(self) -> set[int]:
        """Numbers of requests that no figure uses."""
        return set(range(self._before + 1, self._before + 1 + self._warmed))

    def why_not(self) -> str:
        """Why no time came out of it; empty when one did."""
        cell = self.cell()
        if cell is None:
            group = self._pace.steady(self._batch, self._prompt, self._room - self._prompt)
            budget = math.ceil(2 * group.seconds + 5)
            return f"to hold {_requests(self._batch)} once takes {group.seconds:.0f} s: give --budget {budget}s or more"
        if cell.trouble == "not proved":
            return f"that all of them ran together was not proved: {cell.proved_by}"
        return "" if cell.step is not None and not cell.trouble else self.stopped

    def _planned(self) -> SurfaceRun:
        return SurfaceRun(
            self.group, self._pace, batches=(self._batch,), room=self._room, longest=0, prompt=self._prompt
        )

    def _warm(self) -> None:
        """A request alone, and the batch once: of its steps the last to come in saw least of the others' prompts."""
        answer = min(WARM_TOKENS, self._room - self._prompt)
        for many in dict.fromkeys((1, self._batch)):
            if not self.group.affords(many * self._pace.prefill(self._prompt), many * (self._prompt + answer)):
                return
            self.group.tell(f"warming up, {many} × {self._prompt:,} tokens in, {answer} out")
            self._warmed += many
            streams = self.group.ask(self._prompt, answer, many)
            if many == 1 and streams:
                self._pace.saw_prefill(self._prompt, streams[0].exchange.ttft)
            if steps := [stream.exchange.tpot for stream in streams if stream.exchange.tpot]:
                self._pace.saw_step(many, self._prompt, min(steps))

    def _short_of_batch(self) -> bool:
        cell = self.cell()
        return cell is not None and cell.trouble == "not together"

    def _refuse(self) -> None:
        """Say what the server does not hold."""
        cell, limit = self.cell(), self._surface.limit
        room = f"{self._batch} requests of some {self._prompt + 64:,} tokens"
        if limit is not None and limit < self._batch:
            raise UsageError(
                f"The server ran {limit} of {self._batch} requests at once ({self._surface.limit_by}): give --batch "
                f"{limit} or less, or start it with room for more (vLLM: --max-num-seqs, and KV cache for {room})."
            )
        if cell is not None and cell.trouble == "preempted":
            raise UsageError(
                f"The server's KV cache did not hold {room} at once ({cell.proved_by}): give a smaller --batch or a "
                "shorter --prompt, or start it with a larger cache."
            )


def _requests(many: int) -> str:
    return f"{many} {'request' if many == 1 else 'requests'}"
