"""Kineto files that are broken, hostile or no traces: what is whole is used, what is wrong is said."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_files import US, document, events, kernel, read, same, span
from test_kineto_read import in_blocks

from phasewise.errors import InputError
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import kineto


def faults(trace: Trace) -> dict[str, str]:
    return {fault.check: fault.detail for fault in trace.sources[0].faults}


def names(trace: Trace) -> list[str]:
    return [trace.names[name] for name in trace.kernels.name]


WHOLE = json.dumps(document(events()))
NESTED = "[" * 20_000 + "]" * 20_000
DEEP = f'{{"ph": "X", "cat": "kernel", "name": "deep", "ts": {US}, "dur": 1, "args": {{"x": {NESTED}}}}}'


def test_truncated_json_is_used_up_to_its_break(tmp_path: Path) -> None:
    for cut in (len(WHOLE) // 3, len(WHOLE) - 40, len(WHOLE) - 2):
        trace = read(tmp_path, WHOLE[:cut])
        whole = WHOLE[:cut].count('"cat": "kernel"') - 1
        assert whole <= len(trace.kernels.start) <= whole + 1
        assert "breaks off before its end" in faults(trace)["truncated"]
    assert faults(read(tmp_path, WHOLE)) == {}


def test_truncated_gzip_is_used_up_to_its_break(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(document(events(2000))).encode())
    trace = read(tmp_path, packed[: len(packed) // 2])
    assert 100 < len(trace.kernels.start) < 2000
    assert faults(trace)["truncated"].startswith("the gzip stream breaks off")


def test_a_break_before_the_first_event(tmp_path: Path) -> None:
    for cut in (1, 10, WHOLE.index('"ph"') + 20):
        with pytest.raises(InputError, match=r"breaks off|without traceEvents"):
            read(tmp_path, WHOLE[:cut])


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "is empty"),
        ("  \n ", "is empty"),
        ("{}", r"JSON without traceEvents \(it has no keys\)"),
        ('{"model": "llama", "layers": 32}', "JSON without traceEvents .it has 'model', 'layers'."),
        ('{"traceEvents": []}', "has no events"),
        ('{"traceEvents": {"a": 1}}', "JSON whose traceEvents are no list"),
        ('{"traceEvents": {}}', "JSON whose traceEvents are no list"),
        (f'{{"traceEvents": [{DEEP}]}}', "no events but 1 nested too deeply"),
        ("[]", "has no events"),
        ("[1, 2, 3]", "has no events"),
        ("plain text", "no JSON object or list"),
        (
            '{"traceEvents": [{"ph": "X", "cat": "v8", "name": "GC", "ts": 1, "dur": 2}]}',
            "has 1 events, none of them.*'v8'",
        ),
        (
            '{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": -1, "dur": 2}]}',
            "has 1 events, all at impossible times",
        ),
        ("[" * 100_000, "breaks off|no events"),
        ('{"a":' * 100_000, "without traceEvents"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path: Path, content: str, found: str) -> None:
    with pytest.raises(InputError, match=found) as error:
        read(tmp_path, content)
    assert str(error.value).startswith(str(tmp_path / "trace.json"))
    assert str(error.value).count("\n") == 0


def test_sniffing(tmp_path: Path) -> None:
    file = tmp_path / "x"
    for content, is_json in ((WHOLE, True), ("[]", True), ("", False), ("name,time", False), ("\ufeff {}", True)):
        file.write_text(content, encoding="utf-8")
        assert kineto.sniff(Opened(file)) is is_json
    file.write_text('{"rocprofiler-sdk-tool": [{}]}')
    assert not kineto.sniff(Opened(file))


BROKEN: dict[str, tuple[bytes, dict[str, str]]] = {
    # what the event of the kernel "odd" is written as, and the faults
    "nan": (b'"ts": 4909914679600.5, "dur": 1, "args": {"x": NaN, "y": -Infinity}', {"damaged": "2 values are NaN"}),
    "c nan": (b'"ts": 4909914679600.5, "dur": 1, "args": {"x": -nan, "y": inf}', {"damaged": "2 values are NaN"}),
    "control": (b'"ts": 4909914679600.5, "dur": 1, "args": {"x": "a\x01\x1b[31mb"}', {"encoding": "2 bytes"}),
    "utf-8": (b'"ts": 4909914679600.5, "dur": 1, "args": {"kernel": "a\xff\xfeb"}', {"encoding": "2 bytes"}),
    "newline": (b'"ts": 4909914679600.5, "dur": 1, "args": {"x": "a\nb"}', {}),
    "escape": (b'"ts": 4909914679600.5, "dur": 1, "args": {"x": "C:\\users\\x"}', {}),
    "surrogate": (b'"ts": 4909914679600.5, "dur": 1, "args": {"kernel": "\\ud800 \\ud83d\\ude00"}', {}),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_one_bad_event_costs_nothing(tmp_path: Path, kind: str) -> None:
    odd, expected = BROKEN[kind]
    bad = b'{"ph": "X", "cat": "kernel", "name": "odd", "pid": 0, "tid": 7, ' + odd + b"}, "
    content = WHOLE.encode().replace(
        b'{"ph": "X", "cat": "kernel", "name": "gemm_3', bad + b'{"ph": "X", "cat": "kernel", "name": "gemm_3', 1
    )
    trace = read(tmp_path, content)
    assert len(trace.kernels.start) == 41
    assert names(trace).count("odd") == 1
    found = faults(trace)
    assert found.keys() == expected.keys()
    assert all(found[check].startswith(said) for check, said in expected.items())
    assert all(name.isprintable() for name in trace.names)
    "".join(trace.names).encode()


@pytest.mark.parametrize(
    "name",
    [
        '{"device": "cpu", "dtype": "float32"}(12): run',
        '_lib = Library("_inductor_test", "IMPL")\n(1): <module>',
        'say "hi"',
        '"',
        'a "b", c',
    ],
)
def test_unescaped_quotes_in_a_name_are_taken_as_text(tmp_path: Path, name: str) -> None:
    bad = (
        '{"ph": "X", "cat": "cpu_op", "name": "'
        + name
        + f'", "pid": 7, "tid": 7,\n "ts": {US}.5, "dur": 1, "args": {{}}}}, '
    )
    trace = read(tmp_path, WHOLE.replace('{"ph": "X", "cat": "cpu_op"', bad + '{"ph": "X", "cat": "cpu_op"', 3))
    assert (len(trace.kernels.start), len(trace.ops.start)) == (40, 43)
    assert [trace.names[one] for one in trace.ops.name].count(name.replace("\n", " ")) == 3
    assert f"{3 * name.count(chr(34))} quotes inside names" in faults(trace)["damaged"]


def test_what_cannot_be_mended_is_left_out_alone(tmp_path: Path) -> None:
    for bad in (
        '{"ph": "X", "cat": }',
        '{"ph": "X" "cat": "kernel"}',
        '{"ph": "X", "name": tru',
        "{{{{",
        '{"ph": "X", "ts": 01}',
    ):
        trace = read(tmp_path, WHOLE.replace('{"ph": "X", "cat": "kernel"', bad + ', {"ph": "X", "cat": "kernel"', 2))
        assert len(trace.kernels.start) == 40
        assert faults(trace)["damaged"].startswith("2 events are no JSON")


def test_commas_too_many_and_too_few(tmp_path: Path) -> None:
    expected = read(tmp_path, WHOLE)
    for content in (WHOLE.replace("}, {", "}  {", 9), WHOLE.replace("}, {", "},, {", 9), WHOLE.replace("}]}", "}, ]}")):
        assert same(read(tmp_path, content), expected)


def test_duplicate_keys_the_last_one_wins(tmp_path: Path) -> None:
    event = (
        '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 9, "cat": "kernel", "dur": 2, "name": "b", '
        '"args": {"correlation": 1, "correlation": 4}}'
    )
    trace = read(tmp_path, f'{{"traceEvents": [{event}]}}')
    assert names(trace) == ["b"]
    assert (trace.kernels.end.tolist(), trace.kernels.correlation.tolist(), len(trace.ops.start)) == ([2000], [4], 0)
    twice = f'{{"traceEvents": {json.dumps(events(3))}, "traceEvents": [{event}]}}'
    trace = read(tmp_path, twice)
    assert len(trace.kernels.start) == 1
    assert "traceEvents comes 2 times" in faults(trace)["damaged"]


def test_impossible_times_are_left_out_and_counted(tmp_path: Path) -> None:
    good = kernel("good", 0, 1)
    bad: list[Any] = [
        kernel("negative", 0, -5),
        kernel("before", 0, 1) | {"ts": -3.5},
        kernel("never", 0, 1) | {"ts": None},
        kernel("late", 0, 1) | {"ts": 1e17},
        kernel("absurd", 0, 1) | {"ts": "1e999999999"},
        kernel("text", 0, 1) | {"ts": "noon"},
        kernel("long", 0, 9.3e15),
        kernel("past the end of time", 0, 9.1e15) | {"ts": 1.7e15},
    ]
    trace = read(tmp_path, document([*bad, good]))
    assert (names(trace), trace.kernels.end.tolist()) == (["good"], [1000])
    assert faults(trace)["damaged"].startswith("8 events are at impossible times")


@pytest.mark.parametrize("time", ["-3.5", "null", '"noon"', "1e300", "1" + "0" * 30, "NaN"])
def test_a_time_that_is_none_is_damage_however_it_is_written(tmp_path: Path, time: str) -> None:
    bad = f'{{"ph": "X", "cat": "kernel", "name": "bad", "pid": 0, "tid": 7, "ts": {time}, "dur": 1, "args": {{}}}}'
    trace = read(tmp_path, WHOLE[:-2] + f", {bad}]}}")
    assert len(trace.kernels.start) == 40
    assert {fault.check for fault in trace.sources[0].faults} == {"damaged"}


@pytest.mark.parametrize("behind", ["garbage", WHOLE, "}", "]", '{"a": 1}'])
def test_what_follows_the_document_is_said(tmp_path: Path, behind: str) -> None:
    trace = read(tmp_path, WHOLE + behind)
    assert len(trace.kernels.start) == 40
    assert faults(trace)["damaged"].startswith("something follows the end of its JSON")
    assert faults(read(tmp_path, f"{json.dumps(events())}\n{behind}"))["damaged"].startswith("something follows")
    assert faults(read(tmp_path, WHOLE + " \n")) == {}


def test_an_event_nested_too_deeply_is_left_out_alone(tmp_path: Path) -> None:
    first = '{"ph": "X", "cat": "kernel"'
    for content in (WHOLE.replace(first, f"{DEEP}, {first}", 2), f"{WHOLE[:-2]}, {DEEP}, {DEEP}]}}"):
        trace = read(tmp_path, content)
        assert len(trace.kernels.start) == 40
        assert faults(trace) == {"damaged": "2 events are nested too deeply and are left out."}


def test_a_broken_header_does_not_hide_the_events(tmp_path: Path) -> None:
    for bad in (
        '"deviceProperties": [{"id": 0, "totalGlobalMem": nan}], ',
        '"x": "un"escaped", ',
        '"y": tru, ',
        "garbage ",
    ):
        trace = read(tmp_path, WHOLE.replace('"traceEvents"', bad + '"traceEvents"'))
        assert len(trace.kernels.start) == 40
        assert "keys before its events" in faults(trace)["damaged"]


def test_a_header_that_is_no_utf8(tmp_path: Path) -> None:
    content = WHOLE.encode().replace(
        b'"schemaVersion": 1', b'"vllm_version": "a\xff", "deviceProperties": [{"name": "\xff"}]'
    )
    source = read(tmp_path, content).sources[0]
    assert (source.engine, source.devices[0].name) == ("vllm a?", "?")


def test_nothing_is_written_to_the_input(tmp_path: Path) -> None:
    read(tmp_path, WHOLE)
    before = (tmp_path / "trace.json").stat()
    kineto.read(Opened(tmp_path / "trace.json"), lambda what, share: None)
    after = (tmp_path / "trace.json").stat()
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


HOSTILE = {
    "starts without ends": '{"ph": ' * 60_000,
    "objects in an open list": '{"ph": [' + '{"ph": 1}, ' * 100_000,
    "nested to the limit, then long": '{"ph": [' * 900 + "1, " * 300_000,
    "one endless name": '{"ph": "X", "cat": "kernel", "name": "' + "a" * 3_000_000,
    "brackets": "[" * 3_000_000,
    "quotes": '"' * 300_000,
    "braces": "}, {" * 300_000,
    "names without end": '{"name": "' * 60_000,
    "backslashes": '{"name": "' + "\\" * 1_000_001,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_end_soon(tmp_path: Path, kind: str) -> None:
    start = WHOLE[: WHOLE.rindex("]")]
    began = time.process_time()
    trace = read(tmp_path, f"{start}, {HOSTILE[kind]}")
    assert len(trace.kernels.start) == 40
    assert "truncated" in faults(trace)
    # Not a matter of speed: what is quadratic here takes hours.
    assert time.process_time() - began < 60


MUTATED = json.dumps(document([*events(6), span("gpu_memset", "Memset (Device)", 1, 1, bytes=4)])).encode()


@settings(max_examples=250, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(MUTATED) - 1), st.binary(max_size=4), st.integers(0, 6)), max_size=6),
    st.integers(1, len(MUTATED)),
)
def test_any_change_gives_a_trace_or_a_refusal(changes: list[tuple[int, bytes, int]], size: int) -> None:
    content = bytearray(MUTATED)
    for at, new, removed in changes:
        content[at : at + removed] = new
    try:
        trace = in_blocks(bytes(content), [size])
    except InputError:
        return
    assert len(trace.kernels.start) <= 6 + len(changes)
    assert all((table.end >= table.start).all() for table in (trace.kernels, trace.ops, trace.bands, trace.launches))
    "".join((*trace.names, *trace.shapes)).encode()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(MUTATED) - 1), st.integers(1, 2000))
def test_any_cut_gives_the_events_before_it(cut: int, size: int) -> None:
    whole = MUTATED[:cut].count(b'"cat": "kernel"')
    try:
        trace = in_blocks(MUTATED[:cut], [size])
    except InputError:
        assert whole <= 1
        return
    assert whole - 1 <= len(trace.kernels.start) <= whole
    assert faults(trace).keys() == {"truncated"}


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("12.5"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
ARGS = ("device", "stream", "correlation", "External id", "graph id", "bytes", "kernel", "grid", "block", "Input Dims")
HEADER = ("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "vllm_version")


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(("kernel", "gpu_memcpy", "cuda_runtime", "user_annotation", "cpu_op")),
    st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=2),
    st.dictionaries(st.sampled_from(ARGS), ANY, max_size=3),
    st.dictionaries(st.sampled_from(HEADER), ANY, max_size=2),
)
def test_any_value_of_any_field(cat: str, fields: dict[str, Any], args: dict[str, Any], header: dict[str, Any]) -> None:
    odd = span(cat, "odd", 3, 1, correlation=1) | fields
    if isinstance(odd["args"], dict):
        odd["args"].update(args)
    trace = in_blocks(json.dumps(document([*events(3), odd], **header)).encode(), [1 << 20])
    assert 3 <= len(trace.kernels.start) <= 4
    good = [trace.kernels.correlation.tolist().index(100 + i) for i in range(3)]
    assert (trace.kernels.end - trace.kernels.start)[good].tolist() == [3017] * 3
    "".join((*trace.names, *trace.shapes, trace.sources[0].engine)).encode()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(content: bytes) -> None:
    with pytest.raises(InputError):
        in_blocks(b"{" + content, [1 << 20])
