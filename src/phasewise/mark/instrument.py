"""``instrument``: marks each forward of a PyTorch model as prefill, decode or mixed, and times them when asked.

Hooks do it, so that results, signatures and what other libraries hung on the model stay as they are. Where the forward
is compiled the hooks stay outside of the graph.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

from phasewise.errors import UsageError
from phasewise.mark.band import listened, opened
from phasewise.mark.call import Call, read
from phasewise.mark.clock import Clock, clock
from phasewise.mark.label import Label, Seen, label
from phasewise.mark.profiled import Profile, profile
from phasewise.record.marks import step_name

Lengths = Callable[..., tuple[Sequence[int], Sequence[int]]]
"""Told the arguments of a forward; gives the new tokens (q) and the context (k, new ones included) of each request."""

_ATTRIBUTE = "_phasewise_instrument"


class Step(NamedTuple):
    """One forward that was timed: what it was, and its seconds."""

    label: Label
    seconds: float


class Steps:
    """The forwards of one ``timed`` block, in order, but those that a CUDA graph captured.

    Reading ``steps`` waits for the GPU once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken: list[tuple[Label, Any, Any]] = []

    @property
    def steps(self) -> tuple[Step, ...]:
        """What was timed so far."""
        seconds = self._clock.seconds([(begin, end) for _, begin, end in self._taken])
        return tuple(Step(taken[0], time) for taken, time in zip(self._taken, seconds, strict=True))


class _Running(NamedTuple):
    """A forward that has begun."""

    module: Any
    close: Callable[[], None] | None
    label: Label
    began: Any


