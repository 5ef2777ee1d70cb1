"""``phase``: bands around the phases of the user's own code."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

_TOO_MANY = 10**18
"""A count has at most 18 digits where a name is read (`phasewise.record.marks`)."""


def _whole(count: Any) -> int | None:
    """``count`` as an int."""
    try:
        number = None if count is None else operator.index(count)
    except TypeError:
        number = -1
    if number is not None and not 0 <= number < _TOO_MANY:
        raise UsageError(f"phase(...): {count!r} counts nothing: give a whole number from 0, or leave it out.")
    return number


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
        UsageError: another name, or a count that is no whole number from 0.
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
        self._counts = counts = (requests, tokens, context, squares, products)
        for count in counts:
            # Told here, as the name is only made when somebody listens. Other libraries have whole numbers too.
            if count is not None and (type(count) is not int or not 0 <= count < _TOO_MANY):
                self._counts = tuple(_whole(count) for count in counts)  # type: ignore[assignment]
                break
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
        not meant. It may end on another thread, in another task, or after bands that were opened later.
        """
        wrapper: Any
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__))
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self._alone():
                    generator = function(*args, **kwargs)
                    try:
                        given = await anext(generator)
                        while True:
                            try:
                                sent = yield given
                            except GeneratorExit:
                                raise
                            except BaseException as error:
                                given = await generator.athrow(error)
                            else:
                                given = await generator.asend(sent)
                    except StopAsyncIteration:
                        return
                    finally:
                        await generator.aclose()

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self._alone():
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return wrapper  # type: ignore[no-any-return]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A band that belongs to one run of a generator, which neither a thread nor a task bounds."""
        close = opened(self._text(), overlaps=True) if listened() else None
        try:
            yield
        finally:
            if close is not None:
                close()

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
