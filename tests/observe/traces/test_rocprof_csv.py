"""CSV of rocprofv3, rocprofv2 and rocprof. Headers: ROCm/rocm-systems, projects/rocprofiler-sdk, generateCSV.cpp."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rocm_files import bands, checks, kernels, opened, packed, quiet

from phasewise.errors import InputError
from phasewise.observe.traces.events import CopyKind, LaunchKind
from phasewise.observe.traces.readers.rocprof_csv import read, sniff

TRACE = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)
NAME = "void add<float, (anonymous)>(float*, int)"


def row(start: object, end: object, name: str = NAME, agent: str = '"Agent 7"', correlation: int = 101) -> str:
    return f'"KERNEL_DISPATCH",{agent},17,26,8,1,49,"{name}",{correlation},{start},{end},0,0,8,0,16,64,2,1,1000,4,1\n'


def test_kernel_trace(tmp_path: Path) -> None:
    file = opened(
        tmp_path / "a.csv", TRACE + row(100, 150) + row(160, 190, "norm", '"GPU 3"', 102) + row(200, 260, "x", "2")
    )
    assert sniff(file)
    trace = read(file, quiet)
    assert kernels(trace) == [(NAME, 100, 150), ("norm", 160, 190), ("x", 200, 260)]
    rows = trace.kernels
    assert (rows.device.tolist(), rows.stream.tolist(), rows.correlation.tolist()) == (
        [7, 3, 2],
        [26] * 3,
        [101, 102, 101],
    )
    # 1000 work-items in groups of 64 make 16 blocks, by 4 rows in groups of 2.
    assert (rows.blocks.tolist(), rows.threads.tolist()) == ([32] * 3, [128] * 3)
    assert [device.id for device in trace.sources[0].devices] == [2, 3, 7]
    assert trace.sources[0].faults == ()


@pytest.mark.parametrize(
    ("header", "line", "stream", "correlation", "blocks"),
    [
        (  # rocprofv3 of ROCm 6.2: no streams, agents by number.
            '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
            '"Start_Timestamp","End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X",'
            '"Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n',
            '"KERNEL_DISPATCH",4,2,69,1,16,"gemm",1451,100,150,0,0,64,1,1,1024,1024,1\n',
            2,
            1451,
            16384,
        ),
        (  # rocpd2csv
            '"Guid",' + TRACE,
            '"0000-1",' + row(100, 150, "gemm", "4"),
            26,
            101,
            32,
        ),
        (  # rocprofv2
            "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID\n",
            '1,4,9,5,5,1024,256,"gemm",100,150,77\n',
            9,
            77,
            4,
        ),
        (  # rocprof: results.csv
            "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,obj,DispatchNs,"
            "BeginNs,EndNs,CompleteNs,DurationNs\n",
            '0,"gemm [clone .kd]",4,1,0,5,5,1000,256,0,0,8,16,0,0x0,0x7f,90,100,150,160,50\n',
            1,
            -1,
            4,
        ),
    ],
    ids=["rocprofv3 6.2", "rocpd2csv", "rocprofv2", "rocprof"],
)
def test_other_versions(tmp_path: Path, header: str, line: str, stream: int, correlation: int, blocks: int) -> None:
    trace = read(opened(tmp_path / "a.csv", header + line), quiet)
    assert kernels(trace) == [("gemm", 100, 150)]
    rows = trace.kernels
    found = (rows.device[0], rows.stream[0], rows.correlation[0], rows.blocks[0])
    assert found == (4, stream, correlation, blocks)


COPIES = (
    '"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"\n'
)


def test_memory_copy_trace(tmp_path: Path) -> None:
    lines = (
        '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",3,"Agent 0","Agent 4",9,10,20\n'
        '"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",3,"Agent 4","Agent 0",10,30,45\n'
    )
    trace = read(opened(tmp_path / "a.csv", COPIES + lines), quiet)
    assert trace.copies.kind.tolist() == [CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST]
    assert trace.copies.device.tolist() == [4, 4]
    assert (trace.copies.end - trace.copies.start).tolist() == [10, 15]


CALLS = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'


def test_hip_api_trace(tmp_path: Path) -> None:
    names = [
        "hipLaunchKernel",
        "hipGraphLaunch",
        "hipMemcpyWithStream",
        "hipStreamSynchronize",
        "hipStreamBeginCapture",
    ]
    names += ["hipExtModuleLaunchKernel", "hipMalloc", "__hipPushCallConfiguration", "hipGraphAddMemcpyNode"]
    lines = "".join(f'"HIP_RUNTIME_API","{name}",5,6,{it},{it},{it + 1}\n' for it, name in enumerate(names))
    trace = read(opened(tmp_path / "a.csv", CALLS + lines), quiet)
    kinds = [LaunchKind(kind).name for kind in trace.launches.kind]
    assert kinds == ["KERNEL", "GRAPH", "COPY", "SYNC", "CAPTURE", "KERNEL", "OTHER", "OTHER", "OTHER"]
    assert trace.launches.correlation.tolist() == list(range(9))
    assert [thread[1:] for thread in trace.threads] == [("5", "6")]


def test_marker_api_trace(tmp_path: Path) -> None:
    """The sample of AMD's documentation (docs/data/marker_api_trace.csv), and a call that names no range."""
    lines = (
        '"MARKER_CORE_API","before hipLaunchKernel",717,717,1,1520113899312225,1520113899312225\n'
        '"MARKER_CORE_API","hipMemcpy",717,717,5,1520113900141100,1520113901483408\n'
        '"MARKER_CORE_API","hipLaunchKernel range",717,0,2,1520113899682208,1520113901495882\n'
        '"MARKER_CONTROL_API","roctxProfilerPause",717,717,9,5,6\n'
    )
    trace = read(opened(tmp_path / "a.csv", CALLS + lines), quiet)
    assert bands(trace) == [
        ("hipMemcpy", 1520113900141100, 1520113901483408, "717"),
        ("hipLaunchKernel range", 1520113899682208, 1520113901495882, "0"),
    ]
    assert len(trace.launches.start) == 0


