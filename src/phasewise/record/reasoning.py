"""When a model that thinks first began to think and when to answer; part of the section of isolate/."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import Quantity


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of the decode profile that held reasoning apart from their answer.

    Attributes:
        first_thinking: send to the first token, which is a thought: TTFT. Median, seconds.
        first_answer: send to the first token that is no thought, over answers that came that far; None if none did.
        thoughts: answers that began with reasoning.
        answered: those of them that came to their answer within the tokens asked for.
    """

    first_thinking: Quantity
    first_answer: Quantity | None
    thoughts: int
    answered: int
