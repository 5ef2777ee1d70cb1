"""Mooncake logs: ids of blocks, and what is no request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observe_log_files import write

from phasewise.errors import InputError
from phasewise.observe.logs.mooncake import _ids, _Request, mooncake
from phasewise.observe.logs.read import read
from phasewise.observe.logs.rows import Block, Head

GOOD = '{"timestamp": 1500, "input_length": 600, "output_length": 4, "hash_ids": [0, 1]}\n'


@given(
    st.lists(st.lists(st.integers(0, 2**64 - 2), max_size=5), min_size=1, max_size=6),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]),
)
def test_ids_are_the_lists_one_after_the_other(lists: list[list[int]], separators: tuple[str, str]) -> None:
    rows = [{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ids} for ids in lists]
    text = "".join(json.dumps(row, separators=separators).replace("[]", "[ ]") + "\n" for row in rows)
    log = mooncake(Head(Path("log.jsonl"), 1, "{"))
    assert log is not None
    found = log.rows(Block(1, text.encode())).block_ids
    assert found is not None
    assert found.tolist() == [one for ids in lists for one in ids]


def test_a_request_without_ids_means_that_reuse_is_not_known(tmp_path: Path) -> None:
    row = '{"timestamp": 2500, "input_length": 9, "output_length": 1}\n'
    found = read(write(tmp_path / "log.jsonl", GOOD + row))
    assert found.reuse is None
    assert (found.first, found.last, found.lengths.prompt.total) == (1.5, 2.5, 609)
    assert _ids([_Request(timestamp=0, input_length=1, output_length=1)]) is None


def test_blocks_of_another_size_are_said_to_be_so(tmp_path: Path) -> None:
    found = read(write(tmp_path / "log.jsonl", GOOD.replace("[0, 1]", "[0, 1, 2, 0]")))
    assert found.reuse is not None
    assert (found.reuse.blocks, found.reuse.different, found.reuse.tokens) == (4, 3, None)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"timestamp": 0, "input_length": -1, "output_length": 1}', "Expected int >= 0 - at $.input_length"),
        ('{"timestamp": 0, "input_length": 1.5, "output_length": 1}', "Expected int, got float"),
        ('{"timestamp": 0, "input_length": true, "output_length": 1}', "Expected int, got bool"),
        ('{"timestamp": 0, "input_length": "1", "output_length": 1}', "Expected int, got str"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1e99}', "Expected int"),
        ('{"timestamp": 0, "input_length": 1' + "0" * 5000 + ', "output_length": 1}', "$.input_length"),
        ('{"timestamp": 0, "input_length": NaN, "output_length": 1}', "malformed"),
        ('{"timestamp": null, "input_length": 1, "output_length": 1}', "Expected float, got null"),
        ('{"timestamp": 0, "input_length": 1}', "missing required field output_length"),
        ('{"timestamp": 0, "input_le', "truncated"),
        ('{"timestamp": 0, "x": ' + "[" * 100_000, "nested too deeply"),
        ("[0, 1, 2]", "Expected object, got array"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1, -2]}', "not a list of whole numbers"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1.5]}', "not a list of whole numbers"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}', "not a list of whole numbers"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": null}', "not a list of whole numbers"),
        (
            '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": {"a": 1}}',
            "not a list of whole numbers",
        ),
        (
            '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [99999999999999999999]}',
            "more than 64 bits",
        ),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, row: str, says: str) -> None:
    with pytest.raises(InputError) as raised:
        read(write(tmp_path / "log.jsonl", GOOD * 20 + "\n" + row + "\n" + GOOD))
    assert "log.jsonl line 22 is no Mooncake request" in str(raised.value)
    assert says in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600


def test_one_json_array_is_refused_with_its_cure(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one JSON array: write one object per line"):
        read(write(tmp_path / "log.json", f"[{GOOD.strip()}]\n"))


@pytest.mark.parametrize(
    "text", ["\ufeff" + GOOD * 2, GOOD.replace("\n", "\r\n") * 2, "\n" + GOOD + "\n" + GOOD.strip()]
)
def test_harmless_oddities_are_read(tmp_path: Path, text: str) -> None:
    found = read(write(tmp_path / "log.jsonl", text))
    assert (found.lengths.requests, found.lengths.prompt.total) == (2, 1200)
    assert found.reuse is not None
    assert (found.reuse.blocks, found.reuse.different) == (4, 2)
