"""A prompt and its greedy answer on a transformers model, without generate(): a forward, then one for each token."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from phasewise.errors import UsageError
from phasewise.mark.clock import Clock

_CACHES = ("cache", "past_key_values", "cache_params")
"""What transformers calls the cache, in arguments and outputs: newest first, then that of recurrent models."""


class Greedy:
    """A model ready to answer.

    Raises:
        UsageError: a model that cannot continue from a cache, or one in training mode.
    """

    def __init__(self, model: Any) -> None:
        inner = getattr(model, "_orig_mod", model)
        takes = inspect.signature(inner.forward).parameters
        names = [name for name in _CACHES if name in takes]
        config = getattr(inner, "config", None)
        if not names or "input_ids" not in takes or getattr(config, "is_encoder_decoder", False):
            raise UsageError(f"{type(inner).__name__} is no decoder of transformers that continues from a cache.")
        if inner.training:
            raise UsageError("The model is in training mode, in which it drops parts of itself: call its eval().")
        self._model, self._cache = model, names[0]
        # Logits for the last position only, as a serving engine computes them.
        self._extra = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}

    def answer(self, ids: Any, tokens: int, clock: Clock, decoding: Callable[[], object] = lambda: None) -> list[Any]:
        """Prefill ``ids`` [rows, length] and decode until each row has ``tokens`` new ones.

        Returns the moments: before the prefill, then after each token, ``tokens`` + 1 in all. Nothing waits for a GPU.
        ``decoding`` is called between the prefill and the first step of decode.
        """
        import torch

        moments = []
        known: dict[str, Any] = {}
        with torch.inference_mode():
            moments.append(clock.now())
            for number in range(tokens):
                if number == 1:
                    decoding()
                out = self._model(input_ids=ids, use_cache=True, **self._extra, **known)
                ids = out.logits[:, -1:].argmax(-1)
                moments.append(clock.now())
                known = {self._cache: self._kept(out)}
        return moments

    def _kept(self, out: Any) -> Any:
        found = next((one for name in _CACHES if (one := getattr(out, name, None)) is not None), None)
        if found is None:
            raise UsageError(f"{type(self._model).__name__} gave no cache to continue from: its use_cache is off.")
        return found
