"""Every tool's file around one planted truth is translated to that truth, whatever the tool calls its figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import results_by_hand as hand
from phasewise.observe.results.read import READERS, read
from phasewise.record.results import Reported, Row
from results_by_hand import ANSWER, PROMPT, RUNS, STEP, TOTAL, TTFT

RECORDED = Path(__file__).parents[1] / "fixtures" / "results" / "vllm_bench_serve.json"

FILES = hand.everything()


def said(tmp_path: Path, text: str, name: str = "results") -> Reported:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read(path)


def told(found: Reported) -> tuple[Row, Row]:
    """The row that tells prefill and the one that tells decode."""
    prefill = next(row for row in found.rows if row.prefill)
    decode = next(row for row in found.rows if row.decode)
    return prefill, decode


@pytest.mark.parametrize("name", FILES)
def test_every_tool_says_the_same(tmp_path: Path, name: str) -> None:
    found = said(tmp_path, FILES[name])
    prefill, decode = told(found)
    assert prefill.prefill is not None
    assert decode.decode is not None
    assert prefill.prefill.tokens.value == PROMPT
    assert prefill.prefill.time.value == pytest.approx(TTFT, rel=1e-3)
    assert prefill.prefill.batch.value == decode.decode.batch.value == 1
    assert decode.decode.time.value == pytest.approx(STEP, rel=1e-3)
    assert not prefill.prefill.least
    assert not decode.decode.least
    assert prefill.prefill.time.provenance == decode.decode.time.provenance == "reported"
    expected = 99 / 2 if name.startswith("llama_bench_") else PROMPT + ANSWER / 2
    assert decode.decode.tokens.value == pytest.approx(expected, abs=0.6)


@pytest.mark.parametrize("name", FILES)
def test_every_figure_says_what_it_is(tmp_path: Path, name: str) -> None:
    found = said(tmp_path, FILES[name])
    figures = [one for row in found.rows for one in row.figures]
    assert figures
    for one in figures:
        assert one.called
        assert one.defined
        assert one.how
        assert one.value.provenance == "reported"
        assert (one.conversion == "none") >= (one.means == "combined rate")


def test_each_file_is_known_by_one_reader_alone_or_by_the_first_of_several(tmp_path: Path) -> None:
    tools = {name: said(tmp_path, text).tool.split()[0] for name, text in FILES.items()}
    for name, tool in tools.items():
        first = name.split("_")[0]
        assert {"llama": "llama", "inference": "inference-benchmarker", "trtllm": "trtllm-bench"}.get(
            first, first
        ).lower() in tool.lower(), (name, tool)
    assert len({reader.FORM for reader in READERS}) == len(READERS)


def test_names_are_found_by_content_and_not_by_name(tmp_path: Path) -> None:
    assert said(tmp_path, FILES["vllm"], "notes.csv").tool == "vLLM bench serve"


# Under load


def test_ttft_under_load_is_no_prefill_time(tmp_path: Path) -> None:
    many = hand.vllm(max_concurrency=8, duration=RUNS * TOTAL / 8)
    row = said(tmp_path, json.dumps(many)).rows[0]
    assert row.prefill is None
    assert "one request at a time" in row.missing["prefill"]
    assert row.ttft is not None
    assert row.decode is not None
    # Little's law by hand: 8/0.64 requests a second, each decodes 100 steps of 6 ms.
    assert row.decode.batch.value == pytest.approx(8 / TOTAL * 100 * STEP)
    assert row.decode.batch.high == 8
    assert row.decode.least


@pytest.mark.parametrize("changes", [{"max_concurrency": None}, {"max_concurrency": None, "request_rate": 0.5}])
def test_without_a_limit_nothing_says_that_requests_ran_alone(tmp_path: Path, changes: dict[str, object]) -> None:
    row = said(tmp_path, json.dumps(hand.vllm(**changes))).rows[0]
    assert row.prefill is None
    assert "ran together" in row.missing["prefill"]


def test_one_request_ran_alone_without_a_limit(tmp_path: Path) -> None:
    one = hand.vllm(
        max_concurrency=None, completed=1, total_input_tokens=PROMPT, total_output_tokens=ANSWER, duration=TOTAL
    )
    assert said(tmp_path, json.dumps(one)).rows[0].prefill is not None


def test_a_sweep_has_a_row_per_run(tmp_path: Path) -> None:
    lines = [json.dumps(hand.vllm(max_concurrency=n, duration=RUNS * TOTAL / n)) for n in (1, 4, 16)]
    found = said(tmp_path, "\n".join(lines))
    assert [row.label for row in found.rows] == ["concurrency 1", "concurrency 4", "concurrency 16"]
    assert [row.prefill is not None for row in found.rows] == [True, False, False]


def test_the_requests_that_ran_alone_tell_prefill(tmp_path: Path) -> None:
    # Two alone, then two at once: only the first two say how long a prefill takes.
    starts, ttfts = [0.0, 1.0, 2.0, 2.001], [TTFT, TTFT, 0.09, 0.08]
    detailed = hand.vllm(
        max_concurrency=4, completed=4, total_input_tokens=4 * PROMPT, total_output_tokens=4 * ANSWER, duration=2.7,
        start_times=starts, ttfts=ttfts, itls=[[STEP] * 100] * 4, input_lens=[PROMPT] * 4, output_lens=[ANSWER] * 4,
    )  # fmt: skip
    whole, apart = said(tmp_path, json.dumps(detailed)).rows
    assert whole.prefill is None
    assert apart.prefill is not None
    assert apart.prefill.time.value == pytest.approx(TTFT)
    # While one of the four decodes: two alone for 0.6 s each, two together for nearly all of theirs.
    both = 0.6 - (0.09 - 0.081)
    alone = 2 * 0.6 + 2 * (0.6 - both)
    assert whole.decode is not None
    assert whole.decode.batch.value == pytest.approx((alone + 4 * both) / (alone + 2 * both))


def test_a_recorded_run_of_vllm_against_a_server_with_known_timings() -> None:
    # The simulated server: prefill 20 ms + 20.2 us a token + 379 ps a token², decode 5.57 ms + 21.7 us a request
    # + 46 ns a token of context. vLLM's client adds what it adds.
    found = read(RECORDED)
    alone, many = found.rows
    assert found.model == "meta-llama/Meta-Llama-3-8B"
    assert alone.prefill is not None
    tokens = alone.prefill.tokens.value
    truth = 20e-3 + 20.2e-6 * tokens + 379e-12 * tokens**2
    assert truth < alone.prefill.time.value < truth + 4e-3
    assert alone.decode is not None
    assert alone.decode.time.value == pytest.approx(5.57e-3 + 21.7e-6 + 46e-9 * alone.decode.tokens.value, rel=0.01)
    assert many.prefill is None
    assert many.decode is not None
    assert 6 < many.decode.batch.value <= 8
