"""Exports that are broken, that are something else, or that were made to break the reader."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nsys_files import KERNEL, NVTX, RUNTIME, band, call, export, kernel, named, read

from phasewise.errors import InputError
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import nsys_sqlite


def test_text_and_blobs_in_integer_columns_and_nulls(tmp_path: Path) -> None:
    rows = [
        kernel(10, 20, 1),
        kernel(30, 40, 2) | {"start": "soon"},
        kernel(30, 40, 2) | {"end": None},
        kernel(50, 60, 3) | {"deviceId": "x", "streamId": b"\0\1", "correlationId": "two", "globalPid": None},
        kernel(90, 80, 4),
        kernel(0, 0, 5),
        kernel(2**62, 2**63 - 1, 6),
        kernel(-(2**63), 70, 7),
        kernel(70, 80, 2**63 - 1) | {"gridX": 2**62, "gridY": 2**62, "gridZ": 9, "blockX": -4},
        kernel(81, 82, -3) | {"demangledName": None},
    ]
    trace = read(export(tmp_path / "types.sqlite", {KERNEL: rows}))
    assert trace.kernels.start.tolist() == [10, 50, 70, 81]
    assert trace.kernels.device.tolist() == [0, -1, 0, 0]
    assert trace.kernels.stream.tolist() == [7, -1, 7, 7]
    assert trace.kernels.correlation.tolist() == [1, -1, -1, -1]
    assert trace.kernels.threads.tolist() == [0, 0, 0, 0]
    details = [fault.detail for fault in trace.sources[0].faults]
    assert any(detail.startswith(f"6 of 10 rows of {KERNEL}") for detail in details)
    assert any(detail.startswith("1 kernels have no name") for detail in details)


def test_ranges_without_sound_times_are_left_out(tmp_path: Path) -> None:
    rows = [band(1, 2, "good"), band("x", 2, "a"), band(None, 2, "b"), band(9, 5, "c"), band(5, 2**63 - 1, "d")]
    rows += [band(1.5, 2, "e"), band(3, b"4", "f"), band(3, 4, None), band(5, 6, "g") | {"globalTid": "?"}]
    trace = read(export(tmp_path / "ranges.sqlite", {NVTX: rows}))
    assert named(trace, trace.bands.name) == ["good", "(unnamed)", "g"]
    assert trace.bands.thread.tolist() == [0, 0, -1]
    assert any("6 NVTX ranges have no sound times" in fault.detail for fault in trace.sources[0].faults)


def test_names_are_kept_as_they_are_and_broken_text_is_said(tmp_path: Path) -> None:
    path = export(tmp_path / "names.sqlite", {KERNEL: [kernel(1, 2, 3), kernel(3, 4, 5, demangledName=77)]})
    base = sqlite3.connect(path)
    base.execute("INSERT INTO StringIds VALUES (77, CAST(x'1b5b33316d3c623e00ff' AS TEXT))")
    base.commit()
    base.close()
    trace = read(path)
    assert named(trace, trace.kernels.name)[1].startswith("\x1b[31m<b>")
    assert any(fault.check == "encoding" for fault in trace.sources[0].faults)


def test_ids_that_repeat_stay_rows(tmp_path: Path) -> None:
    tables = {KERNEL: [kernel(1, 2, 3), kernel(3, 4, 3)], RUNTIME: [call(0, 1, 3), call(1, 2, 3)]}
    trace = read(export(tmp_path / "twice.sqlite", tables))
    assert trace.kernels.correlation.tolist() == [3, 3]
    assert trace.launches.correlation.tolist() == [3, 3]


def test_views_and_triggers_do_not_run(tmp_path: Path) -> None:
    path = export(tmp_path / "view.sqlite", {NVTX: [band(1, 2, "decode")]})
    base = sqlite3.connect(path)
    base.executescript(
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1"
        " FROM n) SELECT start, start AS end FROM n;"
        "CREATE TRIGGER t AFTER INSERT ON NVTX_EVENTS BEGIN DELETE FROM NVTX_EVENTS; END;"
    )
    base.close()
    before = path.read_bytes()
    trace = read(path)
    assert len(trace.kernels.start) == 0
    assert len(trace.bands.start) == 1
    assert path.read_bytes() == before


def test_a_table_without_rowid_is_no_crash(tmp_path: Path) -> None:
    path = export(tmp_path / "rowid.sqlite", {NVTX: [band(1, 2, "decode")]})
    base = sqlite3.connect(path)
    base.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER PRIMARY KEY, "end" INTEGER) WITHOUT ROWID')
    base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (3, 4)")
    base.commit()
    base.close()
    trace = read(path)
    assert len(trace.bands.start) == 1
    assert any(fault.check == "damaged" for fault in trace.sources[0].faults)


def test_what_is_no_export_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "cookies.sqlite"
    base = sqlite3.connect(path)
    base.execute('CREATE TABLE "cook\x1b[31m\x07ies" (value TEXT)')
    base.commit()
    base.close()
    with pytest.raises(
        InputError, match=r"cookies\.sqlite is an SQLite database with the tables cook\[31mies, none of them"
    ):
        read(path)


def test_an_export_without_events_says_what_to_record(tmp_path: Path) -> None:
    path = export(
        tmp_path / "idle.sqlite", {"META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.24.0"}]}
    )
    with pytest.raises(InputError, match="nsys profile --trace=cuda,nvtx"):
        read(path)


def test_empty_tables_are_no_trace(tmp_path: Path) -> None:
    path = export(tmp_path / "empty.sqlite", {})
    base = sqlite3.connect(path)
    base.execute('CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER)')
    base.close()
    with pytest.raises(InputError, match="no event that can be used"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"SQLite format 2\0", b"{}"])
def test_other_files_are_not_taken(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert not nsys_sqlite.sniff(Opened(path))


def test_rocm_databases_are_left_to_their_reader(tmp_path: Path) -> None:
    path = tmp_path / "rocpd.db"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE rocpd_kernel_dispatch (id INTEGER)")
    base.close()
    assert not nsys_sqlite.sniff(Opened(path))


def test_a_journal_beside_the_file_is_said(tmp_path: Path) -> None:
    path = export(tmp_path / "busy.sqlite", {NVTX: [band(1, 2, "decode")]})
    Path(f"{path}-wal").write_bytes(b"x" * 64)
    faults = read(path).sources[0].faults
    assert any("busy.sqlite-wal lies beside it" in fault.detail for fault in faults)
    assert Path(f"{path}-wal").read_bytes() == b"x" * 64


def test_a_truncated_file_gives_what_is_left_or_one_sentence(tmp_path: Path) -> None:
    whole = export(tmp_path / "whole.sqlite", {KERNEL: [kernel(i + 1, i + 2, i) for i in range(20_000)]}).read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(whole[: len(whole) // 8192 * 4096])
    trace = read(path)
    assert 9_000 < len(trace.kernels.start) < 11_000
    assert trace.kernels.start.tolist() == list(range(1, len(trace.kernels.start) + 1))
    assert {fault.check for fault in trace.sources[0].faults} == {"truncated", "damaged"}
    path.write_bytes(whole[:100])
    with pytest.raises(InputError, match="damaged SQLite file"):
        read(path)


def test_losses_that_the_profiler_reports_are_faults_and_small_talk_is_not(tmp_path: Path) -> None:
    said = [
        (3, "Not all CUDA events might have been collected."),
        (2, "No CUDA events collected. Does the process use CUDA?"),
        (2, "Scheduling information is absent."),
        (1, "All events lost, says the weather."),
    ]
    events = [{"severity": severity, "text": text} for severity, text in said]
    with_kernels = read(export(tmp_path / "a.sqlite", {KERNEL: [kernel(1, 2, 3)], "DIAGNOSTIC_EVENT": events}))
    without = read(export(tmp_path / "b.sqlite", {NVTX: [band(1, 2, "x")], "DIAGNOSTIC_EVENT": events}))
    assert len(with_kernels.sources[0].faults) == 1
    assert len(without.sources[0].faults) == 2


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    tables = {
        KERNEL: [kernel(i, i + 5, i) for i in range(300)],
        RUNTIME: [call(i, i + 1, i) for i in range(300)],
        NVTX: [band(i, i + 9, f"step {i}") for i in range(300)],
    }
    return export(tmp_path_factory.mktemp("sound") / "sound.sqlite", tables).read_bytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_anywhere_is_a_sentence_or_a_partial_trace(tmp_path: Path, sound: bytes, data: st.DataObject) -> None:
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 12))):
        damaged[data.draw(st.integers(16, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(damaged[: data.draw(st.integers(100, len(damaged)))])
    trace = partial(path)
    if trace is not None:
        assert len(trace.kernels.start) <= 300
        assert (trace.kernels.end >= trace.kernels.start).all()


def partial(path: Path) -> Trace | None:
    """What can be read, None when nothing can; any other error is the test's."""
    try:
        return read(path)
    except InputError:
        return None
