"""One recording under two names counts once; two recordings that look alike count both."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from kineto_by_hand import KERNELS, events, write
from phasewise.cli import run
from phasewise.observe.traces.opening import read_all
from phasewise.observe.traces.twins import fingerprint


def copied(path: Path, other: Path) -> Path:
    other.parent.mkdir(exist_ok=True)
    shutil.copyfile(path, other)
    return other


def packed(path: Path, other: Path) -> Path:
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(gzip.compress(path.read_bytes()))
    return other


def told(paths: list[Path]) -> tuple[int, int, str]:
    """Kernels, ranks, and what was left out."""
    found = read_all(paths)
    return len(found.kernels.start), len(found.sources), " ".join(found.sources[0].notes)


def test_a_copy_and_a_packed_one_elsewhere_count_once(tmp_path: Path) -> None:
    one = write(tmp_path / "a.json")
    for twin in (copied(one, tmp_path / "b.json"), packed(one, tmp_path / "elsewhere" / "c.json.gz")):
        kernels, ranks, notes = told([one, twin])
        assert (kernels, ranks) == (len(KERNELS), 1)
        assert f"{twin} was left out: it holds the recording of {one}, which would count twice." in notes
        assert told([twin, one])[:2] == (len(KERNELS), 1)
    assert told([tmp_path])[:2] == (len(KERNELS), 1)


def test_what_our_own_annotation_wrote_is_the_same_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write(tmp_path / "a.json", events(bands=[("prefill", 2_000_000, 10_000_000)]))
    annotated = tmp_path / "out" / "annotated.json"
    annotated.parent.mkdir()
    assert run(["trace", str(one), "--annotate", str(annotated), "--out", str(tmp_path / "runs"), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert run(["trace", str(one), str(annotated), "--out", str(tmp_path / "runs"), "--json"]) == 0
    both = json.loads(capsys.readouterr().out)
    for name in ("kernels_total", "gpu_sum_s", "gpu_union_s", "span_s"):
        assert both[name] == alone[name]


@pytest.mark.parametrize("differs", ["rank", "time", "one kernel"])
def test_two_that_look_alike_are_two(tmp_path: Path, differs: str) -> None:
    one = write(tmp_path / "a.json", rank=0)
    later = [(name, start + 1, length) for name, start, length in KERNELS]
    longer = [*KERNELS[:-1], ("gemv", 7_000_000, 12)]
    made = {"rank": events(), "time": events(later), "one kernel": events(longer)}[differs]
    other = write(tmp_path / "b.json", made, rank=1 if differs == "rank" else 0)
    assert told([one, other]) == (2 * len(KERNELS), 2, "")


def test_each_phase_by_the_same_recording_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write(tmp_path / "a.json")
    twin = packed(one, tmp_path / "elsewhere" / "b.json.gz")
    for other in (one, twin):
        assert run(["trace", "--prefill", str(one), "--decode", str(other), "--out", str(tmp_path / "runs")]) == 2
        assert "one and the same recording" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_tables_without_a_timeline_are_held_against_each_other_too(tmp_path: Path) -> None:
    head = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    rows = "60.0,600,2,300.0,300.0,250,350,50.0,gemm\n40.0,400,1,400.0,400.0,400,400,0.0,norm\n"
    one, twin, other = (tmp_path / name / "kernels.csv" for name in "abc")
    for path, text in ((one, rows), (twin, rows), (other, rows.replace("norm", "rope"))):
        path.parent.mkdir()
        path.write_text(head + text)
    assert sum(read_all([one, twin]).totals.instances) == 3
    assert sum(read_all([one, other]).totals.instances) == 6


def test_nothing_is_the_twin_of_nothing(tmp_path: Path) -> None:
    found = read_all([write(tmp_path / "a.json")])
    empty = found._replace(
        **{
            name: type(table)(*(column[:0] for column in table))
            for name, table in found._asdict().items()
            if hasattr(table, "_fields") and name not in ("names", "threads", "shapes", "sources")
        }
    )
    assert fingerprint(found) is not None
    assert fingerprint(empty) is None
