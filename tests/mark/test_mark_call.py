"""What a call asks for and which phase it is, where everything lies on a GPU and nothing may be read from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mark_fakes import Cache, Unread, Values

from phasewise.mark.call import Call, read
from phasewise.mark.label import FEW, LAST_CHUNK, NO_CACHE, NO_LENGTH, NO_TOKENS, UNREAD, Label, Seen, label
from phasewise.record.trace import Tokens


def labelled(arguments: dict[str, Any], seen: Seen | None = None, **options: Any) -> Label:
    return label(read(arguments, **options), seen or Seen())


def counts(requests: int, tokens: int, context: int, squares: int, products: int) -> Tokens:
    return Tokens(requests=requests, tokens=tokens, context=context, squares=squares, products=products)


@pytest.mark.parametrize("ids", ["input_ids", "inputs_embeds", "decoder_input_ids", "idx", "tokens"])
def test_a_prompt_is_prefill(ids: str) -> None:
    shape = (2, 100, 64) if ids == "inputs_embeds" else (2, 100)
    assert labelled({ids: Unread(*shape)}) == Label("prefill", prefill=counts(2, 200, 200, 20_000, 20_000))


@pytest.mark.parametrize("name", ["past_key_values", "cache", "cache_params"])
def test_one_token_after_a_cache_is_decode(name: str) -> None:
    found = labelled({"input_ids": Unread(4, 1), name: Cache(99)})
    assert found == Label("decode", decode=counts(4, 4, 400, 4, 400))


def test_an_empty_cache_is_none() -> None:
    assert labelled({"input_ids": Unread(1, 1), "cache": Cache(0)}).phase == "prefill"


def test_the_older_form_of_a_cache() -> None:
    keys = Unread(1, 8, 32, 64)
    found = labelled({"input_ids": Unread(1, 1), "past_key_values": ((keys, keys), (keys, keys))})
    assert found == Label("decode", decode=counts(1, 1, 33, 1, 33))


def test_a_chunk_of_a_prompt_is_prefill() -> None:
    found = labelled({"input_ids": Unread(1, 512), "cache": Cache(1024), "logits_to_keep": 1})
    assert found == Label("prefill", prefill=counts(1, 512, 1536, 512 * 512, 512 * 1536))


def test_a_step_whose_logits_are_all_asked_for_verifies_a_draft() -> None:
    found = labelled({"input_ids": Unread(1, 5), "cache": Cache(100), "logits_to_keep": 5})
    assert found == Label("decode", decode=counts(1, 5, 105, 25, 525), speculative=True)


def test_a_few_tokens_that_say_nothing_are_in_doubt() -> None:
    arguments = {"input_ids": Unread(1, 5), "cache": Cache(100)}
    assert labelled(arguments).phase == "prefill"
    found = labelled(arguments, Seen(length=100, chunks=1, decoded=True))
    assert (found.phase, found.speculative, found.doubt) == ("decode", True, FEW)
    assert labelled({**arguments, "logits_to_keep": 1}, Seen(100, 1, True)).phase == "prefill"
    assert labelled({"input_ids": Unread(1, 17), "cache": Cache(100)}, Seen(100, 1, True)).phase == "prefill"


def test_the_first_single_token_after_chunks_is_in_doubt() -> None:
    arguments = {"input_ids": Unread(1, 1), "cache": Cache(6)}
    assert labelled(arguments, Seen(6, chunks=2)).doubt == LAST_CHUNK
    assert labelled(arguments, Seen(6, chunks=1)).doubt == ""
    assert labelled(arguments, Seen(6, chunks=2, decoded=True)).doubt == ""


def test_a_static_cache_is_counted_here_or_by_the_mask() -> None:
    """Its length is a tensor on the GPU."""
    arguments = {"input_ids": Unread(1, 1), "cache": Cache(Unread()), "attention_mask": Unread(1, 1, 1, 64)}
    call = read(arguments, 40)
    assert call is not None
    assert (call.past, label(call, Seen()).phase) == (40, "decode")
    assert (
        labelled({"input_ids": Unread(1, 1), "cache": Cache(Unread()), "attention_mask": Unread(1, 9)}).phase
        == "decode"
    )
    call = read({"input_ids": Unread(1, 1), "cache": Cache(Unread()), "attention_mask": Unread(1, 9)})
    assert call is not None
    assert call.past == 8
    unknown = labelled({"input_ids": Unread(1, 8), "cache": Cache(Unread())})
    assert (unknown.phase, unknown.doubt) == ("prefill", NO_LENGTH)


def test_a_mask_on_the_gpu_leaves_the_counts_open() -> None:
    found = labelled({"input_ids": Unread(4, 32), "cache": Cache(0), "attention_mask": Unread(4, 32)})
    assert found == Label("prefill", prefill=Tokens())
    found = labelled({"input_ids": Unread(4, 1), "cache": Cache(32), "attention_mask": Unread(4, 33)})
    assert found == Label("decode", decode=Tokens())


def test_a_cache_of_states_has_no_length() -> None:
    found = labelled({"input_ids": Unread(1, 1), "cache": Cache(ValueError("only LinearAttention layers"))})
    assert found == Label("decode", decode=Tokens(requests=1, tokens=1))


def test_positions_tell_where_a_plain_module_is() -> None:
    """gpt-fast keeps its cache inside."""
    prompt = {"idx": Unread(1, 4), "input_pos": Values([0, 1, 2, 3])}
    step = {"idx": Unread(1, 1), "input_pos": Values([4])}
    assert labelled(prompt, shows_cache=False).phase == "prefill"
    assert labelled(step, shows_cache=False) == Label("decode", decode=counts(1, 1, 5, 1, 5))


def test_a_module_that_may_hide_its_cache_is_not_guessed_at() -> None:
    found = labelled({"tokens": Unread(1, 1)}, shows_cache=False)
    assert (found.phase, found.doubt) == ("unknown", NO_CACHE)


def test_no_tokens_no_phase() -> None:
    assert labelled({"pixel_values": Unread(1, 3, 224, 224)}) == Label("unknown", doubt=NO_TOKENS)


def test_a_packed_batch_is_judged_by_request() -> None:
    arguments = {
        "input_ids": Unread(1, 8),
        "cu_seq_lens_q": Values([0, 5, 6, 8]),
        "cu_seq_lens_k": Values([0, 5, 105, 307]),
    }
    found = labelled(arguments)
    assert found.phase == "mixed"
    assert found.prefill == counts(2, 7, 207, 29, 25 + 2 * 202)
    assert found.decode == counts(1, 1, 100, 1, 100)
    # transformers' continuous batching gives the keys of each kind of layer; those of a window forget.
    by_layer = {"sliding_attention": Values([0, 4, 8, 12]), "full_attention": arguments["cu_seq_lens_k"]}
    assert labelled({**arguments, "cu_seq_lens_k": by_layer}) == found


def test_a_packed_batch_on_the_gpu_is_known_by_what_the_host_was_told() -> None:
    one = {"input_ids": Unread(1, 8), "cu_seq_lens_q": Unread(9), "cu_seq_lens_k": Unread(9), "max_length_q": 1}
    assert labelled(one) == Label("decode", decode=Tokens(requests=8, tokens=8))
    fresh = {"input_ids": Unread(1, 80), "cu_seqlens": Unread(3), "max_seqlen_q": 50}
    assert labelled(fresh) == Label("prefill", prefill=Tokens(requests=2, tokens=80))
    mixed = {"input_ids": Unread(1, 80), "cu_seq_lens_q": Unread(3), "cu_seq_lens_k": Unread(3), "max_length_q": 50}
    assert labelled(mixed) == Label("unknown", doubt=UNREAD)


def test_what_is_known_of_a_cache() -> None:
    seen = Seen(length=90, chunks=3, decoded=True)
    for tokens, past, known in (
        (4, 0, Seen(length=4, chunks=1, decoded=False)),
        (3, 4, Seen(length=7, chunks=2, decoded=False)),
        (1, 7, Seen(length=8, chunks=2, decoded=True)),
    ):
        call = read({"input_ids": Unread(1, tokens), "cache": Cache(past)})
        assert call is not None
        seen.take(call, label(call, seen))
        assert seen == known


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 5000)), min_size=1, max_size=20))
def test_a_packed_batch_adds_up(rows: list[tuple[int, int]]) -> None:
    """Every request is in one half, and the halves hold all tokens."""
    starts, ends = [0], [0]
    for new, past in rows:
        starts.append(starts[-1] + new)
        ends.append(ends[-1] + new + past)
    found = labelled(
        {"input_ids": Unread(1, starts[-1]), "cu_seq_lens_q": Values(starts), "cu_seq_lens_k": Values(ends)}
    )
    halves = [half for half in (found.prefill, found.decode) if half]
    assert sum(half.requests or 0 for half in halves) == len(rows)
    assert sum(half.tokens or 0 for half in halves) == starts[-1]
    assert sum(half.context or 0 for half in halves) == ends[-1]
    assert found.phase == ("mixed" if len(halves) == 2 else "decode" if found.decode else "prefill")
    assert (found.decode.requests if found.decode else 0) == sum(new == 1 and past > 0 for new, past in rows)


def test_a_call_that_was_never_seen_is_none() -> None:
    assert read({}) is None
    assert isinstance(read({"input_ids": Unread(7)}), Call)
