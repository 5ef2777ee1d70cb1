"""Nsight Compute's CSV: raw and details pages."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rocm_files import checks, opened, packed, quiet, shared

from phasewise.errors import InputError
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.readers.ncu_csv import read, sniff

WHO = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size"'
WHO += ',"Device","CC"'
METRICS = '"Section Name","Metric Name","Metric Unit","Metric Value"'
RULES = ',"Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"'
NVTX = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"


def who(number: int, name: str) -> str:
    return f'"{number}","740","python3","127.0.0.1","{name}","1","7","(32, 4, 1)","(224, 1, 1)","0","12.0"'


def detail(number: int, metric: str, unit: str, value: str, name: str = "gemv") -> str:
    return f'{who(number, name)},"Section","{metric}","{unit}","{value}",\n'


def details(*lines: str, header: str = f"{WHO},{METRICS}{RULES}\n") -> str:
    return header + "".join(lines)


GEMV = (
    ("Duration", "us", "6.75"),
    ("Elapsed Cycles", "cycle", "13,485"),
    ("Compute (SM) Throughput", "%", "9.15"),
    ("Memory Throughput", "%", "19.66"),
    ("DRAM Throughput", "%", "19.66"),
    ("SM Frequency", "Ghz", "1.99"),
    ("Memory Throughput", "Gbyte/s", "345.14"),
    ("Waves Per SM", "", "0.71"),
    ("Achieved Occupancy", "%", "11.32"),
)


def row(trace: Trace, index: int = 0) -> dict[str, float]:
    return {
        name: round(float(getattr(trace.measured, name)[index]), 4)
        for name in ("duration", "compute", "memory", "dram", "waves", "warps", "dram_bytes", "sm_clock")
    }


EXPECTED = {
    "duration": 6750.0,
    "compute": 9.15,
    "memory": 19.66,
    "dram": 19.66,
    "waves": 0.71,
    "warps": 11.32,
    # 345.14 GB/s for 6.75 us
    "dram_bytes": 2_329_695.0,
    "sm_clock": 1.99e9,
}


def test_details_page(tmp_path: Path) -> None:
    file = opened(tmp_path / "a.csv", details(*(detail(0, *it) for it in GEMV)))
    assert sniff(file)
    trace = read(file, quiet)
    assert row(trace) == EXPECTED
    assert [trace.names[name] for name in trace.measured.name] == ["gemv"]
    assert (trace.measured.device.tolist(), trace.measured.group.tolist()) == ([-1], [-1])
    assert trace.sources[0].form == "Nsight Compute CSV (details page)"
    assert trace.sources[0].faults == ()


RAW = {
    "gpu__time_duration.sum": ("ns", "6,750"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "9.15"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "19.66"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "19.66"),
    "dram__bytes_read.sum": ("Mbyte", "2.329"),
    "dram__bytes_write.sum": ("byte", "695"),
    "launch__waves_per_multiprocessor": ("", "0.71"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "11.32"),
    "smsp__cycles_elapsed.avg.per_second": ("cycle/nsecond", "1.99"),
    "device__attribute_display_name": ("", "NVIDIA H100 80GB HBM3"),
    "device__attribute_multiprocessor_count": ("", "132"),
}


def raw(*kernels: tuple[str, dict[str, str]], units: dict[str, str] | None = None, group: str = "") -> str:
    names = list(RAW)
    unit = {name: it for name, (it, _) in RAW.items()} | (units or {})
    extra, cell = (f',"{NVTX}"', f',"{group}"') if group else ("", "")
    lines = [f"{WHO}{extra}," + ",".join(f'"{name}"' for name in names)]
    lines.append(",".join(['""'] * (12 if group else 11)) + "," + ",".join(f'"{unit[name]}"' for name in names))
    for number, (name, changed) in enumerate(kernels):
        values = {key: value for key, (_, value) in RAW.items()} | changed
        lines.append(who(number, name) + cell + "," + ",".join(f'"{values[key]}"' for key in names))
    return "\n".join(lines) + "\n"


def test_raw_page(tmp_path: Path) -> None:
    noise = '==PROF== Connected to process 740\nLoading "weights: 3\n"another\n'
    noise += '==PROF== Profiling "gemv" - 0: 0%....50%....100% - 8 passes\n'
    more = ("void at::native::copy<4>(int, float*)", {"gpu__time_duration.sum": "n/a", "dram__bytes_write.sum": ""})
    file = opened(tmp_path / "a.csv", noise + raw(("gemv(int, float *)", {}), more))
    assert sniff(file)
    trace = read(file, quiet)
    assert row(trace) == EXPECTED
    names = [trace.names[name] for name in trace.measured.name]
    assert names == ["gemv", "void at::native::copy<4>(int, float*)"]
    assert math.isnan(trace.measured.duration[1])
    # One of two halves is no sum.
    assert math.isnan(trace.measured.dram_bytes[1])
    assert [trace.names[name] for name in trace.measured.device] == ["NVIDIA H100 80GB HBM3"] * 2
    (device,) = trace.sources[0].devices
    assert (device.name, device.multiprocessors) == ("NVIDIA H100 80GB HBM3", 132)
    assert trace.sources[0].faults == ()


@pytest.mark.parametrize(
    ("cell", "group"),
    [
        ('13416  ""<default domain>:prefill:none:none:none:none:none:none"" ', "prefill"),
        (
            '1  ""<default domain>:decode: step 3:none:none:none:none:none:none""'
            '  ""vllm:attn:none:none:ARGB:-16711936:none:none"" ',
            "decode: step 3/attn",
        ),
        ("n/a", ""),
    ],
)
def test_the_nvtx_ranges_around_a_kernel(tmp_path: Path, cell: str, group: str) -> None:
    trace = read(opened(tmp_path / "a.csv", raw(("gemv", {}), group=cell)), quiet)
    assert "/".join(trace.names[name] for name in trace.measured.group if name >= 0) == group


@pytest.mark.parametrize(
    ("unit", "value", "ns"),
    [
        ("nsecond", "6,750", 6750),
        ("usecond", "6.75", 6750),
        ("us", "6.75", 6750),
        ("msecond", "0.00675", 6750),
        ("second", "1.5", 1.5e9),
        ("s", "1", 1e9),
        ("%", "6.75", None),
        ("furlong", "6.75", None),
        ("", "6.75", None),
        ("us", "n/a", None),
        ("us", "nan", None),
        ("us", "inf", None),
        ("us", "", None),
    ],
)
def test_units_of_time(tmp_path: Path, unit: str, value: str, ns: float | None) -> None:
    changed = {"gpu__time_duration.sum": value}
    trace = read(opened(tmp_path / "a.csv", raw(("gemv", changed), units={"gpu__time_duration.sum": unit})), quiet)
    found = float(trace.measured.duration[0])
    assert math.isnan(found) if ns is None else found == pytest.approx(ns)
    assert checks(trace) == (["damaged"] if unit in ("%", "furlong", "") else [])


@pytest.mark.parametrize(
    ("values", "ns"),
    [
        (("13,485", "9.15"), 13485),
        (("13.485", "9,15"), 13485),
        (("1,013,485.5", "9.15"), 1013485.5),
        (("1.013.485,5", "9,15"), 1013485.5),
        (("13 485", "9,15"), 13485),
        (("13\u202f485,5", "9,15"), 13485.5),
        (("13’485", "9.15"), 13485),
        # Nothing tells the comma's meaning: as ncu writes it by itself.
        (("13,485", "9"), 13485),
        (("13.485", "9"), 13.485),
    ],
)
def test_numbers_of_other_countries(tmp_path: Path, values: tuple[str, str], ns: float) -> None:
    lines = detail(0, "Duration", "ns", values[0]) + detail(0, "Compute (SM) Throughput", "%", values[1])
    trace = read(opened(tmp_path / "a.csv", details(lines)), quiet)
    assert trace.measured.duration.tolist() == [pytest.approx(ns)]
    assert trace.measured.compute.tolist() == [9.15 if len(values[1]) > 1 else 9]


def test_many_kernels_of_one_file_and_files_one_after_the_other(tmp_path: Path) -> None:
    one = details(
        detail(0, "Duration", "us", "1"), detail(1, "Duration", "us", "2"), detail(0, "DRAM Throughput", "%", "5")
    )
    trace = read(opened(tmp_path / "a.csv", one + one), quiet)
    assert trace.measured.duration.tolist() == [1000, 2000] * 2
    assert [value for value in trace.measured.dram.tolist() if value == 5] == [5, 5]


ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-16 of PowerShell": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "utf-16 without a mark": lambda text: text.encode("utf-16-le"),
    "bom": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "gzip": lambda text: packed(text.encode()),
    "no last newline": lambda text: text.removesuffix("\n").encode(),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("text", [details(*(detail(0, *it) for it in GEMV)), raw(("gemv", {}))], ids=["details", "raw"])
def test_any_encoding(tmp_path: Path, encode: Callable[[str], bytes], text: str) -> None:
    file = opened(tmp_path / "a.csv", encode(text))
    assert sniff(file)
    trace = read(file, quiet)
    assert row(trace) == EXPECTED
    assert trace.sources[0].faults == ()


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(1, 2000))
def test_half_a_number_is_none(tmp_path: Path, back: int) -> None:
    whole = details(*(detail(0, *it) for it in GEMV))
    file = opened(tmp_path / "a.csv", whole[: -(back % len(whole)) or None])
    if not sniff(file):
        return
    try:
        found = row(read(file, quiet))
    except InputError as error:
        assert "no kernel" in str(error)  # noqa: PT017
        return
    for name, value in found.items():
        assert math.isnan(value) or value == EXPECTED[name]


def test_a_cut_is_said(tmp_path: Path) -> None:
    whole = raw(("gemv", {}), ("norm", {}))
    trace = read(opened(tmp_path / "a.csv", whole[:-60]), quiet)
    assert row(trace) == EXPECTED
    assert "truncated" in checks(trace)


def test_hostile_cells(tmp_path: Path) -> None:
    lines = (
        detail(0, "Duration", "us", "1")
        + detail(0, "x" * 200_000, "us", "2")
        + '"0","740"\n'
        + who(0, "gemv")
        + ",,,,,,,,,,,,,,,,,,,\n"
        + "==WARNING== out of memory\n\n"
        + detail(1, "Duration", "us", "3", "\x1b[31mred<script>")
    )
    trace = read(opened(tmp_path / "a.csv", details(lines)), quiet)
    assert trace.measured.duration.tolist() == [1000, 3000]
    assert [fault.detail[:6] for fault in trace.sources[0].faults] == ["3 rows"]


@pytest.mark.parametrize("text", [details(), raw()])
def test_a_header_alone_is_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"a\.csv holds a header and no kernel"):
        read(opened(tmp_path / "a.csv", text), quiet)


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n",
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Name\n",
        '"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n',
        '"ID","Kernel Name","Comment"\n"0","gemv","fine"\n',
        '{"ID": 1, "Kernel Name": 2}',
        "",
    ],
)
def test_another_csv_is_not_its_own(tmp_path: Path, text: str) -> None:
    assert not sniff(opened(tmp_path / "a.csv", text))


DISPLAY = {
    "duration": ("Duration", {"us": 1e3, "ms": 1e6, "ns": 1.0}),
    "compute": ("Compute (SM) Throughput", {"%": 1.0}),
    "memory": ("Memory Throughput", {"%": 1.0}),
    "dram": ("DRAM Throughput", {"%": 1.0}),
    "warps": ("Achieved Occupancy", {"%": 1.0}),
    "sm_clock": ("SM Frequency", {"Ghz": 1e9, "Mhz": 1e6}),
}


@pytest.mark.parametrize("number", range(1, 9))
def test_the_public_pages_against_the_csv_module(number: int) -> None:
    path = shared(f"ncu/deepseek_ocr_csv/kernel_{number:04}.details.csv")
    trace = read(opened(path), quiet)
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    (name,) = {line["Kernel Name"] for line in lines}
    assert [trace.names[it] for it in trace.measured.name] == [name]
    for column, (metric, units) in DISPLAY.items():
        expected = [
            float(line["Metric Value"].replace(",", "")) * units[line["Metric Unit"]]
            for line in lines
            if line["Metric Name"] == metric and line["Metric Unit"] in units
        ]
        assert getattr(trace.measured, column).tolist() == pytest.approx(expected[:1])
    scales = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    halves = [
        float(line["Metric Value"].replace(",", "")) * scales[line["Metric Unit"]]
        for line in lines
        if line["Metric Name"] in ("dram__bytes_read.sum", "dram__bytes_write.sum")
    ]
    assert len(halves) == 2
    assert trace.measured.dram_bytes.tolist() == pytest.approx([sum(halves)])
    assert trace.sources[0].faults == ()
