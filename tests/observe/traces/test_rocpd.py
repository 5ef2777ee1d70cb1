"""SQLite of rocprofv3 (rocpd, three layouts) and of rocmProfileData (rpd)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rocm_files import bands, checks, database, kernels, opened, packed, quiet
from rocpd_schemas import RPD, V3, V40, V41

from phasewise.errors import InputError
from phasewise.observe.traces.events import CopyKind, Device, LaunchKind
from phasewise.observe.traces.readers.rocpd import read, sniff

LAYOUTS = {"3": V3, "4.0": V40, "4.1": V41}
ID = "_0000_11"


def filled(layout: str, suffix: str = ID) -> str:
    return layout.replace("{id}", suffix).replace("{{}}", "{}").replace("{{", "{").replace("}}", "}")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_rocpd(tmp_path: Path, layout: str) -> None:
    file = opened(database(tmp_path / "11_results.db", filled(layout)))
    assert sniff(file)
    trace = read(file, quiet)
    assert kernels(trace) == [("gemm()", 100, 150), ("norm", 160, 190)]
    rows = trace.kernels
    assert (rows.correlation.tolist(), rows.device.tolist(), rows.stream.tolist()) == ([51, 52], [0, 0], [5, 5])
    assert (rows.blocks.tolist(), rows.threads.tolist()) == ([16, 1], [256, 64])
    assert (rows.graph.tolist(), rows.node.tolist()) == ([-1, -1], [0, 0])
    assert (trace.launches.kind.tolist(), trace.launches.correlation.tolist()) == ([LaunchKind.KERNEL], [51])
    assert bands(trace) == [('prefill "1"', 5, 45, "7")]
    copies = trace.copies
    assert (copies.kind.tolist(), copies.bytes.tolist(), copies.device.tolist()) == (
        [CopyKind.HOST_TO_DEVICE],
        [4096],
        [0],
    )
    assert [thread.pid for thread in trace.threads] == ["11"]
    assert trace.sources[0].devices == (Device(0, "AMD Instinct MI300X"),)
    assert trace.sources[0].faults == ()


def test_graphs_of_version_3_0_2(tmp_path: Path) -> None:
    more = "".join(
        f'ALTER TABLE "rocpd_kernel_dispatch{ID}" ADD COLUMN "{name}" INTEGER NOT NULL DEFAULT 0;'
        for name in ("graph_exec_id", "graph_node_id")
    )
    more += f'UPDATE "rocpd_kernel_dispatch{ID}" SET graph_exec_id = 9, graph_node_id = 3 WHERE id = 2;'
    trace = read(opened(database(tmp_path / "a.db", filled(V3), more)), quiet)
    assert (trace.kernels.graph.tolist(), trace.kernels.node.tolist()) == ([-1, 9], [0, 3])


def test_two_processes_of_one_file_stay_apart(tmp_path: Path) -> None:
    trace = read(opened(database(tmp_path / "a.db", filled(V3, "_a"), filled(V41, "_b"))), quiet)
    assert len(trace.kernels.start) == 4
    assert len(set(trace.kernels.correlation.tolist())) == 4


@pytest.mark.parametrize("version", [2, 3])
def test_rpd(tmp_path: Path, version: int) -> None:
    texts = "rocpd_ustring" if version == 3 else "rocpd_string"
    extra = 'CREATE TABLE "rocpd_ustring" ("id" integer NOT NULL PRIMARY KEY, "string" varchar(4096) NOT NULL);'
    script = RPD.replace("{texts}", texts).replace("{ustring}", extra if version == 3 else "")
    file = opened(database(tmp_path / "a.rpd", script))
    assert sniff(file)
    trace = read(file, quiet)
    assert kernels(trace) == [("gemm", 100, 150), ("norm", 160, 190), ("gemm", 190, 200), ("gemm", 210, 220)]
    rows = trace.kernels
    assert (rows.correlation.tolist(), rows.device.tolist(), rows.stream.tolist()) == (
        [1, 2, 2, 7],
        [2] * 4,
        [0, 1, 1, 0],
    )
    # hipLaunchKernel counts blocks, hipExtModuleLaunchKernel work-items; a graph's kernels have no launch of their own.
    assert (rows.blocks.tolist(), rows.threads.tolist()) == ([10, 0, 0, 21], [256, 0, 0, 256])
    kinds = dict(zip(trace.launches.correlation.tolist(), trace.launches.kind.tolist(), strict=True))
    assert kinds == {1: LaunchKind.KERNEL, 2: LaunchKind.GRAPH, 3: LaunchKind.COPY, 7: LaunchKind.KERNEL}
    assert trace.copies.kind.tolist() == [CopyKind.HOST_TO_DEVICE, CopyKind.SET]
    assert (trace.copies.bytes.tolist(), trace.copies.correlation.tolist()) == ([4096, 0], [3, -1])
    assert bands(trace) == [("decode", 5, 70, "7")]
    assert [trace.names[name] for name in trace.ops.name] == ["aten::mm"]
    assert trace.counters.value.tolist() == [1450]
    assert [trace.names[name] for name in trace.counters.name] == ["sclk [MHz]"]


def test_the_file_stays_as_it_is(tmp_path: Path) -> None:
    path = database(tmp_path / "a.db", filled(V3))
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    path.chmod(0o444)
    read(opened(path), quiet)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]


def test_packed(tmp_path: Path) -> None:
    content = database(tmp_path / "a.db", filled(V3)).read_bytes()
    file = opened(tmp_path / "a.db.gz", packed(content))
    assert sniff(file)
    assert len(read(file, quiet).kernels.start) == 2


def test_a_journal_beside_it_is_said(tmp_path: Path) -> None:
    path = database(tmp_path / "a.db", filled(V3))
    path.with_name("a.db-wal").write_bytes(b"pages")
    assert checks(read(opened(path), quiet)) == ["damaged"]


def test_columns_of_any_type(tmp_path: Path) -> None:
    wrong = f"""
    UPDATE "rocpd_kernel_dispatch{ID}" SET "end" = 'later' WHERE id = 1;
    UPDATE "rocpd_kernel_dispatch{ID}" SET grid_size_x = 'wide', agent_id = x'00ff' WHERE id = 2;
    UPDATE "rocpd_info_kernel_symbol{ID}" SET display_name = NULL WHERE id = 2;
    UPDATE "rocpd_event{ID}" SET extdata = 'no JSON' WHERE id = 3;
    INSERT INTO "rocpd_kernel_dispatch{ID}" VALUES (3, 1, 11, 7, 4, 3, 5, 2, 3, 200, 9e30, 0, 0, 0, 0, 0, 0, NULL);
    """
    trace = read(opened(database(tmp_path / "a.db", filled(V3), wrong)), quiet)
    assert kernels(trace) == [("kernel 2", 160, 190)]
    assert (trace.kernels.device.tolist(), trace.kernels.blocks.tolist()) == ([-1], [0])
    assert checks(trace) == ["damaged"]


def test_views_are_not_run(tmp_path: Path) -> None:
    trap = f'CREATE VIEW "rocpd_string" AS SELECT 1 / 0; CREATE VIEW "rocpd_op" AS SELECT * FROM "rocpd_region{ID}";'
    assert len(read(opened(database(tmp_path / "a.db", filled(V3), trap)), quiet).kernels.start) == 2


def test_without_events(tmp_path: Path) -> None:
    file = opened(database(tmp_path / "a.db", f'CREATE TABLE "rocpd_string{ID}" (id INTEGER, string TEXT);'))
    with pytest.raises(InputError, match=r"a\.db holds no event .* rocprofv3"):
        read(file, quiet)


def test_other_databases_are_not_its_own(tmp_path: Path) -> None:
    assert not sniff(opened(database(tmp_path / "a.db", "CREATE TABLE StringIds (id INTEGER, value TEXT);")))
    assert not sniff(opened(tmp_path / "b.db", "rocpd_op"))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(200, 10**6), st.binary(min_size=1, max_size=64), st.booleans())
def test_damage_is_a_sentence_or_a_part(tmp_path: Path, at: int, put: bytes, cut: bool) -> None:
    path = tmp_path / "a.db"
    if not path.exists():
        database(path, filled(V3))
    content = path.read_bytes()
    at %= len(content)
    broken = opened(tmp_path / "b.db", content[:at] if cut else content[:at] + put + content[at + len(put) :])
    if not sniff(broken):
        return
    try:
        trace = read(broken, quiet)
    except InputError as error:
        assert "b.db" in str(error)  # noqa: PT017
    else:
        assert len(trace.kernels.start) <= 2


def test_the_fixture_is_a_database(tmp_path: Path) -> None:
    for name, layout in LAYOUTS.items():
        connection = sqlite3.connect(database(tmp_path / f"{name}.db", filled(layout)))
        assert connection.execute(f'SELECT count(*) FROM "rocpd_kernel_dispatch{ID}"').fetchone() == (2,)
        connection.close()
