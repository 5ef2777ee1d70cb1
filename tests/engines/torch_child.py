"""Stands in for ``phasewise.mark.local_child``: the same lines, with times that are planted and no torch."""

from __future__ import annotations

import json
import os
import sys
import time

INTRODUCTION = {
    "type": "introduction",
    "engine": "transformers 9, torch 9",
    "model": "PlantedForCausalLM",
    "device": "cpu",
    "device_name": "",
    "dtype": "bf16",
    "attention": "sdpa",
    "threads": 3,
    "parameters": 1000,
    "vocabulary": 32000,
    "max_context": 512,
}


def say(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main() -> None:
    settings = json.loads(sys.argv[1])
    way = os.path.basename(settings["directory"])
    if way == "unknown":
        say(type="failure", text="ValueError: The checkpoint has model type `zzz`\x1b[31m", memory=False)
        return
    if way == "stillborn":
        sys.exit("no such library")
    if way == "babble":
        sys.stdout.write("Loading weights: 100%\n")
        sys.stdout.flush()
    else:
        say(**INTRODUCTION)
    jitter = [0, 1e-4, -2e-4, 2e-4, 3e-5, -1e-4, -5e-5]
    for number, line in enumerate(sys.stdin):
        ask = json.loads(line)
        if way == "memory":
            say(type="failure", text="CUDA out of memory.", memory=True)
        elif way == "dies":
            os.kill(os.getpid(), 9)
        elif way == "short":
            say(type="answered", began=1.0, tokens=[2.0], ended=3.0)
        elif way == "stuck":
            time.sleep(600)
        else:
            # A prompt takes 1/64 s for each token, and each token after the first 1/8 s; but for some jitter.
            began = float(round(time.perf_counter() * 64)) / 64
            first = began + len(ask["prompts"][0]) / 64 * (1 + jitter[number % 7])
            tokens = [first + i / 8 for i in range(ask["tokens"])]
            say(type="answered", began=began, tokens=tokens, ended=tokens[-1])


if __name__ == "__main__":
    main()
