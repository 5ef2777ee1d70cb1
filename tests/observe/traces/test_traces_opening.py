from __future__ import annotations

import gzip
import os
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kineto_by_hand import KERNELS, events, write
from phasewise.errors import InputError, UsageError
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.files import bare, natural
from phasewise.observe.traces.opening import read_all

BASE = 1_700_000_000_000_000_000


def starts(trace: Trace) -> list[int]:
    """Start of every kernel in Unix ns, by rank and time."""
    order = np.lexsort((trace.kernels.start, trace.kernels.rank))
    return (trace.kernels.start[order] + trace.origin_ns).tolist()


def names(trace: Trace) -> list[str]:
    return [trace.names[name] for name in trace.kernels.name.tolist()]


def test_one_file_is_one_rank_with_its_exact_times(tmp_path: Path) -> None:
    trace = read_all([write(tmp_path / "a.json")])
    assert starts(trace) == [BASE + start for _, start, _ in KERNELS]
    assert (trace.kernels.end - trace.kernels.start).tolist() == [length for _, _, length in KERNELS]
    assert names(trace) == [name for name, _, _ in KERNELS]
    assert [source.path for source in trace.sources] == [str(tmp_path / "a.json")]


def test_the_last_event_of_a_file_is_on_the_thread_of_the_others(tmp_path: Path) -> None:
    trace = read_all([write(tmp_path / "a.json", events(bands=(("one", 3_000_000, 5), ("two", 4_000_000, 5))))])
    assert trace.bands.thread.tolist() == trace.launches.thread[:2].tolist() == [0, 0]
    assert len(trace.threads) == 1


