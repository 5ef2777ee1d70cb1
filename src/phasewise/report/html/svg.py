"""Elements of a drawing, and the scales that place numbers on it. Every attribute and text is escaped."""

from __future__ import annotations

import math
from typing import NamedTuple

from markupsafe import Markup, escape

from phasewise.report.view import words as numbers


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """An SVG element. ``text_anchor`` becomes ``text-anchor``, ``class_`` becomes ``class``; floats get one decimal."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{written}>{''.join(escape(part) for part in inside)}</{name}>")


def _short(value: object) -> object:
    return f"{value:.1f}" if isinstance(value, float) else value


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: list[tuple[float, float]], class_: str) -> Markup:
    """Straight lines through ``points``; nothing with fewer than two."""
    if len(points) < 2:
        return Markup("")
    return tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def text(x: float, y: float, words: str, class_: str, anchor: str = "start") -> Markup:
    """Words at a place."""
    return tag("text", words, x=x, y=y, class_=class_, text_anchor=anchor)


def duration(seconds: float) -> str:
    """A tick's label: 20 ms, not 20.0 ms."""
    number, _, unit = numbers.number(seconds, "s").partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


class Linear(NamedTuple):
    """From zero to ``high``."""

    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where ``value`` lies."""
        return self.start + (self.end - self.start) * value / self.high

    def ticks(self) -> list[float]:
        """About five round values: steps of 1, 2 or 5 times a power of ten."""
        rough = self.high / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * min((1, 2, 5, 10), key=lambda m: abs(m - rough / power))
        return [step * i for i in range(int(self.high / step + 1e-9) + 1)]


class Log(NamedTuple):
    """From ``low`` to ``high``, both above zero."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where ``value`` lies."""
        return self.start + (self.end - self.start) * math.log(value / self.low) / math.log(self.high / self.low)

    @property
    def decade(self) -> float:
        """Length of a factor of ten."""
        return (self.end - self.start) / math.log10(self.high / self.low)

    def ticks(self) -> list[float]:
        """Powers of ten: every second one when there are many, with twos and fives between when there are few."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        leads = (1, 2, 5) if last - first < 4 else (1,)
        marks = [lead * 10.0**n for n in range(first, last + 1, 1 if last - first < 8 else 2) for lead in leads]
        return [mark for mark in marks if self.low <= mark <= self.high]
