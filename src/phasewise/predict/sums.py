"""The five sums over the requests of one half of a step, completed where some of them are not said."""

from __future__ import annotations

from typing import NamedTuple

from phasewise.model.passes import Count
from phasewise.record.trace import Tokens

NO_PREFIX = "no cached prefix is said, so none is counted: with one, floor, MFU and MBU would be higher"
NO_CONTEXT = (
    "the context of its generations is not said: their KV cache and attention are left out, so that floor, MFU and MBU "
    "are lower bounds"
)
ONE_TOKEN = "each request of a decode step is taken to get one token"
ONE_PROMPT = "how many prompts a step holds is not said, so one is counted"
EQUAL = "the requests of one step are taken to be equally long"

_MOST = 10**15
"""A sum beyond this is no sum of an annotation."""


class Contradiction(ValueError):
    """Sums that no requests can have."""


class Sums(NamedTuple):
    """n, Σq, Σk, Σq² and Σq·k of one half of a step; arrays for many steps."""

    requests: Count
    tokens: Count
    context: Count
    squares: Count
    products: Count


def sums(said: Tokens | None, *, decode: bool) -> tuple[Sums | None, tuple[str, ...]]:
    """All five sums of a half from those that were said, and what that takes for granted; None for an empty half.

    Raises:
        Contradiction: no requests have these sums.
    """
    if said is None or not (said.requests or said.tokens):
        return None, ()
    assumed = []
    n, q = said.requests, said.tokens
    if not n:
        n = q if decode and q else 1
        assumed.append(ONE_TOKEN if decode else ONE_PROMPT)
    if not q:
        if not decode:
            return None, ()
        q = n
        assumed.append(ONE_TOKEN)
    _check(said, n, q)
    alike = n == 1 or q == n
    if said.squares is None and not alike:
        assumed.append(EQUAL)
    squares = q * q / n if said.squares is None else float(said.squares)
    if said.context is None and said.products is None:
        assumed.append(NO_CONTEXT if decode else NO_PREFIX)
        return Sums(n, q, q, squares, squares), tuple(dict.fromkeys(assumed))
    if said.context is None:
        if n > 1 and said.products != said.squares:
            assumed.append(EQUAL)
        context = float(q) if said.products == said.squares else (said.products or 0) * n / q
    else:
        context = float(said.context)
    products = said.products
    if products is None and not alike and context > q:
        assumed.append(EQUAL)
    return (
        Sums(n, q, context, squares, squares + q * (context - q) / n if products is None else products),
        tuple(dict.fromkeys(assumed)),
    )


def _check(said: Tokens, n: int, q: int) -> None:
    given = [x for x in (n, q, said.context, said.squares, said.products) if x is not None]
    k, squares, products = said.context, said.squares, said.products
    fine = (
        all(0 < x < _MOST for x in given)
        and q >= n
        and (k is None or k >= q)
        and (squares is None or q * q <= squares * n <= q * q * n)
        and (products is None or products * n >= q * q)
        and (products is None or squares is None or products >= squares)
        and (products is None or k is None or products <= q * k)
    )
    if not fine:
        raise Contradiction(f"{given}")
