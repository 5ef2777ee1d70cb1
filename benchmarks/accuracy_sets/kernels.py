"""GEMMs and mixtures of experts in BF16 under vLLM, kernel by kernel (ai-dynamo/aiconfigurator, Apache-2.0)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from accuracy_sets.common import DATA, Cell, bands, kernels, moved, query, roof
from phasewise.model.feedforward.moe import Moe
from phasewise.predict.efficiency import Array
from phasewise.predict.priors import prior

FOLDER = DATA / "kernels"
MACHINES = {"h100-sxm": "h100_sxm/vllm-0.24.0", "a100-sxm-80gb": "a100_sxm/vllm-0.14.0"}

_GEMM = "select m, n, k, median(latency) / 1e3 from FILE where gemm_dtype = 'bfloat16' group by all order by all"

_MOE = """
select num_tokens, hidden_size, inter_size, topk, num_experts, moe_tp_size, median(latency) / 1e3,
distribution from FILE
where moe_dtype = 'bfloat16' and distribution like 'power_law%' and moe_ep_size = 1 and num_tokens <= 64
group by all order by all"""

_KERNELS = 4
"""Of a mixture: align tokens with experts, up and gate, down, sum."""


def gemm() -> Iterator[Cell]:
    """One cell a machine; 10 shapes are drawn. A kernel is a kernel: all of them make one interval."""
    for machine, folder in MACHINES.items():
        m, n, k, seconds = np.array(query(FOLDER / folder / "gemm_perf.parquet", _GEMM)).T
        load = kernels((2.0 * m * n * k)[:, None], moved(m, k, n, machine)[:, None], roof(machine), sums=k[:, None])
        yield Cell(
            data="kernels GEMM",
            subject=f"BF16 on {machine}",
            prior=prior("hbm", without=(f"kernels {machine}",)),
            load=load,
            seconds=seconds,
            phase=np.full(len(m), "any"),
            line=bands(m),
            point=np.arange(len(m)),
            draw={"decode": 5, "prefill": 5},
            stratum=bands(m),
        )


def mixtures() -> Iterator[Cell]:
    """At most 64 tokens, power-law routing: of each machine whole experts, and those cut over 2 to 32 devices."""
    for machine, folder in MACHINES.items():
        every = np.array([row[:-1] for row in query(FOLDER / folder / "moe_perf.parquet", _MOE)])
        whole = every[:, 5] == 1
        yield _mixture(machine, "whole experts", every[whole])
        yield _mixture(machine, "cut experts", every[~whole])


def _mixture(machine: str, what: str, rows: Array) -> Cell:
    tokens, hidden, inner, chosen, experts, cut, seconds = rows.T
    weights = 3.0 * hidden * inner / cut
    met = np.array([_distinct(int(e), int(k), t) for e, k, t in zip(experts, chosen, tokens, strict=True)])
    load = kernels(
        (2.0 * weights * chosen * tokens)[:, None],
        (2.0 * weights * met)[:, None],
        roof(machine),
        counts=float(_KERNELS),
        sums=np.minimum(hidden, inner / cut)[:, None],
    )
    return Cell(
        data="kernels MoE",
        subject=f"{what}, BF16 on {machine}",
        prior=prior("hbm", without=(f"kernels {machine}",)),
        load=load,
        seconds=seconds,
        phase=np.full(len(tokens), "decode"),
        line=np.full(len(tokens), "decode"),
        point=np.arange(len(tokens)),
        draw={"": 10},
        stratum=np.full(len(tokens), ""),
    )


def _distinct(experts: int, chosen: int, tokens: float) -> float:
    return float(Moe(experts=experts, chosen=chosen, intermediate=1).distinct(tokens))
