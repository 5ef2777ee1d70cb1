"""``phase``: who sees what, in threads, tasks, recursion, generators and exceptions."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from mark_fakes import Log, profiler

from phasewise import phase
from phasewise.errors import UsageError
from phasewise.mark import listening

PREFILL, DECODE = "phasewise:prefill requests=1 tokens=2000", "phasewise:decode"


def test_nobody_listens_and_nothing_is_written(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", profiler(log, on=False))
    with phase("prefill", tokens=2000):
        pass
    assert log == []


def test_pytorchs_profiler_sees_a_band(profiled: Log) -> None:
    with phase("prefill", tokens=2000, requests=1), phase("decode"):
        pass
    assert profiled.told() == [("enter", PREFILL), ("enter", DECODE), ("exit", DECODE), ("exit", PREFILL)]


def test_a_tool_of_nvtx_sees_a_range(ranged: Log) -> None:
    with phase("prefill", tokens=2000, requests=1), phase("decode"):
        pass
    assert ranged.told() == [("push", PREFILL), ("push", DECODE), ("pop", DECODE), ("pop", PREFILL)]


def test_both_at_once(ranged: Log, profiled: Log) -> None:
    with phase("decode"):
        pass
    assert ranged.told() == [("push", DECODE), ("enter", DECODE), ("exit", DECODE), ("pop", DECODE)]


def test_sums_are_in_the_name(profiled: Log) -> None:
    with phase("decode", tokens=2, requests=2, context=30, squares=2, products=30):
        pass
    assert profiled[0][1] == "phasewise:decode requests=2 tokens=2 context=30 squares=2 products=30"


def test_an_exception_ends_the_band_and_goes_on(profiled: Log, ranged: Log) -> None:
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), phase("decode"):
            raise error
    assert [what for what, _ in profiled.told()] == ["push", "enter", "exit", "pop"] * 2


def test_a_decorator_marks_each_call(profiled: Log) -> None:
    @phase("decode")
    def countdown(n: int) -> int:
        """Doc."""
        return 0 if n == 0 else 1 + countdown(n - 1)

    assert countdown(2) == 2
    assert countdown.__doc__ == "Doc."
    assert [what for what, _ in profiled.told()] == ["enter"] * 3 + ["exit"] * 3


def test_one_object_serves_many_threads(ranged: Log) -> None:
    shared = phase("decode")
    both = threading.Barrier(8)

    def work() -> None:
        with shared:
            both.wait()
            with shared:
                both.wait()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ranged) == 32
    for number in {thread for _, _, thread in ranged}:
        assert [what for what, _, thread in ranged if thread == number] == ["push", "push", "pop", "pop"]


def test_tasks_on_one_thread_overlap(ranged: Log, profiled: Log) -> None:
    """Push/pop ranges of two tasks would close each other."""

    async def one(name: str, first: asyncio.Event, then: asyncio.Event) -> None:
        with phase(name):  # type: ignore[arg-type]
            first.set()
            await then.wait()

    async def main() -> None:
        a, b = asyncio.Event(), asyncio.Event()
        await asyncio.gather(one("prefill", a, b), one("decode", b, a))

    asyncio.run(main())
    assert all(what not in ("push", "pop") for what, _ in ranged.told())
    for name in ("phasewise:prefill", "phasewise:decode"):
        assert [what for what, one in ranged.told() if one == name] == ["start", "enter", "exit", "end"]


def test_a_shared_object_serves_many_tasks(profiled: Log) -> None:
    shared = phase("decode")
    ended: list[int] = []

    async def one(number: int) -> None:
        with shared:
            await asyncio.sleep(0)
            async with asyncio.timeout(None):
                await asyncio.sleep(0)
        ended.append(number)

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(5)))

    asyncio.run(main())
    told = [what for what, _ in profiled.told()]
    assert (told.count("enter"), told.count("exit"), len(ended)) == (5, 5, 5)


def test_coroutines_and_generators_are_marked_while_they_run(profiled: Log) -> None:
    @phase("decode")
    async def step() -> int:
        await asyncio.sleep(0)
        return 7

    @phase("decode")
    def tokens() -> Iterator[int]:
        yield from (1, 2)

    @phase("decode")
    async def stream() -> AsyncIterator[int]:
        for token in (1, 2):
            yield token

    async def main() -> tuple[int, list[int], list[int]]:
        return await step(), list(tokens()), [token async for token in stream()]

    assert asyncio.run(main()) == (7, [1, 2], [1, 2])
    assert [what for what, _ in profiled.told()] == ["enter", "exit"] * 3


def test_a_generator_that_is_given_up_ends_its_band(profiled: Log) -> None:
    @phase("decode")
    def tokens() -> Iterator[int]:
        yield from (1, 2)

    running = tokens()
    next(running)
    with phase("prefill"):
        running.close()
    assert profiled.told() == [
        ("enter", DECODE),
        ("enter", "phasewise:prefill"),
        ("exit", DECODE),
        ("exit", "phasewise:prefill"),
    ]


def test_a_generator_that_ends_elsewhere_ends_its_band(profiled: Log) -> None:
    @phase("decode")
    def tokens() -> Iterator[int]:
        yield 1

    running = tokens()
    next(running)
    thread = threading.Thread(target=running.close)
    thread.start()
    thread.join()
    assert [what for what, _ in profiled.told()] == ["enter", "exit"]


def test_a_profiler_that_starts_or_stops_in_between_is_no_harm(profiled: Log) -> None:
    module = sys.modules["torch.autograd.profiler"]
    shared = phase("decode")
    with shared:
        module.__dict__["_is_profiler_enabled"] = False
        with shared:
            pass
    with shared:
        module.__dict__["_is_profiler_enabled"] = True
    with shared:
        pass
    assert [what for what, _ in profiled.told()] == ["enter", "exit"] * 2


def test_another_name_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="'prefill', 'decode' or 'mixed'"):
        phase("sampling")  # type: ignore[arg-type]


def test_phasewise_imports_neither_torch_nor_numpy_for_a_mark() -> None:
    code = """
