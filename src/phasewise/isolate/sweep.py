"""A sweep: prompts at once, decode over batch and context, and the mix, within one time budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from phasewise.engines.base import Crowdable
from phasewise.errors import EngineError, UsageError
from phasewise.isolate import plan
from phasewise.isolate.crowd import Crowd, Progress, Sender
from phasewise.isolate.ledger.sheet import Sheet
from phasewise.isolate.mix import MixRun
from phasewise.isolate.pace import LEAST_STEPS, Pace
from phasewise.isolate.surface import SurfaceRun
from phasewise.isolate.sweep_checks import Evidence, made
from phasewise.isolate.together import AT_ONCE, TogetherRun
from phasewise.record.observation import Observation
from phasewise.record.sweep import Swept

DEFAULT_BUDGET_S = 60.0
DEFAULT_MAX_BATCH = 64
DEFAULT_MAX_TOKENS = 2_000_000

TOGETHER_SHARE, MIX_SHARE = 0.12, 0.35
"""Parts of the budget for prompts at once and for the mix; decode over batch and context has the rest."""

MOST_MIXED = 32
"""Decodes that prompts are sent into, at most."""

UNKNOWN_ROOM = 8192
"""Tokens of prompt and answer when the server does not say what it takes."""

LONGEST_PROMPT = 4096
"""Longest prompt unless the user allows longer ones."""


class Sweep:
    """One sweep; ``swept()`` and ``observation()`` hold what was measured so far, whatever ended ``run()``.

    Args:
        engine: what to measure.
        budget_s: seconds that the requests may take in all.
        max_batch: most requests at once.
        max_tokens: most tokens of prompts and answers together.
        max_prompt: longest prompt, tokens.
        limit: requests that the server says it runs at once.
        progress: called before each group of requests.
        book: takes the rows.
        sender: makes what sends the requests; see `Crowd`.

    Raises:
        UsageError: a budget, batch or number of tokens that measures nothing.
    """

    def __init__(
        self,
        engine: Crowdable,
        *,
        budget_s: float = DEFAULT_BUDGET_S,
        max_batch: int = DEFAULT_MAX_BATCH,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        max_prompt: int | None = None,
        limit: int | None = None,
        progress: Callable[[Progress], None] | None = None,
        book: Sheet | None = None,
        sender: Callable[[Sheet | None], Sender] | None = None,
    ) -> None:
        if not 0 < budget_s < math.inf:
            raise UsageError(f"A budget of {budget_s:g} s measures nothing: give a positive number of seconds.")
        if max_batch < 1 or max_tokens < 1 or (max_prompt is not None and max_prompt < 1):
            raise UsageError("A sweep needs at least one request, one token and a prompt of one token.")
        self._budget, self._limit = budget_s, limit
        self._max_tokens = max_tokens
        room = engine.target.max_context or UNKNOWN_ROOM
        longest = min(max_prompt or LONGEST_PROMPT, max(1, room - plan.MARGIN - 1))
        self._most = max_batch if limit is None else min(max_batch, limit)
        batches = sorted({*(2**k for k in range(self._most.bit_length())), self._most})
        pace = Pace()
        self._room, self._pace = max(2, room - plan.MARGIN), pace
        self._crowd = Crowd(
            engine, budget_s=budget_s, max_tokens=max_tokens, progress=progress, book=book, sender=sender
        )
        self._together = TogetherRun(self._crowd, pace, longest=longest)
        self._surface = SurfaceRun(
            self._crowd, pace, batches=batches, room=self._room, longest=longest, limit=self._limit
        )
        self._mix: MixRun | None = None
        self._stopped: list[str] = []
        self.plan = (
            f"Prefill of prompts up to {longest:,} tokens, alone and {' and '.join(map(str, AT_ONCE[1:]))} at once.",
            f"Decode at batches {', '.join(map(str, batches))}, each held for {LEAST_STEPS} steps and more, "
            "after short and longer prompts.",
            "The mix: those prompts into running decodes, one by one and at random.",
            f"At most {budget_s:g} s and {max_tokens:,} tokens.",
        )

    def run(self) -> None:
        """Measure.

        Raises:
            EngineError: the engine failed.
            KeyboardInterrupt: the user interrupted.
        """
        with self._crowd, self._told():
            self._stopped.append(f"prefill: {self._together.run((1 - TOGETHER_SHARE) * self._budget)}")
            self._stopped.append(f"decode: {self._surface.run(MIX_SHARE * self._budget)}")
            self._stopped.append(f"mix: {self._mixed()}")
            self._crowd.finish()

    def swept(self) -> Swept:
        """What has been measured so far."""
        return Swept(
            plan=self.plan,
            together=self._together.observe(),
            surface=self._surface.observe(),
            mix=self._mix.observe(self._together.alone()) if self._mix else None,
        )

    def observation(self) -> Observation:
        """The checks and the counts so far; a sweep holds no profile of a phase alone."""
        sent, received = self._crowd.tokens()
        return Observation(
            prefill=None,
            decode=None,
            checks=made(Evidence.of(self._crowd, self._surface.cells())),
            requests=len(self._crowd.streams),
            prompt_tokens=sent,
            output_tokens=received,
            stopped="; ".join(self._stopped),
        )

    @property
    def began(self) -> float:
        """``perf_counter()`` second from which the times of its rows count."""
        return self._crowd.began

    def _mixed(self) -> str:
        batches = self._mixed_batches()
        if self._surface.observe() is None:
            return "no batch was held to send prompts into"
        if not batches:
            return "the server runs one request at a time, so that none can disturb another"
        lengths = self._together.lengths
        self._mix = MixRun(self._crowd, self._pace, batches=batches, lengths=lengths, room=self._room)
        return self._mix.run(self._together.alone(), 0.0)

    def _mixed_batches(self) -> list[int]:
        """One decode, some, and as many as leave the server room for a prompt."""
        held = [cell.batch for cell in self._surface.cells() if cell.step and not cell.trouble]
        most = min(MOST_MIXED, max(held, default=1) - 1)
        return sorted({1, math.isqrt(most), most}) if most >= 1 else []

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Note what cut the run short."""
        try:
            yield
        except (EngineError, KeyboardInterrupt) as cut:
            self._stopped.append("interrupted" if isinstance(cut, KeyboardInterrupt) else str(cut))
            raise
