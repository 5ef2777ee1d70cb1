"""What a pass was when no annotation says so: evidence from its kernels and shapes, weighed, or an honest unknown.

Each piece of evidence moves the log-odds between prefill and decode; the confidence is the probability that follows.
Strongest first: attention kernels made for one phase, shapes, matrix-vector products and matmul tiles, one launch of a
whole graph, the median kernel, passes that repeat. The weights are judgements, not fits: a piece that is seen in the
other phase too gets at most 1.5 (82%), two such pieces that agree 95%; the last two only add to what others tell.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces import tells
from phasewise.observe.traces.events import Ints, LaunchKind, Small, Trace
from phasewise.observe.traces.shapes import Widths
from phasewise.record.trace import TracePhase

LEAST = 0.6
"""Below this confidence the phase is unknown."""

SURE = 0.9
"""Confidence from which a step's own evidence stands against what it is called."""


class Verdict(NamedTuple):
    """What a pass was, why, and how sure that is."""

    phase: TracePhase
    evidence: tuple[str, ...]
    confidence: float


class Facts(NamedTuple):
    """What is known of each step, an entry per step.

    ``kernels`` counts by bit of tells.py, ``time`` is the same in ns; ``attention`` the commonest attention kernel, an
    index into the trace's names or -1; ``graph`` the kernels of its largest graph launch, ``graphs`` how many it
    launched, ``opaque`` those whose kernels are not listed; ``median`` its median kernel, ns; ``alike`` how many steps
    in a row have as many kernels; ``language`` whether it can be a language model's pass at all.
    """

    total: Ints
    kernels: dict[int, Ints]
    time: dict[int, Ints]
    attention: Small
    graph: Ints
    graphs: Ints
    opaque: Ints
    median: Ints
    alike: Ints
    language: NDArray[np.bool_]
    widths: Widths


def facts(
    trace: Trace, step: Small, launch_step: Small, launch: Ints, replayed: Ints, widths: Widths, rank: Small
) -> Facts:
    """The facts of every step, from the step of each kernel and launch and the launch of each kernel and replay.

    ``rank`` is that of each step.
    """
    steps = len(rank)
    kernels = trace.kernels
    inside = np.flatnonzero(step >= 0)
    place, name = step[inside], kernels.name[inside]
    length = (kernels.end - kernels.start)[inside]
    bits = tells.table(trace.names, name)[name]
    held = {bit: (bits & bit) != 0 for bit in tells.BITS}
    total = np.bincount(place, minlength=steps)
    is_graph = trace.launches.kind == LaunchKind.GRAPH
    graph_rows = launch[inside][launch[inside] >= 0]
    of_launch = np.bincount(graph_rows[is_graph[graph_rows]], minlength=len(is_graph))
    graph = np.zeros(steps, np.int64)
    mine = np.flatnonzero(is_graph & (launch_step >= 0))
    np.maximum.at(graph, launch_step[mine], of_launch[mine])
    whole = launch_step[np.unique(replayed[replayed >= 0])]
    opaque = np.bincount(whole[whole >= 0], minlength=steps)
    counts = {bit: np.bincount(place[mask], minlength=steps) for bit, mask in held.items()}
    return Facts(
        total=total,
        kernels=counts,
        time={bit: np.bincount(place[mask], length[mask], steps).astype(np.int64) for bit, mask in held.items()},
        attention=_commonest(place, name, (bits & tells.ATTENTION) != 0, steps),
        graph=graph,
        graphs=np.bincount(launch_step[mine], minlength=steps),
        opaque=opaque,
        median=_medians(place, length, total),
        alike=_alike(total),
        language=_language(counts, opaque, rank, widths),
        widths=widths,
    )


def _commonest(place: Small, name: Small, mask: NDArray[np.bool_], steps: int) -> Small:
    found = np.full(steps, -1, np.int32)
    pair, count = np.unique(place[mask].astype(np.int64) << 32 | name[mask], return_counts=True)
    order = np.argsort(count, kind="stable")
    found[pair[order] >> 32] = pair[order] & 0xFFFFFFFF
    return found


