"""vLLM's own schedulers without an engine, a life of requests at random: our names against the scheduler's record.

Run by the engines' Python: ``vllm_schedulers.py MODEL``, a folder with a config. It drives what no CPU engine runs:
scheduling ahead of the answers (async), and the outputs that the second model runner gets.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

import vllm_oracle
from phasewise.mark.engines.vllm import Marks

BLOCK, BLOCKS, STEPS = 16, 17, 1000


def scheduler(config: Any, *, ahead: bool, second_runner: bool, drafts: int) -> Any:
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
    config.cache_config.num_gpu_blocks = BLOCKS
    config.scheduler_config.async_scheduling = ahead
    made = (AsyncScheduler if ahead else Scheduler)(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(BLOCKS, [], [KVCacheGroupSpec(["layer"], spec)]),
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK,
    )
    made.use_v2_model_runner = second_runner
    made.num_spec_tokens = drafts
    if ahead:
        made._spec_token_placeholders = [-1] * drafts
    return made


def answered(chance: random.Random, output: Any, one: Any) -> ModelRunnerOutput:
    """What the model makes of a step: a token for each request that has computed all that is known, or drafts kept."""
    names = list(output.num_scheduled_tokens)
    sampled = []
    for name in names:
        drafts = len(output.scheduled_spec_decode_tokens.get(name, ()))
        whole = one.due.get(name, 0) <= one.computed[id(output)][name]
        sampled.append([chance.randrange(9) for _ in range(1 + chance.randint(0, drafts))] if whole else [])
    return ModelRunnerOutput(names, {name: at for at, name in enumerate(names)}, sampled)


class Told:
    """What a model runner knows of its requests by the scheduler's own objects."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}
        self.computed: dict[int, dict[str, int]] = {}

    def see(self, made: Any, output: Any) -> None:
        requests = {name: made.requests[name] for name in output.num_scheduled_tokens}
        come = {new.req_id for new in output.scheduled_new_reqs} | output.scheduled_cached_reqs.resumed_req_ids
        self.due |= {name: requests[name].num_tokens for name in come}
        self.computed[id(output)] = {name: request.num_computed_tokens for name, request in requests.items()}


def life(config: Any, seed: int, **kind: Any) -> list[str]:
    """The names of all steps that had tokens."""
    chance, made, found, told = random.Random(seed), scheduler(config, **kind), Marks(logging.getLogger()), Told()
    hasher, flight, names = get_request_block_hasher(BLOCK, sha256), deque[Any](), []
    depth, numbers = (2 if kind["ahead"] else 1), itertools.count()
    for _ in range(STEPS):
        if chance.random() < 0.25:
            shared = [7] * chance.choice((0, 16, 32, 64))
            prompt = shared + [chance.randrange(100) for _ in range(chance.randint(1, 70))]
            asked = SamplingParams(max_tokens=chance.randint(1, 60), stop_token_ids=[3], temperature=0)
            made.add_request(Request(f"r{seed}-{next(numbers)}", prompt, asked, None, block_hasher=hasher))
        if made.has_requests():
            output = made.schedule()
            told.see(made, output)
            found.begin(output)
            if (name := found._name(output)) is not None:
                names.append(name)
            found.end()
            flight.append(output)
        if len(flight) == depth or (flight and chance.random() < 0.1):
            output = flight.popleft()
            made.update_from_output(output, answered(chance, output, told))
            if kind["drafts"] and not kind["ahead"]:
                running = [one.request_id for one in made.running if not one.is_prefill_chunk]
                guessed = [[1] * chance.randint(0, kind["drafts"]) for _ in running]
                made.update_draft_token_ids(DraftTokenIds(running, guessed))
    assert not found._steps._broken
    return names


def main(model: str) -> None:
    init_none_hash(sha256)
    log = Path(tempfile.mkdtemp()) / "record.jsonl"
    os.environ["ORACLE_LOG"] = str(log)
    vllm_oracle.register()
    limits = {"max_model_len": 256, "max_num_batched_tokens": 64, "block_size": BLOCK, "max_num_seqs": 6}
    config = EngineArgs(model=model, skip_tokenizer_init=True, **limits).create_engine_config()
    report = []
    for ahead, second_runner, drafts in itertools.product((False, True), (False, True), (0, 3)):
        log.write_text("")
        names = life(config, len(report), ahead=ahead, second_runner=second_runner, drafts=drafts)
        truth = [json.loads(line) for line in log.read_text().splitlines()]
        wrong = [
            (at, mine, vllm_oracle.expected(rows))
            for at, (mine, rows) in enumerate(itertools.zip_longest(names, truth, fillvalue=[]))
            if mine != vllm_oracle.expected(rows)
        ]
        rows = [row for step in truth for row in step]
        report.append(
            {
                "ahead": ahead,
                "second_runner": second_runner,
                "drafts": drafts,
                "steps": len(names),
                "wrong": wrong,
                "preempted": max(row["preemptions"] for row in rows),
                "cached": sum(row["context"] > row["new"] for row in rows if row["phase"] == "prefill"),
                "single": sum(row["new"] == 1 for row in rows if row["phase"] == "prefill"),
                "drafted": sum(row["drafts"] > 0 for row in rows),
            }
        )
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1])
