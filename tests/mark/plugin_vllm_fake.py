"""A stand-in for vLLM 0.32's worker side and a scheduler that makes its outputs, under the real names and signatures.

The scheduler knows by its own books which tokens are a prompt's: it hands them out, takes them back by preemption and
counts answers. `tests/cli/test_plugin_real.py` holds the same against the real vLLM.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any


class WorkerWrapperBase:
    """``vllm.v1.worker.worker_base.WorkerWrapperBase``: runs what the executor asks for on its worker."""

    def __init__(self, worker: Any, rpc_rank: int = 0) -> None:
        self.rpc_rank = rpc_rank
        self.worker = worker

    def __getattr__(self, attr: str) -> Any:
        return getattr(self.worker, attr)

    def execute_model(self, scheduler_output: Any) -> Any:
        return self.worker.execute_model(scheduler_output)


class Plain:
    """A worker that samples in a call of its own; ``output`` is what executing gives."""

    def __init__(self, output: Any = None, *, pools: bool = False) -> None:
        self.model_runner = SimpleNamespace(is_pooling_model=pools)
        self.output = output
        self.calls: list[str] = []

    def execute_model(self, scheduler_output: Any) -> Any:
        self.calls.append("execute")
        if isinstance(self.output, Exception):
            raise self.output
        return self.output

    def sample_tokens(self, grammar_output: Any) -> str:
        self.calls.append("sample")
        return "tokens"


class Worker(Plain):
    """One that comes to vLLM's own annotation before it executes; ``step`` is that of its profiler."""

    def __init__(self, output: Any = None, *, pools: bool = False, step: Callable[[], None] = lambda: None) -> None:
        super().__init__(output, pools=pools)
        self.step = step

    def annotate_profile(self, scheduler_output: Any) -> AbstractContextManager[None]:
        self.step()
        return nullcontext()

    def execute_model(self, scheduler_output: Any) -> Any:
        with self.annotate_profile(scheduler_output):
            return super().execute_model(scheduler_output)


def new(name: str, prompt: int, computed: int = 0, *, known: int | None = None, embedded: bool = False) -> Any:
    """``NewRequestData``; ``known`` tokens are those of the second model runner, answers included."""
    return SimpleNamespace(
        req_id=name,
        prompt_token_ids=None if embedded else [0] * prompt,
        prompt_embeds=SimpleNamespace(shape=(prompt, 64)) if embedded else None,
        prefill_token_ids=None if known is None else [0] * known,
        num_computed_tokens=computed,
    )


def output(
    scheduled: dict[str, int],
    fresh: tuple[Any, ...] = (),
    cached: dict[str, tuple[int, int]] | None = None,
    *,
    resumed: dict[str, list[int] | None] | None = None,
    drafts: dict[str, list[int]] | None = None,
    finished: tuple[str, ...] = (),
) -> Any:
    """``SchedulerOutput``: ``cached`` has tokens computed and answered; ``resumed`` all tokens, or None."""
    cached, resumed = cached or {}, resumed or {}
    return SimpleNamespace(
        scheduled_new_reqs=list(fresh),
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(cached),
            resumed_req_ids=set(resumed),
            new_token_ids=[],
            all_token_ids={name: known for name, known in resumed.items() if known is not None},
            new_block_ids=[None] * len(cached),
            num_computed_tokens=[computed for computed, _ in cached.values()],
            num_output_tokens=[answered for _, answered in cached.values()],
        ),
        num_scheduled_tokens=scheduled,
        total_num_scheduled_tokens=sum(scheduled.values()),
        scheduled_spec_decode_tokens=drafts or {},
        scheduled_encoder_inputs={},
        finished_req_ids=set(finished),
        free_encoder_mm_hashes=[],
        preempted_req_ids=None,
    )


class Life:
    """A scheduler at random: chunks, cache hits, drafts, preemption, each step with what it truly was.

    Each request is [prompt, computed, answered, tokens of the pass that comes first]: the last is the truth, spent
    token by token as the first pass is handed out, and due again after a preemption.
    """

    def __init__(self, seed: int, *, second_runner: bool) -> None:
        self._random = random.Random(seed)
        self._second = second_runner
        self._known: dict[str, list[int]] = {}
        self._waiting: list[str] = []
        self._gone: list[str] = []
        self._named = 0

    def step(self) -> tuple[Any, list[tuple[str, int, int, bool]]]:
        """The next output, and of each request: its phase, q, k, and whether it verifies drafts."""
        scheduled: dict[str, int] = {}
        fresh, cached, drafts, truth = [], {}, {}, []
        resumed: dict[str, list[int] | None] = {}
        gone, self._gone = tuple(self._gone), []
        for name in list(self._known):
            if name not in self._waiting and self._random.random() < 0.15:
                self._preempt(name)
        for name in list(self._known):
            prompt, computed, answered, due = self._known[name]
            if name in self._waiting:
                if self._random.random() < 0.5:
                    continue
                self._waiting.remove(name)
                hit = self._random.choice((0, due // 2, due - 1))
                computed, due = hit, due - hit
                if self._second:
                    fresh.append(new(name, prompt, hit, known=prompt + answered))
                else:
                    cached[name] = (hit, answered)
                    resumed[name] = self._random.choice(([0] * (prompt + answered), None))
            elif name not in cached:
                cached[name] = (computed, answered)
            self._give(name, prompt, computed, answered, due, scheduled, drafts, truth)
        for _ in range(self._random.choice((0, 0, 1, 2))):
            name, prompt = f"request-{self._named}", self._random.randint(1, 40)
            self._named += 1
            hit = self._random.choice((0, prompt // 2, prompt - 1))
            fresh.append(new(name, prompt, hit, known=prompt if self._second else None))
            self._give(name, prompt, hit, 0, prompt - hit, scheduled, drafts, truth)
        made = output(scheduled, tuple(fresh), cached, resumed=resumed, drafts=drafts, finished=gone)
        return made, truth

    def _preempt(self, name: str) -> None:
        prompt, _, answered, _ = self._known[name]
        self._known[name] = [prompt, 0, answered, prompt + answered]
        self._waiting.append(name)

    def _give(
        self,
        name: str,
        prompt: int,
        computed: int,
        answered: int,
        due: int,
        scheduled: dict[str, int],
        drafts: dict[str, list[int]],
        truth: list[tuple[str, int, int, bool]],
    ) -> None:
        if due:
            q = min(due, self._random.choice((1, 7, 1000)))
            truth.append(("prefill", q, computed + q, False))
            due -= q
            answered += due == 0
            kept = q
        else:
            guessed = self._random.choice((0, 0, 3))
            q = 1 + guessed
            kept = 1 + self._random.randint(0, guessed)
            truth.append(("decode", q, computed + q, guessed > 0))
            answered += kept
            if guessed:
                drafts[name] = [0] * guessed
        scheduled[name] = q
        self._known[name] = [prompt, computed + kept, answered, due]
        if not due and self._random.random() < 0.1:
            del self._known[name]
            self._gone.append(name)