def test_ranks_follow_what_the_files_say_of_themselves(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.json", rank=rank, world=3) for name, rank in (("a", 2), ("b", 0), ("c", 1))]
    trace = read_all(files)
    assert [Path(source.path).name for source in trace.sources] == ["b.json", "c.json", "a.json"]
    assert [source.rank for source in trace.sources] == [0, 1, 2]
    assert np.bincount(trace.kernels.rank).tolist() == [len(KERNELS)] * 3


@pytest.mark.parametrize("ranks", [(None, None, None), (0, 0, 0), (0, None, 1)])
def test_ranks_follow_the_names_when_the_files_do_not_tell_them_apart(
    tmp_path: Path, ranks: tuple[int | None, ...]
) -> None:
    for number, (name, rank) in enumerate(zip(("r10", "r2", "r1"), ranks, strict=True)):
        write(tmp_path / f"{name}.json", rank=rank, base=BASE + number)  # two that began at one ns are one recording
    trace = read_all([tmp_path])
    assert [Path(source.path).name for source in trace.sources] == ["r1.json", "r2.json", "r10.json"]


def test_joined_ranks_share_names_and_clock_but_no_thread(tmp_path: Path) -> None:
    one = write(tmp_path / "a.json", events((("x", 5_000_000, 10), ("y", 6_000_000, 20))), base=BASE + 500)
    two = write(tmp_path / "b.json", events((("y", 5_000_000, 30), ("z", 6_000_000, 40))), base=BASE)
    trace = read_all([one, two])
    assert names(trace) == ["x", "y", "y", "z"]
    assert starts(trace) == [BASE + 5_000_500, BASE + 6_000_500, BASE + 5_000_000, BASE + 6_000_000]
    assert trace.kernels.correlation.tolist() == [1, 2, 1, 2]
    assert sorted(set(trace.names)) == ["cudaLaunchKernel", "x", "y", "z"]
    assert [(thread.rank, thread.pid, thread.tid) for thread in trace.threads] == [(0, "77", "78"), (1, "77", "78")]
    assert trace.launches.thread.tolist() == [0, 0, 1, 1]


def test_a_file_without_a_clock_keeps_its_zero_and_says_so(tmp_path: Path) -> None:
    trace = read_all([write(tmp_path / "a.json"), write(tmp_path / "b.json", base=None)])
    assert [[fault.check for fault in source.faults] for source in trace.sources] == [[], ["times"]]
    own = trace.kernels.start[trace.kernels.rank == 1]
    assert own.min() < 10_000_000


def test_files_that_all_count_from_the_boot_of_the_machine_stay_in_step(tmp_path: Path) -> None:
    later = events(tuple((name, start + 1_000, length) for name, start, length in KERNELS))
    trace = read_all([write(tmp_path / "a.json", base=None), write(tmp_path / "b.json", later, base=None)])
    assert not any(source.faults for source in trace.sources)
    first, second = (trace.kernels.start[trace.kernels.rank == rank] for rank in (0, 1))
    assert (second - first).tolist() == [1_000] * len(KERNELS)


def test_a_folder_stands_for_its_files_and_one_level_below(tmp_path: Path) -> None:
    write(tmp_path / "job" / "a.json.gz")
    write(tmp_path / "job" / "host1" / "b.json", base=BASE + 1)
    write(tmp_path / "job" / "host1" / "deeper" / "c.json")
    write(tmp_path / "job" / ".hidden.json")
    (tmp_path / "job" / "notes.txt").write_text("from Tuesday")
    trace = read_all([tmp_path / "job"])
    assert [Path(source.path).name for source in trace.sources] == ["a.json.gz", "b.json"]
    assert trace.sources[0].notes == ("notes.txt was skipped: no trace that is read.",)


def test_a_zip_stands_for_its_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        archive.write(write(tmp_path / "r0.json"), "r0.json")
        archive.write(write(tmp_path / "r1.json.gz", base=BASE + 1), "deep/r1.json.gz")
        archive.writestr("README", "two ranks")
    trace = read_all([tmp_path / "ranks.zip"])
    assert len(trace.sources) == 2
    assert len(trace.kernels.start) == 2 * len(KERNELS)
    assert "README" in trace.sources[0].notes[0]


def test_two_forms_of_one_recording_count_once(tmp_path: Path) -> None:
    write(tmp_path / "run.json")
    write(tmp_path / "run.json.gz")
    trace = read_all([tmp_path])
    assert len(trace.kernels.start) == len(KERNELS)
    assert trace.sources[0].notes == ("run.json.gz was skipped: another form of a recording that was read.",)


def test_one_file_twice_is_refused_by_any_name(tmp_path: Path) -> None:
    one = write(tmp_path / "a.json")
    os.link(one, tmp_path / "b.json")
    (tmp_path / "c.json").symlink_to(one)
    for other in ("a.json", "b.json", "c.json"):
        with pytest.raises(UsageError, match="are one file"):
            read_all([one, tmp_path / other])
    assert len(read_all([tmp_path]).sources) == 1


def test_a_named_file_that_is_damaged_is_refused_and_one_in_a_folder_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "a.json")
    bad = tmp_path / "b.json"
    bad.write_text('{"traceEvents": []}')
    with pytest.raises(InputError, match=r"b\.json"):
        read_all([tmp_path / "a.json", bad])
    trace = read_all([tmp_path])
    assert len(trace.sources) == 1
    assert [fault.check for fault in trace.sources[0].faults] == ["damaged"]
    assert "b.json" in trace.sources[0].faults[0].detail


