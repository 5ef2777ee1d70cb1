"""The generator of large exports, at a small size: what it says it wrote is what is read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from nsys_files import named, read

from phasewise.observe.traces.events import LaunchKind


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "make_nsys.py"
    spec = importlib.util.spec_from_file_location("make_nsys", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_was_written_is_read(generator: ModuleType, tmp_path: Path) -> None:
    steps = generator.write(tmp_path / "made.sqlite", 4.0)
    trace = read(tmp_path / "made.sqlite")
    assert steps == 16
    assert len(trace.kernels.start) == 16 * 425
    bands = named(trace, trace.bands.name)
    assert (bands.count("prefill"), bands.count("decode"), len(bands)) == (1, 15, 32)
    assert len(trace.ops.start) == 16 * 2_018
    # Steps 1, 5, 9 and 13 are graphs: one launch and 425 kernels each.
    assert int((trace.launches.kind == LaunchKind.GRAPH).sum()) == 4
    assert int((trace.launches.kind == LaunchKind.KERNEL).sum()) == 12 * 425
    assert int((trace.kernels.node > 0).sum()) == 4 * 425
    assert np.isin(trace.kernels.correlation, trace.launches.correlation).all()
    assert trace.sources[0].graph_mode == "node"


def test_the_same_size_is_the_same_file(generator: ModuleType, tmp_path: Path) -> None:
    for name in ("one", "two"):
        generator.write(tmp_path / name, 0.5)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
