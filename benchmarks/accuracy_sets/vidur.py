"""The matmul kernels of one layer on an A100, by tokens and tensor parallel size (microsoft/vidur, MIT)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from accuracy_sets.common import DATA, Cell, bands, matmul, query
from phasewise.predict.efficiency import stack
from phasewise.predict.priors import prior

FILE = DATA / "vidur" / "linear_layers.csv"
ACCELERATOR = "a100-sxm-80gb"

_SELECT = "select tp, T, median(lin) / 1e3 from FILE where model = '{model}' group by all order by all"


class Shape(NamedTuple):
    """One layer, as in the model's config.json."""

    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    gated: bool = True

    def matrices(self, tp: int) -> list[tuple[float, float]]:
        """Inputs and outputs of the four matmuls of one of ``tp`` devices."""
        head = self.hidden // self.heads
        ways = 2 if self.gated else 1
        return [
            (self.hidden, (self.heads + 2 * self.kv_heads) * head / tp),
            (self.heads * head / tp, self.hidden),
            (self.hidden, ways * self.intermediate / tp),
            (self.intermediate / tp, self.hidden),
        ]


SHAPES = {
    "llama2-7b": Shape(4096, 32, 32, 11008),
    "llama2-70b": Shape(8192, 64, 8, 28672),
    "llama3-8b": Shape(4096, 32, 8, 14336),
    "llama3-70b": Shape(8192, 64, 8, 28672),
    "codellama-34b": Shape(8192, 64, 8, 22016),
    "internlm-20b": Shape(5120, 40, 40, 13824),
    "qwen-72b": Shape(8192, 64, 64, 24576),
    "phi-2": Shape(2560, 32, 32, 10240, gated=False),
}
"""meta-llama/Llama-2-7b-hf, Llama-2-70b-hf, Meta-Llama-3-8B, Meta-Llama-3-70B, codellama/CodeLlama-34b-hf,
internlm/internlm-20b, Qwen/Qwen-72B, microsoft/phi-2."""


def cells() -> Iterator[Cell]:
    """One cell a model; 5 decode-like and 5 larger settings of each are drawn, over all tensor parallel sizes."""
    for name, shape in SHAPES.items():
        tp, tokens, seconds = np.array(query(FILE, _SELECT.format(model=name))).T
        sizes = np.unique(tp)
        together = stack([matmul(tokens[tp == one], shape.matrices(int(one)), ACCELERATOR) for one in sizes])
        order = np.concatenate([np.flatnonzero(tp == one) for one in sizes])
        phase = np.where(tokens[order] <= 64, "decode", "prefill")
        yield Cell(
            data="vidur",
            subject=f"{name} on {ACCELERATOR}",
            prior=prior("hbm", without=("vidur",)),
            load=together,
            seconds=seconds[order],
            phase=phase,
            line=np.array([f"{band} tp{size:.0f}" for band, size in zip(bands(tokens[order]), tp[order], strict=True)]),
            point=np.arange(len(order)),
            draw={"decode": 5, "prefill": 5},
            stratum=phase,
        )
