"""The disk runs full, or the folder vanishes, in the middle of a run: what was measured is printed, and why is said."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli_run import Done, one_sentence, phasewise

from kineto_by_hand import events, write
from phasewise.cli import run
from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.isolate.ledger.book import Book
from phasewise.jobs import load
from small_disk import fill, small_disk, vanish, when

FAST = Plan(prefill_overhead_s=2e-3, prefill_per_token_s=0.0, decode_overhead_s=1e-3, max_context=2048)
LOAD = ("--users", "8", "--answer", "40", "--duration", "20s", "--warmup", "2", "--no-power", "--json")


@pytest.fixture(scope="module")
def server() -> Iterator[SimulatedServer]:
    with SimulatedServer(FAST) as running:
        yield running


def told(done: Done, code: int = 3) -> str:
    """The one sentence of a run that could not be saved."""
    assert done.code == code, (done.code, done.err[-2000:])
    assert "Traceback" not in done.err
    (said,) = (line for line in done.err.splitlines() if line.startswith("phasewise: "))
    assert said.startswith("phasewise: not saved in ")
    assert said.endswith("make room there or give --out another folder before the next run.")
    return said


def measured(found: dict[str, Any]) -> bool:
    """Whether a profile or a sweep has what it was made for."""
    return bool(found["decode"].get("tpot_s", 0) > 0 or found["verdict"].get("gain", 0) > 1)


def on_disk(folder: Path, table: str, where: str = "true") -> int:
    (parts,) = folder.glob("*/rows")
    ((count,),) = duckdb.sql(f"SELECT count(*) FROM '{parts}/{table}-*.parquet' WHERE {where}").fetchall()
    assert isinstance(count, int)
    return count


def test_a_load_whose_disk_runs_full_ends_and_tells_what_it_measured(server: SimulatedServer, tmp_path: Path) -> None:
    """Every request counts, also those whose rows found no room; those that did are whole files still."""
    with small_disk(tmp_path / "disk", 300) as disk:
        done = phasewise("load", server.url, *LOAD, "--out", str(disk), cwd=tmp_path)
        written = on_disk(disk, "requests", "trial = 0"), on_disk(disk, "chunks", "trial = 0")
        left = [path.name for path in disk.rglob("*.partial")]
    said, found = told(done), done.document
    assert "requests.parquet (No space left on device; the rows written until then are in rows/)" in said
    assert found["status"] == "partial"
    assert found["run"]["reason"].endswith("rows could not be written any more (No space left on device)")
    assert left == []
    assert 8 < written[0] < found["sent"]
    answered = found["sent"] - found["broken_off"]
    assert found["failed"] == 0
    assert found["broken_off"] <= 8
    assert found["sent"] == pytest.approx(answered, abs=8)
    # 40 tokens of each that was answered, in the middle of the run too: no event is counted twice or lost.
    assert found["rates"]["tokens_out"] == pytest.approx(40 * found["rates"]["requests"], rel=0.05)
    assert found["ttft"]["count"] == found["window"]["requests"] > written[0] / 2
    # It ended when it could not write, long before its 20 s.
    assert found["moments"][-1]["end_s"] < 15


@pytest.mark.parametrize("verb", ["load", "profile", "sweep"])
def test_a_folder_that_vanishes_costs_the_files_alone(server: SimulatedServer, tmp_path: Path, verb: str) -> None:
    more = {
        "load": (*LOAD, "--warmup", "0"),
        "profile": ("--budget", "3", "--no-power", "--json"),
        "sweep": ("--budget", "8", "--max-batch", "2", "--no-power", "--json"),
    }[verb]
    runs = tmp_path / "runs"
    parts = 3 if verb == "load" else 1  # the first were confirmed by then
    with when(runs, "*/rows/requests*.parquet", lambda: vanish(runs), parts):
        done = phasewise(verb, server.url, *more, "--out", str(runs), cwd=tmp_path)
    said, found = told(done), done.document
    assert "run.json (No such file or directory)" in said
    assert "requests.parquet (No such file or directory" in said
    if verb == "load":  # its figures are made of the rows, and those that were written are gone
        assert found["sent"] > 0
        assert "and no figure is of" in found["run"]["reason"]
    else:
        assert measured(found)


@pytest.mark.parametrize("verb", ["profile", "sweep"])
def test_a_disk_that_runs_full_costs_the_files_alone(server: SimulatedServer, tmp_path: Path, verb: str) -> None:
    more = {"profile": ("--budget", "3"), "sweep": ("--budget", "8", "--max-batch", "2")}[verb]
    with small_disk(tmp_path / "disk", 1024) as disk:
        with when(disk, "*/rows/requests*.parquet", lambda: fill(disk)):
            done = phasewise(verb, server.url, *more, "--no-power", "--json", "--out", str(disk), cwd=tmp_path)
        kept = on_disk(disk, "requests")
    said = told(done)
    assert "run.json (No space left on device)" in said
    assert "the rows written until then are in rows/" in said
    assert measured(done.document)
    assert kept > 0


def test_no_room_before_anything_is_measured_is_the_users_to_mend(server: SimulatedServer, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 100) as disk:
        fill(disk)
        for verb, more in (("load", ("--users", "1")), ("profile", ()), ("sweep", ())):
            done = phasewise(verb, server.url, *more, "--out", str(disk / "runs"), cwd=tmp_path)
            assert "No space left on device" in done.err
            assert "give --out a folder that can" in done.err.splitlines()[-1]
            assert done.code == 2
        assert [path.name for path in disk.iterdir()] == ["ballast"]


@pytest.mark.parametrize("warmup", ["0", "2"])
def test_a_load_that_finds_no_room_for_one_row_leaves_nothing(
    server: SimulatedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    warmup: str,
) -> None:
    with small_disk(tmp_path / "disk", 200) as disk:

        def full(folder: Path, *, keeps: bool) -> Book:
            fill(disk)
            return Book(folder, keeps=keeps)

        monkeypatch.setattr(load, "Book", full)
        code = run(["load", server.url, *LOAD, "--warmup", warmup, "--out", str(disk / "runs")])
        left = [path.name for path in disk.iterdir()]
    out, err = capsys.readouterr()
    if warmup == "0":  # some were answered, whose rows found no room: they are told
        assert code == 3
        assert json.loads(out)["sent"] > 0
        return
    assert code == 2
    assert out == ""
    assert err.splitlines()[-1].endswith("(No space left on device): give --out a folder that can.")
    assert left == ["ballast"]


POINTS = """phase,tokens,batch,context,seconds,tp
prefill,512,1,0,0.1,1
prefill,1024,1,0,0.2,1
prefill,2048,1,0,0.41,1
decode,,1,512,0.03,1
decode,,1,1024,0.031,1
decode,,4,1024,0.035,1
"""


def test_a_calibration_that_finds_no_room_is_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text(POINTS)
    (tmp_path / "file").write_text("")
    what = ("calibrate", "points.csv", "--model", "llama-3-8b", "--on", "a100-sxm-80gb")
    for home, why in (("disk", "No space left on device"), ("file", "Not a directory")):
        with small_disk(tmp_path / "disk", 40) if home == "disk" else small_disk(tmp_path / "other", 40) as disk:
            fill(disk)
            done = phasewise(*what, cwd=tmp_path, XDG_CONFIG_HOME=str(tmp_path / home))
            shown = phasewise(*what, "--json", cwd=tmp_path, XDG_CONFIG_HOME=str(tmp_path / home))
            assert not list(disk.rglob("*.partial"))
        assert done.code == shown.code == 3
        assert done.err.count("\n") == 1
        assert why in done.err
        assert "XDG_CONFIG_HOME" in done.err
        assert "PARAMETERS" in done.out
        assert "Use it" not in done.out
        assert shown.document["file"] is None
        (tmp_path / home).rmdir() if home == "disk" else None


def test_a_trace_that_finds_no_room_is_told_all_the_same(tmp_path: Path) -> None:
    """On a full disk: the annotated copy; with room for run.json alone: nothing of the report on stdout is missing."""
    made = write(tmp_path / "trace.json", events(bands=[("prefill", 2_000_000, 10_000_000)]))
    with small_disk(tmp_path / "disk", 200) as disk:
        fill(disk)
        what = ("trace", str(made), "--json", "--annotate", str(disk / "out.json"))
        done = phasewise(*what, "--out", str(tmp_path / "runs"), cwd=tmp_path)
        assert [path.name for path in disk.iterdir()] == ["ballast"]
    assert f"--annotate {disk / 'out.json'} (No space left on device)" in told(done)
    assert done.document["kernels_total"] == 3


def test_a_report_that_finds_no_room_leaves_no_half_of_one(tmp_path: Path) -> None:
    made = write(tmp_path / "trace.json")
    with small_disk(tmp_path / "disk", 200) as disk:
        fill(disk, but=72 << 10)  # the 64 KiB with which the folder is tried, run.json, and not the page
        done = phasewise("trace", str(made), "--json", "--out", str(disk), cwd=tmp_path)
        left = sorted(path.name for path in disk.glob("*/*"))
    assert done.document["kernels_total"] == 3
    assert "report.html (No space left on device)" in told(done)
    assert left in ([], ["run.json"])


def test_no_room_to_unpack_a_trace_names_tmpdir(tmp_path: Path) -> None:
    """An Nsight Systems export inside a .gz must lie on a disk to be read."""
    base = tmp_path / "export.sqlite"
    with sqlite3.connect(base) as connection:
        connection.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, "name" * 50) for i in range(4000)])
    packed = tmp_path / "export.sqlite.gz"
    packed.write_bytes(gzip.compress(base.read_bytes()))
    with small_disk(tmp_path / "disk", 200) as disk:
        done = phasewise("trace", str(packed), cwd=tmp_path, TMPDIR=str(disk))
        assert list(disk.iterdir()) == []
    sentence = one_sentence(done, 2)
    assert "No space left on device" in sentence
    assert "set TMPDIR" in sentence
