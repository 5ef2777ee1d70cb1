"""The PyTorch program against a planted `torch` of known speed, on both kinds of device."""

from __future__ import annotations

from pathlib import Path

import pytest
from hardware_programs import plant

from phasewise.hardware import child

TORCH = '''
"""Every call takes the planted time; events read the same clock."""
import contextlib, time
from types import SimpleNamespace
__version__ = "9.9"
float32 = float16 = bfloat16 = float8_e4m3fn = int8 = "dtype"
MATMUL, MEMORY = 0.002, 0.004
inference_mode = contextlib.nullcontext
set_float32_matmul_precision = lambda how: None
get_num_threads = lambda: 1
class Tensor:
    def to(self, kind): return self
    def t(self): return self
    def copy_(self, other): time.sleep(MEMORY)
randn = randint = ones = lambda *shape, **more: Tensor()
empty_like = lambda other: Tensor()
mm = lambda a, b, out: time.sleep(MATMUL)
_int_mm = lambda a, b: time.sleep(MATMUL / 2)
dot = lambda a, b: time.sleep(MEMORY)
def _scaled_mm(a, b, **more): raise RuntimeError("fp8 needs a newer GPU\\nand more")
class Event:
    def __init__(self, enable_timing): assert enable_timing
    def record(self): self.at = time.perf_counter()
    def synchronize(self): pass
    def elapsed_time(self, other): return 1000 * (other.at - self.at)
cuda = SimpleNamespace(
    is_available=lambda: AVAILABLE, Event=Event, get_device_name=lambda: "NVIDIA L4",
    get_device_properties=lambda device: SimpleNamespace(L2_cache_size=2**20), mem_get_info=lambda: (2**34, 2**35),
)
'''
ALL = ("fp32", "fp16", "bf16", "fp8", "int8", "read", "copy")


def _run(device: str, quantities: tuple[str, ...], seconds: float = 0.5) -> tuple[child.End, list[child.Round]]:
    heard: list[child.Round] = []
    arguments = {"device": device, "size": 64, "seconds": seconds, "quantities": quantities}
    ended = child.run(
        "phasewise.hardware.measure_torch", arguments, child.environment(1, pinned=True), 60, heard.append
    )
    return ended, heard


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    plant(monkeypatch, tmp_path)
    file = tmp_path / "torch.py"
    file.write_text(TORCH.replace("AVAILABLE", "True"))
    return file


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_rates_are_work_over_time_and_the_impossible_is_left_out(device: str) -> None:
    ended, heard = _run(device, ALL)
    assert ended.by == "PyTorch 9.9"
    assert ended.device == ("NVIDIA L4" if device == "cuda" else "")
    assert ended.left_out == {"fp8": "fp8 needs a newer GPU"}
    best = {name: max(one.rate for one in heard if one.quantity == name) for name in ALL if name != "fp8"}
    assert len(heard) == len(best) * (3 if device == "cuda" else child.ROUNDS)  # 0.5 s are short for a GPU
    nbytes = 2.0**30 if device == "cuda" else 2.0**28
    for name in ("fp32", "fp16", "bf16"):
        # A sleep never ends early, and on a busy machine late.
        assert 0.2 < best[name] / (2 * 64**3 / 0.002) <= 1.0
    assert 0.2 < best["int8"] / (2 * 64**3 / 0.001) <= 1.0
    assert 0.2 < best["read"] / (2 * nbytes / 0.004) <= 1.0  # two arrays read
    assert 0.2 < best["copy"] / (2 * nbytes / 0.004) <= 1.0  # one read, one written


def test_a_build_that_sees_no_gpu_says_so(torch: Path) -> None:
    torch.write_text(TORCH.replace("AVAILABLE", "False"))
    with pytest.raises(child.Failed, match="PyTorch sees no GPU"):
        _run("cuda", ALL)
