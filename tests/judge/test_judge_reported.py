"""Verdicts on other tools' results, against arithmetic of their own: Llama 3 8B in BF16 on an H100 SXM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import results_by_hand as hand
from phasewise.cli import run
from results_by_hand import ANSWER, PROMPT, RUNS, STEP, TOTAL, TTFT

pytestmark = pytest.mark.usefixtures("elsewhere")

SUBJECT = ("--model", "llama-3-8b", "--on", "h100-sxm")

# Llama 3 8B by hand: layers' weights 6.98e9, head 128,256 x 4,096, KV 131,072 bytes a token.
HEAD = 128_256 * 4096
LAYERS = 6_979_321_856
PEAK, BANDWIDTH = 989.4e12, 3.35e12
ATTENTION = 2 * 32 * 4096


def prefill_flops(tokens: float) -> float:
    return 2 * LAYERS * tokens + 2 * HEAD + ATTENTION * tokens * (tokens + 1)


def decode_bytes(context: float, batch: float = 1) -> float:
    return 2 * (LAYERS + HEAD) + batch * 131_072 * context


def judged(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, *flags: str, code: int = 0) -> Any:
    path = tmp_path / "results"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    assert run(["judge", str(path), *(flags or SUBJECT), "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", [name for name in hand.everything() if not name.startswith("llama_bench_")])
def test_one_truth_has_one_verdict_whatever_the_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    found = judged(tmp_path, capsys, hand.everything()[name])
    assert found["prefill"]["mfu"] == pytest.approx(prefill_flops(PROMPT) / TTFT / PEAK, rel=0.01)
    assert found["decode"]["mbu"] == pytest.approx(decode_bytes(PROMPT + ANSWER / 2) / STEP / BANDWIDTH, rel=0.01)
    assert found["prefill"]["bound"] == "compute"
    assert found["decode"]["bound"] == "memory"
    if name != "llama_benchy_table":  # whose two lines are two rows
        assert found["split"]["decode_share"] == pytest.approx(1 - TTFT / TOTAL, rel=1e-3)
    assert found["verdict"]["owner"] == "decode"
    assert found["provenance"]["decode.step_s"]["provenance"] == "reported"
    assert found["provenance"]["decode.floor_s"]["provenance"] == "predicted"


@pytest.mark.parametrize("form", hand.llama_bench_files())
def test_llama_bench_has_two_rows_and_one_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    found = judged(tmp_path, capsys, hand.llama_bench_files()[form])
    assert found["prefill"]["mfu"] == pytest.approx(prefill_flops(PROMPT) / TTFT / PEAK, rel=0.01)
    assert found["decode"]["mbu"] == pytest.approx(decode_bytes(99 / 2) / STEP / BANDWIDTH, rel=0.01)
    assert (found["split"]["prompt_tokens"], found["split"]["answer_tokens"]) == (PROMPT, 100)
    assert found["verdict"]["owner"] == "decode"


def test_a_mean_batch_of_many_reads_its_own_kv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = hand.vllm(max_concurrency=16, duration=RUNS * TOTAL / 16)
    found = judged(tmp_path, capsys, many)
    batch = 16 / TOTAL * 100 * STEP
    assert found["rows"][0]["decode"]["batch"] == pytest.approx(batch)
    assert found["decode"]["mbu"] == pytest.approx(
        decode_bytes(PROMPT + ANSWER / 2, batch) / STEP / BANDWIDTH, rel=0.01
    )
    assert found["rows"][0]["decode"]["at_least"] is True
    assert found["prefill"]["mfu"] is None
    assert "one request at a time" in found["reasons"]["prefill.mfu"]
    assert "holds the queue" in found["verdict"]["text"]


def test_a_batch_that_no_bandwidth_serves_rings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 60 requests at 1,050 tokens read 8.3 GB of KV beside 15 GB of weights: 6.9 ms at 3.35 TB/s, not 6.
    found = judged(tmp_path, capsys, hand.vllm(max_concurrency=64, duration=RUNS * TOTAL / 64), code=3)
    assert found["alarms"]


def test_a_queue_owns_ttft_and_is_not_taken_for_prefill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queued = hand.vllm(max_concurrency=64, median_ttft_ms=3000.0, mean_ttft_ms=3000.0, duration=RUNS * (3.0 + 0.6) / 64)
    found = judged(tmp_path, capsys, queued)
    assert found["verdict"]["owner"] == "prefill"
    assert found["verdict"]["bound"] == "unknown"
    assert "queue and prefill" in found["verdict"]["text"]
    assert all(fix["phase"] != "prefill" for fix in found["fixes"])


def test_a_sweep_over_concurrency_shows_the_scaling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for many in (1, 8, 32):
        step = STEP * (1 + 0.01 * many)
        total = TTFT + 100 * step
        lines.append(
            json.dumps(
                hand.vllm(
                    max_concurrency=many,
                    duration=RUNS * total / many,
                    mean_tpot_ms=step * 1e3,
                    median_tpot_ms=step * 1e3,
                    median_itl_ms=step * 1e3,
                )
            )
        )
    found = judged(tmp_path, capsys, "\n".join(lines))
    assert [one["batch"] for one in found["scaling"]] == sorted(one["batch"] for one in found["scaling"])
    first, _, last = found["scaling"]
    assert first["gain"] == 1.0
    assert last["gain"] == pytest.approx(last["batch"] / last["step_s"] * first["step_s"] / first["batch"])
    context = PROMPT + ANSWER / 2
    expected = last["batch"] * decode_bytes(context) / decode_bytes(context, last["batch"])
    assert last["gain_predicted"] == pytest.approx(expected, rel=0.01)
    # The row at one request speaks for both phases.
    assert found["prefill"]["row"] == found["decode"]["row"] == "concurrency 1"


def test_several_lengths_tell_overhead_from_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 80 ms of overhead beside kernels that run at 70% of the peak: one length could not tell, four can.
    tests = []
    for tokens in (512, 1024, 2048, 4096):
        seconds = 0.080 + prefill_flops(tokens) / (0.7 * PEAK)
        tests.append(hand.llama_bench(tokens, rate=tokens / seconds))
    found = judged(tmp_path, capsys, tests)
    shares = {one["name"]: one["seconds"] for one in found["prefill"]["shares"]}
    assert shares["overhead"] == pytest.approx(0.080, rel=0.05)
    assert found["prefill"]["bound"] == "overhead"
    assert found["provenance"]["prefill.step_s"]["provenance"] == "reported"
    assert all(
        found["provenance"][f"prefill.shares.{i}.seconds"]["provenance"] in ("reported", "predicted") for i in range(3)
    )


def test_several_depths_tell_what_a_byte_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = []
    for depth in (0, 8192, 16384, 32768):
        seconds = 0.004 + decode_bytes(depth + 63.5) / (0.9 * BANDWIDTH)
        tests.append(hand.llama_bench(0, 128, depth, rate=1 / seconds))
    found = judged(tmp_path, capsys, tests)
    shares = {one["name"]: one["seconds"] for one in found["decode"]["shares"]}
    assert shares["overhead"] == pytest.approx(0.004, rel=0.05)
    assert found["decode"]["bound"] == "memory"


def test_a_figure_over_the_ceiling_rings_whatever_the_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = [hand.llama_bench(), hand.llama_bench(0, 100), hand.llama_bench(512, rate=512 / 0.001)]
    found = judged(tmp_path, capsys, tests, code=3)
    assert found["alarms"]
    assert found["verdict"]["owner"] is None
    assert found["fixes"] == []


def test_names_in_the_file_are_taken_by_the_catalogues_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = judged(tmp_path, capsys, hand.aiperf(), "--devices", "1")
    assert found["model"]["name"] == "llama-3-8b"
    assert found["accelerator"]["name"] == "h100-sxm"
    assert any("--model says otherwise" in note for note in found["notes"])


def test_unknown_names_give_times_and_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = hand.aiperf(telemetry_data=None)
    unknown["input_config"]["endpoint"]["model_names"] = ["acme/../../etc/passwd"]
    found = judged(tmp_path, capsys, unknown, "--devices", "1")
    assert found["prefill"]["step_s"] == pytest.approx(TTFT)
    assert found["prefill"]["mfu"] is None
    assert "--model" in found["reasons"]["prefill.mfu"]
    assert "--on" in found["reasons"]["prefill.mfu"]
    assert found["split"]["owner"] == "decode"
    assert found["verdict"]["owner"] == "decode"


def test_weights_that_are_not_the_models_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = [hand.llama_bench() | {"model_size": 4_920_000_000}]
    found = judged(tmp_path, capsys, tests)
    assert any("4.92 GB of weights" in note for note in found["notes"])
    assert not any("GB of weights" in note for note in judged(tmp_path, capsys, [hand.llama_bench()])["notes"])


def test_a_file_that_contradicts_itself_is_disbelieved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(tmp_path, capsys, hand.vllm(mean_e2el_ms=10 * TOTAL * 1e3), code=3)
    assert found["prefill"]["believed"] is False
    assert found["fixes"] == []
    assert found["verdict"]["owner"] is None


def test_a_prefix_that_was_cached_is_less_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(tmp_path, capsys, hand.llama_cpp(cached=1000))
    work = prefill_flops(2 * PROMPT) - prefill_flops(PROMPT) + 2 * HEAD
    assert found["prefill"]["mfu"] == pytest.approx(work / TTFT / PEAK, rel=0.01)


def test_what_no_phase_can_be_told_from_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(tmp_path, capsys, {"avg_latency": 1.0, "latencies": [1.0], "percentiles": {}})
    assert found["verdict"]["owner"] is None
    assert "neither phase can be told" in found["verdict"]["text"]
    assert found["prefill"]["mfu"] is None
    assert found["reasons"]["prefill.mfu"]


def test_what_ran_on_the_cpu_is_not_judged_as_the_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """llama-bench lists the machine's GPUs whatever it ran on (public report P014: a "CUDA" run at 10% of the roof)."""
    ran = [hand.llama_bench(0, 100) | {"n_gpu_layers": 0}]
    alone = judged(tmp_path, capsys, ran, "--model", "llama-3-8b")
    assert alone["decode"]["mbu"] is None
    assert "accelerator is not known" in json.dumps(alone["reasons"])
    told = judged(tmp_path, capsys, ran, "--model", "llama-3-8b", "--on", "h100-sxm")
    assert told["decode"] is None or told["decode"]["mbu"] is None
    assert "ran on the CPU, not on h100-sxm" in told["verdict"]["text"]


