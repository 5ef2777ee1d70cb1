"""The made-up trace of benchmarks/make_kineto.py: what it says it wrote is what is read."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tracemalloc
from pathlib import Path
from types import ModuleType

import pytest
from kineto_files import document, kernel

from phasewise.observe.traces.events import LaunchKind, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import kineto
from phasewise.observe.traces.readers.kineto import document as walked


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    path = Path(__file__).resolve().parents[3] / "benchmarks" / "make_kineto.py"
    spec = importlib.util.spec_from_file_location("make_kineto", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path: Path) -> Trace:
    return kineto.read(Opened(path), lambda what, share: None)


def test_what_was_written_is_read(tmp_path: Path, maker: ModuleType) -> None:
    written = maker.write(tmp_path / "trace.json", 12)
    trace = read(tmp_path / "trace.json")
    steps = written.decode_steps + written.mixed_steps
    assert written.mixed_steps >= 1
    assert len(trace.kernels.start) == written.decode_kernels + written.mixed_kernels
    assert int((trace.kernels.end - trace.kernels.start).sum()) == written.decode_ns + written.mixed_ns
    assert (len(trace.bands.start), len(trace.copies.start)) == (steps, 9 * steps)
    graphs = int((trace.launches.kind == LaunchKind.GRAPH).sum())
    assert graphs == written.decode_steps + 25 * written.mixed_steps
    assert set(trace.kernels.correlation.tolist()) <= set(trace.launches.correlation.tolist())
    order = trace.kernels.start.argsort()
    assert (trace.kernels.start[order][1:] >= trace.kernels.end[order][:-1]).all()
    assert trace.sources[0].faults == ()


def test_the_same_size_gives_the_same_file(tmp_path: Path, maker: ModuleType) -> None:
    digests = set()
    for name in ("a", "b"):
        maker.write(tmp_path / name, 1)
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


def test_memory_grows_with_what_is_kept_and_not_with_the_file(tmp_path: Path, maker: ModuleType) -> None:
    peaks = []
    for megabytes in (8, 32):
        written = maker.write(tmp_path / "trace.json", megabytes)
        tracemalloc.start()
        trace = read(tmp_path / "trace.json")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(trace.kernels.start) == written.decode_kernels + written.mixed_kernels
    assert peaks[1] - peaks[0] < 0.3 * 24e6


def test_a_bad_event_does_not_slow_down_those_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    content = json.dumps(document([kernel("k", i, 1, correlation=i) for i in range(40_000)]))
    (tmp_path / "trace.json").write_text(content.replace('"correlation": 77}', '"correlation": 77, "x": NaN}'))
    called = []
    singly = walked.singly
    monkeypatch.setattr(walked, "singly", lambda piece, damage: called.append(len(piece)) or singly(piece, damage))
    assert len(read(tmp_path / "trace.json").kernels.start) == 40_000
    # Only the last event, with what follows the list, is read by itself.
    assert len(called) == 1
    assert called[0] < 300
