from __future__ import annotations

import itertools

import pytest

from phasewise.engines.prompts import MAX_PROMPT, WORDS, Calibration, TokenIds, Words, check
from phasewise.errors import UsageError


def test_token_ids_are_exact_and_no_two_prompts_start_alike() -> None:
    ids = TokenIds(49152)
    prompts = [ids(32) for _ in range(2000)]
    assert all(len(prompt.payload) == prompt.tokens == 32 and prompt.exact for prompt in prompts)
    assert len({prompt.payload[0] for prompt in prompts}) == 2000
    drawn = [token for prompt in prompts for token in prompt.payload]
    assert min(drawn) >= 1000  # special tokens sit below
    assert max(drawn) < 49152 * 0.9  # and, in some vocabularies, at the end
    # 64,000 draws from 43,236 ids miss exp(-64000/43236) = 23% of them: uniform, and nothing is repeated padding.
    assert 0.75 < len(set(drawn)) / 43236 < 0.79


def test_two_runs_draw_differently() -> None:
    assert TokenIds(None)(64).payload != TokenIds(None)(64).payload
    assert Words(Calibration())(64).payload != Words(Calibration())(64).payload


def test_a_small_vocabulary_runs_out_of_first_ids_but_not_of_prompts() -> None:
    ids = TokenIds(64)
    prompts = [ids(4) for _ in range(200)]
    assert all(0 <= token < 64 for prompt in prompts for token in prompt.payload)


def test_narrowing_halves_until_nothing_is_left() -> None:
    ids = TokenIds(None)
    highest = [max(ids(4000).payload)]
    while ids.narrow():
        highest.append(max(ids(4000).payload))
    assert len(highest) == 9  # 30,000 halved down to 117
    assert all(later < earlier for earlier, later in itertools.pairwise(highest))


def test_tokens_that_the_server_adds_are_left_out() -> None:
    ids = TokenIds(None)
    ids.fixed = 2
    assert (len(ids(10).payload), ids(10).tokens) == (8, 10)
    assert (len(ids(1).payload), ids(1).tokens) == (1, 3)


def test_words_are_common_and_plain() -> None:
    assert len(WORDS) == len(set(WORDS)) > 700
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


@pytest.mark.parametrize("tokens", [1, 2, 17, 500, 4000])
def test_text_is_fitted_to_a_tokenizer_that_splits_words(tokens: int) -> None:
    def count(text: str) -> int:
        return sum(1 + (len(word) > 6) for word in text.split())

    prompt = Words(Calibration(count=count, exact=True))(tokens)
    assert isinstance(prompt.payload, str)
    assert count(prompt.payload) == prompt.tokens
    assert prompt.exact
    assert abs(prompt.tokens - tokens) <= 1


def test_text_without_tokenizer_is_estimated_and_says_so() -> None:
    prompt = Words(Calibration(fixed=20, per_word=1.25))(120)
    assert isinstance(prompt.payload, str)
    assert len(prompt.payload.split()) == 80  # (120 - 20) / 1.25
    assert (prompt.tokens, prompt.exact) == (120, False)


def test_no_two_texts_start_alike() -> None:
    words = Words(Calibration())
    assert len({tuple(str(words(8).payload).split()[:3]) for _ in range(3000)}) == 3000


@pytest.mark.parametrize("prompts", [TokenIds(None), Words(Calibration())])
def test_a_prompt_needs_a_token(prompts: TokenIds | Words) -> None:
    with pytest.raises(UsageError):
        prompts(0)


@pytest.mark.parametrize("tokens", [MAX_PROMPT + 1, 10**9, 99999999999999999999, 10**400])
@pytest.mark.parametrize("prompts", [TokenIds(None), Words(Calibration())])
def test_a_prompt_that_no_model_takes_is_refused_before_it_is_built(prompts: TokenIds | Words, tokens: int) -> None:
    with pytest.raises(UsageError, match="10,485,760 or fewer") as caught:
        prompts(tokens)
    assert len(str(caught.value)) < 200


def test_a_prompt_beyond_the_stated_context_names_it() -> None:
    check(4096, 4096)
    with pytest.raises(UsageError, match=r"4,097 tokens does not fit the context of 4,096"):
        check(4097, 4096)


@pytest.mark.parametrize("vocabulary", [1, 0, -7, 31, 2**60, 10**30])
def test_a_vocabulary_that_cannot_be_is_ignored_and_kept_to_be_told(vocabulary: int) -> None:
    ids = TokenIds(vocabulary)
    assert ids.disbelieved == vocabulary
    assert max(ids(2000).payload) in range(20_000, 30_000)  # as where it is not known


@pytest.mark.parametrize("vocabulary", [None, 32, 65, 49152, 262_144])
def test_a_vocabulary_that_can_be_is_believed(vocabulary: int | None) -> None:
    ids = TokenIds(vocabulary)
    assert ids.disbelieved is None
    assert max(ids(2000).payload) < (vocabulary or 30_000)


@pytest.mark.parametrize("count", [0, -(10**15), 10**15])
def test_a_tokenizer_that_lies_makes_no_text_without_bound(count: int) -> None:
    prompt = Words(Calibration(count=lambda text: count))(100)
    assert len(str(prompt.payload).split()) <= 1000
