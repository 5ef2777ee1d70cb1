"""What one call of a model's forward asks for, from the shapes of its arguments: new tokens and context per request.

Nothing is read from a GPU, as that would wait for it: there a value is known only by its shape. On a CPU masks,
positions and lengths are read. What cannot be known is None.

The arguments are known by the names that transformers, flash-attention and gpt-fast give them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

_IDS = ("decoder_input_ids", "input_ids", "inputs_embeds", "idx", "tokens")
_CACHES = ("past_key_values", "cache", "past_key_value", "kv_cache", "cache_params", "state", "mems")
_STARTS = ("cu_seq_lens_q", "cu_seqlens_q", "cu_seqlens")
_START_KEYS = ("cu_seq_lens_k", "cu_seqlens_k")
_LONGEST = ("max_length_q", "max_seqlen_q")
_POSITIONS = ("cache_position", "input_pos")


class Call(NamedTuple):
    """One forward.

    Attributes:
        width: new tokens of each row by shape, padding included; of a packed batch the largest, None when not known.
        past: cached tokens of each row by shape; None when not known. Of a packed batch the largest.
        packed: the rows are requests of their own lengths, laid behind each other.
        requests: sequences in it; None when a mask that may leave rows out cannot be read.
        tokens: new tokens of all of them, without padding, None when not known.
        new: new tokens of each (q); None when not known.
        context: what each attends to, new tokens included (k); None when not known.
        logits: positions of each row whose logits were asked for; 0 for all, None when the call does not say.
        cache: the cache object that was passed, None without one.
    """

    width: int | None
    past: int | None
    packed: bool
    requests: int | None
    tokens: int | None
    new: tuple[int, ...] | None
    context: tuple[int, ...] | None
    logits: int | None
    cache: Any


def read(arguments: Mapping[str, Any], counted: int | None = None, *, shows_cache: bool = True) -> Call | None:
    """What ``arguments`` (by name) ask for; None when no tokens are found in them.

    Args:
        arguments: those of the call.
        counted: length of the cache as counted from the calls before, used when the cache does not say its own.
        shows_cache: a call without a cache has none. False for a module that may keep one inside.
    """
    shape: tuple[int, ...] = getattr(_first(arguments, _IDS), "shape", ())
    if not 1 <= len(shape) <= 3:
        return None
    rows, width = (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])
    cache = _first(arguments, _CACHES)
    logits = arguments.get("logits_to_keep", arguments.get("num_logits_to_keep"))
    logits = logits if type(logits) is int else None
    starts = _first(arguments, _STARTS)
    if starts is not None:
        return _packed(arguments, starts, rows * width, cache, logits)
    mask = _of_full_attention(arguments.get("attention_mask"))
    past = _past(arguments, cache, width, mask, counted) if cache is not None or shows_cache else _at(arguments)
    if mask is None and rows == 1 and width > 1 and past == 0 and (lengths := _restarts(arguments)) is not None:
        return Call(max(lengths), 0, True, len(lengths), width, lengths, lengths, logits, cache)
    if mask is None:
        new: tuple[int, ...] | None = (width,) * rows
        context = None if past is None else (past + width,) * rows
    else:
        new, context = _masked(mask, rows, width, past)
    if new is None:
        return Call(width, past, False, None, None, None, None, logits, cache)
    requests = rows - new.count(0)
    return Call(width, past, False, requests, sum(new), new, context, logits, cache)


def _first(arguments: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:  # twice as fast as next() of a generator, and asked four times for each forward
        if (found := arguments.get(name)) is not None:
            return found
    return None


def _of_full_attention(value: Any) -> Any:
    """transformers gives one of some arguments for each kind of layer: that of the layers that see everything."""
    if isinstance(value, dict):
        return value.get("full_attention", next(iter(value.values()), None))
    return value


def _values(tensor: Any) -> list[Any] | None:
    """The values of a tensor that lies in memory; None for one on a GPU."""
    return tensor.tolist() if getattr(tensor, "is_cpu", False) else None


def _packed(arguments: Mapping[str, Any], starts: Any, tokens: int, cache: Any, logits: int | None) -> Call:
    """Sequences laid behind each other, with the places where they begin (flash-attention's variable lengths)."""
    new, context = _lengths(starts), _lengths(_of_full_attention(_first(arguments, _START_KEYS)))
    if new is not None:
        keys = context if context is not None and len(context) == len(new) else new
        kept = [(q, max(q, k)) for q, k in zip(new, keys, strict=True) if q]
        new, context = tuple(q for q, _ in kept), tuple(k for _, k in kept)
        past = max((k - q for q, k in kept), default=0)
        return Call(max(new, default=0), past, True, len(new), sum(new), new, context, logits, cache)
    longest = _first(arguments, _LONGEST)
    width = longest if type(longest) is int else None
    empty = cache is None and _first(arguments, _START_KEYS) is None
    return Call(width, 0 if empty else None, True, starts.shape[0] - 1, tokens, None, None, logits, cache)


def _lengths(starts: Any) -> tuple[int, ...] | None:
    values = None if starts is None else _values(starts)
    return None if values is None else tuple(b - a for a, b in pairwise(values))


def _restarts(arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Lengths of the sequences that ``position_ids`` begins anew at 0; None for a single one, or unread."""
    positions = arguments.get("position_ids")
    if positions is None or len(positions.shape) != 2 or positions.shape[0] != 1:
        return None
    values = _values(positions[0])
    if values is None or values.count(0) < 2:
        return None
    begins = [index for index, value in enumerate(values) if value == 0] + [len(values)]
    return tuple(b - a for a, b in pairwise(begins))


def _past(arguments: Mapping[str, Any], cache: Any, width: int, mask: Any, counted: int | None) -> int | None:
    """Tokens in the cache: as it says, else by the mask's width, positions, or our own count."""
    if cache is not None and (said := _said(cache)) is not None:
        return said
    if (at := _at(arguments)) is not None:
        return at
    if cache is None:
        return 0
    if counted is not None:
        return counted
    return mask.shape[1] - width if mask is not None and len(mask.shape) == 2 and mask.shape[1] > width else None


def _at(arguments: Mapping[str, Any]) -> int | None:
    """Where the new tokens begin, by their positions."""
    positions = _first(arguments, _POSITIONS)
    values = None if positions is None else _values(positions)
    first = values[0] if values else None
    return first if type(first) is int else None


def _said(cache: Any) -> int | None:
    """The cache's own length; None when it does not say, or says so on a GPU."""
    if isinstance(cache, (tuple, list)):
        # The older form: a pair of keys and values for each layer, [rows, heads, tokens, size].
        keys = cache[0][0] if cache and isinstance(cache[0], (tuple, list)) and cache[0] else None
        return int(keys.shape[-2]) if keys is not None and len(keys.shape) == 4 else None
    ask = getattr(cache, "get_seq_length", None)
    if ask is None:
        return None
    try:
        length = ask()
    except (ValueError, AttributeError, IndexError, NotImplementedError):  # a cache of states has no length
        return _unused(cache)
    if isinstance(length, int):
        return length
    values = _values(length)
    return None if values is None else int(values)  # type: ignore[call-overload]


def _unused(cache: Any) -> int | None:
    """0 for a cache of states, as of Mamba, that nothing went into yet; else None."""
    holds = getattr(cache, "has_previous_state", None)
    try:
        return 0 if (holds() if callable(holds) else holds) is False else None
    except (ValueError, AttributeError, IndexError, NotImplementedError):
        return None


def _masked(
    mask: Any, rows: int, width: int, past: int | None
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """New tokens and context of each row by its attention mask, padding on either side left out."""
    if past is None or not getattr(mask, "is_cpu", False):
        return None, None
    shape = mask.shape
    if len(shape) == 4:
        return _masked_pairs(mask, rows, width, past)
    if len(shape) != 2 or shape[0] != rows:
        return None, None
    # A mask may be as long as a static cache, or of the new tokens alone.
    length, whole = shape[1], past + width
    if int(mask.count_nonzero()) == rows * length and length <= whole:  # no padding, told in a microsecond
        return (width,) * rows, (whole,) * rows
    totals = (mask if length <= whole else mask[:, :whole]).count_nonzero(-1).tolist()
    if length < whole:
        totals = [total + whole - length for total in totals]
    if width == 1:
        return (1,) * rows, tuple(total or 1 for total in totals)
    first = min(past, length - width)
    return tuple(mask[:, first : first + width].count_nonzero(-1).tolist()), tuple(totals)


def _masked_pairs(mask: Any, rows: int, width: int, past: int) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """The same by a mask of query and key: booleans, or numbers that are 0 where a query sees a key."""
    if mask.shape[2] != width or mask.shape[3] < width:
        return None, None
    whole = past + width
    pairs = mask[:, 0] if mask.dtype.__str__() == "torch.bool" else mask[:, 0] == 0
    if mask.shape[3] < whole or _slides(pairs[:, :, :whole], past):
        # A window, as of a static cache, does not show how much of what left it was padding; one row has none.
        if rows == 1:
            return (width,), (whole,)
        return ((1,) * rows, None) if width == 1 else (None, None)
    own = pairs.diagonal(past, 1, 2)[:, :width]  # a token that is no padding sees itself
    new = tuple(own.sum(-1).tolist())
    context = tuple(pairs[:, :, :whole].sum(-1).amax(-1).tolist()) if past else new
    return (new, context) if len(new) == rows else (new * rows, context * rows)


def _slides(pairs: Any, past: int) -> bool:
    """Whether the last of the new tokens no longer sees a key that the first saw, which is no padding."""
    return bool(past and ((pairs[:, 0] & ~pairs[:, -1]).any(-1) & pairs[:, 0, past]).any())
