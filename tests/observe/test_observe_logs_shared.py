"""Public traces, against totals that were published or that plain Python counts."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from observe_log_files import shared

from phasewise.observe.logs.read import read

AZURE = {
    "azure/AzureLLMInferenceTrace_code.csv": (8_819, 18_059_974, 245_896, 3_436, 1_469, 13),
    "azure/AzureLLMInferenceTrace_conv.csv": (19_366, 22_361_870, 4_088_665, 3_502, 1_020, 129),
}
"""Rows, tokens in and out, seconds, median lengths: Patel et al. 2023 (Splitwise) and the data's own README."""


@pytest.mark.parametrize("name", AZURE)
def test_azure_totals_are_exact(name: str) -> None:
    requests, tokens_in, tokens_out, seconds, prompt, answer = AZURE[name]
    found = read(shared(name))
    assert found.form == "Azure CSV"
    assert found.lengths.requests == requests
    assert found.lengths.prompt.total == tokens_in
    assert found.lengths.answer.total == tokens_out
    assert found.first is not None
    assert found.last is not None
    assert round(found.last - found.first) == seconds
    assert (found.lengths.prompt.percentile(50), found.lengths.answer.percentile(50)) == (prompt, answer)
    assert found.reuse is None


@pytest.mark.parametrize("name", AZURE)
def test_azure_against_the_csv_module(name: str) -> None:
    path = shared(name)
    with path.open(newline="") as file:
        rows = [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(file)]
    prompts, answers = np.array(rows).T
    found = read(path).lengths
    for percent in (50, 90, 99):
        expected = (
            np.percentile(prompts, percent, method="inverted_cdf"),
            np.percentile(answers, percent, method="inverted_cdf"),
        )
        assert (found.prompt.percentile(percent), found.answer.percentile(percent)) == expected
    assert found.prompt.largest == prompts.max()
    assert found.starts.total == prompts.sum()
    assert found.ends.total == (prompts + answers).sum()


def test_mooncake_against_the_json_module(tmp_path: Path) -> None:
    path = shared("mooncake/conversation_trace.jsonl.gz")
    with gzip.open(path) as file:
        rows = [json.loads(line) for line in file]
    ids = [one for row in rows for one in row["hash_ids"]]
    found = read(path)
    assert found.form == "Mooncake JSON lines"
    assert found.lengths.requests == len(rows) == 12_031
    assert found.lengths.prompt.total == sum(row["input_length"] for row in rows) == 144_793_823
    assert found.lengths.answer.total == sum(row["output_length"] for row in rows) == 4_122_048
    assert found.reuse is not None
    assert (found.reuse.blocks, found.reuse.different, found.reuse.error) == (len(ids), len(set(ids)), 0)
    assert found.reuse.tokens == 512
    assert 1 - found.reuse.different / found.reuse.blocks == pytest.approx(0.366, abs=5e-4)  # Mooncake's own figure
    unpacked = tmp_path / "trace.jsonl"
    unpacked.write_bytes(gzip.decompress(path.read_bytes()))
    assert read(unpacked).lengths.prompt.total == found.lengths.prompt.total
