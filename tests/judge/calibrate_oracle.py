"""Measured points as an engine of known habits would give them. No product arithmetic in here.

Llama-3-8B in bf16 on an H100 SXM: 6.98e9 weights in layers, 0.525e9 in lm_head, 131,072 bytes of KV per token.
"""

from __future__ import annotations

import numpy as np

from phasewise.record.calibration import Point

PEAK, BANDWIDTH = 989e12, 3.35e12
LAYERS, HEAD, KV = 6.98e9, 0.525e9, 131_072
COMPUTE, READ = 0.70, 0.80
HOST, PER_ANSWER = 3e-3, 40e-6


def prefill_s(tokens: float, batch: float = 1.0) -> float:
    """At 70% of the peak (attention's own math left to it), and 3 ms of host."""
    math = (2 * LAYERS * tokens + 2 * HEAD + 2 * 32 * 4096 * tokens**2) * batch
    reading = 2 * (LAYERS + HEAD)
    return max(math / COMPUTE / PEAK, reading / READ / BANDWIDTH) + HOST


def decode_s(context: float, batch: float = 1.0) -> float:
    """At 80% of the bandwidth, 3 ms of host and 40 µs for each request."""
    reading = 2 * (LAYERS + HEAD) + KV * context * batch
    return reading / READ / BANDWIDTH + HOST + PER_ANSWER * batch


def point(phase: str, tokens: float, batch: float, noise: float = 0.0) -> Point:
    prefill = phase == "prefill"
    took = prefill_s(tokens, batch) if prefill else decode_s(tokens, batch)
    return Point(
        phase="prefill" if prefill else "decode",
        tokens=tokens if prefill else 1.0,
        batch=batch,
        context=0.0 if prefill else tokens,
        devices=1,
        seconds=took * float(np.exp(noise)),
        source="planted",
    )


PREFILLS = ((256.0, 1.0), (512.0, 1.0), (1024.0, 1.0), (2048.0, 1.0), (4096.0, 1.0))
DECODES = ((128.0, 1.0), (2000.0, 1.0), (500.0, 8.0), (500.0, 32.0), (1000.0, 64.0))


def points(rng: np.random.Generator | None = None, scatter: float = 0.0) -> tuple[Point, ...]:
    """Ten points, five a phase, each off by a factor of about 1 ± scatter."""
    noise = np.zeros(10) if rng is None else scatter * rng.standard_normal(10)
    settings = [("prefill", *one) for one in PREFILLS] + [("decode", *one) for one in DECODES]
    return tuple(point(*one, noise=float(off)) for one, off in zip(settings, noise, strict=True))
