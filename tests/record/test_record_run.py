"""Runs on disk: a folder of one's own, tried before it is needed, and files that are no runs."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from phasewise.errors import InputError
from phasewise.record.envelope import Envelope
from phasewise.record.run import Run, claimed, load, save

RUN = Run(envelope=Envelope(id="x", command="profile", arguments=(), created="", duration_s=0.0, status="partial"))


def test_a_run_reads_back(tmp_path: Path) -> None:
    with claimed("one", tmp_path / "some" / "runs") as folder:
        save(RUN, folder)
    assert folder == tmp_path / "some" / "runs" / "one"
    assert load(folder) == load(folder / "run.json") == RUN
    assert os.listdir(folder) == ["run.json"]


def test_runs_of_one_second_get_a_folder_each(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def one(number: int) -> Path:
        barrier.wait()
        with claimed("same", tmp_path) as folder:
            (folder / "mine").write_text(str(number))
            return folder

    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(one, range(8)))
    assert len(set(folders)) == 8
    assert [(folder / "mine").read_text() for folder in folders] == [str(number) for number in range(8)]
    assert {folder.name for folder in folders} == {"same", *(f"same-{number}" for number in range(2, 9))}


def test_what_nothing_was_put_into_is_gone_again(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), claimed("one", tmp_path / "a" / "b"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept").mkdir()
    with claimed("one", tmp_path / "kept"):
        pass
    assert os.listdir(tmp_path / "kept") == []


def test_a_folder_that_cannot_be_made_or_written_to_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for root in (file, file / "below", tmp_path / "dangling", tmp_path / ("x" * 5000)):
        with pytest.raises(InputError, match="cannot be written to") as found, claimed("one", root):
            pytest.fail("nothing is measured")
        assert len(str(found.value)) < 400

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="No space left"), claimed("one", tmp_path / "full"):
        pytest.fail("nothing is measured")
    assert not (tmp_path / "full").exists()


def test_a_write_that_fails_leaves_no_half_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        save(RUN, tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.timeout(20)
def test_what_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "nested").write_text('{"schema":1,"envelope":' + "[" * 100_000 + "]" * 100_000 + "}")
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate((64 << 20) + 1)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "newer").write_text('{"schema": 99}')
    cases = {
        tmp_path / "nested": "not a phasewise run",
        tmp_path / "deep": "not a phasewise run",
        tmp_path / "empty": "not a phasewise run",
        tmp_path / "folder": r"holds no run\.json",
        tmp_path / "huge": "over 64 MiB",
        tmp_path / "pipe": "no regular file",
        tmp_path / "newer": "newer phasewise",
        Path("/dev/zero"): "no regular file",
        tmp_path / "missing": "cannot be read",
        tmp_path / ("x" * 5000): "cannot be read",
    }
    for path, says in cases.items():
        with pytest.raises(InputError, match=says) as found:
            load(path)
        assert len(str(found.value)) < 400
