"""What the plugin for vLLM adds to one step of the engine, while nobody listens and under PyTorch's profiler.

    python benchmarks/plugin.py [--requests 1 64 256 1024]

Needs torch beside phasewise, no vLLM: a worker that does nothing is told to run a step of so many generations, with the
plugin's wrapper before it and without. It fails when a step costs more than 10 us while nobody listens.
"""

from __future__ import annotations

import argparse
import logging
import sys
import timeit
from types import SimpleNamespace
from typing import Any

import torch

from phasewise.mark.engines.vllm import wrap

ALLOWED_US = 10.0


class Bare:
    """What stands before a worker in vLLM."""

    def __init__(self) -> None:
        self.worker = Worker()

    def execute_model(self, scheduler_output: Any) -> Any:
        return self.worker.execute_model(scheduler_output)

    def sample_tokens(self, grammar_output: Any) -> Any:
        return self.worker.sample_tokens(grammar_output)


class Marked(Bare):
    """The same with the plugin."""


class Worker:
    model_runner = None

    def annotate_profile(self, scheduler_output: Any) -> None:
        return None

    def execute_model(self, scheduler_output: Any) -> None:
        self.annotate_profile(scheduler_output)

    def sample_tokens(self, grammar_output: Any) -> str:
        return "tokens"


def step(requests: int, *, first: bool) -> Any:
    """vLLM's ``SchedulerOutput``: prompts of 1,000 tokens, or one generation of each."""
    names = [f"cmpl-{at:032x}-0" for at in range(requests)]
    new = [SimpleNamespace(req_id=name, prompt_token_ids=[0] * 1000, num_computed_tokens=0) for name in names]
    cached = SimpleNamespace(
        req_ids=[] if first else names,
        num_computed_tokens=[] if first else [1000] * requests,
        num_output_tokens=[] if first else [1] * requests,
        resumed_req_ids=set(),
        all_token_ids={},
    )
    return SimpleNamespace(
        scheduled_new_reqs=new if first else [],
        scheduled_cached_reqs=cached,
        num_scheduled_tokens=dict.fromkeys(names, 1000 if first else 1),
        scheduled_spec_decode_tokens={},
        finished_req_ids=set(),
    )


def cost(wrapper: Bare, requests: int, number: int) -> float:
    """Seconds of one step at its best."""
    wrapper.execute_model(step(requests, first=True))
    wrapper.sample_tokens(None)
    output = step(requests, first=False)

    def run() -> None:
        wrapper.execute_model(output)
        wrapper.sample_tokens(None)

    return min(timeit.repeat(run, number=number, repeat=7)) / number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, nargs="+", default=[1, 64, 256, 1024])
    wrap(Marked, logging.getLogger())
    worst = 0.0
    print(f"{'requests':>8} {'nobody listens':>16} {'PyTorch profiler':>18}")
    for requests in parser.parse_args().requests:
        quiet = (cost(Marked(), requests, 5000) - cost(Bare(), requests, 5000)) * 1e6
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            heard = (cost(Marked(), requests, 200) - cost(Bare(), requests, 200)) * 1e6
        print(f"{requests:8} {quiet:13.2f} us {heard:15.1f} us")
        worst = max(worst, quiet)
    return int(worst > ALLOWED_US)


if __name__ == "__main__":
    sys.exit(main())
