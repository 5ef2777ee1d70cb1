"""How long prompts and answers are: fixed, uniform, normal, and mixes of them."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from phasewise.errors import UsageError

Tokens = NDArray[np.int64]

MOST = 10 * 2**20
"""Tokens of the longest prompt or answer that may be asked for."""

_WRITTEN = re.compile(r"^(\d{1,9})(?:(\.\.|~)(\d{1,9}))?$")


class Length(NamedTuple):
    """``N`` (fixed), ``LOW..HIGH`` (uniform, both ends in it) or ``MEAN~SD`` (normal, rounded, no less than 1)."""

    kind: str
    a: int
    b: int

    def draw(self, count: int, random: Generator) -> Tokens:
        """``count`` lengths."""
        if self.kind == "uniform":
            return random.integers(self.a, self.b, count, endpoint=True, dtype=np.int64)
        if self.kind == "normal":
            return np.clip(np.rint(random.normal(self.a, self.b, count)), 1, MOST).astype(np.int64)
        return np.full(count, self.a, np.int64)


class Shape(NamedTuple):
    """Requests of one kind, and their part of a mix."""

    prompt: Length
    answer: Length
    weight: float = 1.0


def length(text: str) -> Length:
    """Read a length.

    Raises:
        UsageError: it is none.
    """
    found = _WRITTEN.match(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no length: write 512, 128..1024 (uniform) or 512~100 (normal, mean~deviation).")
    kind = {"..": "uniform", "~": "normal"}.get(found[2] or "", "fixed")
    a, b = int(found[1]), int(found[3] or 0)
    if not 1 <= a <= MOST or b > MOST or (kind == "uniform" and b < a):
        raise UsageError(f"{text!r} is no length: tokens go from 1 to {MOST:,}, the smaller end first.")
    return Length(kind, a, b)


def mix(text: str) -> tuple[Shape, ...]:
    """Read ``IN:OUT[:PART],...``, where IN and OUT are lengths.

    Raises:
        UsageError: it is not written so.
    """
    shapes = []
    for part in text.split(","):
        fields = part.split(":")
        try:
            weight = float(fields[2]) if len(fields) == 3 else 1.0
        except ValueError:
            weight = 0.0
        if len(fields) not in (2, 3) or not (0 < weight < math.inf):
            raise UsageError(
                f"--mix {part!r} is not tokens in, tokens out and a part: write 2000:300:0.7,100..500:50:0.3."
            )
        shapes.append(Shape(length(fields[0]), length(fields[1]), weight))
    return tuple(shapes)


def draw(shapes: tuple[Shape, ...], count: int, random: Generator) -> tuple[Tokens, Tokens]:
    """Prompt and answer tokens of ``count`` requests, each of a shape drawn by weight."""
    weights = np.array([shape.weight for shape in shapes])
    weights /= weights.max()
    kinds = random.choice(len(shapes), size=count, p=weights / weights.sum())
    prompt, answer = np.empty(count, np.int64), np.empty(count, np.int64)
    for kind, shape in enumerate(shapes):
        of = kinds == kind
        prompt[of] = shape.prompt.draw(int(of.sum()), random)
        answer[of] = shape.answer.draw(int(of.sum()), random)
    return prompt, answer
