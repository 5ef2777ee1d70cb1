"""The steps of SGLang's schedulers: one band around each ``ModelRunner.forward``. docs/plugin.md says what it holds.

SGLang's own span takes whatever has one new token in a mixed batch for a generation, a prompt's last token too. Which
requests were generating is known to the ``ScheduleBatch`` alone (``decoding_reqs``), so it is noted when a
``ForwardBatch`` is made of one.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from phasewise.mark.engines.steps import Steps, named
from phasewise.record.marks import step_name
from phasewise.record.trace import Tokens

_NOTED = "_phasewise_decoding"

_PROMPTS = ("EXTEND", "MIXED")
_GENERATIONS = ("DECODE", "TARGET_VERIFY")
"""Names of SGLang's ``ForwardMode``. Others are no pass of the model over requests of one kind: idle ranks, pieces of a
pass (SPLIT_PREFILL), the draft model, diffusion."""


def wrap(batch: Any, runner: Any, logger: logging.Logger) -> None:
    """Wrap SGLang's ``ForwardBatch.init_new`` and ``ModelRunner.forward``.

    Raises:
        AttributeError: they are not there.
        KeyError: the same.
    """
    if hasattr(runner.forward, _NOTED):
        return
    make: Callable[..., Any] = vars(batch)["init_new"].__func__
    forward: Callable[..., Any] = runner.forward
    steps = Steps(logger)

    @functools.wraps(make)
    def init_new(cls: Any, scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        made = make(cls, scheduled, *args, **kwargs)
        steps.attempt(_note, made, scheduled)
        return made

    @functools.wraps(forward)
    def marked(self: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "is_draft_worker", False):
            return forward(self, forward_batch, *args, **kwargs)
        steps.open(lambda: _name(forward_batch))
        try:
            return forward(self, forward_batch, *args, **kwargs)
        finally:
            steps.close()

    setattr(marked, _NOTED, True)
    batch.init_new = classmethod(init_new)
    runner.forward = marked


def _note(made: Any, scheduled: Any) -> None:
    """Note which rows of a batch that holds prompts were generating before it."""
    if scheduled.decoding_reqs and made.forward_mode.name in _PROMPTS:
        generating = {id(one) for one in scheduled.decoding_reqs}
        setattr(made, _NOTED, tuple(id(one) in generating for one in scheduled.reqs))


def _name(batch: Any) -> str | None:
    mode = batch.forward_mode.name
    if mode in _GENERATIONS:
        return _generations(batch, verifies=mode == "TARGET_VERIFY")
    if mode not in _PROMPTS:
        return None
    new = [int(tokens) for tokens in batch.extend_seq_lens_cpu]
    rows = [(q, int(past) + q) for q, past in zip(new, batch.extend_prefix_lens_cpu, strict=True)]
    generating = getattr(batch, _NOTED, None)
    if generating is None:
        return named(rows, ()) if mode == "EXTEND" else step_name("mixed", None, None)
    prefill = [row for row, decodes in zip(rows, generating, strict=True) if not decodes]
    decode = [row for row, decodes in zip(rows, generating, strict=True) if decodes]
    return named(prefill, decode)


def _generations(batch: Any, *, verifies: bool) -> str | None:
    """Requests with one new token each; of a verify step as many as were drafted, on top of the lengths."""
    q = int(batch.spec_info.draft_token_num) if verifies else 1
    if batch.seq_lens_cpu is None:  # known on the GPU alone, which is not waited for
        counts = Tokens(requests=batch.batch_size, tokens=q * batch.batch_size)
        return step_name("decode", None, counts, speculative=verifies)
    lengths = batch.seq_lens_cpu.tolist()
    return named((), [(q, length + q if verifies else length) for length in lengths], speculative=verifies)