LOOKS = {
    "empty": (b"", "is empty"),
    "page.json": (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "an HTML page"),
    "lfs.json.gz": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    "snapshot.pickle": (b"\x80\x04\x95\x10\x00", "pickle"),
    "trace.pftrace": (b"\x0a\x10\x08\x01\x12\x00abc", "Perfetto protobuf"),
    "trace": (b"\x0a\x0d\x50\x00\x08\x01abcdefgh", "Perfetto protobuf"),
    "report1.qdstrm": (b"QDSTRM", "QdstrmImporter"),
    "run.json": (b'{"schema":1,"envelope":{"id":"x"}}', "phasewise report"),
    "requests.csv": (b"time,prompt_tokens,answer_tokens\n1,2,3\n", "phasewise logs"),
    "mooncake.jsonl": (b'{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [0]}\n', "phasewise logs"),
    "azure.csv": (b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023,1,2\n", "phasewise logs"),
    "data.parquet": (b"PAR1\x00", "Parquet"),
    "log.txt": (b"INFO 11-05 engine started\n", "text that begins with 'INFO 11-05"),
    "blob": (b"\x00\x01\x02\x03\xff" * 9, "binary file that begins with 00 01 02"),
    "packed.zst": (b"\x28\xb5\x2f\xfd\x00", "zstd -d"),
}


@pytest.mark.parametrize("name", LOOKS)
def test_what_is_no_trace_is_refused_by_what_it_looks_like(tmp_path: Path, name: str) -> None:
    content, said = LOOKS[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_all([path])
    text = str(refused.value)
    assert said in text
    assert str(path) in text
    assert "\n" not in text
    assert "Kineto JSON" in text


def test_a_gzip_that_holds_nothing_says_why(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(b"{}" * 100)[:9])
    with pytest.raises(InputError, match="breaks off"):
        read_all([path])


def test_nothing_there_no_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "void").mkdir()
    for path, said in (
        ("gone.json", "No such file"),
        ("pipe", "is a pipe .* save it to a file first"),
        ("void", "holds no file"),
    ):
        with pytest.raises(InputError, match=said):
            read_all([tmp_path / path])
    with pytest.raises(InputError, match=r"^- is a pipe .* save it to a file first"):
        read_all([Path("-")])


def test_nothing_that_is_read_is_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json.gz")
    before = path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.iterdir())
    read_all([path])
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.iterdir())) == before


def test_names_sort_as_people_count() -> None:
    found = ["r10", "r9", "r009b", "r1", "a", "10", "9"]
    assert sorted(found, key=natural) == ["9", "10", "a", "r1", "r9", "r009b", "r10"]


@pytest.mark.parametrize(
    ("tool", "name", "said"),
    [
        ("nsys", "run.nsys-rep", "run"),
        ("nsys", "run.sqlite", "run"),
        ("nsys", "run_cuda_gpu_kern_sum.csv", "run"),
        ("ncu", "kernel_0001.details.csv", "kernel_0001"),
        ("ncu", "kernel_0001.ncu-rep", "kernel_0001"),
        ("rocprof", "9_kernel_trace.csv", "9"),
        ("rocprof", "9_hip_api_trace.csv.gz", "9"),
        ("rocprof", "kernel_trace.csv", ""),
        ("rocprof", "9_results.json", "9"),
        ("kineto", "run_raw.json.gz", "run_raw.json"),
    ],
)
def test_a_name_without_its_form_is_the_recordings(tool: str, name: str, said: str) -> None:
    assert bare(name, tool) == said


@pytest.mark.parametrize("named", [True, False])
def test_the_trace_of_vllms_front_end_is_no_rank(tmp_path: Path, named: bool) -> None:
    """It lies beside those of the workers and has no step: no damage, and no rank, also where a pattern named it."""
    rank = write(tmp_path / "run_rank0.1.pt.trace.json")
    front = tmp_path / "run_host_1.async_llm.1.pt.trace.json"
    front.write_text('{"traceEvents": [], "schemaVersion": 1}')
    trace = read_all([front, rank] if named else [tmp_path])
    assert [Path(source.path).name for source in trace.sources] == [rank.name]
    assert trace.sources[0].faults == ()
    assert any("front end" in note for note in trace.sources[0].notes)
    with pytest.raises(InputError):
        read_all([front])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]),
    packed=st.booleans(),
    flips=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_a_damaged_zip_is_used_in_part_or_refused(
    tmp_path: Path, method: int, packed: bool, flips: list[tuple[float, int]]
) -> None:
    write(tmp_path / "a.json", events(KERNELS))
    content = (tmp_path / "a.json").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("a.json", gzip.compress(content) if packed else content)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    for place, byte in flips:
        data[4 + int(place * (len(data) - 5))] = byte
    (tmp_path / "a.zip").write_bytes(data)
    with suppress(InputError):
        read_all([tmp_path / "a.zip"])


def test_a_zip_whose_names_are_no_text_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.json", events(KERNELS))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "a.json", "é.json")  # marked as UTF-8
    data = (tmp_path / "a.zip").read_bytes().replace("é".encode(), b"\xff\xfe")
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(InputError, match="damaged zip"):
        read_all([tmp_path / "a.zip"])
