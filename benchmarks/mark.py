"""What marks cost: one use of `phase`, and `instrument` on the decode step of a transformers model, in one run.

    python benchmarks/mark.py [--model DIR] [--context 256] [--seconds 10]

Needs torch and transformers beside phasewise. Without --model: a random Llama of 2 layers, whose step is so short that
the share is the worst case. The cost of the hooks is taken by calling them alone on the arguments of a real step; the
same steps with and without them, in turns, are the cross-check, and too noisy on a busy machine to be the answer.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import time
import timeit
from typing import Any

import torch
import transformers
from torch.profiler import record_function

import phasewise
from phasewise.mark.instrument import Instrument


def cost(call: Any, number: int = 20_000, repeat: int = 7) -> float:
    """Seconds of one call at its best."""
    return min(timeit.repeat(call, number=number, repeat=repeat)) / number


def uses() -> None:
    def marked() -> None:
        with phasewise.phase("prefill", tokens=2000, requests=1):
            pass

    def recorded() -> None:
        with record_function("prefill"):
            pass

    decorated = phasewise.phase("decode")(lambda: None)
    bare = cost(recorded, 5_000)
    for name, call in (("with phase(...)", marked), ("@phase", decorated)):
        seconds = cost(call)
        print(f"{name:32} {seconds * 1e6:6.2f} us   {seconds / bare:6.1%} of a bare record_function")
    print(f"{'record_function, no profiler':32} {bare * 1e6:6.2f} us")


def load(directory: str | None) -> Any:
    if directory:
        return transformers.AutoModelForCausalLM.from_pretrained(directory, local_files_only=True).eval()
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000
    )
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def steps(model: Any, context: int, seconds: float) -> None:
    ids = torch.randint(0, 900, (1, context))
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    cache = transformers.DynamicCache(config=model.config)
    with torch.inference_mode():
        model(input_ids=ids, **{name: cache})
    # As generate() calls it: a mask of ones, the position, one token; the cache is cropped so that steps are alike.
    call = {
        "input_ids": ids[:, :1],
        name: cache,
        "attention_mask": torch.ones(1, context + 1, dtype=torch.long),
        "position_ids": torch.tensor([[context]]),
        "logits_to_keep": 1,
        "use_cache": True,
        "return_dict": True,
    }

    def one() -> float:
        begin = time.perf_counter()
        model(**call)
        took = time.perf_counter() - begin
        cache.crop(-1)
        return took

    handle = Instrument(model)
    quiet = cost(lambda: (handle._pre(model, (), call), handle._post(model, (), call, None)), 2_000)
    with handle.timed():
        loud = cost(lambda: (handle._pre(model, (), call), handle._post(model, (), call, None)), 500)
    handle.remove()

    plain: list[float] = []
    marked: list[float] = []
    timed: list[float] = []
    end = time.perf_counter() + seconds
    with torch.inference_mode():
        while time.perf_counter() < end:
            plain.append(one())
            with phasewise.instrument(model) as handle:
                marked.append(one())
                with handle.timed():
                    timed.append(one())
    step = statistics.median(plain)
    print(f"{'decode step':32} {step * 1e6:6.0f} us   context {context}, {len(plain)} steps of each kind")
    print(f"{'hooks, nobody listens':32} {quiet * 1e6:6.2f} us   {quiet / step:6.2%} of a step")
    print(f"{'hooks, timed':32} {loud * 1e6:6.2f} us   {loud / step:6.2%} of a step")
    for text, found in (("marked over plain, in turns", marked), ("timed over plain, in turns", timed)):
        ratios = [b / a for a, b in zip(plain, found, strict=True)]
        print(f"{text:32} {statistics.median(ratios):6.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    uses()
    steps(load(options.model), options.context, options.seconds)


if __name__ == "__main__":
    main()
