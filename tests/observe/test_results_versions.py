"""Older and other versions of the tools' files, and what llama-bench says of where it ran.

Schemas: SGLang bench_serving.py before it wrote rates, the first AIPerf records (its tutorial on profile exports),
GuideLLM 0.2.1 benchmark/benchmark.py, GenAI-Perf csv_exporter.py, vLLM --percentile-metrics, llama.cpp's llama-bench.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import results_by_hand as hand
from phasewise.errors import InputError
from phasewise.observe.results.read import MOST_ROWS, read
from phasewise.record.results import Reported
from results_by_hand import ANSWER, PROMPT, RUNS, STEP, TOTAL, TTFT


def said(tmp_path: Path, content: object) -> Reported:
    path = tmp_path / "results"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read(path)


def without(tree: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if not any(name in key for name in names)}


SGLANG_OLD = {
    "backend": "sglang",
    "request_rate": 4.0,
    "total_input_tokens": RUNS * PROMPT,
    "total_output_tokens": RUNS * ANSWER,
    "total_output_tokens_retokenized": RUNS * ANSWER,
    "mean_e2e_latency_ms": TOTAL * 1e3,
    "median_e2e_latency_ms": TOTAL * 1e3,
    "median_ttft_ms": TTFT * 1e3,
    "median_itl_ms": STEP * 1e3,
    "output_throughput": ANSWER / TOTAL,
    "duration": RUNS * TOTAL,
    "completed": RUNS,
}


def test_the_first_sglang_files_give_no_rate_and_no_tpot(tmp_path: Path) -> None:
    (row,) = said(tmp_path, SGLANG_OLD).rows
    assert row.decode is not None
    assert row.decode.time.value == pytest.approx(STEP)  # (640 - 40) / 100 ms
    assert row.ttft is not None
    assert row.ttft.value == pytest.approx(TTFT)
    assert row.prefill is None  # nothing says that requests ran alone


def test_a_vllm_run_that_was_not_asked_for_tpot_still_tells_a_step(tmp_path: Path) -> None:
    """--percentile-metrics ttft,e2el: the mean answer after its first token, (640 - 40) / 100 = 6 ms."""
    (row,) = said(tmp_path, without(hand.vllm(mean_e2el_ms=TOTAL * 1e3), "tpot")).rows
    assert row.decode is not None
    assert row.decode.time.value == pytest.approx(STEP)
    assert "mean_e2el_ms" in row.decode.time.source
    (bare,) = said(tmp_path, without(hand.vllm(), "tpot")).rows
    assert bare.decode is None


@pytest.mark.parametrize("ends", [True, False])
def test_the_first_aiperf_records_call_ttft_otherwise(tmp_path: Path, ends: bool) -> None:
    records = copy.deepcopy(hand.aiperf_records(gap=0.1))
    for one in records:
        about, metrics = one["metadata"], one["metrics"]
        metrics["ttft"] = metrics.pop("time_to_first_token")
        if not ends:
            about["timestamp_ns"] = about.pop("request_start_ns")
            del about["request_end_ns"]
            metrics["request_latency"] = {"value": TOTAL * 1e3, "unit": "ms"}
            about["credit_phase"] = about.pop("benchmark_phase")
    warmup = copy.deepcopy(records[0])
    warmup["metadata"]["benchmark_phase" if ends else "credit_phase"] = "warmup"
    (row,) = said(tmp_path, "\n".join(json.dumps(one) for one in [warmup, *records])).rows
    assert row.prefill is not None
    assert row.prefill.time.value == pytest.approx(TTFT)
    assert row.decode is not None
    assert row.decode.time.value == pytest.approx(STEP)
    assert f"median of {RUNS:,} requests" in row.prefill.time.source


def test_a_csv_of_aiperf_or_genai_perf_says_what_its_json_says(tmp_path: Path) -> None:
    text = (
        "Metric,avg,min,max,p99,p50\n"
        f"Time To First Token (ms),{TTFT * 1e3},1,1,1,{TTFT * 1e3}\n"
        f"Inter Token Latency (ms),{STEP * 1e3},1,1,1,{STEP * 1e3}\n"
        f"Request Latency (ms),{TOTAL * 1e3},1,1,1,{TOTAL * 1e3}\n"
        f'Input Sequence Length (tokens),"{PROMPT:,}",1,1,1,{PROMPT}\n'
        f"Output Sequence Length (tokens),{ANSWER},1,1,1,{ANSWER}\n"
        "\nMetric,Value\n"
        f"Request Throughput (requests/sec),{1 / TOTAL}\nRequest Count,{RUNS}\n"
    )
    (row,) = said(tmp_path, text).rows
    assert (row.prompt_tokens, row.answer_tokens) == (PROMPT, ANSWER)
    assert row.decode is not None
    assert row.decode.time.value == pytest.approx(STEP)
    assert row.ttft is not None
    assert row.ttft.value == pytest.approx(TTFT)


@pytest.mark.parametrize("itl", [True, False])
def test_until_guidellm_03_tpot_held_no_ttft(tmp_path: Path, itl: bool) -> None:
    tree = hand.guidellm(itl=itl)
    (one,) = tree["benchmarks"]
    metrics = one["metrics"]
    per_token = (TOTAL - TTFT) / ANSWER * 1e3
    metrics["time_per_output_token_ms"]["successful"] |= {"mean": per_token, "median": per_token}
    one |= {
        "run_stats": {},
        "args": {"strategy": one.pop("config")["strategy"]},
        "request_totals": metrics.pop("request_totals"),
        "worker": {"backend_model": "meta-llama/Meta-Llama-3-8B"},
    }
    found = said(tmp_path, {"benchmarks": [one]})
    (row,) = found.rows
    assert found.model == "meta-llama/Meta-Llama-3-8B"
    assert row.decode is not None
    assert row.decode.time.value == pytest.approx(STEP)
    (theirs,) = [figure for figure in row.figures if figure.called == "time_per_output_token_ms.mean"]
    assert theirs.defined == "(last token - first) / tokens"


@pytest.mark.parametrize(
    ("content", "cure"),
    [
        ({"experiments": [], "version": "2.59", "service_kind": "openai"}, "profile_export_genai_perf.json"),
        ({"records": {}, "error_summary": [], "input_config": {}}, "no request succeeded"),
        ([{"benchmark": {}, "model": {}, "metric": {"name": "mean_ttft_ms"}}], "without .pytorch"),
        ([hand.vllm(model_id="a/b"), hand.vllm(model_id="c/d")], "2 models ('a/b', 'c/d')"),
        ([hand.sglang(model="a/b"), hand.sglang(model="c/d")], "2 models"),
        ([hand.vllm()] * (MOST_ROWS + 1), "more than 1,000"),
    ],
)
def test_what_is_no_one_result_is_refused_with_the_cure(tmp_path: Path, content: object, cure: str) -> None:
    with pytest.raises(InputError) as refused:
        said(tmp_path, content)
    assert cure in str(refused.value)


# llama-bench

GPUS = ", ".join(["NVIDIA H100 80GB HBM3"] * 4)


@pytest.mark.parametrize(
    ("ran", "devices"),
    [
        ({}, 4),
        ({"split_mode": "none"}, 1),
        ({"devices": "auto", "split_mode": "layer"}, 4),
        ({"devices": "CUDA0"}, 1),
        ({"devices": "CUDA1/CUDA3", "split_mode": "row"}, 2),
    ],
)
def test_the_devices_are_those_that_it_used(tmp_path: Path, ran: dict[str, str], devices: int) -> None:
    found = said(tmp_path, [hand.llama_bench() | {"gpu_info": GPUS} | ran])
    assert (found.devices, found.accelerators) == (devices, ("NVIDIA H100 80GB HBM3",))
    # Several take turns unless told otherwise: split_mode layer is llama.cpp's own choice.
    (step,) = (one for one in (found.rows[0].prefill, found.rows[0].decode) if one)
    turns = devices > 1 and ran.get("split_mode") != "row"
    assert (step.at_once is not None) == turns == ("one after the other" in " ".join(step.notes))


@pytest.mark.parametrize(
    ("ran", "layers"),
    [
        ({"n_gpu_layers": 99}, None),
        ({"n_gpu_layers": -1}, None),
        ({"n_gpu_layers": 16}, 16),
        ({"n_gpu_layers": 0}, 0),
        ({"n_gpu_layers": 99, "devices": "none"}, 0),
        ({"backends": "CPU"}, 0),
        ({"n_gpu_layers": 99, "n_cpu_moe": 30}, 1),
        ({"n_gpu_layers": 99, "n_cpu_moe": 0}, None),
        ({"n_gpu_layers": 99, "tensor_buft_overrides": "none", "no_kv_offload": False}, None),
        ({"n_gpu_layers": 99, "no_kv_offload": True}, 1),
    ],
)
def test_layers_on_the_accelerator(tmp_path: Path, ran: dict[str, object], layers: int | None) -> None:
    found = said(tmp_path, [hand.llama_bench() | ran])
    assert found.rows[0].gpu_layers == layers
    assert (found.accelerators == ()) == (layers == 0)


def test_settings_that_vary_tell_rows_apart(tmp_path: Path) -> None:
    tests = [hand.llama_bench(0, 100) | {"n_gpu_layers": n, "type_k": "f16"} for n in (10, 99)]
    assert [row.label for row in said(tmp_path, tests).rows] == ["tg100, ngl 10", "tg100, ngl 99"]


def test_the_format_of_the_kv_cache_is_taken_when_it_is_one(tmp_path: Path) -> None:
    def kv(*formats: tuple[str, str]) -> str:
        return said(tmp_path, [hand.llama_bench() | {"type_k": k, "type_v": v} for k, v in formats]).kv

    assert kv(("q8_0", "q8_0")) == "q8_0"
    assert kv(("f16", "f16")) == kv(("q8_0", "f16")) == kv(("q8_0", "q8_0"), ("q4_0", "q4_0")) == ""


def test_a_pass_reads_the_weights_once_for_each_physical_batch(tmp_path: Path) -> None:
    (row,) = said(tmp_path, [hand.llama_bench(4096) | {"n_batch": 2048, "n_ubatch": 512}]).rows
    assert row.prefill is not None
    assert "batches of 512 tokens" in " ".join(row.prefill.notes)


OLD_TABLE = """ggml_init_cublas: found 1 CUDA devices:
  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9
| model                | size     | params | backend | ngl | test   | t/s           |
| -------------------- | -------: | -----: | ------- | --: | -----: | ------------: |
| llama 7B mostly Q4_0 | 3.56 GiB | 6.74 B | CUDA    |  99 | pp 512 | 4000.00 ± 5.0 |
| llama 7B mostly Q4_0 | 3.56 GiB | 6.74 B | CUDA    |  99 | tg 128 |  150.00 ± 0.1 |
"""


def test_a_table_of_2023_with_the_lines_above_it(tmp_path: Path) -> None:
    found = said(tmp_path, OLD_TABLE)
    assert [row.label for row in found.rows] == ["pp512", "tg128"]
    assert (found.accelerators, found.devices) == (("NVIDIA GeForce RTX 4090",), 1)
    with pytest.raises(InputError, match="2 models"):
        said(tmp_path, OLD_TABLE + OLD_TABLE.splitlines()[-1].replace("7B", "13B") + "\n")
