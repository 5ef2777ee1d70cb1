"""Marks seen by fakes only: whatever profiler runs around the tests is out of the way."""

from __future__ import annotations

import sys

import pytest
from mark_fakes import Log, profiler, torch_nvtx

from phasewise.mark import listening


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_tool", False)
    monkeypatch.setattr(listening, "_nvtx", None)
    monkeypatch.setattr(listening, "_daemon", False)
    monkeypatch.delitem(sys.modules, "torch.autograd.profiler", raising=False)
    monkeypatch.delitem(sys.modules, "torch.cuda.nvtx", raising=False)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def profiled(monkeypatch: pytest.MonkeyPatch, log: Log) -> Log:
    """PyTorch's profiler runs."""
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", profiler(log))
    return log


@pytest.fixture
def ranged(monkeypatch: pytest.MonkeyPatch, log: Log) -> Log:
    """A tool that reads NVTX is attached, and PyTorch with CUDA is there."""
    monkeypatch.setattr(listening, "_tool", True)
    monkeypatch.setitem(sys.modules, "torch.cuda.nvtx", torch_nvtx(log))
    return log
