"""One band on the timeline: an NVTX range and PyTorch's record_function at once, for those of them that listen."""

from __future__ import annotations

import sys
from asyncio import _get_running_loop
from collections.abc import Callable
from typing import Any

from phasewise.mark import listening


def listened() -> bool:
    """Whether anybody would see a band that is opened now. Costs some 50 ns."""
    return listening.torch_listens() or listening._tool


def opened(name: str, *, overlaps: bool = False) -> Callable[[], None] | None:
    """Open a band called ``name`` for everybody who listens; what is returned closes it, None when nobody does.

    A band opened inside of an asyncio task is an NVTX start/end range, as the bands of several tasks overlap on one
    thread, and so is one that ``overlaps``; elsewhere it is a push/pop range. Closing on another thread than the
    opening one ends its record_function there, and its NVTX range only when that is a start/end range.
    """
    closers: list[Callable[[], Any]] = []
    if (nvtx := listening.nvtx()) is not None:
        if overlaps or _get_running_loop() is not None:
            number = nvtx.start(name)
            closers.append(lambda: nvtx.end(number))
        else:
            nvtx.push(name)
            closers.append(nvtx.pop)
    if listening.torch_listens():
        function = sys.modules["torch.autograd.profiler"].record_function(name)
        function.__enter__()
        closers.append(lambda: function.__exit__(None, None, None))
    if not closers:
        return None

    def close() -> None:
        while closers:  # once: it may be asked again by a context that a generator was not ended in
            closers.pop()()

    return close
