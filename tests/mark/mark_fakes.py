"""A PyTorch profiler, NVTX bindings and tensors that write down what is asked of them, under the real names.

`mark_torch.py` holds the names and signatures against the real library.
"""

from __future__ import annotations

import threading
import types
from typing import Any

Event = tuple[str, str, int]
"""What was done (``enter``, ``exit``, ``push``, ``pop``, ``start``, ``end``), the range's name, the thread."""


class Log(list[Event]):
    def add(self, what: str, name: str) -> None:
        self.append((what, name, threading.get_ident()))

    def told(self) -> list[tuple[str, str]]:
        return [(what, name) for what, name, _ in self]


def profiler(log: Log, *, on: bool = True) -> types.ModuleType:
    """What ``torch.autograd.profiler`` is in ``sys.modules``."""

    class record_function:  # noqa: N801 - PyTorch's name
        def __init__(self, name: str, args: str | None = None) -> None:
            self.name, self.entered = name, False

        def __enter__(self) -> Any:
            assert not self.entered
            self.entered = True
            log.add("enter", self.name)
            return self

        def __exit__(self, *error: object) -> None:
            assert self.entered
            self.entered = False
            log.add("exit", self.name)

    module = types.ModuleType("torch.autograd.profiler")
    module.__dict__.update(_is_profiler_enabled=on, record_function=record_function)
    return module


def torch_nvtx(log: Log, *, cuda: bool = True) -> types.ModuleType:
    """What ``torch.cuda.nvtx`` is in ``sys.modules``, in a build with CUDA or one without."""
    module = types.ModuleType("torch.cuda.nvtx")
    if not cuda:

        class _NVTXStub:
            @staticmethod
            def _fail(*args: object, **kwargs: object) -> None:
                raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

            rangePushA = rangePop = markA = _fail  # noqa: N815 - PyTorch's names

        module.__dict__["_nvtx"] = _NVTXStub()
        module.__dict__.update(dict.fromkeys(("range_push", "range_pop", "range_start", "range_end"), _NVTXStub._fail))
        return module
    module.__dict__["_nvtx"] = types.ModuleType("torch._C._nvtx")
    stacks: dict[int, list[str]] = {}
    numbers: dict[int, str] = {}

    def range_push(msg: str) -> int:
        log.add("push", msg)
        stack = stacks.setdefault(threading.get_ident(), [])
        stack.append(msg)
        return len(stack) - 1

    def range_pop() -> int:
        stack = stacks[threading.get_ident()]
        log.add("pop", stack.pop())
        return len(stack)

    def range_start(msg: str) -> int:
        log.add("start", msg)
        numbers[len(numbers) + 1] = msg
        return len(numbers)

    def range_end(range_id: int) -> None:
        log.add("end", numbers[range_id])

    module.__dict__.update(range_push=range_push, range_pop=range_pop, range_start=range_start, range_end=range_end)
    return module


class Unread:
    """A tensor on a GPU: its shape is known, and reading it would wait for the GPU."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.is_cpu = False

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a tensor on a GPU was read")

    def __getitem__(self, key: object) -> Any:
        raise AssertionError("a tensor on a GPU was indexed")


class Values:
    """A tensor in memory, of which only ``tolist`` is wanted."""

    def __init__(self, values: list[int]) -> None:
        self._values = values
        self.shape = (len(values),)
        self.is_cpu = True

    def tolist(self) -> list[int]:
        return self._values


class Cache:
    """A cache of transformers'."""

    def __init__(self, length: Any) -> None:
        self.length = length

    def get_seq_length(self, layer_idx: int = 0) -> Any:
        if isinstance(self.length, Exception):
            raise self.length
        return self.length
