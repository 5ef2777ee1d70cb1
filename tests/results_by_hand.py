"""Result files of every tool, made by hand in the schemas that their sources write, around one planted truth.

The truth: prompts of 1,000 tokens and answers of 101, TTFT 40 ms, a decode step of 6 ms, one request at a time; so a
request takes 40 + 100 · 6 = 640 ms. Each file says that in its own tool's words.
"""

from __future__ import annotations

import json
from typing import Any

from results_text_by_hand import (
    ANSWER,
    LLAMA_BENCHY_TABLE,
    LLAMA_CPP_LOG,
    LLAMA_CPP_SERVER_LOG,
    OLLAMA_TEXT,
    PROMPT,
    RUNS,
    SGLANG_PRINTED,
    STEP,
    TGI,
    TOTAL,
    TTFT,
    VLLM_PRINTED,
    inference_benchmarker,
)


def vllm(**changes: Any) -> dict[str, Any]:
    """vLLM bench serve (vllm/benchmarks/serve.py), without details."""
    return {
        "date": "20260101-000000",
        "endpoint_type": "openai",
        "backend": "openai",
        "model_id": "meta-llama/Meta-Llama-3-8B",
        "num_prompts": RUNS,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 1,
        "duration": RUNS * TOTAL,
        "completed": RUNS,
        "failed": 0,
        "total_input_tokens": RUNS * PROMPT,
        "total_output_tokens": RUNS * ANSWER,
        "request_throughput": 1 / TOTAL,
        "output_throughput": ANSWER / TOTAL,
        "total_token_throughput": (PROMPT + ANSWER) / TOTAL,
        "mean_ttft_ms": TTFT * 1e3,
        "median_ttft_ms": TTFT * 1e3,
        "std_ttft_ms": 0.0,
        "p99_ttft_ms": TTFT * 1e3,
        "mean_tpot_ms": STEP * 1e3,
        "median_tpot_ms": STEP * 1e3,
        "mean_itl_ms": STEP * 1e3,
        "median_itl_ms": STEP * 1e3,
        **changes,
    }


def sglang(**changes: Any) -> dict[str, Any]:
    """SGLang bench_serving (python/sglang/benchmark/metrics.py)."""
    return {
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": 1,
        "duration": RUNS * TOTAL,
        "completed": RUNS,
        "total_input": RUNS * PROMPT,
        "total_output": RUNS * ANSWER,
        "total_output_retokenized": RUNS * ANSWER,
        "request_throughput": 1 / TOTAL,
        "input_throughput": PROMPT / TOTAL,
        "output_throughput": ANSWER / TOTAL,
        "total_throughput": (PROMPT + ANSWER) / TOTAL,
        "mean_ttft_ms": TTFT * 1e3,
        "median_ttft_ms": TTFT * 1e3,
        "mean_tpot_ms": STEP * 1e3,
        "median_tpot_ms": STEP * 1e3,
        "median_itl_ms": STEP * 1e3,
        "mean_e2e_latency_ms": TOTAL * 1e3,
        "concurrency": 1.0,
        "accept_length": None,
        **changes,
    }


def one_batch(**changes: Any) -> dict[str, Any]:
    """SGLang bench_one_batch."""
    return {
        "run_name": "default",
        "batch_size": 1,
        "input_len": PROMPT,
        "output_len": ANSWER,
        "prefill_latency": TTFT,
        "prefill_throughput": PROMPT / TTFT,
        "median_decode_latency": STEP,
        "median_decode_throughput": 1 / STEP,
        "total_latency": TOTAL,
        "overall_throughput": (PROMPT + ANSWER) / TOTAL,
        **changes,
    }


def one_batch_server() -> dict[str, Any]:
    """SGLang bench_one_batch_server: the decode numerator holds the first token too."""
    return {
        "run_name": "default",
        "batch_size": 1,
        "input_len": PROMPT,
        "output_len": ANSWER,
        "latency": TOTAL,
        "input_throughput": PROMPT / TTFT,
        "output_throughput": ANSWER / (TOTAL - TTFT),
        "overall_throughput": (PROMPT + ANSWER) / TOTAL,
        "last_ttft": TTFT,
        "last_gen_throughput": -1,
        "acc_length": -1,
        "cache_hit_rate": None,
    }