class Instrument:
    """A model that is marked until ``remove``, or the end of the ``with`` block."""

    def __init__(self, model: Any, lengths: Lengths | None = None) -> None:
        import torch

        # torch.compile folds this when it traces us, and the hooks leave nothing in the graph.
        self._compiling = torch.compiler.is_compiling
        self._model = model
        self._lengths = lengths
        self._clock: Clock | None = None
        self._timed: Steps | None = None
        self._running = threading.local()
        self._seen: weakref.WeakKeyDictionary[Any, Seen] = weakref.WeakKeyDictionary()
        self._undo: list[Callable[[], None]] = []
        inner = getattr(model, "_orig_mod", model)  # what torch.compile made holds the module that it compiles
        parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
        called = inner.module if isinstance(inner, parallel) else inner  # what they hand all arguments on to
        self._names = [
            name
            for name, one in inspect.signature(called.forward).parameters.items()
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
        self._shows_cache = hasattr(getattr(called, "config", None), "model_type")
        for module in dict.fromkeys((model, inner)):
            self._hook(module)

    def remove(self) -> None:
        """Take every hook off again. Safe to call twice."""
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    @contextmanager
    def timed(self) -> Iterator[Steps]:
        """Time each forward in the block: on a GPU by events, without waiting for any of them.

        Raises:
            UsageError: a block inside of another.
        """
        if self._timed is not None:
            raise UsageError("A model is timed in one block at a time: end the other first.")
        # The model may have moved since.
        self._clock = clock(self._model)
        self._timed = Steps(self._clock)
        try:
            yield self._timed
        finally:
            self._timed = None

    def profile(self, *, prompt_tokens: int = 512, answer_tokens: int = 64, batch: int = 1) -> Profile:
        """Both phases of a transformers model, each alone, in loops of at least 200 ms; ``phasewise.judged`` judges it.

        Raises:
            UsageError: no decoder of transformers, one in training mode, or numbers that cannot be.
        """
        return profile(self._model, prompt_tokens, answer_tokens, batch)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A copy of the model is marked by us as well.
        return self

    def _hook(self, module: Any) -> None:
        """Hang the marks on ``module``, and on what calls it compiled."""
        before = module.register_forward_pre_hook(self._pre, with_kwargs=True, prepend=True)
        past = module.register_forward_hook(self._post, with_kwargs=True, always_call=True)
        self._undo += [before.remove, past.remove]
        module.__dict__[_ATTRIBUTE] = self
        self._undo.append(lambda: module.__dict__.pop(_ATTRIBUTE, None))
        if (compiled := module.__dict__.get("_compiled_call_impl")) is not None:  # module.compile()
            self._replace(module, "_compiled_call_impl", self._marked(module, compiled), compiled)
        if hasattr(type(module), "get_compiled_call"):  # what generate() calls with a static cache
            self._replace(module, "get_compiled_call", _CompiledCall(self, module), None)

    def _replace(self, module: Any, name: str, value: Any, original: Any) -> None:
        module.__dict__[name] = value

        def undo() -> None:
            # Somebody may have put another in its place since: that one stays.
            if module.__dict__.get(name) is value:
                del module.__dict__[name]
                if original is not None:
                    module.__dict__[name] = original

        self._undo.append(undo)

    def _marked(self, module: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def marked(*args: Any, **kwargs: Any) -> Any:
            self._pre(module, args, kwargs)
            try:
                return call(*args, **kwargs)
            finally:
                self._post(module, args, kwargs, None)

        return marked

    def _pre(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._compiling():
            return
        running = getattr(self._running, "now", None)
        if running is not None:
            if running.module is not module:
                return  # what torch.compile made calls the module itself: one forward, one mark
            self._end(running)  # a KeyboardInterrupt ended it, which no hook is told of
        heard = listened()
        if self._timed is None and not heard:
            if self._seen:
                self._seen.clear()  # what is not watched is not known
            return
        found = self._label(args, kwargs)
        close = None
        if heard:
            close = opened(step_name(found.phase, found.prefill, found.decode, speculative=found.speculative))
        began = None if self._timed is None or self._clock is None else self._clock.now()
        self._running.now = _Running(module, close, found, began)

    def _post(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if self._compiling():
            return
        running = getattr(self._running, "now", None)
        if running is not None and running.module is module:
            self._end(running)

    def _end(self, running: _Running) -> None:
        self._running.now = None
        if self._timed is not None and self._clock is not None and running.began is not None:
            self._timed._taken.append((running.label, running.began, self._clock.now()))
        if running.close is not None:
            running.close()

    def _label(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Label:
        if self._lengths is not None:
            return label(_stated(self._lengths(*args, **kwargs)), Seen())
        arguments = {**dict(zip(self._names, args, strict=False)), **kwargs} if args else kwargs
        call = read(arguments, shows_cache=self._shows_cache)
        if call is None or call.cache is None:
            return label(call, Seen())
        try:
            seen = self._seen.get(call.cache)
            if seen is None:
                seen = self._seen[call.cache] = Seen()
        except TypeError:  # a tuple of tensors: the older form of a cache
            return label(call, Seen())
        if call.past is None and seen.length is not None:
            call = read(arguments, seen.length, shows_cache=self._shows_cache)
            assert call is not None
        found = label(call, seen)
        seen.take(call, found)
        return found


class _CompiledCall:
    """transformers' ``get_compiled_call`` of one module, with a mark around what it gives."""

    def __init__(self, instrument: Instrument, module: Any) -> None:
        self._instrument, self._module = instrument, module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = type(self._module).get_compiled_call(self._module, *args, **kwargs)
        return self._instrument._marked(self._module, call)

    def __deepcopy__(self, memo: dict[int, Any]) -> _CompiledCall:
        # The copy of a model must call itself, and not the original.
        return _CompiledCall(self._instrument, memo.get(id(self._module), self._module))


def instrument(model: Any, *, lengths: Lengths | None = None) -> Instrument:
    """Mark each forward of ``model`` as prefill, decode or mixed, with its token counts; the rules are in docs/mark.md.

    Args:
        model: a ``torch.nn.Module``, of transformers or not, compiled or not.
        lengths: for a module whose arguments phasewise does not know: given the arguments of a forward, the new tokens
            (q) and the context (k, the new ones included) of each request.

    Raises:
        UsageError: no module, or one that is marked already.
    """
    if isinstance(model, type) or not callable(getattr(model, "register_forward_pre_hook", None)):
        raise UsageError(f"instrument takes a torch.nn.Module, and this is a {type(model).__name__}.")
    if _ATTRIBUTE in model.__dict__:
        raise UsageError("This model is instrumented already: remove() that one first.")
    return Instrument(model, lengths)


def _stated(said: tuple[Sequence[int], Sequence[int]]) -> Call:
    try:
        new, context = said
        rows = [(int(q), max(int(q), int(k))) for q, k in zip(new, context, strict=True) if q]
    except (TypeError, ValueError):
        raise UsageError(f"lengths= gives the new tokens and the context of each request, and gave {said!r}.") from None
    past = max((k - q for q, k in rows), default=0)
    q, k = tuple(q for q, _ in rows), tuple(k for _, k in rows)
    return Call(max(q, default=0), past, True, len(rows), sum(q), q, k, None, None)
