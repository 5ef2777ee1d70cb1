"""Decode over batch and context: every batch held in steady state, one window after another."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

from phasewise import fitting
from phasewise.isolate import plan
from phasewise.isolate.group import Group
from phasewise.isolate.held import Held, held
from phasewise.isolate.pace import LEAST_STEPS, Pace
from phasewise.isolate.plane import TIMESTAMP_S, Sample, fit
from phasewise.isolate.prefill import quantity
from phasewise.record.quantity import Quantity, measured
from phasewise.record.sweep import Cell, Gain, Room, Surface, Trouble

SHORT_PROMPT = 32

LONGER = (256, 1024, 4096, 16_384)
"""Prompts that may stand before the answers to see what context costs."""

ROUNDS = 4
"""Windows of each cell, at most."""

LONG_SHARE = 0.25
"""Part of the time left that the first window of a batch after a longer prompt may take ..."""

LONG_LEFT = 0.55
"""... and that all of these leave for repeats."""

LONG_LENGTHS = 2
"""So many longer prompts, at most."""

TRIES = 2
"""A window that came out too short, or of which a request failed, is tried again."""

REFINEMENTS = 3
"""Batches that may be added to say between which two the steps leave the plane."""

LEAST_WINDOW = LEAST_STEPS // 2
"""A window with fewer tokens of each stream is tried again with longer answers."""

SPENT = "the time budget was spent"


class SurfaceRun:
    """Holds batches and keeps their windows; ``observe`` says what they show so far, whatever ended ``run``.

    Args:
        crowd: what sends the requests.
        pace: what they should take.
        batches: to be held, ascending.
        room: tokens of prompt and answer together that a request may have.
        longest: prompt tokens, at most.
        limit: requests that the server says it runs at once.
        prompt: tokens before the answers of every batch; None: few, so that decode is seen alone.
    """

    def __init__(
        self,
        crowd: Group,
        pace: Pace,
        *,
        batches: Sequence[int],
        room: int,
        longest: int,
        limit: int | None = None,
        prompt: int | None = None,
    ) -> None:
        self._crowd, self._pace, self._room = crowd, pace, room
        self._short = min(SHORT_PROMPT, max(1, room // 4)) if prompt is None else prompt
        self._longer = [tokens for tokens in LONGER if tokens <= min(longest, room - LEAST_STEPS - plan.MARGIN)]
        self._batches = list(batches)
        self._windows: dict[tuple[int, int], list[Held]] = {}
        self._counted: dict[int, list[int]] = {}
        self._chunks = self._tokens = 0.0
        self._unstreamed = False
        self.limit, self.limit_by = limit, "stated by the server" if limit else ""

    def run(self, until: float) -> str:
        """Hold one batch after another until ``until`` seconds of the budget are left; returns why it stopped.

        Raises:
            EngineError: the engine failed.
        """
        self._until = until
        reached = [batch for batch in self._batches if self._climb(batch)]
        if self.limit is not None and self.limit not in self._batches and self._climb(self.limit):
            reached.append(self.limit)
        if self._unstreamed:
            return "answers are not streamed, so that no step can be told"
        self._widen(reached)
        self._again(0)
        self._refine()
        for number in range(2, ROUNDS):
            if not self._again(number):
                return SPENT if self._left() < 1 else "no further window fitted the time budget"
        return f"every batch was held {ROUNDS} times"

    def observe(self) -> Surface | None:
        """What the windows show; None when no batch was held."""
        cells = self.cells()
        if not any(cell.step for cell in cells):
            return None
        return Surface(
            cells=cells,
            plane=fit(self.samples()),
            gains=_gains(cells),
            limit=self.limit,
            limit_by=self.limit_by,
            room=self._tokens_held(),
            tokens_per_chunk=self._tokens / self._chunks if self._chunks else 1.0,
        )

    @property
    def ramp(self) -> int:
        """Most tokens that a stream got before the last prompt of its group was in."""
        return max((one.ramp for windows in self._windows.values() for one in windows), default=0)

    def samples(self) -> list[Sample]:
        """Every window that may be fitted, at the mean context of its cell."""
        found = []
        for (batch, _), windows in self._windows.items():
            good = _kept(windows)
            if good and not _trouble(windows, batch):
                context = batch * statistics.fmean(one.context for one in good)
                found += [Sample(batch, context, one.step, one.tokens) for one in good if one.step]
        return found

    def cells(self) -> tuple[Cell, ...]:
        """Every batch and prompt length that was tried."""
        groups = [[one.step for one in _kept(windows) if one.step] for windows in self._windows.values()]
        scatter = fitting.pooled([group for group in groups if group])
        found = [self._cell(key, windows, scatter) for key, windows in self._windows.items()]
        return tuple(sorted(found, key=lambda cell: (cell.prompt_tokens, cell.batch)))

    def _cell(self, key: tuple[int, int], windows: Sequence[Held], scatter: fitting.Scatter) -> Cell:
        batch = key[0]
        good = _kept(windows)
        times = [one.step for one in good if one.step]
        step = _step(times, scatter, min((one.tokens for one in good), default=1)) if times else None
        worst = next((one for one in windows if one.proof == "failed"), None) or next(
            (one for one in windows if one.proof == "not_checked"), windows[-1]
        )
        return Cell(
            batch=batch,
            prompt_tokens=self._prompt_tokens(key[1]),
            context=statistics.fmean(one.context for one in good or windows),
            step=step,
            throughput=_rate(step, batch) if step else None,
            samples=len(times),
            steps=sum(one.tokens for one in good),
            together=max(one.together for one in windows),
            proof=worst.proof,
            proved_by=worst.proved_by,
            trouble=_trouble(windows, batch),
            streams_differ=statistics.median(one.differ for one in good or windows),
        )

    def _tokens_held(self) -> Room | None:
        """Between what the KV cache held and what it did not; None when it never ran full."""
        ran = [b * one.context for (b, _), windows in self._windows.items() for one in _kept(windows) if one.step]
        full = [one.full for windows in self._windows.values() for one in windows if one.preempted]
        full += [
            (one.together + 1) * self._prompt_tokens(prompt)
            for (batch, prompt), windows in self._windows.items()
            for one in windows
            if one.together < batch and prompt != self._short
        ]
        return Room(held=round(max(ran, default=0)), full=min(full)) if full else None

    def _prompt_tokens(self, asked: int) -> int:
        """As the server counted them: text makes a few more or fewer, and one figure serves all batches."""
        return round(statistics.median(self._counted[asked]))

    def _left(self) -> float:
        return self._crowd.left() - self._until

    def _climb(self, batch: int) -> bool:
        """Hold ``batch`` after the short prompt, once; whether it was held."""
        if self._unstreamed or (self.limit is not None and batch > self.limit):
            return False
        return self._hold(batch, self._short, share=1.0)

    def _widen(self, reached: Sequence[int]) -> None:
        """Hold one, some and most requests after longer prompts, the longest that the time allows first."""
        keep = LONG_LEFT * self._left()
        some = reached[: len(reached) // 2 + 1][-1:]
        longer = [n for n in self._longer if sum(self._seconds(b, n) for b in {1, *some}) <= LONG_SHARE * self._left()]
        for tokens in reversed(longer[-LONG_LENGTHS:]):
            fits = [b for b in reached if self._seconds(b, tokens) <= LONG_SHARE * self._left()]
            for batch in sorted({*fits[:1], *some, *fits[-1:]}):
                if self._left() - self._seconds(batch, tokens) < keep or not self._hold(batch, tokens, share=1.0):
                    break

    def _refine(self) -> None:
        """Add batches between the last on the plane and the first beyond it."""
        for _ in range(REFINEMENTS):
            plane = fit(self.samples())
            broken = plane.broken if plane else None
            between = (broken.after + broken.before) // 2 if broken else 0
            if broken is None or between in (broken.after, broken.before, *(b for b, _ in self._windows)):
                return
            if not self._hold(between, self._short, share=1.0):
                return

    def _again(self, number: int) -> bool:
        """One more window of every cell that is worth it and fits, in shuffled order; False when none did."""
        keys = [key for key, windows in self._windows.items() if not _trouble(windows, key[0])]
        asked = False
        for batch, prompt in random.Random(number).sample(keys, len(keys)):
            asked = self._hold(batch, prompt, share=1.0) or asked
        return asked

    def _seconds(self, batch: int, prompt: int) -> float:
        return self._pace.steady(batch, prompt, self._room - prompt).seconds

    def _hold(self, batch: int, prompt: int, *, share: float) -> bool:
        """Send ``batch`` requests together and keep their window; False when that did not fit, or they did not."""
        seen: Held | None = None
        for _ in range(TRIES):
            group = self._pace.steady(batch, prompt, self._room - prompt)
            if group.seconds > share * self._left() or not self._crowd.affords(group.seconds, group.tokens):
                return False
            self._crowd.tell(f"decode: batch {batch:,}, {prompt:,} tokens before")
            seen = self._window(batch, prompt, group.answer)
            if seen is None and not self._unstreamed and not self._crowd.refused_busy:
                continue
            if seen is None:
                return False
            if seen.tokens >= LEAST_WINDOW or seen.together < batch or seen.preempted:
                break
        if seen is None:
            return False
        self._windows.setdefault((batch, prompt), []).append(seen)
        if seen.together < batch and prompt == self._short:
            self._met_limit(seen.together)
        return seen.together == batch and not seen.preempted

    def _window(self, batch: int, prompt: int, answer: int) -> Held | None:
        """One group of requests as it was held; None when some of them failed."""
        streams = self._crowd.ask(prompt, answer, batch)
        if len(streams) < batch:
            if streams and self._crowd.refused_busy and prompt == self._short:
                self._met_limit(len(streams), "more at once were refused")
            return None
        if any(stream.whole for stream in streams):
            self._unstreamed = all(stream.whole for stream in streams)
            return None
        seen = held(streams, self._crowd.looks, batch)
        self._counted.setdefault(prompt, []).extend(stream.prompt_tokens for stream in streams)
        self._chunks += sum(int(stream.exchange.arrivals.are_tokens.sum()) for stream in streams)
        self._tokens += sum(stream.exchange.completion_tokens or stream.asked for stream in streams)
        if seen.step:
            self._pace.saw_step(batch, prompt, seen.step)
            self._pace.saw_ramp(batch, prompt, seen.ramp)
        return seen

    def _met_limit(self, most: int, why: str = "more were sent, and waited until others had ended") -> None:
        if self.limit is None or most < self.limit:
            self.limit, self.limit_by = most, why


def _kept(windows: Sequence[Held]) -> list[Held]:
    """Windows that count: warm, long enough, and in which the batch was not shown to be another."""
    good = [one for one in windows if one.step and one.tokens >= LEAST_WINDOW and not one.preempted]
    good = [one for one in good if one.proof != "failed"] or good
    return good[plan.first_kept([one.step or 0.0 for one in good], discard=0) :]


def _trouble(windows: Sequence[Held], batch: int) -> Trouble:
    """Why a cell must not be fitted."""
    if any(one.together < batch for one in windows):
        return "not together"
    if any(one.preempted for one in windows):
        return "preempted"
    if not any(one.step and one.tokens >= LEAST_WINDOW for one in windows):
        return "failed"
    return "not proved" if all(one.proof == "failed" for one in windows) else ""


def _step(times: Sequence[float], scatter: fitting.Scatter, steps: int) -> Quantity:
    """Median of windows; its interval allows for the client's timestamps over ``steps`` steps."""
    found = fitting.median_interval(times, scatter)
    error = TIMESTAMP_S / max(1, steps)
    wide = found._replace(low=max(0.0, found.low - error), high=found.high + error)
    return quantity(wide, "s", f"median of {len(times)} steady window{'' if len(times) == 1 else 's'}")


def _rate(step: Quantity, batch: int) -> Quantity:
    bounded = step.low and step.high
    low, high = (batch / step.high, batch / step.low) if bounded and step.low and step.high else (None, None)
    return measured(batch / step.value, "token/s", "a token of every request per step", low, high)


def _gains(cells: Sequence[Cell]) -> tuple[Gain, ...]:
    """Throughput over batch 1 after the same prompt."""
    alone = {cell.prompt_tokens: cell.throughput for cell in cells if cell.batch == 1 and not cell.trouble}
    found = []
    for cell in cells:
        one = alone.get(cell.prompt_tokens)
        if cell.batch > 1 and one and cell.throughput and not cell.trouble:
            gain = cell.throughput.over(one, unit="1", provenance="measured", source="over batch 1, same prompt")
            found.append(Gain(batch=cell.batch, prompt_tokens=cell.prompt_tokens, measured=gain))
    return tuple(found)
