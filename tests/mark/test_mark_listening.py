"""Who listens: by the environment that tools set, and by the bindings that are there."""

from __future__ import annotations

import sys
import types

import pytest
from mark_fakes import Log, torch_nvtx

from phasewise import phase
from phasewise.mark import listening
from phasewise.mark.listening import nvtx, nvtx_tool


@pytest.mark.parametrize(
    ("environ", "seen"),
    [
        ({}, False),
        ({"NVTX_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"}, True),
        ({"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"}, True),
        ({"NSYS_PROFILING_SESSION_ID": "17"}, True),
        ({"ROCP_TOOL_LIBRARIES": "/opt/rocm/lib/librocprofiler-sdk-tool.so"}, True),
        ({"LD_PRELOAD": "/opt/nvidia/nsight-systems/libToolsInjectionProxy64.so"}, True),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}, False),
        ({"NVTX_INJECTION64_PATH": ""}, False),
        ({"NVTX_INJECTION64_PATH": "/x.so", "PHASEWISE_NVTX": "0"}, False),
        ({"PHASEWISE_NVTX": "1"}, True),
        ({"PHASEWISE_NVTX": "yes"}, False),
    ],
)
def test_tools_are_known_by_the_environment(environ: dict[str, str], seen: bool) -> None:
    assert nvtx_tool(environ) is seen


def test_a_build_without_cuda_falls_back_to_the_package(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    monkeypatch.setattr(listening, "_tool", True)
    monkeypatch.setitem(sys.modules, "torch.cuda.nvtx", torch_nvtx(log, cuda=False))
    package = types.ModuleType("nvtx")
    package.__dict__.update(
        push_range=lambda message: log.add("push", message),
        pop_range=lambda: log.add("pop", ""),
        start_range=lambda message: 1,
        end_range=lambda number: None,
    )
    monkeypatch.setitem(sys.modules, "nvtx", package)
    with phase("decode"):
        pass
    assert log.told() == [("push", "phasewise:decode"), ("pop", "")]


def test_without_any_binding_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_tool", True)
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with phase("decode"):
        pass
    assert nvtx() is None