def test_a_model_partly_on_the_gpu_reaches_at_least_its_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half, whole = (
        judged(tmp_path, capsys, [hand.llama_bench(0, 100, rate=40) | {"n_gpu_layers": n}], "--model", "llama-3-8b")
        for n in (16, 32)
    )
    assert half["decode"]["mbu"] == whole["decode"]["mbu"]
    assert half["decode"]["bound"] == "unknown"
    assert whole["decode"]["bound"] != "unknown"
    assert "only 16 of 32 layers" in " ".join(half["decode"]["notes"])
    assert "at least" in half["verdict"]["text"]


def test_a_cache_in_fewer_bits_is_fewer_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """32,768 tokens of context: 16.06 GB of weights less the embedding, and 4.29 GB of KV in 16 bits, 2.28 in q8_0."""
    long = hand.llama_bench(0, 100, depth=32768)
    usual, small = (
        judged(tmp_path, capsys, [long | {"type_k": kv, "type_v": kv}], "--model", "llama-3-8b")["decode"]["floor_s"]
        for kv in ("f16", "q8_0")
    )
    saved = 2 * 32 * 8 * 128 * (2 - 34 / 32) * (32768 + 99 / 2)  # a block of 32 in q8_0 has 34 bytes
    assert usual - small == pytest.approx(saved / 3.35e12, rel=0.01)


def test_what_owns_the_time_is_a_sentence_without_a_model_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [hand.llama_bench(), hand.llama_bench(0, 101)]
    mine = [one | {"model_filename": "mine.gguf"} for one in both]
    text = judged(tmp_path, capsys, mine, "--on", "h100-sxm")["verdict"]["text"]
    assert "request (640 ms); a step of it takes 6.00 ms; what it is bound on cannot be said: " in text
