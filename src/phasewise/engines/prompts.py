"""Prompts that no cache has seen, of the token count asked for.

Never repeated padding: equal tokens skew the routing of mixture-of-experts models and compress in caches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import resources

import msgspec
import numpy as np

from phasewise.engines.base import Piece, Prompt
from phasewise.engines.text import clean
from phasewise.errors import UsageError

_LOWEST_ID = 1000
"""Below it sit special tokens and single bytes in the common vocabularies."""

_HIGHEST_ID = 30_000
"""Where the vocabulary's size is not known: most hold 32,000 tokens or more."""

_VOCABULARIES = range(32, 2**22)
"""Sizes of a vocabulary that can be; those of language models go from 65 (characters) to some 262,000."""

MAX_PROMPT = 10 * 2**20
"""Tokens of the longest prompt; no published model claims a longer context (Llama 4 Scout claims this one)."""

WORDS = tuple(resources.files(__package__).joinpath("words.txt").read_text(encoding="ascii").split())
"""Common English words, nearly all of them one token in every vocabulary when a space stands before them."""


class TokenIds:
    """Prompts as token ids, drawn at random from the safe middle of the vocabulary; exact by construction.

    Attributes:
        fixed: tokens that the server puts before the ids, as its usage showed.
        disbelieved: the size of the vocabulary as given, when it cannot be and was not used.
    """

    def __init__(self, vocabulary: int | None) -> None:
        self.fixed = 0
        self.disbelieved = None if vocabulary is None or vocabulary in _VOCABULARIES else vocabulary
        if self.disbelieved is not None:
            vocabulary = None
        # The ends of a vocabulary hold special and unused tokens; the last tenth is left out for the latter.
        highest = _HIGHEST_ID if vocabulary is None else vocabulary * 9 // 10
        self._low, self._high = min(_LOWEST_ID, highest // 4), highest
        self._random = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
        self._firsts: set[int] = set()

    def narrow(self) -> bool:
        """Halve the range after the server refused an id; False when there is nothing left to halve."""
        self._high //= 2
        self._low = min(self._low, self._high // 4)
        return self._high >= 64

    def __call__(self, tokens: int) -> Prompt:
        """A prompt of ``tokens`` ids whose first id no other prompt has had, as long as there are unused ones."""
        check(tokens)
        ids = self._random.integers(self._low, self._high, size=max(1, tokens - self.fixed))
        while int(ids[0]) in self._firsts and len(self._firsts) < self._high - self._low:
            ids[0] = self._random.integers(self._low, self._high)
        self._firsts.add(int(ids[0]))
        return Prompt(payload=tuple(ids.tolist()), tokens=len(ids) + self.fixed, exact=True)

    def pieced(self, pieces: Sequence[Piece]) -> Prompt:
        """A prompt of ``pieces``, one after the other; what the server puts before it is taken off the last."""
        drawn = [np.random.default_rng(key).integers(self._low, self._high, size=tokens) for key, tokens in pieces]
        ids = np.concatenate(drawn)
        ids = ids[: max(1, len(ids) - self.fixed)]
        return Prompt(payload=tuple(ids.tolist()), tokens=len(ids) + self.fixed, exact=True)


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """How long a text is to the server.

    Attributes:
        fixed: tokens that it puts around every text (a template, a begin-of-text token).
        per_word: mean tokens of a word.
        count: its own tokenizer; None when it has none.
        exact: ``count`` and ``fixed`` together are what its usage says.
    """

    fixed: float = 0.0
    per_word: float = 1.0
    count: Callable[[str], int] | None = None
    exact: bool = False


class Words:
    """Prompts as random common words, cut to length by the server's tokenizer, or by what its usage counted."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._random = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
        self._firsts: set[tuple[str, ...]] = set()

    def __call__(self, tokens: int) -> Prompt:
        """A prompt of ``tokens`` tokens, or as near as words get; its ``tokens`` say which.

        Raises:
            EngineError: the server's tokenizer fails.
        """
        check(tokens)
        scale = self._calibration
        words = self.draw(max(1, round((tokens - scale.fixed) / scale.per_word)))
        if scale.count is not None:
            return self._fit(words, tokens, scale.count)
        return Prompt(payload=" ".join(words), tokens=round(scale.fixed + scale.per_word * len(words)), exact=False)

    def pieced(self, pieces: Sequence[Piece]) -> Prompt:
        """A prompt of ``pieces``, one after the other, as long as words usually are: the tokenizer is not asked."""
        scale, words = self._calibration, []
        for key, tokens in pieces:
            drawn = np.random.default_rng(key).integers(0, len(WORDS), size=max(1, round(tokens / scale.per_word)))
            words += [WORDS[index] for index in drawn]
        words = words[: max(1, len(words) - round(scale.fixed / scale.per_word))]
        return Prompt(payload=" ".join(words), tokens=round(scale.fixed + scale.per_word * len(words)), exact=False)

    def draw(self, words: int) -> list[str]:
        """``words`` random words that do not start as any text before."""
        while True:
            drawn = [WORDS[index] for index in self._random.integers(0, len(WORDS), size=words)]
            start = tuple(drawn[:3])
            if start not in self._firsts or words < 3:
                self._firsts.add(start)
                return drawn

    def _fit(self, words: list[str], tokens: int, count: Callable[[str], int]) -> Prompt:
        best: Prompt | None = None
        for _ in range(8):
            text = " ".join(words)
            counted = count(text) + round(self._calibration.fixed)
            if best is None or abs(counted - tokens) < abs(best.tokens - tokens):
                best = Prompt(payload=text, tokens=counted, exact=self._calibration.exact)
            missing = min(tokens, tokens - counted)  # whatever a tokenizer says, no text grows without bound
            if missing == 0 or (missing < 0 and len(words) == 1):
                break
            # A few words are two tokens, so a cut may overshoot by one; the next round puts it right.
            words = words + self.draw(missing) if missing > 0 else words[: max(1, len(words) + missing)]
        assert best is not None
        return best


def check(tokens: int, context: int | None = None) -> None:
    """Whether a prompt of ``tokens`` can be made, and fits into the ``context`` that the server states.

    Raises:
        UsageError: it cannot, or does not.
    """
    if tokens < 1:
        raise UsageError(f"A prompt of {tokens} tokens cannot be made: ask for 1 or more.")
    asked = clean(f"{tokens:,}", 30)
    if context is not None and tokens > context:
        raise UsageError(
            f"A prompt of {asked} tokens does not fit the context of {context:,} that the server states: "
            "ask for shorter prompts."
        )
    if tokens > MAX_PROMPT:
        raise UsageError(f"A prompt of {asked} tokens is more than any model takes: ask for {MAX_PROMPT:,} or fewer.")