STATS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'


def test_kernel_stats(tmp_path: Path) -> None:
    lines = f'"{NAME}",4,1000,250.0,80.0,100,400,1.5\n"norm",2,250,125.0,20.0,100,150,0.1\n'
    trace = read(opened(tmp_path / "a.csv", STATS + lines), quiet)
    totals = trace.totals
    assert [trace.names[name] for name in totals.name] == [NAME, "norm"]
    assert (totals.instances.tolist(), totals.total.tolist()) == ([4, 2], [1000, 250])
    assert (totals.least.tolist(), totals.most.tolist()) == ([100, 100], [400, 150])
    assert len(trace.kernels.start) == 0


NOT_ITS_OWN = {
    "a request log": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,374,44\n",
    "Nsight Systems' summary": "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),Name\n",
    "Nsight Compute": '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n',
    "counters": '"Correlation_Id","Kernel_Name","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n',
    "calls summed": STATS + '"hipLaunchKernel",4,1000,250.0,80.0,100,400,1.5\n',
    "domains summed": STATS + '"KERNEL_DISPATCH",4,1000,250.0,80.0,100,400,1.5\n',
    "HSA calls": CALLS + '"HSA_CORE_API","hsa_agent_get_info",5,6,1,1,2\n',
    "agents": '"Node_Id","Logical_Node_Id","Agent_Type","Name"\n',
    "nothing": "",
}


@pytest.mark.parametrize("content", NOT_ITS_OWN.values(), ids=NOT_ITS_OWN)
def test_another_csv_is_not_its_own(tmp_path: Path, content: str) -> None:
    assert not sniff(opened(tmp_path / "a.csv", content))


def _utf16(text: str) -> bytes:
    return text.encode("utf-16")


