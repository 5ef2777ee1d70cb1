"""Rows handed to a child: whoever is killed, what was handed over is written, once."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasewise.engines.exchange import Arrivals, Exchange, joined
from phasewise.isolate.ledger import book as books
from phasewise.isolate.ledger import table
from phasewise.isolate.ledger.book import Book
from phasewise.isolate.ledger.parts import Parts
from phasewise.isolate.ledger.schema import TABLES, WARMUP, Asked, Frame, chunks, row
from small_disk import fill, small_disk
from writers import wait_for_end

pytestmark = pytest.mark.alone


def add(book: Book, key: int) -> None:
    """A request and its three tokens."""
    book.sink(key, events(key))
    book.ended(Exchange(key=key, due=1.0, sent_at=2.0, arrivals=joined([])), Asked(0, 0, None, 5, 3))
    book.push()


def events(key: int) -> Arrivals:
    return Arrivals(
        at=np.arange(3) + 10**9 * key,
        read=np.arange(3, dtype=np.int32),
        tokens=np.ones(3, np.int32),
        kind=np.ones(3, np.uint8),
    )


def keys(folder: Path, name: str) -> list[int]:
    return [int(key) for key in table.read(folder, name, "request")["request"]]


def kill(book: Book) -> None:
    os.kill(book._child.pid, signal.SIGKILL)


def test_a_child_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    with Book(tmp_path) as book:
        for key in range(400):
            add(book, key)
            if key % 100 == 37:
                kill(book)
            time.sleep(0.004)
        kill(book)
    assert keys(tmp_path, "requests") == list(range(400))
    assert keys(tmp_path, "chunks") == [key for key in range(400) for _ in range(3)]
    table.merge(tmp_path, unused={0, 7})
    assert sorted(keys(tmp_path, "requests")) == list(range(400))
    assert table.read(tmp_path, "requests", "request", f"trial = {WARMUP}")["request"].tolist() == [0, 7]
    assert {path.name for path in tmp_path.iterdir()} == {"requests.parquet", "chunks.parquet"}


def test_one_that_is_killed_too_often_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "_MOST_KILLED", 1)
    book = Book(tmp_path)
    add(book, 1)
    for _ in range(2):
        child = book._child
        kill(book)
        while book._child is child and not book.why:
            time.sleep(0.01)
            book.push()
    add(book, 2)
    with pytest.raises(OSError, match="ended early"):
        book.close()


def test_a_folder_that_is_full_is_told_and_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("")
    with pytest.raises(OSError, match="File exists"):
        Book(tmp_path)
    (tmp_path / "rows").unlink()
    book = Book(tmp_path)
    for path in (tmp_path / "rows").iterdir():
        path.unlink()
    (tmp_path / "rows").rmdir()
    until = time.monotonic() + 30
    for key in itertools.count():
        add(book, key)
        time.sleep(0.01)
        if not book._kept or time.monotonic() > until:  # it says so when its turn on a busy machine has come
            break
    assert not book._kept
    with pytest.raises(OSError, match="No such file"):
        book.close()
    book.close()


def test_what_finds_no_room_is_kept_when_it_is_asked_for(tmp_path: Path) -> None:
    """Rows that were written and rows that were not are each there once, whatever of a part found room."""
    with small_disk(tmp_path / "disk", 300) as disk:
        book = Book(disk, keeps=True)
        until = time.monotonic() + 60
        for key in itertools.count():
            add(book, key)
            time.sleep(0.002)
            if book.why or time.monotonic() > until:
                break
            if any(disk.glob("rows/chunks-*.parquet")):
                fill(disk)
        with pytest.raises(OSError, match="No space left on device"):
            book.close()
        rest = book.rest()
        written = keys(disk, "requests")
        every = table.read(disk, "requests", "request", rest=rest)["request"].tolist()
        chunks_ = table.read(disk, "chunks", "request, tokens", rest=rest)
    assert 0 < len(written) < len(every)
    assert every == list(range(key + 1))
    assert chunks_["request"].tolist() == [one for one in range(key + 1) for _ in range(3)]
    assert set(chunks_["tokens"].tolist()) == {1}


PARENT = """
import sys, time
sys.path += sys.argv[2:]
from pathlib import Path
from test_ledger_book import Book, add
book = Book(Path(sys.argv[1]))
for key in range(10**6):
    add(book, key)
    print(key, time.monotonic(), book._child.pid, flush=True)
    time.sleep(0.02)
"""


@pytest.mark.parametrize("both", [False, True])
def test_what_a_killed_parent_handed_over_is_written(tmp_path: Path, both: bool) -> None:
    """With its child at the same moment: all but what came in the time that rows may wait, and some more."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), *map(str, Path(__file__).parents[:2])],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    told = [parent.stdout.readline().split() for _ in range(300)]
    child = psutil.Process(int(told[-1][2]))
    if both:
        child.kill()
    parent.kill()
    at = time.monotonic()
    told += [line.split() for line in parent.stdout.read().splitlines()]
    parent.wait()
    parent.stdout.close()
    wait_for_end([child])
    due = {int(key) for key, when, _ in told if float(when) < at - (3.0 if both else 0.0)}
    assert len(due) > 100
    for name, each in (("requests", 1), ("chunks", 3)):
        found = keys(tmp_path, name)
        assert due <= set(found)
        assert found == [key for key in range(len(found) // each) for _ in range(each)]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), max_size=3),
    st.sampled_from(["", "requests", "chunks"]),
)
def test_frames_given_again_are_written_once(
    tmp_path_factory: pytest.TempPathFactory, frames: list[tuple[bool, bool]], again_from: list[int], lost: str
) -> None:
    """``lost``: of the last part of that table the writer was killed before it had its name."""
    folder = tmp_path_factory.mktemp("parts") / "rows"
    folder.mkdir()
    made = []
    for key, (request, tokens) in enumerate(frames):
        requests = [row(Exchange(key=key, due=0.0, arrivals=joined([])), Asked(0, 0, None, 1, 1), 0.0)] * request
        made.append(Frame(requests, [chunks([(key, events(key))], 0, 0, 0.0)] * tokens))
    confirmed = len(frames)
    for again in [0, *sorted(again_from), 0]:
        begin = min(again, confirmed)
        parts = Parts(folder, "000", begin)
        for place, frame in enumerate(made[begin:]):
            parts.add(frame)
            if place % 3 == 2:
                parts.write()
        parts.write()
        if lost and (there := sorted(folder.glob(f"{lost}-*.parquet"))):
            there[-1].unlink()
            confirmed = int(there[-1].stem.split("-")[2])  # what had no name was told to nobody: it comes again
            lost = ""
        else:
            confirmed = len(frames)
    assert keys(folder.parent, "requests") == [key for key, (request, _) in enumerate(frames) if request]
    assert keys(folder.parent, "chunks") == [key for key, (_, tokens) in enumerate(frames) if tokens for _ in range(3)]


def test_columns_are_of_the_schema(tmp_path: Path) -> None:
    with Book(tmp_path) as book:
        add(book, 3)
    table.merge(tmp_path)
    import duckdb

    for name, types in TABLES.items():
        with duckdb.connect() as connection:
            described = connection.sql(f"DESCRIBE SELECT * FROM '{tmp_path}/{name}.parquet'").fetchall()
        assert {column: kind for column, kind, *_ in described} == types
    assert set(TABLES["requests"]) == {field.name for field in msgspec.structs.fields(type(book_row()))}


def book_row() -> msgspec.Struct:
    return row(Exchange(key=1, due=0.0, arrivals=joined([])), Asked(0, 0, None, 1, 1), 0.0)