def aiperf(**changes: Any) -> dict[str, Any]:
    """AIPerf profile_export_aiperf.json."""

    def time(seconds: float) -> dict[str, Any]:
        return {"unit": "ms", "avg": seconds * 1e3, "p50": seconds * 1e3, "p99": seconds * 1e3, "min": 0.0, "std": 0.0}

    return {
        "request_throughput": {"unit": "requests/sec", "avg": 1 / TOTAL},
        "request_latency": time(TOTAL),
        "request_count": {"unit": "requests", "avg": float(RUNS)},
        "benchmark_duration": {"unit": "sec", "avg": RUNS * TOTAL},
        "time_to_first_token": time(TTFT),
        "inter_token_latency": time(STEP),
        "output_token_throughput": {"unit": "tokens/sec", "avg": ANSWER / TOTAL},
        "input_sequence_length": {"unit": "tokens", "avg": float(PROMPT), "p50": float(PROMPT)},
        "output_sequence_length": {"unit": "tokens", "avg": float(ANSWER), "p50": float(ANSWER)},
        "error_summary": [],
        "telemetry_data": {
            "endpoints": {"localhost:9400": {"gpus": {"gpu_0": {"gpu_name": "NVIDIA H100 80GB HBM3", "metrics": {}}}}}
        },
        "input_config": {
            "endpoint": {"model_names": ["meta-llama/Meta-Llama-3-8B"], "streaming": True},
            "loadgen": {"concurrency": 1},
        },
        **changes,
    }


def aiperf_records(gap: float = 0.0) -> list[dict[str, Any]]:
    """AIPerf profile_export.jsonl; each request starts ``gap`` seconds after the one before it ends."""
    found = []
    for i in range(RUNS):
        start = round(1e18 + i * (TOTAL + gap) * 1e9)
        found.append(
            {
                "metadata": {
                    "session_num": i,
                    "request_start_ns": start,
                    "request_end_ns": start + round(TOTAL * 1e9),
                    "benchmark_phase": "profiling",
                    "was_cancelled": False,
                },
                "metrics": {
                    "input_sequence_length": {"value": PROMPT, "unit": "tokens"},
                    "output_sequence_length": {"value": ANSWER, "unit": "tokens"},
                    "time_to_first_token": {"value": TTFT * 1e3, "unit": "ms"},
                    "inter_token_latency": {"value": STEP * 1e3, "unit": "ms"},
                },
                "error": None,
            }
        )
    return found


def guidellm(strategy: dict[str, Any] | None = None, *, itl: bool = True) -> dict[str, Any]:
    """GuideLLM benchmarks.json: time per output token holds TTFT."""

    def of(value: float) -> dict[str, Any]:
        return {"successful": {"mean": value, "median": value, "std_dev": 0.0, "percentiles": {"p99": value}}}

    metrics = {
        "request_totals": {"successful": RUNS, "errored": 0, "incomplete": 0, "total": RUNS},
        "requests_per_second": of(1 / TOTAL),
        "request_latency": of(TOTAL),
        "prompt_token_count": of(PROMPT),
        "output_token_count": of(ANSWER),
        "time_to_first_token_ms": of(TTFT * 1e3),
        "time_per_output_token_ms": of(TOTAL / ANSWER * 1e3),
        "inter_token_latency_ms": of(STEP * 1e3),
        "output_tokens_per_second": of(ANSWER / TOTAL),
        "tokens_per_second": of((PROMPT + ANSWER) / TOTAL),
    }
    if not itl:
        del metrics["inter_token_latency_ms"]
    config = {"strategy": strategy or {"type_": "synchronous"}}
    return {
        "args": {"model": "meta-llama/Meta-Llama-3-8B"},
        "benchmarks": [{"type_": "generative_benchmark", "config": config, "metrics": metrics}],
    }


