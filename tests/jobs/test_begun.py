"""What a run leaves that ends before it measured anything."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from phasewise.isolate.ledger.book import Book
from phasewise.jobs.begun import begun
from phasewise.jobs.envelope import envelope
from phasewise.record.run import Run, claimed

RUN = Run(envelope=envelope("profile", "x", 0.0, status="interrupted"))


def test_ctrl_c_while_the_child_starts_leaves_neither_folder_nor_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Book, seconds: float | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Book, "_wait", stop)
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(KeyboardInterrupt), claimed("one", tmp_path / "runs") as folder, begun(RUN, folder):
        pytest.fail("it was stopped")
    assert not (tmp_path / "runs").exists()
    assert {child.pid for child in psutil.Process().children()} == before


def test_what_was_measured_stays(tmp_path: Path) -> None:
    with claimed("one", tmp_path / "runs") as folder, begun(RUN, folder) as rows:
        assert rows.close() == ""
    assert {path.name for path in folder.iterdir()} == {"run.json"}
