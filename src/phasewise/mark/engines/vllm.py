"""The steps of vLLM's workers. docs/plugin.md says what a band holds.

It begins as the worker is told to execute a step and ends when the step's tokens are sampled (``sample_tokens``, a call
of its own): outside of CUDA graphs, and around what vLLM's own annotation holds.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from phasewise.mark.engines.steps import Steps, named

_STATE = "_phasewise_marks"


class Marks:
    """The marks of one worker, and what it must remember for them: how long each request's prompt is."""

    def __init__(self, logger: logging.Logger) -> None:
        self._steps = Steps(logger)
        self._prompts: dict[str, int] = {}
        self._due: dict[str, int] = {}
        """Tokens that a request must compute before it decodes: its prompt, after preemption its answer so far too."""
        self._annotates = False

    def begin(self, scheduled: Any) -> None:
        """A step of vLLM's ``SchedulerOutput`` begins."""
        self._steps.close()
        self._steps.attempt(self._remember, scheduled)
        if not self._annotates:
            self._steps.open(lambda: self._name(scheduled))

    def annotated(self, scheduled: Any) -> None:
        """Its worker comes to its own annotation.

        A profiler with a number of steps to wait or to record starts and stops right before it. So a worker that was
        once seen to come here is not marked before it does.
        """
        if self._annotates:
            self._steps.open(lambda: self._name(scheduled))
        self._annotates = True

    def end(self) -> None:
        """The step is over."""
        self._steps.close()

    def _remember(self, scheduled: Any) -> None:
        """Note the prompt lengths of the requests that come, also when nobody listens: somebody may, later."""
        for done in scheduled.finished_req_ids:
            self._prompts.pop(done, None)
            self._due.pop(done, None)
        for new in scheduled.scheduled_new_reqs:
            self._prompts[new.req_id] = self._due[new.req_id] = _prompt(new)
        cached = scheduled.scheduled_cached_reqs
        if cached.resumed_req_ids:
            for name, answered in zip(cached.req_ids, cached.num_output_tokens, strict=True):
                if name in cached.resumed_req_ids:
                    known = cached.all_token_ids.get(name)
                    self._due[name] = len(known) if known else self._prompts[name] + answered

    def _name(self, scheduled: Any) -> str | None:
        cached, due = scheduled.scheduled_cached_reqs, self._due
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        computed.update((new.req_id, new.num_computed_tokens) for new in scheduled.scheduled_new_reqs)
        prefill: list[tuple[int, int]] = []
        decode: list[tuple[int, int]] = []
        for name, tokens in scheduled.num_scheduled_tokens.items():
            past = computed[name]
            (prefill if past < due[name] else decode).append((tokens, past + tokens))
        speculative = any(tokens > 1 for tokens, _ in decode)
        return named(prefill, decode, speculative=speculative)


def _prompt(new: Any) -> int:
    """Tokens of a request that is new to the worker, those found in the cache included.

    The second model runner gets resumed requests as new ones: its ``prefill_token_ids`` hold their answers as well.
    """
    for tokens in (getattr(new, "prefill_token_ids", None), new.prompt_token_ids):
        if tokens is not None:
            return len(tokens)
    return int(new.prompt_embeds.shape[0])


def wrap(wrapper: Any, logger: logging.Logger) -> None:
    """Wrap the calls of a step in vLLM's class ``WorkerWrapperBase``, which stands before workers of every kind.

    Raises:
        AttributeError: it has none of them.
    """
    if _STATE in vars(wrapper):
        return  # plugins may be loaded more than once
    execute: Callable[..., Any] = wrapper.execute_model

    @functools.wraps(execute)
    def execute_model(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        marks = _of(self.worker, logger)
        marks.begin(scheduler_output)
        sampled = True
        try:
            output = execute(self, scheduler_output, *args, **kwargs)
            # None: sample_tokens() follows, which still belongs to the step. Poolers never sample.
            sampled = output is not None or not _samples(self.worker)
            return output
        finally:
            if sampled:
                marks.end()

    sample: Callable[..., Any] = vars(wrapper).get("sample_tokens", _sample)

    def sample_tokens(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return sample(self, *args, **kwargs)
        finally:
            _of(self.worker, logger).end()

    setattr(wrapper, _STATE, None)
    wrapper.execute_model = execute_model
    wrapper.sample_tokens = sample_tokens
    for ray in wrapper.__subclasses__():
        if "execute_model_ray" in vars(ray):
            _wrap_ray(ray, logger)


def _wrap_ray(wrapper: Any, logger: logging.Logger) -> None:
    """Ray's compiled graph calls a method of its own, which executes and samples at once."""
    execute: Callable[..., Any] = wrapper.execute_model_ray

    @functools.wraps(execute)
    def execute_model_ray(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        marks = _of(self.worker, logger)
        marks.begin(given[0])
        try:
            return execute(self, given, *args, **kwargs)
        finally:
            marks.end()

    wrapper.execute_model_ray = execute_model_ray


def _of(worker: Any, logger: logging.Logger) -> Marks:
    marks: Marks | None = vars(worker).get(_STATE)
    if marks is None:
        marks = vars(worker)[_STATE] = Marks(logger)
        _wrap_annotation(type(worker))
    return marks


def _wrap_annotation(kind: Any) -> None:
    """Have the workers of a class tell their marks when they come to vLLM's own annotation, where they have one."""
    annotate: Callable[..., Any] | None = getattr(kind, "annotate_profile", None)
    if annotate is None or hasattr(annotate, _STATE):
        return

    @functools.wraps(annotate)
    def annotate_profile(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        context = annotate(self, scheduler_output, *args, **kwargs)
        if (marks := vars(self).get(_STATE)) is not None:
            marks.annotated(scheduler_output)
        return context

    setattr(annotate_profile, _STATE, True)
    kind.annotate_profile = annotate_profile


def _sample(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
    """What vLLM's wrapper does with a call that it does not know."""
    return wrapper.worker.sample_tokens(*args, **kwargs)


def _samples(worker: Any) -> bool:
    pools = getattr(getattr(worker, "model_runner", None), "is_pooling_model", False)
    return hasattr(worker, "sample_tokens") and not pools