def _medians(place: Small, length: Ints, total: Ints) -> Ints:
    """Median kernel of each step, 0 where there is none."""
    order = np.lexsort((length, place))
    first = np.cumsum(total) - total
    middle = np.minimum(first + total // 2, max(len(order) - 1, 0))
    return np.where(total > 0, length[order[middle]] if len(order) else 0, 0)


def _alike(total: Ints) -> Ints:
    """How many steps in a row have as many kernels as this one."""
    if not len(total):
        return total
    run = np.cumsum(np.concatenate(([True], np.diff(total) != 0))) - 1
    alike: Ints = np.bincount(run)[run]
    return alike


def judge(known: Facts, index: int, names: tuple[str, ...]) -> Verdict:
    """What step ``index`` was."""
    count = {bit: int(column[index]) for bit, column in known.kernels.items()}
    total = int(known.total[index])
    if total == 0 and not known.opaque[index]:
        return Verdict("unknown", ("no kernel of it is in the trace",), 0.0)
    if count[tells.TRAIN] * 100 > total:
        return Verdict("unknown", (f"{count[tells.TRAIN]} kernels of a backward pass or optimizer: training",), 0.0)
    if not known.language[index]:
        return Verdict("unknown", ("nothing in it is a language model's: no KV cache, no vocabulary",), 0.0)
    prompt, step, either = (count[bit] for bit in (tells.PROMPT, tells.STEP, tells.EITHER))
    if min(prompt, step) * 4 >= max(prompt, step) > 0:
        phrase = f"{prompt} attention kernels for prompts beside {step} for decode"
        return Verdict("mixed", (phrase,), 0.8)
    evidence = sorted(_evidence(known, count, index, names), key=lambda piece: -abs(piece[0]))
    odds = sum(weight for weight, _ in evidence)
    told = tuple(phrase for _, phrase in evidence)
    if odds > 0 and either and not prompt and not _one_phase(known, index):
        shared = f"{names[known.attention[index]][:80]} serves prompts and generations alike: decode may ride along"
        return Verdict("unknown", (*told, shared), 0.5)
    confidence = 1 / (1 + exp(-abs(odds)))
    if confidence < LEAST:
        return Verdict("unknown", told or ("its kernels tell neither phase",), round(confidence, 3))
    return Verdict("prefill" if odds > 0 else "decode", told, round(confidence, 3))


def _language(count: dict[int, Ints], opaque: Ints, rank: Small, widths: Widths) -> NDArray[np.bool_]:
    """Steps with a KV cache, attention made for decode, logits over a vocabulary, or a lookup with what goes with it.

    A diffusion pipeline looks embeddings up, and picks with argmax, too. Graphs whose kernels are not listed are told
    by what comes after them, or by the other passes of their rank.
    """
    found: NDArray[np.bool_] = (count[tells.CACHE] + count[tells.STEP] + widths.logits) > 0
    found |= (count[tells.EMBED] > 0) & ((count[tells.CAUSAL] > 0) | (count[tells.SAMPLE] * count[tells.ROTARY] > 0))
    beside = np.isin(rank, np.unique(rank[found])) | (count[tells.SAMPLE] > 0)
    return found | ((opaque > 0) & beside)


def _one_phase(known: Facts, index: int) -> bool:
    """Shapes that leave no room for another request: one row of logits, or whole sequences in the attention."""
    return bool(known.widths.logits[index] == 1 or known.widths.queries[index])


def _evidence(known: Facts, count: dict[int, int], index: int, names: tuple[str, ...]) -> list[tuple[float, str]]:
    """Weight (positive for prefill) and phrase of every piece."""
    found: list[tuple[float, str]] = []
    prompt, step = count[tells.PROMPT], count[tells.STEP]
    if prompt or step:
        kind, weight = ("prompts", 3.0) if prompt > step else ("decode", -3.0)
        name = names[known.attention[index]][:80]
        found.append((weight, f"attention kernels made for {kind}: {max(prompt, step)} (in it: {name})"))
    found += _shape_evidence(known.widths, index)
    found += _matmul_evidence(known, index)
    total, largest, graphs = int(known.total[index]), int(known.graph[index]), int(known.graphs[index])
    if largest * 5 >= total * 4 or (graphs == known.opaque[index] == 1):
        found.append((-1.0, "one graph launch for nearly all of it"))
    elif graphs > 1:
        found.append((0.1, f"{graphs} graph launches, attention between them"))
    median = int(known.median[index])
    if median >= 50_000 or 0 < median <= 7_000:
        found.append((0.1 if median >= 50_000 else -0.1, f"median kernel {median / 1000:.1f} µs"))
    if known.alike[index] >= 8:
        found.append((-0.1, f"one of {known.alike[index]} passes in a row with {total} kernels each"))
    return found


def _shape_evidence(widths: Widths, index: int) -> list[tuple[float, str]]:
    tokens, logits, queries, keys = (int(column[index]) for column in widths)
    found: list[tuple[float, str]] = []
    if queries == 1:
        found.append((-3.0, f"attention of one query to {keys} keys"))
    elif queries and (queries == keys or queries > 16):
        found.append((3.0, f"attention of {queries} queries to {keys} keys"))
    if tokens == 1:
        found.append((-3.0, "one token"))
    elif tokens and logits and tokens > logits:
        found.append((3.0, f"{tokens} tokens, logits for {logits} of them"))
    elif tokens >= 1024:
        found.append((1.5, f"{tokens} tokens at once"))
    return found


def _matmul_evidence(known: Facts, index: int) -> list[tuple[float, str]]:
    vector, wide, narrow, matmul = (
        int(known.time[bit][index]) for bit in (tells.VECTOR, tells.WIDE, tells.NARROW, tells.MATMUL)
    )
    if matmul and vector * 2 >= matmul:
        return [(-2.5, f"matrix-vector products: {vector / matmul:.0%} of matmul time")]
    if (wide + narrow) * 4 < matmul:
        return []
    if wide >= 4 * narrow and wide:
        return [(1.5, f"large matmul tiles: {wide / (wide + narrow):.0%} of the time of those that tell")]
    if narrow >= 4 * wide and narrow:
        return [(-1.5, f"small matmul tiles: {narrow / (wide + narrow):.0%} of the time of those that tell")]
    return []
