"""What marks cost: one use of `phase`, and `instrument` on the decode step of a transformers model, in one run.

    python benchmarks/mark.py [--model DIR] [--context 256] [--seconds 10]

Needs torch and transformers beside phasewise. It fails when marks take 1% of a step of the model in DIR, timed or not;
without --model a random Llama of 2 layers shows the worst case, a step of half a millisecond.

The cost is that of marks on a module that does nothing, called with the arguments of a real step right after one, so
that the processor's caches hold the model and not the marks: what PyTorch adds for having hooks at all is in it. The
same steps with and without marks, in turns, are the cross-check, and too noisy on a busy machine to be the answer.
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


class Nothing(torch.nn.Module):
    """A model of the same kind whose forward takes no time: what a call of it costs is what surrounds a forward."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, **arguments: Any) -> None:
        return None


def took(call: Any, arguments: dict[str, Any]) -> float:
    begin = time.perf_counter()
    call(**arguments)
    return time.perf_counter() - begin


def steps(model: Any, context: int, seconds: float) -> float:
    """Print what marks cost beside a decode step; the larger share of a step."""
    ids = torch.randint(0, 900, (1, context))
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    cache = transformers.DynamicCache(config=model.config)
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

    def step() -> float:
        found = took(model, call)
        cache.crop(-1)
        return found

    nothing, quiet, timed = Nothing(model.config), Nothing(model.config), Nothing(model.config)
    spans: dict[str, list[float]] = {key: [] for key in ("plain", "marked", "timed")}
    costs: dict[str, list[float]] = {key: [] for key in ("nothing", "marked", "timed")}
    end = time.perf_counter() + seconds
    with torch.inference_mode(), phasewise.instrument(quiet), phasewise.instrument(timed) as block, block.timed():
        model(input_ids=ids, **{name: cache})
        while time.perf_counter() < end:
            spans["plain"].append(step())
            costs["nothing"].append(took(nothing, call))
            with phasewise.instrument(model) as handle:
                spans["marked"].append(step())
                costs["marked"].append(took(quiet, call))
                with handle.timed():
                    spans["timed"].append(step())
                    costs["timed"].append(took(timed, call))
    one, idle = statistics.median(spans["plain"]), statistics.median(costs["nothing"])
    print(f"{'decode step':32} {one * 1e6:6.0f} us   context {context}, {len(spans['plain'])} steps of each kind")
    shares = []
    for key, text in (("marked", "marks, nobody listens"), ("timed", "marks, timed")):
        cost = statistics.median(costs[key]) - idle
        ratio = statistics.median(b / a for a, b in zip(spans["plain"], spans[key], strict=True))
        print(f"{text:32} {cost * 1e6:6.2f} us   {cost / one:7.3%} of a step; in turns {ratio:.3f} of one without")
        shares.append(cost / one)
    return max(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    uses()
    share = steps(load(options.model), options.context, options.seconds)
    if options.model and share >= 0.01:
        raise SystemExit(f"FAILED: marks take {share:.2%} of a step of {options.model}, and may take 1%")


if __name__ == "__main__":
    main()
