from __future__ import annotations

import pytest

from phasewise.engines.base import Answer, Chunk
from phasewise.isolate.sample import Sample, Shape


def sample(
    chunks: list[tuple[float, int | None]],
    *,
    usage: int | None,
    asked: int = 5,
    reason: str | None = "length",
    prompt: int = 100,
    counted_prompt: int | None = 100,
    last_is_empty: bool = False,
) -> Sample:
    parts = tuple(
        Chunk(at=at, read=i, tokens=tokens, empty=last_is_empty and i == len(chunks) - 1)
        for i, (at, tokens) in enumerate(chunks)
    )
    answer = Answer(
        sent_at=10.0,
        headers_at=parts[0].at,
        first_at=parts[0].at,
        last_at=parts[-1].at,
        ended_at=parts[-1].at + 0.1,
        chunks=parts,
        prompt_tokens=counted_prompt,
        completion_tokens=usage,
        cached_tokens=None,
        finish_reason=reason,
    )
    return Sample(
        phase="decode",
        shape=Shape(prompt, asked),
        sent_tokens=prompt,
        answer=answer,
        warmup=False,
        cpu_s=0.0,
        wall_s=1.0,
        lag_s=0.0,
    )


def test_tpot_is_the_time_between_first_and_last_token_over_the_steps() -> None:
    five = sample([(11.0, None), (11.1, None), (11.2, None), (11.3, None), (11.4, None)], usage=5)
    assert five.tpot == pytest.approx(0.4 / 4)


def test_tpot_counts_tokens_by_usage_not_by_chunks() -> None:
    nine = sample([(11.0, None), (11.2, None), (11.4, None), (11.6, None), (11.8, None)], usage=9)
    assert nine.tpot == pytest.approx(0.8 / 8)


def test_tpot_of_a_first_chunk_that_is_known_to_hold_three_tokens() -> None:
    # Tokens 1 to 3 came at 11.0, 4 to 6 at 11.3, 7 to 9 at 11.6: six steps in 0.6 s.
    assert sample([(11.0, 3), (11.3, 3), (11.6, 3)], usage=9).tpot == pytest.approx(0.1)


def test_no_tpot_without_steps_or_time() -> None:
    assert sample([(11.0, None)], usage=1).tpot is None
    assert sample([(11.0, None), (11.0, None)], usage=2).tpot is None


def test_who_counts() -> None:
    two: list[tuple[float, int | None]] = [(11.0, 2), (11.1, 2)]
    assert sample(two, usage=7).counted == (7, "usage")
    assert sample(two, usage=None).counted == (4, "token ids")
    assert sample([(11.0, None), (11.1, 2)], usage=None).counted == (5, "length")
    assert sample([(11.0, None), (11.1, 2)], usage=None, reason="stop").counted == (2, "chunks")


def test_prompt_tokens_by_the_server_else_as_sent() -> None:
    assert sample([(11.0, 1)], usage=1, counted_prompt=103).prompt_tokens == 103
    assert sample([(11.0, 1)], usage=1, counted_prompt=None).prompt_tokens == 100


def test_stretches_split_a_long_answer() -> None:
    # 193 tokens, 10 ms each, then 20 ms each from token 97 on; token k is made after 100 + k - 1 tokens of context.
    times = [11.0]
    for k in range(2, 194):
        times.append(times[-1] + (0.01 if k <= 97 else 0.02))
    found = sample([(t, 1) for t in times], usage=193, asked=193).stretches()
    assert [s.tokens for s in found] == [48, 48, 48, 48]
    assert [s.tpot for s in found] == pytest.approx([0.01, 0.01, 0.02, 0.02])
    # The first stretch makes tokens 2 to 49: contexts 101 to 148.
    assert found[0].context == pytest.approx((101 + 148) / 2)
    assert found[3].context == pytest.approx((100 + 145 + 100 + 192) / 2)


def test_stretches_end_where_chunks_end() -> None:
    # One token, then 64 chunks of three.
    chunks: list[tuple[float, int | None]] = [(11.0, 1), *((11.0 + 0.03 * i, 3) for i in range(1, 65))]
    found = sample(chunks, usage=193, asked=193).stretches()
    assert [s.tokens for s in found] == [48, 48, 48, 48]
    assert [s.tpot for s in found] == pytest.approx([0.01] * 4)


def test_one_stretch_when_nobody_says_what_a_chunk_holds() -> None:
    chunks: list[tuple[float, int | None]] = [(11.0 + 0.03 * i, None) for i in range(65)]
    (only,) = sample(chunks, usage=193, asked=193).stretches()
    assert only.tokens == 192
    assert only.tpot == pytest.approx(64 * 0.03 / 192)
    assert only.context == pytest.approx(100 + 193 / 2)


def test_an_empty_last_chunk_is_no_token() -> None:
    # llama.cpp closes with a chunk of empty text that brings the usage, often in the read of the last token.
    chunks: list[tuple[float, int | None]] = [(11.0 + 0.01 * i, None) for i in range(100)]
    closed = sample([*chunks, chunks[-1]], usage=100, asked=100, last_is_empty=True)
    assert len(closed.carrying) == 100
    assert len(closed.stretches()) == 2
    told = sample([*((at, 1) for at, _ in chunks), (chunks[-1][0], 0)], usage=100, asked=100, last_is_empty=True)
    assert len(told.carrying) == 100


def test_empty_chunks_are_tokens_when_the_count_says_so() -> None:
    chunks: list[tuple[float, int | None]] = [(11.0 + 0.01 * i, None) for i in range(100)]
    assert len(sample(chunks, usage=100, asked=100, last_is_empty=True).carrying) == 100
