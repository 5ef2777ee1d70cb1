"""Checks of `instrument` on SmolLM2-135M, real weights in bf16; `test_mark_smollm2.py` runs them there.

``python mark_smollm2.py FOLDER`` runs every ``check_...`` and prints one JSON object: its name to "" or to what failed.
"""

from __future__ import annotations

import functools
import json
import sys
import traceback
import warnings
from typing import Any

import torch
import transformers
from mark_torch import CACHE, generated, kept, rows

import phasewise

LONG, SHORT = 150, 40
IDS = torch.randint(5, 40_000, (2, LONG), generator=torch.Generator().manual_seed(1))


@functools.cache
def model() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], local_files_only=True).eval()


def padded(side: str) -> torch.Tensor:
    """Row 0 has SHORT tokens, row 1 has LONG."""
    mask = torch.ones(2, LONG, dtype=torch.long)
    mask[0, slice(0, LONG - SHORT) if side == "left" else slice(SHORT, LONG)] = 0
    return mask


def alone(past: int, new: int) -> tuple[Any, ...]:
    """Σ of one request whose ``new`` tokens come after ``past``, as `rows` has them."""
    return 1, new, past + new, new * new, new * (past + new)


def both(step: int) -> tuple[Any, ...]:
    """Σ of the two rows of the padded batch: 0 for its prefill, else the step of decode."""
    short, long = SHORT + step, LONG + step
    if step == 0:
        return "prefill", 2, short + long, short + long, short**2 + long**2, short**2 + long**2
    return "decode", 2, 2, short + long, 2, short + long


def check_prefill_and_decode() -> None:
    found = [rows(one) for one in generated(model(), input_ids=IDS[1:], max_new_tokens=4)]
    assert found == [("prefill", *alone(0, LONG)), *(("decode", *alone(LONG + n, 1)) for n in range(3))], found


def check_logits_of_a_forward() -> None:
    """Bit for bit, with the marks timed and not, and after them."""
    with torch.inference_mode():
        plain = model()(input_ids=IDS, attention_mask=padded("left")).logits
        with phasewise.instrument(model()) as handle:
            assert torch.equal(plain, model()(input_ids=IDS, attention_mask=padded("left")).logits)
            with handle.timed():
                assert torch.equal(plain, model()(input_ids=IDS, attention_mask=padded("left")).logits)
        assert torch.equal(plain, model()(input_ids=IDS, attention_mask=padded("left")).logits)


def check_chunked_prefill() -> None:
    labels = generated(model(), input_ids=IDS[1:], max_new_tokens=3, prefill_chunk_size=64)
    found = [rows(one) for one in labels]
    prompt = [("prefill", *alone(0, 64)), ("prefill", *alone(64, 64)), ("prefill", *alone(128, 22))]
    assert found == [*prompt, ("decode", *alone(LONG, 1)), ("decode", *alone(LONG + 1, 1))], found


def check_a_padded_batch() -> None:
    for side in ("left", "right"):
        found = [rows(one) for one in generated(model(), input_ids=IDS, attention_mask=padded(side), max_new_tokens=3)]
        assert found == [both(0), both(1), both(2)], (side, found)


def check_a_static_cache() -> None:
    told = {"input_ids": IDS, "attention_mask": padded("left"), "max_new_tokens": 3, "cache_implementation": "static"}
    found = [rows(one) for one in generated(model(), **told)]
    assert found == [both(0), both(1), both(2)], found


def check_a_static_cache_in_chunks() -> None:
    """A loop of one's own over a static cache longer than what is in it."""
    cache = transformers.StaticCache(config=model().config, max_cache_len=256)
    with torch.inference_mode(), phasewise.instrument(model()) as handle, handle.timed() as taken:
        for begin, end in ((0, 100), (100, LONG)):
            at = torch.arange(begin, end)
            out = model()(input_ids=IDS[1:, begin:end], **{CACHE: cache}, position_ids=at[None], logits_to_keep=1)
        model()(input_ids=IDS[1:, :1], **{CACHE: kept(out)}, position_ids=torch.tensor([[LONG]]), logits_to_keep=1)
    found = [rows(step.label) for step in taken.steps]
    assert found == [("prefill", *alone(0, 100)), ("prefill", *alone(100, 50)), ("decode", *alone(LONG, 1))], found


def check_profile_and_judged() -> None:
    with phasewise.instrument(model()) as handle:
        profile = handle.profile(prompt_tokens=64, answer_tokens=8)
    assert min(sum(profile.prefill.seconds), sum(profile.decode.seconds)) >= 0.2
    found = phasewise.judged(profile, on="h100-sxm")
    for figure in (found.prefill.mfu, found.decode.mbu):
        assert figure is not None
        assert 0 < figure.value < 1
    assert found.prefill.floor is not None
    assert found.prefill.floor.value < found.prefill.step.value


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    told = {}
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            try:
                check()
                told[name] = ""
            except BaseException:
                told[name] = traceback.format_exc()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