def llama_bench(prompt: int = PROMPT, generated: int = 0, depth: int = 0, rate: float | None = None) -> dict[str, Any]:
    """One test of llama-bench -o json."""
    count = prompt + generated
    seconds = TTFT if prompt else generated * STEP
    rate = count / seconds if rate is None else rate
    return {
        "build_commit": "0104b15",
        "build_number": 9000,
        "cpu_info": "",
        "gpu_info": "NVIDIA H100 80GB HBM3",
        "backends": "CUDA",
        "model_filename": "models/llama-3-8b-f16.gguf",
        "model_type": "llama 8B F16",
        "model_size": 16068894720,
        "model_n_params": 8030261248,
        "n_batch": 2048,
        "n_ubatch": 512,
        "n_gpu_layers": 99,
        "n_prompt": prompt,
        "n_gen": generated,
        "n_depth": depth,
        "test_time": "2026-01-01T00:00:00Z",
        "avg_ns": round(count / rate * 1e9),
        "stddev_ns": 0,
        "avg_ts": rate,
        "stddev_ts": 0.01 * rate,
        "samples_ns": [],
        "samples_ts": [],
    }


def llama_bench_files() -> dict[str, str]:
    """The same two tests in all five forms."""
    tests = [llama_bench(), llama_bench(0, 100)]
    names = [name for name in tests[0] if not name.startswith("samples")]
    quoted = [[str(test[name]) for name in names] for test in tests]
    csv_lines = [",".join(names), *(",".join(f'"{value}"' for value in row) for row in quoted)]
    values = [", ".join(f"'{value}'" for value in row) for row in quoted]
    inserts = [f"INSERT INTO llama_bench ({', '.join(names)}) VALUES ({row});" for row in values]
    table = [
        "ggml_cuda_init: found 1 CUDA devices:",
        "| model        |      size | params | backend | ngl |   test |             t/s |",
        "| ------------ | --------: | -----: | ------- | --: | -----: | --------------: |",
        *(
            f"| llama 8B F16 | 14.96 GiB | 8 B | CUDA | 99 | {name} | {test['avg_ts']:.2f} ± {test['stddev_ts']:.2f} |"
            for name, test in zip(("pp1000", "tg100"), tests, strict=True)
        ),
        "",
        "build: 0104b15 (9000)",
    ]
    return {
        "JSON": json.dumps(tests, indent=2),
        "JSON lines": "\n".join(map(json.dumps, tests)) + "\n",
        "CSV": "\n".join(csv_lines) + "\n",
        "SQL": "CREATE TABLE IF NOT EXISTS llama_bench (\n  x TEXT\n);\n\n" + "\n".join(inserts) + "\n",
        "Markdown": "\n".join(table) + "\n",
    }


def llama_benchy(concurrency: int = 1) -> dict[str, Any]:
    """llama-benchy's report."""

    def of(value: float) -> dict[str, Any]:
        return {"mean": value, "std": 0.0, "values": [value]}

    return {
        "version": "0.3.0",
        "timestamp": "2026-01-01",
        "latency_mode": "api",
        "latency_ms": 0.0,
        "model": "meta-llama/Meta-Llama-3-8B",
        "prefix_caching_enabled": False,
        "max_concurrency": concurrency,
        "benchmarks": [
            {
                "concurrency": concurrency,
                "context_size": 0,
                "prompt_size": PROMPT,
                "response_size": ANSWER,
                "is_context_prefill_phase": False,
                "pp_throughput": of(PROMPT / TTFT),
                "tg_throughput": of(concurrency / STEP),
                "tg_req_throughput": of(1 / STEP),
                "ttfr": of(TTFT * 1e3),
                "est_ppt": of(TTFT * 1e3),
                "e2e_ttft": of(TTFT * 1e3),
            }
        ],
    }


def ollama() -> dict[str, Any]:
    """The final object of Ollama's /api/generate."""
    return {
        "model": "llama3:8b",
        "created_at": "2026-01-01T00:00:00Z",
        "response": "",
        "done": True,
        "total_duration": 700_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": PROMPT,
        "prompt_eval_duration": 40_000_000,
        "eval_count": ANSWER,
        "eval_duration": 600_000_000,
    }


