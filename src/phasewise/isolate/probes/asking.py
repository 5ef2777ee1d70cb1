"""Asking beside the profiles: several requests at once, on new connections, with options, within an allowance."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from phasewise.engines.base import Crowdable, Prompt
from phasewise.engines.exchange import Exchange
from phasewise.errors import EngineError
from phasewise.isolate import plan
from phasewise.isolate.decode import MOST_ANSWER, SHORT_PROMPT
from phasewise.isolate.sample import Beside, Shape
from phasewise.isolate.session import Session
from phasewise.record.quantity import Quantity, measured
from phasewise.units import Unit

LEAST_PATIENCE_S, OVERRUN = 1.0, 1.5
"""Requests are broken off when they take longer than this, and than this many times what is left of the allowance."""


class Skipped(Exception):
    """A probe that was not made; says why, to go on a clause."""


class Asking:
    """Sends requests through one loop and accounts for them in ``session``.

    Args:
        engine: what to ask.
        session: of the run.
        allowance_s: seconds that all of it may take.

    Attributes:
        short: tokens of a short prompt.
        room: most tokens of an answer to it.

    Raises:
        EngineError: the server's host has no address.
    """

    def __init__(self, engine: Crowdable, session: Session, allowance_s: float) -> None:
        self.engine = engine
        self.session = session
        self.allowance_s = allowance_s
        context = engine.target.max_context
        self.short = SHORT_PROMPT if context is None else max(1, min(SHORT_PROMPT, context // 4))
        self.room = MOST_ANSWER if context is None else max(0, context - self.short - plan.MARGIN)
        self._until = time.perf_counter() + allowance_s
        self._loop = engine.loop(most=64)
        self._count = 0

    def left(self) -> float:
        """Seconds of the allowance that are left."""
        return self._until - time.perf_counter()

    def close(self) -> None:
        """Close the connections."""
        self._loop.close()

    @contextlib.contextmanager
    def skipping(self, what: str, skipped: list[str]) -> Iterator[None]:
        """Note in ``skipped`` when a probe is given up inside, or the engine fails: the run has what it came for."""
        try:
            yield
        except (Skipped, EngineError) as why:
            skipped.append(f"{what}: {why}")

    def prompt(self, tokens: int) -> Prompt:
        """A prompt that no cache has seen."""
        return self.engine.prompt(tokens)

    def one(self, prompt: Prompt, answer: int = 1, *, fresh: bool = False, options: Mapping[str, Any] = {}) -> Exchange:
        """One request and its answer, or why there is none (``error``).

        Raises:
            Skipped: it took far longer than there is time.
        """
        (exchange,) = self.together([prompt], answer, fresh=fresh, options=options)
        return exchange

    def together(
        self, prompts: Sequence[Prompt], answer: int, *, fresh: bool = False, options: Mapping[str, Any] = {}
    ) -> list[Exchange]:
        """Requests sent at the same moment, in the order in which they are answered.

        Raises:
            Skipped: they took far longer than there is time.
        """
        for prompt in prompts:
            self._count += 1
            self._loop.submit(self.engine.order(self._count, prompt, answer, fresh=fresh, options=options))
        found: list[Exchange] = []
        until = time.perf_counter() + max(LEAST_PATIENCE_S, OVERRUN * self.left())
        while len(found) < len(prompts) and time.perf_counter() < until:
            found += self._loop.step(until)
        if len(found) < len(prompts):
            self._loop.cancel()
            raise Skipped("it took longer than was foreseen")
        first = self._count - len(prompts) + 1
        for exchange in found:
            if not exchange.error:
                shape = Shape(prompts[exchange.key - first].tokens, answer)
                self.session.took(Beside(exchange, shape))
        return found


def answered(exchange: Exchange) -> Exchange:
    """``exchange``, which holds an answer.

    Raises:
        Skipped: it does not.
    """
    if exchange.error:
        raise Skipped(exchange.error)
    return exchange


def typical(values: Sequence[float], unit: Unit, source: str) -> Quantity:
    """The median of a few ``values``, with their range as its interval."""
    return measured(statistics.median(values), unit, source, min(values), max(values))


def later(these: Sequence[float], those: Sequence[float], source: str) -> Quantity:
    """By how many seconds ``these`` are typically later than ``those``; its interval is what any two of them say."""
    value = statistics.median(these) - statistics.median(those)
    return measured(value, "s", source, min(these) - max(those), max(these) - min(those))
