"""Logs row by row: the lengths and times of each form, block ids per request, ShareGPT's texts, hostile files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from observe_log_files import AZURE, shared, write

from phasewise.errors import InputError
from phasewise.observe.logs.requests import requests

BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def test_azure_and_burstgpt_and_ours(tmp_path: Path) -> None:
    azure = requests(write(tmp_path / "a.csv", AZURE + "2023-11-16 18:17:03.5,374,44\n2023-11-16 18:17:04.0,10,0\n"))
    assert azure.time is not None
    assert (azure.prompt.tolist(), azure.answer.tolist()) == ([374, 10], [44, 0])
    assert azure.time[1] - azure.time[0] == 0.5
    burst = requests(
        write(tmp_path / "b.csv", BURST + "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n")
    )
    assert burst.time is not None
    assert (burst.prompt.tolist(), burst.time.tolist()) == ([472, 1087], [5, 45])
    ours = requests(write(tmp_path / "c.csv.gz", "time,prompt_tokens,answer_tokens\n0,1,2\n1.5,3,4\n"))
    assert ours.answer.tolist() == [2, 4]
    assert ours.block_ids is None


def test_mooncakes_ids_by_request(tmp_path: Path) -> None:
    lines = [
        {"timestamp": 1500, "input_length": 1000, "output_length": 3, "hash_ids": [4, 9]},
        {"timestamp": 0, "input_length": 0, "output_length": 3, "hash_ids": []},
        {"timestamp": 2000, "input_length": 5, "output_length": 3, "hash_ids": [4]},
    ]
    path = write(tmp_path / "m.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    found = requests(path)
    assert found.block_ids is not None
    assert found.block_counts is not None
    assert found.time is not None
    assert found.block_ids.tolist() == [4, 9, 4]
    assert found.block_counts.tolist() == [2, 0, 1]
    assert found.time.tolist() == [1.5, 0, 2]


def test_the_shared_mooncake_trace() -> None:
    path = shared("mooncake/conversation_trace.jsonl.gz")
    found = requests(path)
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    assert found.block_counts is not None
    assert found.block_ids is not None
    assert found.block_counts.tolist() == [len(row["hash_ids"]) for row in rows]
    assert found.block_ids.tolist() == [i for row in rows for i in row["hash_ids"]]
    assert found.prompt.tolist() == [row["input_length"] for row in rows]


def test_sharegpt_takes_the_first_two_turns(tmp_path: Path) -> None:
    talks = [
        {"id": "a", "conversations": [{"from": "human", "value": value} for value in ("x" * 40, "y" * 81, "z")]},
        {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
        {"id": "c"},
        {"id": "d", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]},
    ]
    found = requests(write(tmp_path / "s.json", json.dumps(talks, indent=1)))
    assert found.form == "ShareGPT JSON"
    assert found.prompt.tolist() == [10, 1]
    assert found.answer.tolist() == [20, 1]
    assert found.texts == ("x" * 40, "hi")
    assert found.time is None


@pytest.mark.parametrize(
    "text",
    ["[", "[1, 2]", "[]", '[{"conversations": 3}]', "[" * 100_000, "[{}]", '[{"conversations": [{"value": 1}]}]'],
)
def test_arrays_that_are_no_conversations(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"s\.json"):
        requests(write(tmp_path / "s.json", text))


@pytest.mark.parametrize(
    "data", [b"", b"\x1f\x8b\x08", b"time,prompt_tokens,answer_tokens\n", b"\0\0", b'{"timestamp": 1}\n']
)
def test_files_that_hold_no_request(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(InputError, match="s"):
        requests(tmp_path / "s")
    with pytest.raises(InputError, match="directory"):
        requests(tmp_path)