def llama_cpp(*, cached: int = 0, divides_by: int = ANSWER - 1) -> dict[str, Any]:
    """An answer of llama.cpp's server; older ones divide predicted_ms by n, newer ones by n - 1."""
    return {
        "choices": [],
        "model": "meta-llama/Meta-Llama-3-8B",
        "usage": {"prompt_tokens": PROMPT + cached, "completion_tokens": ANSWER},
        "timings": {
            "cache_n": cached,
            "prompt_n": PROMPT,
            "prompt_ms": TTFT * 1e3,
            "prompt_per_token_ms": TTFT * 1e3 / PROMPT,
            "prompt_per_second": PROMPT / TTFT,
            "predicted_n": ANSWER,
            "predicted_ms": (ANSWER - 1) * STEP * 1e3,
            "predicted_per_token_ms": (ANSWER - 1) * STEP * 1e3 / divides_by,
            "predicted_per_second": divides_by / ((ANSWER - 1) * STEP),
        },
    }


def trtllm() -> dict[str, Any]:
    """trtllm-bench's report (tensorrt_llm/bench/dataclasses/reporting.py), with --streaming."""
    return {
        "engine": {"model": "meta-llama/Meta-Llama-3-8B", "model_path": "None", "backend": "Pytorch"},
        "machine": {"name": "NVIDIA H100 80GB HBM3", "memory.total": 79.2, "clocks.mem": 2.6},
        "world_info": {"tp_size": 1, "pp_size": 1, "world_size": 1},
        "request_info": {
            "num_requests": RUNS,
            "avg_num_concurrent_requests": 1.0,
            "avg_input_length": float(PROMPT),
            "avg_output_length": float(ANSWER),
        },
        "performance": {
            "total_latency_ms": RUNS * TOTAL * 1e3,
            "avg_request_latency_ms": TOTAL * 1e3,
            "request_throughput_req_s": 1 / TOTAL,
            "system_output_throughput_tok_s": ANSWER / TOTAL,
            "system_total_throughput_tok_s": (PROMPT + ANSWER) / TOTAL,
        },
        "streaming_metrics": {
            "avg_ttft_ms": TTFT * 1e3,
            "avg_tpot_ms": STEP * 1e3,
            "tpot_percentiles": {"p50": STEP * 1e3},
            "ttft_percentiles": {"p50": TTFT * 1e3},
        },
        "dataset": {},
    }


def everything() -> dict[str, str]:
    """Every file around the truth, by name: each must tell both phases."""
    return {
        "vllm": json.dumps(vllm()),
        "sglang": json.dumps(sglang()) + "\n",
        "sglang_one_batch": json.dumps(one_batch()) + "\n",
        "sglang_one_batch_server": json.dumps(one_batch_server()) + "\n",
        "aiperf": json.dumps(aiperf(), indent=2),
        "aiperf_records": "".join(json.dumps(one) + "\n" for one in aiperf_records()),
        "guidellm": json.dumps(guidellm()),
        "guidellm_without_itl": json.dumps(guidellm(itl=False)),
        **{f"llama_bench_{form}": text for form, text in llama_bench_files().items()},
        "llama_benchy": json.dumps(llama_benchy()),
        "llama_benchy_table": LLAMA_BENCHY_TABLE,
        "tgi": TGI,
        "inference_benchmarker": json.dumps(inference_benchmarker()),
        "ollama_text": OLLAMA_TEXT,
        "ollama": json.dumps(ollama()),
        "llama_cpp": json.dumps(llama_cpp()),
        "llama_cpp_older": json.dumps(llama_cpp(divides_by=ANSWER)),
        "llama_cpp_stream": f"data: {json.dumps(llama_cpp())}\n\ndata: [DONE]\n",
        "llama_cpp_log": LLAMA_CPP_LOG,
        "llama_cpp_server_log": LLAMA_CPP_SERVER_LOG,
        "trtllm": json.dumps(trtllm()),
        "vllm_printed": VLLM_PRINTED,
        "sglang_printed": SGLANG_PRINTED,
    }
