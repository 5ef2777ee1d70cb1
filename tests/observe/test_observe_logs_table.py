"""CSV logs: the quick way says what the careful way says or nothing, and the careful way names the line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observe_log_files import AZURE, azure, write

from phasewise.errors import InputError
from phasewise.observe.logs.read import read
from phasewise.observe.logs.rows import Block, Head, Rows
from phasewise.observe.logs.table import Columns, _Table, header

CELLS = st.one_of(
    st.integers(-5, 10**10).map(str),
    st.sampled_from(["", " ", " 12 ", "12.0", "1.5", "1e3", "nan", "inf", "-inf", "1_000", "0x1f", "٣", "007", "+5"]),
    st.sampled_from(['"12"', '"1,2"', '"1""2"', '12"', '"', '"12', "\x00", "1\x00", "\r", "é", ";", "\t"]),
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=4),
)
TIMES = st.one_of(
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)).map(lambda time: time.isoformat(" ")),
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)).map(lambda time: time.isoformat("T", "seconds")),
    st.sampled_from(["2023-11-16 18:17:03.9799600", "2023-02-30 00:00:00", "2024-05-10 00:00:00.009930+00:00"]),
    st.sampled_from(["2023-11-16", "2023-11-16 18:17:03.", "2023-11-16x18:17:03", "0000-01-01 00:00:00", "now", "1.5"]),
    st.floats(0, 1e10).map(repr),
    CELLS,
)


def table() -> _Table:
    head = Head(Path("log.csv"), 1, "time,prompt_tokens,answer_tokens")
    return _Table(head, header(head), Columns(prompt=1, answer=2, time=0))


def same(one: Rows, other: Rows) -> bool:
    assert one.time is not None
    assert other.time is not None
    return (
        np.array_equal(one.prompt, other.prompt)
        and np.array_equal(one.answer, other.answer)
        and np.allclose(one.time, other.time, rtol=0, atol=1e-6)
        and one.clock == other.clock
    )


@given(st.lists(st.tuples(TIMES, CELLS, CELLS), min_size=1, max_size=4))
@example([("1", "2", "3")])
@example([("2023-11-16 18:17:03", "2", "3"), ("2023-11-16 18:17:03.5", "2", "3")])
@example([('"1"', '"2"', '"3"')])
@example([('a"', '1,"2', "3")])
def test_quick_never_contradicts_careful(rows: list[tuple[str, str, str]]) -> None:
    block = Block(2, "".join(",".join(row) + "\n" for row in rows).encode())
    quick = table().quick(block)
    if quick is not None:
        assert same(quick, table().careful(block))


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 10**8), st.integers(0, 10**8)), min_size=1, max_size=9),
    st.sampled_from(["{:.3f},{},{}\n", '"{}",{},{}\n', '"{}","{}","{}"\n']),
)
def test_plain_rows_are_read_quickly(rows: list[tuple[float, int, int]], form: str) -> None:
    quick = table().quick(Block(2, "".join(form.format(*row) for row in rows).encode()))
    assert quick is not None
    assert quick.prompt.tolist() == [p for _, p, _ in rows]
    assert quick.answer.tolist() == [a for _, _, a in rows]


@pytest.fixture(params=["quick", "careful"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path to write to; what is there is read both ways."""
    if request.param == "careful":
        monkeypatch.setattr(_Table, "quick", lambda self, block: None)
    return tmp_path / "log.csv"


def test_dates_are_seconds(path: Path) -> None:
    found = read(write(path, AZURE + "2023-11-16 18:17:03.9799600,1,2\n2023-11-16T18:18:03,3,4\n"))
    assert found.first == pytest.approx(datetime(2023, 11, 16, 18, 17, 3, 979960, UTC).timestamp(), abs=1e-6)
    assert found.last == datetime(2023, 11, 16, 18, 18, 3, 0, UTC).timestamp()
    assert found.clock == "date"


@pytest.mark.parametrize(
    ("heading", "row", "seconds"),
    [
        ("time,prompt_tokens,answer_tokens", "1.5,3,4", 1.5),
        ("answer_tokens;PROMPT TOKENS;Time_ms", "4;3;1500", 1.5),
        ("id,input_length,output_length", "x,3,4", None),
        ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", "1.5,m,3,4,7,API log", 1.5),
        ("arrived_at,num_prefill_tokens,num_decode_tokens", "1.5,3,4", 1.5),
        ("request_id,arrival_timestamp,prompt_size,token_size", "0,1.5,3,4", 1.5),
        ("prompt_tokens\tcompletion_tokens", "3\t4", None),
        ('"TIMESTAMP","ContextTokens","GeneratedTokens"', '"1.5","3","4"', 1.5),
        ("TIMESTAMP,ContextTokens,GeneratedTokens", "1970-01-01 00:00:01.500000+00:00,3,4", 1.5),
        ("TIMESTAMP,ContextTokens,GeneratedTokens", "1970-01-01T01:00:01.5+01:00,3.0,4", 1.5),
    ],
)
def test_names_that_mean_these_columns(path: Path, heading: str, row: str, seconds: float | None) -> None:
    found = read(write(path, f"{heading}\n{row}\n"))
    assert (found.lengths.prompt.total, found.lengths.answer.total) == (3, 4)
    assert found.first == seconds


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + azure((1, 2), (3, 4)),
        azure((1, 2), (3, 4)).replace("\n", "\r\n"),
        azure((1, 2)) + "2023-11-16 18:17:00,3,4\r\n",
        azure((1, 2), (3, 4)).rstrip("\n"),
        "\n\n" + azure((1, 2)) + "\n  \n" + "2023-11-16 18:17:00,3,4\n\n\n",
    ],
    ids=["byte order mark", "CRLF", "mixed line ends", "no last newline", "blank lines and out of order"],
)
def test_harmless_oddities_are_read(path: Path, text: str) -> None:
    found = read(write(path, text)).lengths
    assert (found.requests, found.prompt.total, found.answer.total) == (2, 4, 6)


