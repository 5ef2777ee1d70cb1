"""One request alone on the machine: TTFT, then a decode step per further token at growing context."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasewise.model.architecture import Count
from phasewise.model.model import Model
from phasewise.predict.roofline import Roof, decode_floor, prefill_floor
from phasewise.record.prediction import RequestPrediction


def decode_time(step: Callable[[Count], Count], prompt: int, answer: int) -> float:
    """Seconds of the ``answer - 1`` decode steps after ``prompt`` tokens.

    ``step`` gives a step's seconds at a context; the k-th step sees the prompt and k generated tokens.
    """
    if answer < 2:
        return 0.0
    contexts = prompt + np.arange(1.0, float(answer))
    return float(np.sum(step(contexts) + 0.0 * contexts))


def request(model: Model, roof: Roof, prompt: int, answer: int) -> RequestPrediction:
    """The floor of a request of ``prompt`` tokens in and ``answer`` tokens out."""
    ttft = float(prefill_floor(model, roof, float(prompt)))
    rest = decode_time(lambda context: decode_floor(model, roof, context), prompt, answer)
    return RequestPrediction(
        prompt_tokens=prompt,
        answer_tokens=answer,
        ttft_s=ttft,
        tpot_s=rest / (answer - 1) if answer > 1 else 0.0,
        total_s=ttft + rest,
        decode_share=rest / (ttft + rest),
    )
