"""``phase``: bands around the phases of the user's own code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from phasewise.errors import UsageError
from phasewise.mark.band import listened, opened
from phasewise.record.marks import range_name
from phasewise.record.trace import Tokens

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Entry = tuple["phase", Callable[[], None]]

_PHASES = frozenset(("prefill", "decode", "mixed"))

_open: ContextVar[tuple[_Entry, ...]] = ContextVar("phasewise_open_phases", default=())
"""The bands that are open in this context (a thread, or an asyncio task), the innermost last."""


class phase:  # noqa: N801 - a context manager and decorator, written like a function
    """``with phase("prefill", tokens=2000, requests=1):`` or ``@phase("decode")``: a band around one phase.

    The band is an NVTX range and PyTorch's ``record_function`` at once. When neither a profiler nor an NVTX tool runs
    nothing is written, and a use costs under a microsecond. Threads, asyncio tasks and recursion may share one. An
    exception ends the band and goes on.

    Args:
        name: ``prefill``, ``decode`` or ``mixed``.
        tokens: new tokens that the band's passes of the model take in (Σq).
        requests: sequences that they belong to.
        context: tokens that the new ones attend to, themselves included (Σk).
        squares: Σq².
        products: Σq·k.

    Raises:
        UsageError: another name.
    """

    __slots__ = ("_counts", "_name", "_stray")

    def __init__(
        self,
        name: Literal["prefill", "decode", "mixed"],
        *,
        tokens: int | None = None,
        requests: int | None = None,
        context: int | None = None,
        squares: int | None = None,
        products: int | None = None,
    ) -> None:
        if name not in _PHASES:
            raise UsageError(f"phase({name!r}): a phase is 'prefill', 'decode' or 'mixed'.")
        self._name = name
        self._counts = (requests, tokens, context, squares, products)
        self._stray: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        if listened() and (close := opened(self._text())) is not None:
            self._stray = close
            _open.set((*_open.get(), (self, close)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (entries := _open.get()) or self._stray is not None:
            self._close(entries)

    def __call__(self, function: _Function) -> _Function:
        """``function`` with a band around each call; around each run, when it is a coroutine function or a generator.

        A generator's band stays open while its caller does something else: mark the caller's loop instead when that is
        not meant.
        """
        wrapper: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    async for item in function(*args, **kwargs):
                        yield item

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return wrapper  # type: ignore[no-any-return]

    def _text(self) -> str:
        requests, tokens, context, squares, products = self._counts
        counts = Tokens(requests=requests, tokens=tokens, context=context, squares=squares, products=products)
        return range_name(self._name, counts)

    def _close(self, entries: tuple[_Entry, ...]) -> None:
        """End the band of this phase that was opened last in this context.

        When there is none, a generator may be ending in another context than it began in: then the one opened last.
        """
        mine = [index for index, (owner, _) in enumerate(entries) if owner is self]
        close = entries[mine[-1]][1] if mine else self._stray
        if mine:
            _open.set(entries[: mine[-1]] + entries[mine[-1] + 1 :])
        if close is self._stray:
            self._stray = None
        if close is not None:
            close()
