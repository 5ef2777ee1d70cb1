"""Bytes that are no text, no whole gzip or no lines are refused in one sentence; no input is ever changed."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observe_log_files import azure, write

from phasewise.errors import InputError, UsageError
from phasewise.observe.logs import lines
from phasewise.observe.logs.read import read, read_all

GOOD = azure(*[(100, 7)] * 5000).encode()
PACKED = gzip.compress(GOOD, mtime=0)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\n\n\n", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (PACKED[: len(PACKED) // 2], "is a gzip file cut short after line"),
        (PACKED[:-5], "is a gzip file cut short after line"),
        (PACKED[:-8] + b"\0" * 8, "is a damaged gzip file after line"),
        (PACKED[:200] + b"\xff" * 200 + PACKED[400:], "is a damaged gzip file after line"),
        (PACKED + b"garbage", "is a damaged gzip file after line"),
        (b"\x1f\x8b", "is a gzip file cut short after line 0"),
        (b"\x28\xb5\x2f\xfd" + PACKED, "is packed with zstd: unpack it"),
        (b"PK\x03\x04" + PACKED, "is a zip archive: unpack it"),
        (b"PAR1" + PACKED, "is a Parquet file: write it as CSV"),
        (GOOD.decode().encode("utf-16"), "is written in UTF-16: save it as UTF-8"),
        (GOOD.decode().encode("utf-16-le"), "is not a text file"),
        (zlib.compress(GOOD), "is not a text file|names no column"),
        (GOOD.replace(b"\n", b"\r"), "ends its lines with carriage returns"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens" + b" " * (9 << 20), "line 1 is longer than 4 MiB"),
        (GOOD + b"7" * (9 << 20) + b"\n", "line 5,002 is longer than 4 MiB"),
        (gzip.compress(GOOD + b"7" * (64 << 20), mtime=0), "line 5,002 is longer than 4 MiB"),
    ],
)
def test_bytes_that_are_no_log(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=says) as raised:
        read(path)
    assert str(path) in str(raised.value)
    assert str(raised.value).isprintable()
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["log.csv"]


@pytest.mark.parametrize(
    "data",
    [PACKED, gzip.compress(GOOD[:3000], mtime=0) + gzip.compress(GOOD[3000:], mtime=0), PACKED + b"\0" * 512, GOOD],
)
def test_gzip_is_known_by_content(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(data)
    assert read(path).lengths.prompt.total == 500_000


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "log"
    for content in (data, gzip.compress(data), azure((1, 2)).encode() + data, b'{"timestamp":0,' + data):
        path.write_bytes(content)
        # Anything but these two outcomes is a traceback for the user.
        with contextlib.suppress(InputError):
            assert read(path).lengths.requests > 0


@given(st.lists(st.text("ab\r", max_size=30), min_size=1, max_size=30), st.integers(40, 90))
def test_blocks_are_the_lines(tmp_path_factory: pytest.TempPathFactory, text: list[str], size: int) -> None:
    path = tmp_path_factory.mktemp("lines") / "log"
    path.write_bytes("\n".join(["header", "second", *text]).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "SIZE", size)
        found = list(lines.blocks(path))
    data = path.read_bytes()
    ended = data if data.endswith(b"\n") else data + b"\n"
    assert b"".join(block.text for block in found) == ended.replace(b"\r\n", b"\n")
    assert [block.line for block in found] == [
        1 + sum(block.text.count(b"\n") for block in found[:i]) for i in range(len(found))
    ]


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory: name the request logs in it"):
        read(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError) as raised:
        read(tmp_path / "a\n\x1b[31m.csv")
    assert str(raised.value).isprintable()


def test_one_file_named_twice_would_count_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", GOOD)
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    with pytest.raises(UsageError, match="are one file"):
        read_all([path, link])


def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    paths, told = [write(tmp_path / f"{i}.csv", GOOD) for i in range(3)], []
    read_all(paths, lambda doing, fraction: told.append((doing, fraction)))
    fractions = [fraction for _, fraction in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert {doing for doing, _ in told} == {"reading 0.csv", "reading 1.csv", "reading 2.csv"}


def test_a_pipe_is_read_too(tmp_path: Path) -> None:
    out, into = os.pipe()
    os.write(into, azure((3, 4)).encode())
    os.close(into)
    try:
        assert read(Path(f"/dev/fd/{out}")).lengths.prompt.total == 3
    finally:
        os.close(out)
