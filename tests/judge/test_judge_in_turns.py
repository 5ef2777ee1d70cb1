"""Devices that hold some layers each work one after the other: what one step is held against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import results_by_hand as hand
from phasewise.cli import run

BANDWIDTH = 3.35e12
"""Of one H100 SXM, by its datasheet."""

WEIGHTS = 2 * (8_030_261_248 - 128_256 * 4096)
"""Bytes that a decode step reads: all but the embedding table, in 16 bits."""

KV = 131_072


def judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *tests: dict[str, Any], devices: int = 4
) -> dict[str, Any]:
    file = tmp_path / "bench.json"
    gpus = ", ".join(["NVIDIA H100 80GB HBM3"] * devices)
    file.write_text(json.dumps([test | {"gpu_info": gpus} for test in tests]))
    where = ("--model", "llama-3-8b", "--on", "h100-sxm", "--devices", str(devices), "--out", str(tmp_path))
    assert run(["judge", str(file), *where, "--json"]) in (0, 3)
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("split", "shared"), [("layer", 1), (None, 1), ("row", 4)])
def test_decode_is_held_against_one_of_the_devices_that_take_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], split: str | None, shared: int
) -> None:
    """10 ms a step: 15.0 GB and the KV cache over 10 ms over 3.35 TB/s is 45%, of four at once 11%."""
    test = hand.llama_bench(0, 101, rate=100.0) | ({"split_mode": split} if split else {})
    found = judged(tmp_path, capsys, test)
    bytes_ = WEIGHTS + 50 * KV
    assert found["decode"]["mbu"] == pytest.approx(bytes_ / 10e-3 / (shared * BANDWIDTH), rel=0.01)
    said = json.dumps(found)
    assert ("take turns" in said) == ("one after the other" in said) == (shared == 1)
    assert ("add up their parts" in said) == (shared == 4)


@pytest.mark.parametrize(("prompt", "busy"), [(512, 1.0), (2048, 16 / 7), (8192, 64 / 19)])
def test_a_prompt_keeps_as_many_busy_as_its_micro_batches_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prompt: int, busy: float
) -> None:
    """k micro-batches of 512 through 4 devices take k + 3 turns, not 4·k: 1, 4 and 16 of them 4, 7 and 19."""
    took = prompt / 1000 * 0.1
    test = hand.llama_bench(prompt, 0, rate=prompt / took) | {"n_batch": 8192, "split_mode": "layer"}
    alone = judged(tmp_path, capsys, test, devices=1)["prefill"]["mfu"]
    assert judged(tmp_path, capsys, test)["prefill"]["mfu"] == pytest.approx(alone / busy, rel=1e-6)


def test_several_contexts_meet_the_same_ceilings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = [hand.llama_bench(0, 101, depth, rate=1 / (10e-3 + depth * 1e-7)) for depth in (0, 4096, 16384)]
    turns = judged(tmp_path, capsys, *(test | {"split_mode": "layer"} for test in tests))
    alone = judged(tmp_path, capsys, *tests, devices=1)
    for name in ("mbu", "bound"):
        assert turns["decode"][name] == alone["decode"][name]


def test_nothing_is_over_the_roof_that_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """90% of one device's bandwidth: no alarm, and not the 22% that four at once would make of it."""
    step = WEIGHTS / (0.9 * BANDWIDTH)
    found = judged(tmp_path, capsys, hand.llama_bench(0, 100, rate=1 / step) | {"split_mode": "layer"})
    assert found["decode"]["mbu"] == pytest.approx(0.9, rel=0.01)
    assert found["decode"]["bound"] == "memory"


@pytest.mark.parametrize("size", [None, 0, 1, 4096])
def test_a_micro_batch_of_any_size_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str], size: object) -> None:
    test = hand.llama_bench(2048, 0, rate=2048 / 0.2) | {"n_ubatch": size, "split_mode": "layer"}
    assert 0 < judged(tmp_path, capsys, test)["prefill"]["mfu"] < 1