import sys, phasewise
assert not any(name.startswith("phasewise.") for name in sys.modules), "import phasewise loads nothing else"
with phasewise.phase("decode", tokens=1): pass
assert "instrument" in dir(phasewise)
print([name for name in ("torch", "nvtx", "numpy", "scipy", "rich") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_daemon_of_kineto_always_listens(profiled: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.modules["torch.autograd.profiler"].__dict__["_is_profiler_enabled"] = False
    monkeypatch.setattr(listening, "_daemon", True)
    with phase("decode"):
        pass
    assert [what for what, _ in profiled.told()] == ["enter", "exit"]


def test_runs_of_a_generator_end_their_own_bands_on_whatever_thread(ranged: Log, profiled: Log) -> None:
    """As a server hands them to a pool: each step in a copy of the context, two answers at a time."""

    @phase("decode")
    def answer() -> Iterator[int]:
        yield from range(2)

    def step(run: Iterator[int]) -> None:
        pool.submit(contextvars.copy_context().run, next, run, None).result()

    with ThreadPoolExecutor(4) as pool:
        first, second = answer(), answer()
        for run in (first, second, first, first, second, second):
            step(run)
    assert [what for what, _ in ranged.told()] == ["start", "enter"] * 2 + ["exit", "end"] * 2


def test_a_generator_that_ends_inside_of_a_later_band_ends_its_own(ranged: Log) -> None:
    @phase("decode")
    def answer() -> Iterator[int]:
        yield 1

    run = answer()
    next(run)
    with phase("prefill"):
        assert list(run) == []
    assert ranged.told() == [
        ("start", DECODE),
        ("push", "phasewise:prefill"),
        ("end", DECODE),
        ("pop", "phasewise:prefill"),
    ]


def test_a_shared_mark_that_ends_in_another_context_is_closed_once(profiled: Log) -> None:
    mark = phase("decode")

    def answer() -> Iterator[int]:
        with mark:
            yield 1

    run = answer()
    next(run)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(list, run).result()
    with mark:
        pass
    mark.__exit__(None, None, None)
    assert [what for what, _ in profiled.told()] == ["enter", "exit"] * 2


def test_an_asynchronous_generator_is_sent_to_thrown_into_and_closed(profiled: Log) -> None:
    heard: list[object] = []

    @phase("decode")
    async def answer() -> AsyncGenerator[int, str]:
        try:
            heard.append((yield 1))
            yield 2
        except ValueError:
            heard.append("thrown")
            yield 3
        finally:
            heard.append("closed")

    async def ask() -> None:
        run = answer()
        assert [await anext(run), await run.asend("more"), await run.athrow(ValueError())] == [1, 2, 3]
        await run.aclose()
        heard.append("after")

    asyncio.run(ask())
    assert heard == ["more", "thrown", "closed", "after"]
    assert profiled.told() == [("enter", DECODE), ("exit", DECODE)]


def test_a_decorator_outside_of_staticmethod_and_classmethod(profiled: Log) -> None:
    class Engine:
        @phase("decode")
        @staticmethod
        def step() -> int:
            return 1

        @phase("decode")
        @classmethod
        def name(cls) -> str:
            return cls.__name__

    assert (Engine().step(), Engine.step(), Engine().name()) == (1, 1, "Engine")
    assert len(profiled) == 6


@pytest.mark.parametrize("count", [-1, 2.5, "two", float("nan"), 10**18])
def test_a_count_that_counts_nothing_is_told_though_nobody_listens(count: int) -> None:
    with pytest.raises(UsageError, match="whole number"):
        phase("prefill", tokens=count)


def test_a_count_may_be_of_another_librarys_kind(profiled: Log) -> None:
    import numpy

    with phase("prefill", tokens=numpy.int64(5), requests=True):
        pass
    assert profiled[0][1] == "phasewise:prefill requests=1 tokens=5"