@pytest.mark.parametrize(
    "encoded",
    [
        _utf16,
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: packed(text.encode()),
        lambda text: ('W1129 unbalanced "quote\n"another\n' + text).encode(),
        lambda text: text.removesuffix("\n").encode(),
    ],
    ids=["utf-16", "utf-16-le", "utf-16-be", "bom", "crlf", "gzip", "noise", "no last newline"],
)
def test_any_encoding(tmp_path: Path, encoded: object) -> None:
    assert callable(encoded)
    file = opened(tmp_path / "a.csv", encoded(TRACE + row(100, 150) + row(160, 190, "norme\u0301")))
    assert sniff(file)
    trace = read(file, quiet)
    assert kernels(trace) == [(NAME, 100, 150), ("norme\u0301", 160, 190)]
    assert trace.sources[0].faults == ()


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    trace = read(opened(tmp_path / "a.csv", (TRACE + row(1, 2, "n@rm")).encode().replace(b"@", b"\xf6")), quiet)
    assert kernels(trace) == [("n\ufffdrm", 1, 2)]
    assert checks(trace) == ["encoding"]


def test_damaged_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = [
        row(1, 2, "first"),
        row("", 2),
        row("n/a", 2),
        row(-1, 2),
        row("9" * 30, 2),
        row(9, 4),
        "short,row\n",
        row(3, 4, "x" * 200_000),
        "\n",
        row(5, 6, "last"),
    ]
    trace = read(opened(tmp_path / "a.csv", TRACE + "".join(lines)), quiet)
    assert kernels(trace) == [("first", 1, 2), ("last", 5, 6)]
    assert [fault.detail[:8] for fault in trace.sources[0].faults] == ["6 rows c", "1 events"]


def test_a_quote_that_is_never_closed_costs_a_stretch_of_rows(tmp_path: Path) -> None:
    lines = "first,1,2\n" + '"open,3,4\n' + "".join(f"gemm,{it},{it + 1}\n" for it in range(5, 20_005))
    trace = read(opened(tmp_path / "a.csv", "Kernel_Name,Start_Timestamp,End_Timestamp\n" + lines), quiet)
    found = kernels(trace)
    assert (found[0], found[-1]) == (("first", 1, 2), ("gemm", 20_004, 20_005))
    # A cell ends at 131,072 characters; a row here has at most 17.
    assert len(found) > 20_001 - 131_072 // 10
    assert checks(trace) == ["damaged"]


def test_of_two_columns_of_one_name_the_first_counts(tmp_path: Path) -> None:
    file = opened(tmp_path / "a.csv", "Kernel_Name,Start_Timestamp,End_Timestamp,Start_Timestamp\ngemm,5,9,7\n")
    assert kernels(read(file, quiet)) == [("gemm", 5, 9)]


@pytest.mark.parametrize("lines", ["", "a,b\n", row("x", "y")])
def test_no_row_to_use_is_one_sentence(tmp_path: Path, lines: str) -> None:
    with pytest.raises(InputError, match=r"a\.csv holds no event .*rocprofv3 --kernel-trace"):
        read(opened(tmp_path / "a.csv", TRACE + lines), quiet)


def test_a_packed_file_that_breaks_off(tmp_path: Path) -> None:
    content = packed((TRACE + "".join(row(it, it + 1, f"k{it * 7919 % 1000}") for it in range(3000))).encode())
    trace = read(opened(tmp_path / "a.csv.gz", content[: len(content) // 2]), quiet)
    assert 0 < len(trace.kernels.start) < 3000
    assert "truncated" in checks(trace)


_LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0\ufffd")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(
                st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n\0\ufffd"), min_size=1, max_size=20
            ),
            st.integers(0, 2**62),
            st.integers(0, 2**40),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_what_the_csv_module_wrote_is_read(tmp_path: Path, rows: list[tuple[str, int, int]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["Kernel_Name", "Start_Timestamp", "End_Timestamp"])
    writer.writerows([name, start, start + length] for name, start, length in rows)
    trace = read(opened(tmp_path / "a.csv", out.getvalue()), quiet)
    assert kernels(trace) == [(name, start, start + length) for name, start, length in rows]
