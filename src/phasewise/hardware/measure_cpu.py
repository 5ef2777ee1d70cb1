"""Program: what the CPU reaches with numpy, in float32 matmuls or in reading and copying memory, on random data.

Run by ``child.run`` with JSON arguments: either ``Matmul`` or ``Bandwidth``.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from phasewise.hardware.child import ROUNDS, End, Round, say
from phasewise.units import show

Array = npt.NDArray[np.float32]
Kernel = Callable[[Array, Array], object]

_START = 0.001
"""Seconds per thread that a timed pass over memory takes at least, so that waking the threads in turn does not count.

Not more: on a busy machine only a short pass runs undisturbed.
"""


class Matmul(msgspec.Struct, tag="matmul", frozen=True, kw_only=True):
    """Multiply square matrices, each of ``sizes`` rows in turn, for about ``seconds``.

    ``threads`` says how many the BLAS was told to use.
    """

    sizes: tuple[int, ...]
    threads: int
    seconds: float


class Bandwidth(msgspec.Struct, tag="bandwidth", frozen=True, kw_only=True):
    """Read and copy arrays of ``nbytes`` bytes, cut into one part per thread, for about ``seconds``."""

    nbytes: int
    threads: int
    seconds: float


class Timed(NamedTuple):
    """Wall seconds of a call, and the share of the CPU time that its threads could have got in that time."""

    seconds: float
    cpu_share: float


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
    for measured in matmul(task, start) if isinstance(task, Matmul) else bandwidth(task, start):
        say(measured)
    say(End(by=library()))


def matmul(task: Matmul, start: float) -> Iterator[Round]:
    """Rounds of ``fp32``, each with the best of the sizes, then a check of the last product of each size.

    Raises:
        SystemExit: a product is wrong.
    """
    products: list[_Product] = []
    for size in sorted(task.sizes):
        product = _Product(size, task.threads)
        if product.run().seconds * 2 * ROUNDS > task.seconds and products:
            break  # this machine is too slow for the larger ones
        products.append(product)
    for share in _shares(start, task.seconds):
        best = {one: _best(one.run, share / len(products)) for one in products}
        winner = max(best, key=lambda one: one.flops / best[one].seconds)
        seconds, cpu_share = best[winner]
        detail = f"{winner.size} x {winner.size}"
        yield Round(quantity="fp32", rate=winner.flops / seconds, detail=detail, cpu_share=cpu_share)
    for one in products:
        check(one.a, one.b, one.product)


class _Product:
    """Two random square matrices and their product."""

    def __init__(self, size: int, threads: int) -> None:
        rng = np.random.default_rng()
        self.size, self.flops, self._threads = size, 2.0 * size**3, threads
        self.a, self.b = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
        self.product = np.empty_like(self.a)

    def run(self) -> Timed:
        """Multiply once."""
        begin, used = time.perf_counter(), time.process_time()
        np.matmul(self.a, self.b, out=self.product)
        seconds = time.perf_counter() - begin
        return Timed(seconds, (time.process_time() - used) / seconds / self._threads)


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


def bandwidth(task: Bandwidth, start: float) -> Iterator[Round]:
    """Rounds of ``read`` and ``copy``, each with the best of its kernels."""
    elements = max(1, task.nbytes // task.threads // np.dtype(np.float32).itemsize)
    kernels = READ | COPY
    with ThreadPoolExecutor(task.threads) as pool:
        team = _Team(pool, task.threads, elements)
        passes = {name: team.passes(kernel) for name, (kernel, _) in kernels.items()}
        for share in _shares(start, task.seconds):
            best = {name: _best(once, share / len(kernels)) for name, once in passes.items()}
            rates = {name: n * elements * 4 * task.threads / best[name].seconds for name, (_, n) in kernels.items()}
            for quantity, ways in (("read", READ), ("copy", COPY)):
                name = max(ways, key=rates.__getitem__)
                detail = f"{name}, arrays of {show(elements * 4.0 * task.threads, 'B')}"
                yield Round(quantity=quantity, rate=rates[name], detail=detail, cpu_share=best[name].cpu_share)


class _Team:
    """Threads that each have two random arrays of ``elements`` and run the same kernel on them at the same time."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int, elements: int) -> None:
        self._pool = pool
        self._barrier = threading.Barrier(threads)
        # Each thread fills its own arrays, which places them in the memory next to it.
        self._parts = list(pool.map(lambda _: (_random(elements), _random(elements)), range(threads)))

    def passes(self, kernel: Kernel) -> Callable[[], Timed]:
        """A call that runs ``kernel`` on all arrays, as often as it takes to fill a pass, and gives the time of one."""
        times = max(1, round(_START * len(self._parts) / self._run(kernel, 1).seconds))
        return lambda: self._run(kernel, times)

    def _run(self, kernel: Kernel, times: int) -> Timed:
        def work(part: tuple[Array, Array]) -> tuple[float, float, float]:
            self._barrier.wait()
            begin, used = time.perf_counter(), time.thread_time()
            for _ in range(times):
                kernel(*part)
            return begin, time.perf_counter(), time.thread_time() - used

        spans = list(self._pool.map(work, self._parts))
        seconds = max(end for _, end, _ in spans) - min(begin for begin, _, _ in spans)
        return Timed(seconds / times, sum(used for _, _, used in spans) / seconds / len(spans))


def library() -> str:
    """numpy and its BLAS, with versions."""
    built = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {}) if isinstance(built, dict) else {}
    return " ".join(f"numpy {np.__version__}, {blas.get('name', '')} {blas.get('version', '')}".split()).rstrip(",")


def _random(elements: int) -> Array:
    return np.random.default_rng().random(elements, dtype=np.float32)


def _best(once: Callable[[], Timed], seconds: float) -> Timed:
    """The quickest of as many calls of ``once`` as fit into ``seconds``, at least one."""
    end = time.perf_counter() + seconds
    best = once()
    while time.perf_counter() < end:
        best = min(best, once())
    return best


def _shares(start: float, seconds: float) -> list[float]:
    """What is left of ``seconds`` since ``start``, in one equal share per round."""
    return [max(0.0, start + seconds - time.perf_counter()) / ROUNDS] * ROUNDS


if __name__ == "__main__":
    main()
