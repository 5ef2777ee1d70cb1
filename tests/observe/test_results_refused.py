"""What is no result, or says what no measurement gives: one sentence that names the file, the place and the cure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import results_by_hand as hand
from phasewise.cli import run
from phasewise.errors import InputError
from phasewise.observe.results import content
from phasewise.observe.results.read import read

FILES = hand.everything()


def refused(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "results.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        read(path)
    text = str(error.value)
    assert str(path) in text
    assert text.endswith(".")
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"  \n\t\n", "is empty"),
        (b"<!DOCTYPE html><html><body>results</body></html>", "web page"),
        (b"\x1f\x8b\x08\x00", "gunzip"),
        (b"PK\x03\x04abc", "zip"),
        (b"SQLite format 3\x00", "phasewise trace"),
        (b"GGUF\x03\x00\x00\x00", "is a model"),
        (b"\xff\xfea\x00", "UTF-16"),
        (b"abc\x00def", "no text file"),
        (b'{"completed": 1, ', "no valid JSON"),
        (b'{"completed": 1}\n{"completed": ', "line 2"),
        (b"[" * 100_000, "no valid JSON"),
        (b'{"a":' * 100_000, "no valid JSON"),
        (b'{"some": "thing"}', "no known form"),
        (b"[1, 2, 3]", "no known form"),
        (b"null of it", "no known form"),
        (json.dumps({"traceEvents": []}).encode(), "phasewise trace"),
        (json.dumps([{"ph": "X", "ts": 1, "name": "k"}]).encode(), "phasewise trace"),
        (json.dumps({"schema": 1, "envelope": {}}).encode(), "phasewise report"),
        (json.dumps({"schema": 1, "run": {}, "provenance": {}}).encode(), "phasewise report"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n", "phasewise logs"),
        (json.dumps({"timestamp": 0, "input_length": 1, "output_length": 2}).encode(), "phasewise logs"),
        (b"we measured 120 tok/s on it", "prefill or decode?"),
        (b"throughput: 46.3 tokens per second", "prefill or decode?"),
        (json.dumps({"tokens_per_sec": 120.0}).encode(), "prefill or decode?"),
        (json.dumps({"tps": 120}).encode(), "prefill or decode?"),
    ],
)
def test_no_result(tmp_path: Path, data: bytes, says: str) -> None:
    assert says in refused(tmp_path, data)


@pytest.mark.parametrize("key", ["median_ttft_ms", "median_tpot_ms", "duration", "completed", "total_input_tokens"])
@pytest.mark.parametrize("value", [-1, -0.5, "12", 1e30, True, [1], {"a": 1}, math.inf])
def test_a_number_that_no_measurement_gives(tmp_path: Path, key: str, value: object) -> None:
    text = refused(tmp_path, json.dumps(hand.vllm(**{key: value})).encode())
    assert key in text


@pytest.mark.parametrize("value", [None, 0, 0.0, math.nan])
def test_what_a_tool_writes_for_nothing_is_not_measured(tmp_path: Path, value: object) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(hand.vllm(median_ttft_ms=value, mean_ttft_ms=value)))
    row = read(path).rows[0]
    assert row.ttft is None
    assert row.prefill is None
    assert "TTFT" in row.missing["prefill"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda: hand.aiperf(time_to_first_token={"unit": "fortnights", "avg": 1.0}), "fortnights"),
        (lambda: hand.aiperf(time_to_first_token={"unit": "ms", "avg": -1.0}), "avg"),
        (lambda: {**hand.trtllm(), "request_info": {"num_requests": "many"}}, "num_requests"),
        (lambda: hand.one_batch(batch_size=0), "batch_size"),
        (lambda: hand.llama_bench(rate=-1.0) | {"avg_ns": -1}, "avg_ts"),
        (list, "no known form"),
        (lambda: {"benchmarks": []}, "no known form"),
    ],
)
def test_other_tools_with_wrong_numbers(tmp_path: Path, change: Callable[[], object], says: str) -> None:
    assert says in refused(tmp_path, json.dumps(change()).encode())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (hand.OLLAMA_TEXT.replace("600ms", "600 parsecs"), "600 parsecs"),
        (hand.OLLAMA_TEXT.replace("1000 token(s)", "some token(s)"), "some token(s)"),
        (hand.TGI.replace("| 40.00 ms  | 45.00 ms", "| 40.00 km  | 45.00 ms"), "40.00 km"),
        (hand.TGI.replace("| Sequence Length    | 1000 ", "| Sequence Length    | -7   "), "Sequence Length"),
        (hand.LLAMA_BENCHY_TABLE.replace("25000.00 ± 1.00", "fast"), "no rate"),
    ],
)
def test_text_that_is_damaged(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(tmp_path, text.encode())


def test_a_directory_a_missing_file_and_one_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path, tmp_path / "missing.json"):
        with pytest.raises(InputError, match="name"):
            read(path)
    monkeypatch.setattr(content, "LARGEST", 10)
    assert "MiB" in refused(tmp_path, b'{"some": "thing that is longer"}')


def test_a_control_character_in_a_value_does_not_reach_the_terminal(tmp_path: Path) -> None:
    text = refused(tmp_path, json.dumps(hand.vllm(median_ttft_ms="\x1b[31mred")).encode())
    assert text.isprintable()


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_an_error_or_a_result_never_a_crash(tmp_path: Path, name: str) -> None:
    data = FILES[name].encode()
    path = tmp_path / "cut"
    for cut in range(0, len(data), max(1, len(data) // 37)):
        path.write_bytes(data[:cut])
        with suppress(InputError):
            assert read(path).rows


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from([name for name, text in FILES.items() if text.startswith(("{", "["))]))
def test_any_value_anywhere_in_a_file_is_an_error_or_a_result(
    data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = FILES[name]
    tree: Any = json.loads(text.splitlines()[0] if name == "aiperf_records" or name.endswith("lines") else text)
    where = tree
    while True:
        keys = list(range(len(where))) if isinstance(where, list) else list(where)
        key = data.draw(st.sampled_from(keys))
        if isinstance(where[key], (dict, list)) and where[key] and data.draw(st.booleans()):
            where = where[key]
            continue
        where[key] = data.draw(JSON)
        break
    path = tmp_path_factory.mktemp("any") / "results.json"
    path.write_text(json.dumps(tree))
    command = ["judge", str(path), "--model", "llama-3-8b", "--on", "h100-sxm", "--json"]
    assert run([*command, "--out", str(path.parent / "runs")]) in (0, 2, 3)


@pytest.mark.parametrize(
    "name",
    ["llama_benchy_table", "llama_cpp_log", "llama_cpp_server_log", "tgi", "ollama_text", "llama_bench_Markdown"],
)
def test_a_number_with_two_points_is_none(tmp_path: Path, name: str) -> None:
    """Each number of the file in turn: refused in a sentence, or passed over, but never a number of its parts."""
    text = hand.everything()[name]
    numbers = list(re.finditer(r"\d+\.\d+", text))
    assert numbers
    path = tmp_path / "results"
    for found in numbers:
        path.write_text(f"{text[: found.start()]}{found[0]}.3{text[found.end() :]}")
        with suppress(InputError):
            read(path)
