"""What each tool's definitions do to its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import results_by_hand as hand
from phasewise.observe.results.read import read
from phasewise.record.results import Reported
from results_by_hand import ANSWER, PROMPT, STEP, TOTAL, TTFT

FILES = hand.everything()


def said(tmp_path: Path, text: str, name: str = "results") -> Reported:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read(path)


def test_guidellm_tpot_holds_ttft_and_is_unmixed(tmp_path: Path) -> None:
    row = said(tmp_path, FILES["guidellm_without_itl"]).rows[0]
    theirs = next(one for one in row.figures if one.called.startswith("time_per_output_token"))
    assert theirs.value.value == pytest.approx(TOTAL / ANSWER)
    assert theirs.conversion == "within bounds"
    assert row.tpot is not None
    assert row.tpot.value == pytest.approx(STEP)


@pytest.mark.parametrize(
    ("strategy", "alone"),
    [
        ({"type_": "synchronous"}, True),
        ({"type_": "concurrent", "streams": 1}, True),
        ({"type_": "concurrent", "streams": 4}, False),
        ({"type_": "throughput"}, False),
        ({"type_": "constant", "rate": 2.0}, False),
    ],
)
def test_guidellm_strategies(tmp_path: Path, strategy: dict[str, object], alone: bool) -> None:
    row = said(tmp_path, json.dumps(hand.guidellm(strategy))).rows[0]
    assert (row.prefill is not None) == alone


def test_raw_gaps_are_no_token_times(tmp_path: Path) -> None:
    row = said(tmp_path, FILES["vllm"]).rows[0]
    gaps = [one for one in row.figures if one.called.endswith("itl_ms")]
    assert gaps
    assert all(one.means == "icl" and one.conversion == "none" for one in gaps)


def test_gaps_far_under_tpot_are_bursts(tmp_path: Path) -> None:
    # kubernetes-sigs/inference-perf kubecon-na-2025: a median gap of 48.6 us where a token takes 7.5 ms.
    found = said(tmp_path, json.dumps(hand.vllm(median_itl_ms=0.0486)))
    check = next(one for one in found.checks if one.name == "chunks_per_token")
    assert check.status == "failed"
    assert "bursts" in check.detail
    assert not check.voids


def test_several_tokens_a_chunk_are_said(tmp_path: Path) -> None:
    # vllm #51454: ITL 11.18 ms where TPOT is 2.08 ms.
    found = said(tmp_path, json.dumps(hand.vllm(median_itl_ms=11.18, median_tpot_ms=2.08, mean_tpot_ms=2.08)))
    assert "several tokens" in next(one.detail for one in found.checks if one.name == "chunks_per_token")


def test_speculative_decoding_has_no_step_time(tmp_path: Path) -> None:
    row = said(tmp_path, json.dumps(hand.vllm(spec_decode_acceptance_length=2.6))).rows[0]
    assert row.decode is None
    assert "speculative" in row.missing["decode"]


def test_times_that_contradict_the_throughput_void_the_file(tmp_path: Path) -> None:
    found = said(tmp_path, json.dumps(hand.vllm(mean_e2el_ms=10 * TOTAL * 1e3)))
    check = next(one for one in found.checks if one.name == "consistent")
    assert (check.status, check.voids) == ("failed", True)


def test_seconds_where_milliseconds_belong_are_seen(tmp_path: Path) -> None:
    found = said(tmp_path, json.dumps(hand.sglang(median_ttft_ms=TTFT * 1e6, mean_ttft_ms=TTFT * 1e6)))
    check = next(one for one in found.checks if one.name == "consistent")
    assert (check.status, check.voids) == ("failed", True)
    assert "unit" in check.detail


@pytest.mark.parametrize(("unit", "scale"), [("ms", 1e3), ("sec", 1.0), ("s", 1.0), ("us", 1e6), ("ns", 1e9)])
def test_aiperf_times_are_read_by_their_unit(tmp_path: Path, unit: str, scale: float) -> None:
    changed = hand.aiperf(time_to_first_token={"unit": unit, "avg": TTFT * scale})
    row = said(tmp_path, json.dumps(changed)).rows[0]
    assert row.ttft is not None
    assert row.ttft.value == pytest.approx(TTFT)


def test_aiperf_names_model_and_device(tmp_path: Path) -> None:
    found = said(tmp_path, FILES["aiperf"])
    assert found.model == "meta-llama/Meta-Llama-3-8B"
    assert found.accelerators == ("NVIDIA H100 80GB HBM3",)


def test_aiperf_nested_records_of_other_versions(tmp_path: Path) -> None:
    tree = hand.aiperf()
    config = tree.pop("input_config")
    found = said(tmp_path, json.dumps({"records": tree, "input_config": config}))
    assert found.rows[0].prefill is not None


def test_aiperf_records_that_overlap(tmp_path: Path) -> None:
    lines = "".join(json.dumps(one) + "\n" for one in hand.aiperf_records(gap=-TOTAL / 2))
    rows = said(tmp_path, lines).rows
    assert len(rows) == 1
    assert rows[0].prefill is None
    assert rows[0].decode is not None
    assert 1.5 < rows[0].decode.batch.value < 2.1


def test_genai_perf_is_told_from_aiperf(tmp_path: Path) -> None:
    config = {"model": ["meta-llama/Meta-Llama-3-8B"], "perf_analyzer": {"stimulus": {"concurrency": 1}}}
    tree = {key: value for key, value in hand.aiperf().items() if key not in ("telemetry_data", "request_count")}
    found = said(tmp_path, json.dumps({**tree, "input_config": config}))
    assert found.tool == "GenAI-Perf"
    assert found.model == "meta-llama/Meta-Llama-3-8B"
    assert found.rows[0].prefill is not None


@pytest.mark.parametrize(
    ("config", "alone"),
    [
        ({"models": {"items": [{"name": "m"}]}, "phases": [{"name": "profiling", "concurrency": 1}]}, True),
        ({"models": {"items": [{"name": "m"}]}, "phases": [{"name": "profiling", "concurrency": 8}]}, False),
        ({"model": ["m"], "cli_command": "aiperf profile -m m --concurrency 1 --streaming"}, True),
        ({"model": ["m"], "cli_command": "aiperf profile -m m --request-rate 4"}, False),
        ({"model": ["m"], "service_kind": "openai", "concurrency": 1}, True),
        ({"model": ["m"], "service_kind": "openai"}, False),
    ],
)
@pytest.mark.parametrize("count", [True, False])
def test_what_versions_of_aiperf_and_genai_perf_say_of_concurrency(
    tmp_path: Path, config: dict[str, object], alone: bool, count: bool
) -> None:
    tree = hand.aiperf(input_config=config)
    if not count:  # GenAI-Perf gives the rate alone
        del tree["request_count"], tree["benchmark_duration"]
    found = said(tmp_path, json.dumps(tree))
    assert found.model == "m"
    assert (found.rows[0].prefill is not None) == alone
    assert found.rows[0].decode is not None


def test_a_saved_terminal_keeps_its_colours_out(tmp_path: Path) -> None:
    text = hand.OLLAMA_TEXT.replace("total duration", "\x1b[?25h\x1b[1mtotal duration")
    assert said(tmp_path, text).rows[0].decode is not None


def test_llama_bench_depth_and_mixed_tests(tmp_path: Path) -> None:
    tests = [
        hand.llama_bench(512, 0, 4096, rate=8000.0),
        hand.llama_bench(0, 128, 4096, rate=100.0),
        hand.llama_bench(512, 128, rate=600.0),
    ]
    deep, step, mixed = said(tmp_path, json.dumps(tests)).rows
    assert deep.prefill is not None
    assert (deep.prefill.tokens.value, deep.prefill.cached) == (512, 4096)
    assert step.decode is not None
    assert step.decode.tokens.value == pytest.approx(4096 + 127 / 2)
    assert mixed.prefill is None
    assert mixed.decode is None
    assert mixed.figures[0].means == "combined rate"


def test_llama_bench_says_the_spread_of_its_repeats(tmp_path: Path) -> None:
    row = said(tmp_path, FILES["llama_bench_Markdown"]).rows[0]
    assert row.prefill is not None
    time = row.prefill.time
    assert time.low == pytest.approx(TTFT / 1.01, rel=1e-4)
    assert time.high == pytest.approx(TTFT / 0.99, rel=1e-4)


def test_llama_benchy_with_many_has_no_prefill_time(tmp_path: Path) -> None:
    row = said(tmp_path, json.dumps(hand.llama_benchy(8))).rows[0]
    assert row.prefill is None
    assert row.decode is not None
    assert (row.decode.batch.value, row.decode.least) == (8, True)
    assert row.decode.time.value == pytest.approx(STEP)


def test_tgi_batches_and_merged_cells(tmp_path: Path) -> None:
    one, two = said(tmp_path, hand.TGI).rows
    assert one.prefill is not None
    assert two.prefill is not None
    assert two.decode is not None
    assert (two.prefill.batch.value, two.prefill.time.value) == (2, pytest.approx(0.080))
    assert (two.decode.batch.value, two.decode.time.value) == (2, pytest.approx(0.0062))
    prompts = next(figure for figure in one.figures if figure.called == "Prefill throughput")
    assert prompts.conversion == "none"


def test_ollama_counts_the_first_token_in_a_rate_without_its_time(tmp_path: Path) -> None:
    row = said(tmp_path, hand.OLLAMA_TEXT).rows[0]
    assert row.decode is not None
    assert row.decode.time.value == pytest.approx(0.600 / 100)
    assert row.decode.time.low == pytest.approx(0.600 / 101)
    rate = next(one for one in row.figures if one.called == "eval rate")
    assert rate.conversion == "within bounds"


def test_ollama_does_not_say_what_was_cached(tmp_path: Path) -> None:
    found = said(tmp_path, FILES["ollama"])
    assert found.checks[0].name == "uncached"
    assert found.checks[0].status == "not_checked"
    assert found.rows[0].prefill is not None
    assert "cached" in found.rows[0].prefill.notes[0]


def test_ollama_with_all_of_the_prompt_cached(tmp_path: Path) -> None:
    tree = hand.ollama()
    del tree["prompt_eval_count"], tree["prompt_eval_duration"]
    row = said(tmp_path, json.dumps(tree)).rows[0]
    assert row.prefill is None
    assert "cached" in row.missing["prefill"]


def test_ollama_durations_as_go_writes_them(tmp_path: Path) -> None:
    text = hand.OLLAMA_TEXT.replace("eval duration:        600ms", "eval duration:        1m22.814029296s")
    row = said(tmp_path, text).rows[0]
    assert row.decode is not None
    assert row.decode.time.value == pytest.approx(82.814029296 / 100)


def test_llama_cpp_with_cached_tokens(tmp_path: Path) -> None:
    row = said(tmp_path, json.dumps(hand.llama_cpp(cached=500))).rows[0]
    assert row.prefill is not None
    assert (row.prefill.tokens.value, row.prefill.cached) == (PROMPT, 500)
    assert row.prompt_tokens == PROMPT + 500


def test_llama_cpp_as_its_server_really_answers(tmp_path: Path) -> None:
    shared = Path(__file__).parents[3] / "shared" / "data" / "servers" / "llamacpp.chat.stream.sse"
    if not shared.exists():
        pytest.skip("skipped: no shared data")
    row = read(shared).rows[0]
    assert row.prefill is not None
    assert row.decode is not None
    assert (row.prefill.tokens.value, row.prefill.time.value) == (37, pytest.approx(0.729621))
    assert row.decode.time.value == pytest.approx(0.0326602, rel=1e-4)  # 359.262 ms over 11 steps


def test_trtllm_without_streaming_tells_no_phase(tmp_path: Path) -> None:
    tree = hand.trtllm()
    del tree["streaming_metrics"]
    row = said(tmp_path, json.dumps(tree)).rows[0]
    assert row.prefill is None
    assert row.decode is None
    assert row.figures


def test_one_batch_server_keeps_the_first_token_out_of_the_step(tmp_path: Path) -> None:
    row = said(tmp_path, FILES["sglang_one_batch_server"]).rows[0]
    assert row.decode is not None
    assert row.decode.time.value == pytest.approx(STEP)
    rate = next(one for one in row.figures if one.called == "output_throughput")
    assert 1 / rate.value.value == pytest.approx(0.600 / 101)


def test_one_batch_over_batches(tmp_path: Path) -> None:
    lines = [json.dumps(hand.one_batch(batch_size=n, prefill_latency=TTFT * n)) for n in (1, 4)]
    one, four = said(tmp_path, "\n".join(lines)).rows
    assert one.prefill is not None
    assert four.prefill is not None
    assert (four.prefill.batch.value, four.prefill.time.value) == (4, pytest.approx(4 * TTFT))


@pytest.mark.parametrize(
    "tree",
    [
        {"avg_latency": 1.0, "latencies": [1.0], "percentiles": {"99": 1.0}},
        {
            "elapsed_time": 10.0,
            "num_requests": 5,
            "total_num_tokens": 1000,
            "requests_per_second": 0.5,
            "tokens_per_second": 100.0,
        },
    ],
)
def test_offline_vllm_is_refused_by_phase_with_the_way_out(tmp_path: Path, tree: dict[str, object]) -> None:
    row = said(tmp_path, json.dumps(tree)).rows[0]
    assert row.prefill is None
    assert row.decode is None
    assert "--ttft and --tpot" in row.missing["prefill"]
    assert row.figures


def test_printed_results_of_several_runs(tmp_path: Path) -> None:
    other = hand.VLLM_PRINTED.replace("concurrency:             1", "concurrency:             16")
    found = said(tmp_path, hand.VLLM_PRINTED + other)
    assert [row.label for row in found.rows] == ["concurrency 1", "concurrency 16"]
    assert found.rows[1].prefill is None
