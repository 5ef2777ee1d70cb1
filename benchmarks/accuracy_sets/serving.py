"""TPOT of served runs on H100 to GB300 under vLLM, SGLang and TensorRT-LLM (ai-dynamo/aiconfigurator, Apache-2.0).

Aggregated runs only: of disaggregated ones most do not say how many decode workers shared the load. Runs that are
listed under two names of one model count once; DeepSeek R1, V3 and V3.1 are one model. Where both moe_tp and moe_ep are
n and tp·dp is n², the run had n devices, as its id says.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from accuracy_sets.common import DATA, Words, query
from phasewise.errors import UsageError
from phasewise.hardware import catalogue
from phasewise.judge.calibrate.fit import Times
from phasewise.model.load import load as load_model
from phasewise.model.passes import Pass
from phasewise.predict.efficiency import Array, Efficiency, Load, load, stack
from phasewise.predict.parallel import link
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.roofline import roofs

FILE = DATA / "serving" / "silicon_sample.csv"
CONFIGS = DATA.parent / "configs"

MODELS = {
    "DeepSeek": "deepseek-ai__DeepSeek-R1.json",
    "Qwen3-235B": "Qwen__Qwen3-235B-A22B-FP8.json",
    "Qwen3-32B": "Qwen__Qwen3-32B.json",
    "Llama-3.1-8B": "meta-llama__Meta-Llama-3.1-8B.json",
}
MIXTURES = ("DeepSeek", "Qwen3-235B")
SYSTEMS = {"b200_sxm": "b200-sxm", "b300_sxm": "b300-sxm"}
FORMATS = {"fp8": "fp8", "fp4": "nvfp4", None: None}

_SELECT = """
select id, backend, model_path, system, precision, isl, osl, batch_size, tp_size, attention_dp_size, moe_tp_size,
moe_ep_size, silicon_tpot_ms from FILE where mode = 'agg'"""


class Run(NamedTuple):
    """One served run."""

    model: str
    system: str
    backend: str
    weights: str | None
    layout: Layout
    prompt: int
    answer: int
    concurrency: int
    tpot_s: float


class Served(NamedTuple):
    """All runs: model of each, their times under an efficiency, as measured, the plain roofline, how many left out."""

    model: Words
    system: Words
    times: Times
    seconds: Array
    floor: Array
    left_out: int


def served() -> Served:
    """Every distinct run; a token waits for a decode step and for the prefills of the other requests' prompts.

    While a request decodes, each of the other requests of its group starts anew about once: their prompts take
    (requests of the group - 1) prefills for every ``answer`` tokens. Runs whose devices cannot share the model as they
    say (128 heads over 72 devices) are left out.
    """
    listed = list(dict.fromkeys(_runs()))
    runs = [run for run in listed if _can_be(run)]
    decode, prefill = stack([_decode(run) for run in runs]), stack([_prefill(run) for run in runs])
    others = np.array([max(run.concurrency / run.layout.dp - 1, 0.0) / run.answer for run in runs])

    def times(efficiency: Efficiency) -> Array:
        return np.asarray(efficiency.seconds(decode) + others * efficiency.seconds(prefill))

    return Served(
        model=np.array([run.model for run in runs]),
        system=np.array([run.system for run in runs]),
        times=times,
        seconds=np.array([run.tpot_s for run in runs]),
        floor=decode.floor,
        left_out=len(listed) - len(runs),
    )


def _runs() -> Iterator[Run]:
    for row in query(FILE, _SELECT):
        yield _run(*row)


def _run(name: str, backend: str, path: str, system: str, precision: str | None, *rest: Any) -> Run:
    prompt, answer, batch, tp, dp, moe_tp, moe_ep, tpot = rest
    tp, dp, moe_tp, moe_ep = (max(int(n or 1), 1) for n in (tp, dp, moe_tp, moe_ep))
    squared = moe_tp == moe_ep > 1 and tp * dp == moe_tp * moe_ep
    concurrency = re.search(r"_c(\d+)_", name)
    model = next(model for model in MODELS if model in path)
    devices = moe_tp if squared else max(tp * dp, moe_tp * moe_ep)
    attention = Layout(dp=devices, ep=devices if model in MIXTURES else 1) if dp > 1 else Layout(tp=devices)
    return Run(
        model=model,
        system=SYSTEMS.get(system, system.replace("_", "-")),
        backend=backend,
        weights=FORMATS[precision],
        layout=attention,
        prompt=prompt,
        answer=answer,
        concurrency=int(concurrency[1]) if concurrency else int(batch) * dp,
        tpot_s=tpot / 1e3,
    )


def _decode(run: Run) -> Load:
    return load(_spread(run), Pass(1.0, run.prompt + run.answer / 2, float(run.concurrency), decode=True))


def _prefill(run: Run) -> Load:
    """One prompt for each group of devices that attends for itself: the groups go through the layers in step."""
    return load(_spread(run), Pass(float(run.prompt), 0.0, float(run.layout.dp)))


def _can_be(run: Run) -> bool:
    try:
        _ = _spread(run).own
    except UsageError:
        return False
    return True


@functools.cache
def _spread(run: Run) -> Spread:
    model = load_model(str(CONFIGS / MODELS[run.model]), weights=run.weights)
    machine = catalogue.machine(catalogue.find(run.system))
    return Spread(model, run.layout, roofs(model, machine)[0], link.of(machine))
