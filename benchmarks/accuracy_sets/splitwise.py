"""Llama-2-70B and BLOOM-176B under the vLLM of 2023 on A100s, TP 2, 4 and 8 (Mutinifni/splitwise-sim, MIT).

420 rows repeat 52 settings of prompt and batch; a setting is a point, its time the median of its repeats. TP2 at 64
prompts of 512 tokens is left out: 0.79 s where 32 prompts take 6.6 s cannot be all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from accuracy_sets.common import DATA, Cell, query, roof
from phasewise.hardware import catalogue
from phasewise.model.load import load as load_model
from phasewise.model.model import Model
from phasewise.model.passes import Pass
from phasewise.predict.efficiency import Load, load, stack
from phasewise.predict.parallel import link
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.priors import prior

FILE = DATA / "splitwise" / "perf_model_a100.csv"
ACCELERATOR = "a100-sxm-80gb"
EXCLUDED = "left out: llama2-70b TP2, 64 prompts of 512 tokens (0.79 s where 32 of them take 6.6 s)"

_SELECT = """
select tensor_parallel, prompt_size, batch_size, median(prompt_time) / 1e3, median(token_time) / 1e3
from FILE where model = '{model}' and not (model = 'llama2-70b' and tensor_parallel = 2 and batch_size = 64)
group by all order by all"""

_STEP = 64
"""A decode step is taken in the middle of the 128 tokens that most rows generate."""


def cells(bloom: Model) -> Iterator[Cell]:
    """One cell a model, all tensor parallel sizes together; 10 settings of each are drawn."""
    for name, model in (("llama2-70b", load_model("llama-2-70b")), ("bloom-176b", bloom)):
        yield _cell(name, model, query(FILE, _SELECT.format(model=name)))


def _cell(name: str, model: Model, rows: list[tuple[float, ...]]) -> Cell:
    loads: list[Load] = []
    seconds, phases, sizes, settings = [], [], [], []
    for number, (tp, prompt, batch, prefill_s, decode_s) in enumerate(rows):
        prefill = Pass(float(prompt), 0.0, float(batch))
        decode = Pass(1.0, float(prompt + _STEP), float(batch), decode=True)
        for phase, one, took in (("prefill", prefill, prefill_s), ("decode", decode, decode_s)):
            loads.append(_load(model, one, int(tp)))
            seconds.append(took)
            phases.append(phase)
            sizes.append(f"{phase} tp{tp}")
            settings.append(number)
    together = stack(loads)
    return Cell(
        data="splitwise",
        subject=f"{name} on {ACCELERATOR}",
        prior=prior("hbm", without=("splitwise",)),
        load=together,
        seconds=np.array(seconds),
        phase=np.array(phases),
        line=np.array(sizes),
        point=np.array(settings),
        draw={"": 10},
        stratum=np.full(len(seconds), ""),
    )


def _load(model: Model, one: Pass, tp: int) -> Load:
    joined = link.of(catalogue.machine(catalogue.find(ACCELERATOR)))
    return load(Spread(model, Layout(tp=tp), roof(ACCELERATOR), joined), one)
