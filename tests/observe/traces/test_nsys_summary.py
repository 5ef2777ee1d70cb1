"""Kernel summaries of nsys stats: versions, units, what stands around them, and what is no summary."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
from nsys_files import named, shared

from phasewise.errors import InputError
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import nsys_summary

NEW = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
ROWS = '60.0,3000,2,1500.0,1400.5,1000,2000,7.0,"void f<int, 2>(T1)"\n40.0,2000,1,2000.0,2000.0,2000,2000,0.0,g\n'


def read(path: Path, content: str | bytes) -> Trace:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    opened = Opened(path)
    assert nsys_summary.sniff(opened)
    return nsys_summary.read(opened, lambda what, done: None)


@pytest.mark.parametrize(
    ("phase", "kernels", "total", "first"),
    [("prefill", 6_660, 65_691_733, (2_035, 16_214_877)), ("decode", 78_016, 179_072_697, (16_448, 61_602_133))],
)
def test_published_sums(phase: str, kernels: int, total: int, first: tuple[int, int]) -> None:
    opened = Opened(shared(f"deepseek_ocr_kern_sum/{phase}.csv"))
    assert nsys_summary.sniff(opened)
    totals = nsys_summary.read(opened, lambda what, done: None).totals
    assert (int(totals.instances.sum()), int(totals.total.sum())) == (kernels, total)
    assert (int(totals.instances[0]), int(totals.total[0])) == first


def test_a_table_of_today(tmp_path: Path) -> None:
    trace = read(tmp_path / "new.csv", NEW + ROWS)
    assert named(trace, trace.totals.name) == ["void f<int, 2>(T1)", "g"]
    assert trace.totals.instances.tolist() == [2, 1]
    assert trace.totals.total.tolist() == [3000, 2000]
    assert trace.totals.median.tolist() == [1400.5, 2000.0]
    assert trace.totals.least.tolist() == [1000, 2000]
    assert trace.totals.most.tolist() == [2000, 2000]
    assert trace.sources[0].faults == ()


@pytest.mark.parametrize(
    ("heading", "factor"),
    [
        ("Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name", 1),
        ("Time(%),Total Time,Instances,Average,Minimum,Maximum,Name", 1),
        ("Time (%),Total Time (us),Instances,Avg (us),Min (us),Max (us),Name", 1_000),
        ("Time (%),Total Time (μs),Instances,Avg (μs),Min (μs),Max (μs),Name", 1_000),
        ("Time (%),Total Time (ms),Instances,Avg (ms),Min (ms),Max (ms),Name", 1_000_000),
        ("Time (%),Total Time (sec),Instances,Avg (sec),Min (sec),Max (sec),Name", 1_000_000_000),
        ("Time(%),Total Time (usec),Instances,Average,Minimum,Maximum,Name", 1_000),
    ],
)
@pytest.mark.parametrize("separator", [",", "\t"])
def test_headings_of_other_versions_and_units(tmp_path: Path, heading: str, factor: int, separator: str) -> None:
    table = f"{heading}\n100.0,2.5,4,0.625,0.5,1,k\n".replace(",", separator)
    totals = read(tmp_path / "other", table).totals
    assert totals.instances.tolist() == [4]
    assert totals.total.tolist() == [round(2.5 * factor)]
    assert totals.most.tolist() == [factor]
    assert math.isnan(totals.median[0])


def test_messages_around_it_and_reports_after_it(tmp_path: Path) -> None:
    around = (
        f"Processing [a.sqlite] with [cuda_gpu_kern_sum.py]...\n\n{NEW}{ROWS}\nTime (%),Total Time (ns),Count\n1,2,3\n"
    )
    assert read(tmp_path / "all.txt", "\ufeff" + around).totals.instances.tolist() == [2, 1]


def test_grids_and_categories(tmp_path: Path) -> None:
    grids = "Time (%),Total Time (ns),Instances,Min (ns),Max (ns),GridXYZ,BlockXYZ,Name\n9,8,7,6,5,   1    1,  128,k\n"
    assert read(tmp_path / "grid.csv", grids).totals.total.tolist() == [8]
    mixed = (
        "Time (%),Total Time (ns),Instances,Category,Operation\n9,8,7,CUDA_KERNEL,k\n1,5,3,MEMORY_OPER,[CUDA memcpy]\n"
    )
    trace = read(tmp_path / "mixed.csv", mixed)
    assert named(trace, trace.totals.name) == ["k"]


def test_rows_that_are_no_sums_are_left_out_and_said(tmp_path: Path) -> None:
    bad = "1,n/a,2,3,3,3,3,0,a\n1,-5,2,3,3,3,3,0,b\n1,NaN,2,3,3,3,3,0,c\nshort\n"
    bad += "1,5,Infinity,3,3,3,3,0,d\n1,5,1,3,3,3,3,0,\n"
    trace = read(tmp_path / "bad.csv", NEW + bad + ROWS + '1,"1,234,567",1,3,3,3,3,0,e')
    assert trace.totals.total.tolist() == [3000, 2000, 1234567]
    (fault,) = trace.sources[0].faults
    assert fault.detail.startswith("6 rows")


def test_broken_text_and_gzip(tmp_path: Path) -> None:
    packed = gzip.compress((NEW + ROWS * 500).encode() + b"1,5,1,3,3,3,3,0,\xff\n")[:-12]
    trace = read(tmp_path / "cut.csv.gz", packed)
    assert 0 < len(trace.totals.name) <= 1_001
    assert trace.sources[0].faults[0].check == "truncated"
    whole = read(tmp_path / "bytes.csv", NEW.encode() + b"1,5,1,3,3,3,3,0,\xff\n")
    assert whole.sources[0].faults[0].check == "encoding"


def test_a_heading_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kernel"):
        read(tmp_path / "empty.csv", NEW)


@pytest.mark.parametrize(
    "text",
    [
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n",
        "Time (%),Total Time (ns),Instances,Avg (ns),Style,Range\n",
        "Time (%),Total Time (fortnights),Instances,Name\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n",
        "",
        "\0" + NEW,
    ],
)
def test_other_tables_are_not_taken(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(text)
    assert not nsys_summary.sniff(Opened(path))
