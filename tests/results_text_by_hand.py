"""The planted truth of ``results_by_hand``, its files that are no JSON, and that of one more tool."""

from __future__ import annotations

from typing import Any

PROMPT, ANSWER, TTFT, STEP = 1000, 101, 0.040, 0.006
TOTAL = TTFT + (ANSWER - 1) * STEP
RUNS = 10

LLAMA_BENCHY_TABLE = f"""
| model | test | t/s | ttfr (ms) | est_ppt (ms) | e2e_ttft (ms) |
|:------|-----:|----:|----------:|-------------:|--------------:|
| llama-3-8b | pp1000 | {PROMPT / TTFT:.2f} ± 1.00 | 40.00 ± 0.10 | 40.00 ± 0.10 | 40.00 ± 0.10 |
| llama-3-8b | tg101 | {1 / STEP:.2f} ± 0.10 | | | |
"""

TGI = f"""
| Parameter          | Value                      |
|--------------------|----------------------------|
| Model              | meta-llama/Meta-Llama-3-8B |
| Sequence Length    | {PROMPT}                   |
| Decode Length      | {ANSWER}                   |
| N Runs             | 10                         |


| Step           | Batch Size | Average   | Lowest    | Highest   | p50       | p90       | p99       |
|----------------|------------|-----------|-----------|-----------|-----------|-----------|-----------|
| Prefill        | 1          | 41.00 ms  | 40.00 ms  | 50.00 ms  | 40.00 ms  | 45.00 ms  | 50.00 ms  |
|                | 2          | 80.00 ms  | 80.00 ms  | 80.00 ms  | 80.00 ms  | 80.00 ms  | 80.00 ms  |
| Decode (token) | 1          | 6.10 ms   | 6.00 ms   | 7.00 ms   | 6.00 ms   | 6.50 ms   | 7.00 ms   |
|                | 2          | 6.20 ms   | 6.20 ms   | 6.20 ms   | 6.20 ms   | 6.20 ms   | 6.20 ms   |
| Decode (total) | 1          | 610.00 ms | 600.00 ms | 700.00 ms | 600.00 ms | 650.00 ms | 700.00 ms |
|                | 2          | 620.00 ms | 620.00 ms | 620.00 ms | 620.00 ms | 620.00 ms | 620.00 ms |


| Step    | Batch Size | Average            | Lowest             | Highest            |
|---------|------------|--------------------|--------------------|--------------------|
| Prefill | 1          | 24.39 tokens/secs  | 20.00 tokens/secs  | 25.00 tokens/secs  |
|         | 2          | 25.00 tokens/secs  | 25.00 tokens/secs  | 25.00 tokens/secs  |
| Decode  | 1          | 163.93 tokens/secs | 142.86 tokens/secs | 166.67 tokens/secs |
|         | 2          | 322.58 tokens/secs | 322.58 tokens/secs | 322.58 tokens/secs |
"""

OLLAMA_TEXT = f"""The answer.

total duration:       1m0.64s
load duration:        44.323537ms
prompt eval count:    {PROMPT} token(s)
prompt eval duration: 40ms
prompt eval rate:     25000.00 tokens/s
eval count:           {ANSWER} token(s)
eval duration:        600ms
eval rate:            168.33 tokens/s
"""

LLAMA_CPP_LOG = f"""llama_perf_context_print:        load time =     321.00 ms
llama_perf_context_print: prompt eval time =      40.00 ms /  {PROMPT} tokens (    0.04 ms per token)
llama_perf_context_print:        eval time =     600.00 ms /   {ANSWER - 1} runs   (    6.00 ms per token)
llama_perf_context_print:       total time =     660.00 ms /  {PROMPT + ANSWER} tokens
"""

LLAMA_CPP_SERVER_LOG = f"""slot print_timing: id  0 | task 0 |
prompt eval time =      40.00 ms /  {PROMPT} tokens (    0.04 ms per token, 25000.00 tokens per second)
       eval time =     600.00 ms /   {ANSWER} tokens (    5.94 ms per token,   168.33 tokens per second)
      total time =     640.00 ms /  {PROMPT + ANSWER} tokens
"""

VLLM_PRINTED = f"""
============ Serving Benchmark Result ============
Successful requests:                     {RUNS}
Maximum request concurrency:             1
Benchmark duration (s):                  {RUNS * TOTAL:.2f}
Total input tokens:                      {RUNS * PROMPT}
Total generated tokens:                  {RUNS * ANSWER}
Request throughput (req/s):              {1 / TOTAL:.2f}
Output token throughput (tok/s):         {ANSWER / TOTAL:.2f}
Total Token throughput (tok/s):          {(PROMPT + ANSWER) / TOTAL:.2f}
---------------Time to First Token----------------
Mean TTFT (ms):                          40.00
Median TTFT (ms):                        40.00
P99 TTFT (ms):                           40.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          6.00
Median TPOT (ms):                        6.00
P99 TPOT (ms):                           6.00
---------------Inter-token Latency----------------
Mean ITL (ms):                           6.00
Median ITL (ms):                         6.00
==================================================
"""

SGLANG_PRINTED = VLLM_PRINTED.replace(
    "Successful requests:", "Backend:                                 sglang\nSuccessful requests:"
)


def inference_benchmarker() -> dict[str, Any]:
    """Hugging Face inference-benchmarker (src/writers.rs)."""

    def result(identity: str) -> dict[str, Any]:
        return {
            "id": identity,
            "executor_type": "ConstantVUs",
            "config": {"max_vus": 1, "duration": {"secs": 6, "nanos": 0}, "rate": None},
            "total_requests": RUNS,
            "total_tokens": RUNS * ANSWER,
            "total_tokens_sent": RUNS * PROMPT,
            "token_throughput_secs": ANSWER / TOTAL,
            "duration_ms": round(RUNS * TOTAL * 1e3),
            "time_to_first_token_ms": {"p50": TTFT * 1e3, "avg": TTFT * 1e3},
            "inter_token_latency_ms": {"p50": STEP * 1e3, "avg": STEP * 1e3},
            "e2e_latency_ms": {"p50": TOTAL * 1e3, "avg": TOTAL * 1e3},
            "failed_requests": 0,
            "successful_requests": RUNS,
            "request_rate": 1 / TOTAL,
        }

    config = {"tokenizer": "meta-llama/Meta-Llama-3-8B", "max_vus": 1}
    return {"config": config, "results": [result("warmup"), result("constant@1")], "start_time": "", "system": {}}
