"""Nsight Compute reports. Expected values: data/traces/ANSWERS.md section 5 of the shared data."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from rocm_files import checks, opened, packed, quiet, shared

from phasewise.errors import InputError, MissingExtra
from phasewise.observe.traces.readers.ncu_report import read, sniff

RTX = "NVIDIA GeForce RTX 3070"
ANSWERS = {
    "CuVectorAddDrv.ncu-rep": [("VecAdd_kernel", 3232, 5.938, 31.278, 0.71, "")],
    "manual_nvtx.ncu-rep": [
        ("init_data_kernel", 84_480, 36.864, 88.196, 59.362, "run_test/init_data"),
        ("daxpy_kernel", 249_216, 12.035, 90.717, 59.362, "run_test/daxpy"),
        ("check_results_kernel", 88_512, 37.321, 94.743, 59.362, "run_test/check_results"),
    ],
}


def block(payload: bytes) -> bytes:
    """A block as a report holds it: the length of its header, a header whose field 5 is the payload's length."""
    header = b"\x08\x00\x22\x00\x28" + bytes([len(payload) & 127 | 128, len(payload) >> 7])
    return len(header).to_bytes(4, "little") + header + payload


EMPTY = b"NVR\0" + b"\x02\0\0\0\x08\x07"


def test_without_nvidias_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    file = opened(tmp_path / "a.ncu-rep", EMPTY + block(b""))
    assert sniff(file)
    with pytest.raises(MissingExtra, match=r"pip install 'phasewise\[ncu\]'"):
        read(file, quiet)


@pytest.mark.parametrize("content", [b"", b"NVR", b"text", b"SQLite format 3\0"])
def test_other_files_are_not_its_own(tmp_path: Path, content: bytes) -> None:
    assert not sniff(opened(tmp_path / "a.ncu-rep", content))


@pytest.mark.parametrize("content", [EMPTY, EMPTY + block(b"x" * 300)[:-1], b"NVR\0", b"NVR\0" + b"\xff" * 40])
def test_no_kernel_is_one_sentence(tmp_path: Path, content: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ncu_report")
    with pytest.raises(InputError, match=r"a\.ncu-rep holds no kernel") as caught:
        read(opened(tmp_path / "a.ncu-rep", content), quiet)
    assert ("breaks off" in str(caught.value)) == (content != EMPTY)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ANSWERS)
def test_the_public_reports(name: str) -> None:
    pytest.importorskip("ncu_report")
    trace = read(opened(shared(f"ncu/{name}")), quiet)
    rows = trace.measured
    groups = [trace.names[it] if it >= 0 else "" for it in rows.group]
    columns = (rows.duration, rows.compute, rows.memory, rows.waves)
    found = [
        (trace.names[it], *(round(float(column[at]), 3) for column in columns), groups[at])
        for at, it in enumerate(rows.name)
    ]
    assert found == ANSWERS[name]
    assert {trace.names[it] for it in rows.device} == {RTX}
    assert [(device.name, device.multiprocessors) for device in trace.sources[0].devices] == [(RTX, 46)]
    # Bytes were not collected.
    assert np.isnan(rows.dram_bytes).all()
    assert trace.sources[0].faults == ()


def test_a_packed_report(tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    content = shared("ncu/CuVectorAddDrv.ncu-rep").read_bytes()
    trace = read(opened(tmp_path / "a.ncu-rep.gz", packed(content)), quiet)
    assert trace.measured.duration.tolist() == [3232]
    assert trace.sources[0].faults == ()


@pytest.mark.parametrize(("part", "kernels"), [(0.45, 1), (0.6, 1), (0.75, 2), (0.9, 2), (0.99, 2)])
def test_half_a_report_says_so(tmp_path: Path, part: float, kernels: int) -> None:
    """The blocks of its three kernels end at 41.8, 73.9 and 100% of the file."""
    pytest.importorskip("ncu_report")
    content = shared("ncu/manual_nvtx.ncu-rep").read_bytes()
    trace = read(opened(tmp_path / "a.ncu-rep", content[: int(part * len(content))]), quiet)
    assert trace.measured.duration.tolist() == [84_480, 249_216][:kernels]
    assert "truncated" in checks(trace)