def test_a_bad_byte_in_a_column_that_is_not_read_does_no_harm(path: Path) -> None:
    found = read(write(path, b"user,prompt_tokens,answer_tokens\nJos\xe9,1,2\nJos\xc3\xa9,3,4\n"))
    assert (found.lengths.prompt.total, found.lengths.answer.total) == (4, 6)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("2023-11-16 18:17:05,-7,2", "has '-7' as 'ContextTokens', which is negative"),
        ("2023-11-16 18:17:05,7,2.5", "has '2.5' as 'GeneratedTokens', which is no whole number of tokens"),
        ("2023-11-16 18:17:05,NaN,2", "has 'NaN' as 'ContextTokens', which is no number of tokens"),
        ("2023-11-16 18:17:05,inf,2", "more than the 100,000,000 tokens"),
        ("2023-11-16 18:17:05,100000001,2", "more than the 100,000,000 tokens"),
        ("2023-11-16 18:17:05,9" + "9" * 400 + ",2", "more than the 100,000,000 tokens"),
        ("2023-11-16 18:17:05,,2", "has '' as 'ContextTokens', empty where a number of tokens belongs"),
        ("2023-11-16 18:17:05,many,2", "has 'many' as 'ContextTokens', which is no number of tokens"),
        ("2023-11-16 18:17:05,\x1b[31m7,2", r"has '\x1b[31m7' as 'ContextTokens'"),
        ("2023-11-16 18:17:05,7", "has 2 fields where the header has 3"),
        ("2023-11-16 18:17:05,7,2,9", "has 4 fields where the header has 3"),
        ("yesterday,7,2", "has 'yesterday' as 'TIMESTAMP', which is no time: write 2023-11-16"),
        ("2023-02-30 00:00:00,7,2", "which is no time"),
        ("17,7,2", "has '17' as 'TIMESTAMP', which is no time"),
        (",7,2", "has '' as 'TIMESTAMP', which is no time"),
        ("2023-11-16 18:17:\xe9,7,2", "which is no time"),
        ('"2023-11-16 18:17:05,7,2', "is not CSV"),
        ('"2023-11-16\n18:17:05",7,2', "has a quoted field that runs over its end"),
    ],
)
def test_a_bad_row_is_named_by_its_line(path: Path, row: str, says: str) -> None:
    good = azure(*[(10, 5)] * 41)
    with pytest.raises(InputError) as raised:
        read(write(path, (good + row + "\n2023-11-16 18:17:05,1,1\n").encode("latin-1")))
    assert "log.csv line 43 " in str(raised.value)
    assert says in str(raised.value)
    assert str(raised.value).isprintable()
    assert str(raised.value).endswith(".")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time,prompt_tokens\n1,2\n", "names no column answer_tokens"),
        ("2023-11-16 18:17:03,4808,10\n", "names no column prompt_tokens"),
        ("prompt_tokens,input_tokens,answer_tokens\n1,2,3\n", "two columns for one thing, 'prompt_tokens' and"),
        ("time,prompt_tokens,answer_tokens\n", "holds no request below its header"),
        ("time,prompt_tokens,answer_tokens\n\n \n", "holds no request below its header"),
        ("time,prompt_tokens,answer_tokens\n1,0,0\n", "has no request with a token"),
        ("time,prompt_tokens,answer_tokens\n1700000000000,1,2\n", "call the column time_ms"),
        ("<html><body>404</body></html>\n", "names no column prompt_tokens"),
        ("\x1b]0;title\x07,\x9b31m\n1,2\n", "names no column prompt_tokens"),
        ("a" * 300_000 + "\n1,2\n", "names no column prompt_tokens"),
        ('"' + "a" * 300_000 + "\n1,2\n", "names no column prompt_tokens"),
    ],
)
def test_a_file_that_is_no_log(path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as raised:
        read(write(path, text))
    assert "log.csv" in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600


def test_lines_are_numbered_across_blocks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasewise.observe.logs.lines.SIZE", 256)
    good = azure(*[(10, 5)] * 999)
    assert read(write(path, good)).lengths.prompt.total == 9_990
    with pytest.raises(InputError, match="line 1,001 has '-1'"):
        read(write(path, good + "2023-11-16 18:17:05,-1,1\n"))
