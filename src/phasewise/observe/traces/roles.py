"""The place of a kernel in the layer, read from the order of families inside a step.

A layer is norm, QKV, RoPE, KV write, attention, output projection, norm, MLP or experts. Attention alone marks it: a
step is cut there into parts, each from one layer's attention to the next one's. In a part, what stands in the middle
(the experts, else the activation) tells its matrix multiplications apart: before it the output projection, a norm, then
gate and up (or the router); behind it down, a norm, then the next layer's QKV, which after the last layer is the
lm_head. Without a middle (an activation fused into a GEMM) the norms alone tell. Where the order does not hold, a
kernel has no role, and where a step does not repeat, none of its kernels has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.busy import heads_of
from phasewise.observe.traces.events import Ints
from phasewise.observe.traces.families import FAMILIES

ROLES = (
    "",
    "embedding",
    "norm",
    "qkv",
    "rope",
    "kv_write",
    "attention",
    "output",
    "gate_up",
    "activation",
    "down",
    "router",
    "experts",
    "communication",
    "lm_head",
    "sampling",
)
"""In the order of a step; "" is a kernel whose place cannot be told."""

Codes = NDArray[np.int8]
Mask = NDArray[np.bool_]
_AS_FAMILY = ("norm", "rope", "kv_write", "attention", "activation", "communication")
"""Families whose place is their name."""

_EMBEDDING = re.compile(r"embedding|gather_kernel|index_?select|get_rows", re.IGNORECASE)
_ROUTING = re.compile(r"rout|top_?k|gating|bitmatrix|align|sort|histogram|count_and", re.IGNORECASE)
_REDUCES = re.compile(r"split_?k_?reduce", re.IGNORECASE)
"""The second half of a matrix multiplication that was split along K."""

_SCORES = re.compile(r"soft_?max", re.IGNORECASE)
"""Attention written out as matmul, softmax, matmul marks no layer: its matmuls look like any other."""

_BACKWARDS = re.compile(r"bwd|backward|_grad_", re.IGNORECASE)
"""A step of training has another order."""

_IS = {family: np.int8(code) for code, family in enumerate(FAMILIES)}
_FAR = np.iinfo(np.int64).max


class _Parts(NamedTuple):
    """The kernels of all steps, one after the other, cut into parts.

    By kernel: ``step``, ``part``, its ``place``, ``family`` of it, ``matmul``; the norms and matrix multiplications of
    its part before it (``norms``, ``nth``), and the ``run``: how many norms parted it from the part's first one.
    By part: where it ``heads``; whether it begins with ``attention``, is the ``last`` of its step, has ``experts``; the
    ``first`` and ``final`` place of its middle (_FAR and -1 without one); its ``runs`` and ``matmuls``.
    """

    step: Ints
    part: Ints
    place: Ints
    family: Codes
    matmul: Mask
    norms: Ints
    nth: Ints
    run: Ints
    heads: Ints
    attention: Mask
    last: Mask
    experts: Mask
    first: Ints
    final: Ints
    runs: Ints
    matmuls: Ints


def roles(
    order: Ints, step: NDArray[np.signedinteger], family: Sequence[str], name: Ints, names: Sequence[str]
) -> Codes:
    """The role of every kernel, an index into ROLES, in the order of ``step``.

    ``order`` lists the kernels that belong to steps, by step and then by start. ``name`` gives the distinct name of
    every kernel as an index into ``names``, and into ``family``, the families of those.
    """
    found = np.zeros(len(step), np.int8)
    if len(order):
        of = np.array([_IS[one] for one in family], np.int8)[name[order]]
        routing, embedding, reduces, scores, backwards = (
            np.array([pattern.search(one) is not None for one in names])[name[order]]
            for pattern in (_ROUTING, _EMBEDDING, _REDUCES, _SCORES, _BACKWARDS)
        )
        of[scores & (of == _IS["attention"])] = _IS["other"]
        multiplies = (of == _IS["gemm"]) | (of == _IS["gemv"])
        parts = _cut(step[order].astype(np.int64), of, multiplies & ~reduces)
        role = _with_the_one_before(_roles(parts, routing, embedding), multiplies & reduces)
        role[np.isin(parts.step, parts.step[backwards])] = 0
        found[order] = role
    return found


def _cut(step: Ints, family: Codes, matmul: Mask) -> _Parts:
    moe = family == _IS["moe"]
    steps = heads_of(step)
    attention = _layers(step, family == _IS["attention"], matmul | moe | (family == _IS["activation"]))
    cut = attention.copy()
    cut[steps] = True
    heads = np.flatnonzero(cut)
    part = np.cumsum(cut) - 1
    place = np.arange(len(step))
    norms = _before(family == _IS["norm"], heads, part)
    experts = np.logical_or.reduceat(moe, heads)
    middle = np.where(experts[part], moe, family == _IS["activation"])
    run = _runs(matmul, norms, heads, part)
    return _Parts(
        step=step,
        part=part,
        place=place,
        family=family,
        matmul=matmul,
        norms=norms,
        nth=_before(matmul, heads, part),
        run=run,
        heads=heads,
        attention=attention[heads],
        last=np.append(step[heads][1:] != step[heads][:-1], True),
        experts=experts,
        first=np.minimum.reduceat(np.where(middle, place, _FAR), heads),
        final=np.maximum.reduceat(np.where(middle, place, -1), heads),
        runs=np.maximum.reduceat(np.where(matmul, run + 1, 0), heads),
        matmuls=np.add.reduceat(matmul.astype(np.int64), heads),
    )


def _with_the_one_before(role: Codes, which: Mask) -> Codes:
    """The role of the kernel right before for those of ``which``."""
    role[1:][which[1:]] = role[:-1][which[1:]]
    return role


def _layers(step: Ints, attention: Mask, dense: Mask) -> Mask:
    """Where a layer's attention begins: an attention kernel with dense work between it and the one before.

    One before all dense work of its step prepares (indices, a plan) and begins nothing.
    """
    work = _before(dense, heads_of(step), np.unique(step, return_inverse=True)[1])
    places = np.flatnonzero(attention & (work > 0))
    begins = np.zeros(len(step), bool)
    if len(places):
        new = (np.diff(work[places]) > 0) | (np.diff(step[places]) > 0)
        begins[places[np.append(True, new)]] = True
    return begins


def _before(mask: Mask, heads: Ints, part: Ints) -> Ints:
    """How many of ``mask`` lie in the same part before each kernel."""
    total: Ints = np.cumsum(mask, dtype=np.int64) - mask
    return np.asarray(total - total[heads][part])


def _runs(matmul: Mask, norms: Ints, heads: Ints, part: Ints) -> Ints:
    """In which run of matrix multiplications, parted by norms, each one is, counted from 0 in its part."""
    places = np.flatnonzero(matmul)
    new = np.zeros(len(part), bool)
    new[places[1:]] = (np.diff(part[places]) == 0) & (np.diff(norms[places]) > 0)
    total = np.cumsum(new, dtype=np.int64)
    return np.asarray(total - (total - new)[heads][part])


def _roles(at: _Parts, routing: Mask, embedding: Mask) -> Codes:
    role = np.zeros(len(at.step), np.int8)
    for family in _AS_FAMILY:
        _give(role, family, at.family == _IS[family])
    _give(role, "", (at.family == _IS["attention"]) & ~at.attention[at.part])
    moe, within = at.family == _IS["moe"], (at.place > at.first[at.part]) & (at.place < at.final[at.part])
    _give(role, "experts", moe | ((at.family == _IS["activation"]) & at.experts[at.part] & within))
    _give(role, "router", moe & routing)
    begun = at.attention[at.part]
    middle = at.final[at.part] >= 0
    _around(role, at, at.matmul & begun & middle)
    _by_norms(role, at, at.matmul & begun & ~middle)
    _give(role, "qkv", at.matmul & ~begun & ~middle)
    _ends(role, at, embedding)
    role[~_repeats(at)] = 0
    return role


def _give(role: Codes, name: str, where: Mask) -> None:
    role[where] = ROLES.index(name)


def _around(role: Codes, at: _Parts, which: Mask) -> None:
    """Matrix multiplications of a part with something in its middle."""
    part, experts = at.part, at.experts[at.part]
    ahead, behind = which & (at.place < at.first[part]), which & (at.place > at.final[part])
    _give(role, "gate_up", which & ~behind & ~experts)
    _give(role, "experts", which & ~behind & experts)
    router = np.maximum.reduceat(np.where(ahead & experts, at.place, -1), at.heads)
    role[router[router >= 0]] = ROLES.index("router")
    normed = _norms_at(at, np.minimum(at.first, len(part) - 1)) > 0
    _give(role, "output", ahead & np.where(normed[part], at.norms == 0, at.nth == 0))
    norms = _norms_at(at, np.maximum(at.final, 0))[part]
    nearest = np.minimum.reduceat(np.where(behind, at.place, _FAR), at.heads)[part]
    parted = np.logical_or.reduceat(behind & (at.norms > norms), at.heads)[part]
    plain = ~parted & ~experts
    down = behind & ((parted & (at.norms == norms)) | (plain & (at.place == nearest)))
    _give(role, "qkv", behind)
    _give(role, "experts", down & experts)
    _give(role, "down", down & ~experts)
    many = np.add.reduceat(behind.astype(np.int64), at.heads)[part]
    _give(role, "", behind & plain & (many != 2) & (many != 4))
    # Gate, activation, up, down: written out one by one, the up projection runs behind the activation of the gate.
    gates = np.add.reduceat((role == ROLES.index("gate_up")).astype(np.int64), at.heads)[part]
    downs = np.add.reduceat((role == ROLES.index("down")).astype(np.int64), at.heads)[part]
    _give(role, "gate_up", down & ~experts & (gates == 1) & (downs == 2) & (at.place == nearest))


def _norms_at(at: _Parts, places: Ints) -> Ints:
    return np.asarray(at.norms[places])


def _by_norms(role: Codes, at: _Parts, which: Mask) -> None:
    """Of a part without a middle: its three runs between norms, or exactly four matrix multiplications in one run."""
    runs, nth = at.runs[at.part], at.nth
    three = which & (runs >= 3)
    places = np.where(three & (at.run == 1), at.place, _FAR)
    gate = np.minimum.reduceat(places, at.heads)[at.part] == at.place
    _give(role, "output", three & (at.run == 0))
    _give(role, "down", three & (at.run == 1) & ~gate)
    _give(role, "gate_up", three & gate)
    _give(role, "qkv", three & (at.run >= 2))
    four = which & (runs == 1) & (at.matmuls[at.part] == 4)
    for place, name in enumerate(("output", "gate_up", "down", "qkv")):
        _give(role, name, four & (nth == place))


def _ends(role: Codes, at: _Parts, embedding: Mask) -> None:
    """The first part of a step looks the tokens up; the last one ends with lm_head and sampling."""
    looked = ~at.attention[at.part] & embedding & (at.family == _IS["copy"]) & (at.norms == 0) & (at.nth == 0)
    lookup = np.maximum.reduceat(np.where(looked, at.place, -1), at.heads)
    role[lookup[lookup >= 0]] = ROLES.index("embedding")
    last = at.last[at.part] & at.attention[at.part]
    _give(role, "lm_head", last & (role == ROLES.index("qkv")))
    head = np.maximum.reduceat(np.where(role == ROLES.index("lm_head"), at.place, -1), at.heads)[at.part]
    chosen = np.maximum.reduceat(np.where(at.family == _IS["sampling"], at.place, -1), at.heads)[at.part]
    _give(
        role, "sampling", last & (head >= 0) & (at.place > head) & (at.place <= chosen) & (at.family != "communication")
    )


def _repeats(at: _Parts) -> Mask:
    """Whether the step of each kernel has layers that are alike: at least half have the same matrix multiplications."""
    inner = at.attention & ~at.last
    _, step = np.unique(at.step[at.heads], return_inverse=True)
    layers = np.bincount(step[inner], minlength=step.max() + 1)
    width = int(at.matmuls.max(initial=0)) + 1
    alike, count = np.unique(step[inner] * width + at.matmuls[inner], return_counts=True)
    most = np.zeros(len(layers), np.int64)
    np.maximum.at(most, alike // width, np.where(alike % width > 0, count, 0))
    told = (layers > 0) & (2 * most >= layers)
    return np.asarray(told[step[at.part]])
