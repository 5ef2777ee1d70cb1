"""Program: what the CPU reaches with numpy, in float32 matmuls or in reading and copying memory, on random data.

Run by ``child.run`` with JSON arguments: either ``Matmul`` or ``Bandwidth``.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import numpy.typing as npt

from phasewise.hardware.child import ROUNDS, End, Round, say

Array = npt.NDArray[np.float32]
Kernel = Callable[[Array, Array], object]

_SMALLEST = 256
_PASS = 0.04
"""Seconds that one timed pass over memory should take, so that starting the threads does not count."""


class Matmul(msgspec.Struct, tag="matmul", frozen=True, kw_only=True):
    """Multiply square matrices of ``size`` rows (fewer, when one product takes too long) for about ``seconds``."""

    size: int
    seconds: float


class Bandwidth(msgspec.Struct, tag="bandwidth", frozen=True, kw_only=True):
    """Read and copy arrays of ``nbytes`` bytes, cut into one part per thread, for about ``seconds``."""

    nbytes: int
    threads: int
    seconds: float


READ: dict[str, tuple[Kernel, int]] = {
    "dot product": (np.dot, 2),
    "maximum": (lambda a, _: a.view(np.int32).max(), 1),
}
"""Ways to read memory, and how many of the two arrays each reads."""

COPY: dict[str, tuple[Kernel, int]] = {
    "copy": (lambda a, b: np.copyto(b, a), 2),
    "scaled copy": (lambda a, b: np.multiply(a, np.float32(0.5), out=b), 2),
}
"""Ways to copy; each byte counts twice, once read and once written."""


def main() -> None:
    """Measure what the JSON in the only argument asks for."""
    start = time.perf_counter()
    task = msgspec.json.decode(sys.argv[1], type=Matmul | Bandwidth)
    if isinstance(task, Matmul):
        matmul(task, start)
    else:
        bandwidth(task, start)
    say(End(by=library()))


def matmul(task: Matmul, start: float) -> None:
    """One ``fp32`` round after the other, then a check of the last product.

    Raises:
        SystemExit: the product is wrong.
    """
    rng, size = np.random.default_rng(), task.size
    while True:
        a, b = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
        product = np.empty_like(a)
        seconds = _time(lambda: np.matmul(a, b, out=product))  # noqa: B023 - called at once
        if size <= _SMALLEST or seconds * 2 * ROUNDS < task.seconds:
            break
        size //= 2
    for share in _shares(start, task.seconds, ROUNDS):
        best = _best(lambda: _time(lambda: np.matmul(a, b, out=product)), share)
        say(Round(quantity="fp32", rate=2.0 * size**3 / best, detail=f"{size} x {size}"))
    check(a, b, product)


def check(a: Array, b: Array, product: Array) -> None:
    """Compare random rows of ``product`` with the same rows in float64, multiplied without BLAS.

    The rounding of float32 sums of n products of standard normals is about n·ε; four times that is let pass.

    Raises:
        SystemExit: they differ by more than rounding.
    """
    size = len(a)
    rows = np.random.default_rng().integers(0, size, 8)
    exact = np.einsum("ij,jk->ik", a[rows].astype(np.float64), b.astype(np.float64))
    error = float(np.abs(product[rows] - exact).max())
    if not error <= 4 * size * np.finfo(np.float32).eps:
        sys.exit(f"the product was wrong by {error:.3g}")


def bandwidth(task: Bandwidth, start: float) -> None:
    """One ``read`` and one ``copy`` round after the other, each with the best of its kernels."""
    elements = max(1, task.nbytes // task.threads // np.dtype(np.float32).itemsize)
    barrier = threading.Barrier(task.threads)
    with ThreadPoolExecutor(task.threads) as pool:
        # Each thread writes its own part first, which places it in the memory next to that thread.
        parts = list(pool.map(lambda _: (_random(elements), _random(elements)), range(task.threads)))

        def timed(kernel: Kernel, times: int) -> float:
            def work(part: tuple[Array, Array]) -> tuple[float, float]:
                barrier.wait()
                begin = time.perf_counter()
                for _ in range(times):
                    kernel(*part)
                return begin, time.perf_counter()

            spans = list(pool.map(work, parts))
            return (max(end for _, end in spans) - min(begin for begin, _ in spans)) / times

        kernels = READ | COPY
        times = {name: max(1, round(_PASS / timed(kernel, 1))) for name, (kernel, _) in kernels.items()}
        for share in _shares(start, task.seconds, ROUNDS):
            rates: dict[str, float] = {}
            for name, (kernel, arrays) in kernels.items():
                best = _best(lambda: timed(kernel, times[name]), share / len(kernels))  # noqa: B023 - called at once
                rates[name] = arrays * elements * 4 * task.threads / best
            for quantity, ways in (("read", READ), ("copy", COPY)):
                name = max(ways, key=lambda way: rates[way])  # noqa: B023 - called at once
                say(Round(quantity=quantity, rate=rates[name], detail=name))


def library() -> str:
    """numpy and its BLAS, with versions."""
    built = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {}) if isinstance(built, dict) else {}
    return " ".join(f"numpy {np.__version__} {blas.get('name', '')} {blas.get('version', '')}".split())


def _random(elements: int) -> Array:
    return np.random.default_rng().random(elements, dtype=np.float32)


def _time(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _best(once: Callable[[], float], seconds: float) -> float:
    """The least time of as many calls of ``once`` as fit into ``seconds``, at least one."""
    end = time.perf_counter() + seconds
    best = once()
    while time.perf_counter() < end:
        best = min(best, once())
    return best


def _shares(start: float, seconds: float, rounds: int) -> list[float]:
    """What is left of ``seconds`` since ``start``, in equal shares."""
    return [max(0.0, start + seconds - time.perf_counter()) / rounds] * rounds


if __name__ == "__main__":
    main()
