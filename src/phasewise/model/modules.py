"""The module names that a role's weights go by, so that a quantiser's lists can be read as shares of roles.

Names are those of transformers' model classes; a share is the part of the role's weights in one layer. The lists hold
names, parts of names, globs, or (after ``re:``) regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from phasewise.model.architecture import Architecture, Attention
from phasewise.model.parts import Role

_EXPERTS = ("mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj")

_NAMES: dict[Role, tuple[str, ...]] = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "indexer": ("self_attn.indexer.wq_b",),
    "mlp_in": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp_out": ("mlp.down_proj",),
    "router": ("mlp.gate",),
    "experts": _EXPERTS,
    "shared_in": ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"),
    "shared_out": ("mlp.shared_experts.down_proj",),
    "cross": ("cross_attn.k_proj",),
}
_LATENT = ("self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj")

_OTHER_NAMES = (
    ("self_attn.", ("attn.", "attention.", "linear_attn.", "mixer.")),
    ("mlp.", ("block_sparse_moe.", "feed_forward.", "ffn.", "mixer.")),
    ("shared_experts", ("shared_expert",)),
    ("mlp.gate", ("mlp.router",)),
    ("gate_proj", ("w1", "gate_up_proj")),
    ("up_proj", ("w3",)),
    ("down_proj", ("w2",)),
    ("q_proj", ("qkv_proj", "in_proj_qkvz", "in_proj_qkv")),
    ("o_proj", ("out_proj",)),
)
"""Parts of names that other classes write otherwise."""

_LAYER = re.compile(r"(?:layers|h|blocks?)\.(\d{1,5})(?=\.|$)")
_MOST, _MOST_REGEX = 100_000, 100
"""Names, and regular expressions, that a list may hold: files list a few thousand names and a few expressions."""

_STRANGE = re.compile(r"[^\w.*\\|()$^+\-\[\]?:/]|\\[^.dw]|\)[*+?]|[*+]{2}|\?[^:]")
"""What a regular expression must not hold to be tried: groups that repeat, and what module names have no use for."""

_DIGITS, _WILD = re.compile(r"(\\d|\[0-9\])[+*]"), 3
"""Numbers may repeat; other repeats are counted, and more than this many would take long to fail."""


class Modules:
    """A quantiser's list of modules."""

    def __init__(self, names: Iterable[str]) -> None:
        self._plain: list[re.Pattern[str]] = []
        self._by_layer: dict[int, list[re.Pattern[str]]] = {}
        self.strange: list[str] = []
        expressions = 0
        for name in list(names)[:_MOST]:
            expressions += name.startswith("re:")
            pattern = None if expressions > _MOST_REGEX else _pattern(name)
            layer = _LAYER.search(name)
            if pattern is None:
                self.strange.append(name)
            elif layer and not name.startswith("re:"):
                self._by_layer.setdefault(int(layer[1]), []).append(pattern)
            else:
                self._plain.append(pattern)

    def shares(self, shape: Architecture) -> dict[Role, float]:
        """The part of each role's weights that the list names; roles that it does not name are absent."""
        counts = _layers_with(shape)
        found: dict[Role, float] = {}
        for role, count in counts.items():
            share = sum(weight * self._share(name, count, shape) for name, weight in _modules(shape, role).items())
            if share > 0:
                found[role] = min(1.0, share)
        if self._matches_any(self._plain, ("lm_head",)):
            found["lm_head"] = 1.0
        return found

    def _share(self, module: str, layers: int, shape: Architecture) -> float:
        names = tuple(_spellings(module))
        if self._matches_any(self._plain, tuple(f"model.layers.0.{name}" for name in names)):
            return 1.0
        hit = sum(
            self._matches_any(patterns, tuple(f"model.layers.{layer}.{name}" for name in names))
            for layer, patterns in self._by_layer.items()
            if layer < shape.layers  # beyond are prediction layers
        )
        return min(1.0, hit / layers)

    @staticmethod
    def _matches_any(patterns: list[re.Pattern[str]], names: tuple[str, ...]) -> bool:
        return any(pattern.search(name) for pattern in patterns for name in names)


def _modules(shape: Architecture, role: Role) -> Mapping[str, float]:
    """The modules of a role with their shares."""
    mixers = [block.mixer for block in shape.blocks]
    if role == "qkv" and mixers and all(hasattr(mixer, "kv_rank") for mixer in mixers):
        return dict.fromkeys(_LATENT, 1 / len(_LATENT))
    attention = next((mixer for mixer in mixers if isinstance(mixer, Attention)), None)
    if role == "qkv" and attention:
        query, key = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
        value = attention.kv_heads * attention.values
        total = query + key + value
        return {"self_attn.q_proj": query / total, "self_attn.k_proj": key / total, "self_attn.v_proj": value / total}
    names = _NAMES[role]
    return dict.fromkeys(names, 1 / len(names))


def _layers_with(shape: Architecture) -> dict[Role, int]:
    """How many layers hold weights of each role."""
    counts: dict[Role, int] = {}
    for block in shape.blocks:
        roles = {**block.mixer.parameters(shape.hidden), **block.mlp.parameters(shape.hidden)}
        for role, weights in roles.items():
            if weights and role in _NAMES:
                counts[role] = counts.get(role, 0) + block.count
    return counts


def _spellings(name: str) -> Iterable[str]:
    """``name`` and how other classes write it."""
    spelt = [name]
    for part, others in _OTHER_NAMES:
        spelt += [one.replace(part, other) for one in spelt if part in one for other in others]
    return spelt


def _pattern(name: str) -> re.Pattern[str] | None:
    """A pattern that finds what a list's entry means in a module's full name; None when it is not safe to try."""
    if name.startswith("re:"):
        text = name.removeprefix("re:")
        wild = _DIGITS.sub("", text)
        if len(text) > 200 or _STRANGE.search(text) or wild.count("*") + wild.count("+") > _WILD:
            return None
        try:
            return re.compile(f"^(?:{text})")
        except re.error:
            return None
    if len(name) > 200 or name.strip("*").count("*") > _WILD:
        return None
    globbed = ".*".join(re.escape(part) for part in name.removesuffix(".weight").strip("*.").split("*"))
    return re.compile(rf"(?:^|\.){globbed}(?:\.|$)")
