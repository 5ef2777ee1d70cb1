"""Program: what PyTorch reaches on a CPU or a GPU: matmuls per dtype, reading and copying memory, on random data.

Run by ``child.run`` with a JSON ``Task``. The same calls run on both kinds of device; only the clock differs.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from phasewise.hardware.child import ROUNDS, End, Round, say
from phasewise.units import parse, show

_LOOP = 0.2
"""Seconds that a timed loop takes at least on a GPU, so that its clocks settle and the launch does not count."""

_FEWER = 3
"""Rounds on a GPU when the time does not reach for all of them."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Measure ``quantities`` (dtypes, ``read``, ``copy``) on ``device``, matmuls of ``size`` rows, in ``seconds``."""

    device: str
    size: int
    seconds: float
    quantities: tuple[str, ...]


class Kernel(NamedTuple):
    """A call, the FLOPs or bytes of one, and what it is."""

    quantity: str
    call: Callable[[], object]
    work: float
    detail: str


def main() -> None:
    """Measure what the JSON in the only argument asks for."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    torch = importlib.import_module("torch")
    on_gpu = task.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU; install its build for CUDA")
    torch.set_float32_matmul_precision("highest")  # float32 means float32, not TF32
    kernels: list[Kernel] = []
    left_out: dict[str, str] = {}
    with torch.inference_mode():
        for quantity in task.quantities:
            try:
                kernel = (_memory if quantity in ("read", "copy") else _matmul)(torch, task, quantity)
                kernel.call()
                _clock(torch, task.device, kernel.call, 1)
            except (RuntimeError, NotImplementedError, AttributeError, TypeError) as error:
                left_out[quantity] = str(error).strip().splitlines()[0][:120] if str(error).strip() else repr(error)
            else:
                kernels.append(kernel)
        for measured in _rounds(torch, task, kernels):
            say(measured)
    device = torch.cuda.get_device_name() if on_gpu else ""
    say(End(by=f"PyTorch {torch.__version__}", device=device, left_out=left_out))


def _rounds(torch: Any, task: Task, kernels: list[Kernel]) -> Iterator[Round]:
    """Every kernel once per round."""
    least = _LOOP if task.device == "cuda" else 0.0
    share = task.seconds / ROUNDS / max(1, len(kernels))
    times = [max(1, math.ceil(least / _clock(torch, task.device, one.call, 1)[0])) for one in kernels]
    for _ in range(ROUNDS if share >= least else _FEWER):
        for kernel, loops in zip(kernels, times, strict=True):
            end = time.perf_counter() + share
            best = _clock(torch, task.device, kernel.call, loops)
            while time.perf_counter() + best[0] * loops < end:
                best = min(best, _clock(torch, task.device, kernel.call, loops))
            yield Round(quantity=kernel.quantity, rate=kernel.work / best[0], detail=kernel.detail, cpu_share=best[1])


def _clock(torch: Any, device: str, call: Callable[[], object], loops: int) -> tuple[float, float]:
    """Seconds of one call, over ``loops`` of them, and the share of the CPU time that a CPU's threads got."""
    if device == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(loops):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000 / loops, 1.0
    start, used = time.perf_counter(), time.process_time()
    for _ in range(loops):
        call()
    seconds = time.perf_counter() - start
    return seconds / loops, (time.process_time() - used) / seconds / torch.get_num_threads()


def _matmul(torch: Any, task: Task, dtype: str) -> Kernel:
    """A product of two square random matrices in ``dtype``."""
    n = task.size

    def random() -> Any:
        return torch.randn(n, n, device=task.device)

    if dtype == "int8":
        a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8, device=task.device) for _ in range(2))
        call: Callable[[], object] = lambda: torch._int_mm(a, b.t())  # noqa: E731
    elif dtype == "fp8":
        a, b = (random().to(torch.float8_e4m3fn) for _ in range(2))
        one = torch.ones((), device=task.device)
        call = lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: E731
    else:
        kind = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
        a, b = (random().to(kind) for _ in range(2))
        product = torch.empty_like(a)
        call = lambda: torch.mm(a, b, out=product)  # noqa: E731
    return Kernel(dtype, call, 2.0 * n**3, f"{n} x {n}")


def _memory(torch: Any, task: Task, quantity: str) -> Kernel:
    """Reading two float32 arrays (their dot product), or copying one; a copied byte counts as read and as written."""
    nbytes = parse("256MiB", "B")
    if task.device == "cuda":
        caches = torch.cuda.get_device_properties(task.device).L2_cache_size
        nbytes = min(max(4 * nbytes, 8.0 * caches), torch.cuda.mem_get_info()[0] / 16)
    a, b = (torch.randn(int(nbytes / 4), device=task.device) for _ in range(2))
    size = show(nbytes, "B")
    if quantity == "read":
        return Kernel(quantity, lambda: torch.dot(a, b), 2 * nbytes, f"dot product, arrays of {size}")
    return Kernel(quantity, lambda: b.copy_(a), 2 * nbytes, f"copy, arrays of {size}")


if __name__ == "__main__":
    main()
