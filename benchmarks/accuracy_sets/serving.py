"""TPOT of served runs on H100 to GB300 under vLLM, SGLang and TensorRT-LLM (ai-dynamo/aiconfigurator, Apache-2.0).

Aggregated runs only: of disaggregated ones most do not say how many decode workers shared the load. Runs that are
listed under two names of one model count once; DeepSeek R1, V3 and V3.1 are one model. Where both moe_tp and moe_ep are
n and tp·dp is n², the run had n devices, as its id says.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accuracy_sets.common import DATA, Words, query, roof
from phasewise.hardware import catalogue
from phasewise.judge.calibrate.fit import Times
from phasewise.model import work
from phasewise.model.load import load as load_model
from phasewise.model.model import Model
from phasewise.model.passes import Pass
from phasewise.model.work import Operation
from phasewise.predict.efficiency import ACTIVATION, Array, Efficiency, Load, of_operations, stack

FILE = DATA / "serving" / "silicon_sample.csv"
CONFIGS = DATA.parent / "configs"

MODELS = {
    "DeepSeek": "deepseek-ai__DeepSeek-R1.json",
    "Qwen3-235B": "Qwen__Qwen3-235B-A22B-FP8.json",
    "Qwen3-32B": "Qwen__Qwen3-32B.json",
    "Llama-3.1-8B": "meta-llama__Meta-Llama-3.1-8B.json",
}
SYSTEMS = {"b200_sxm": "b200-sxm", "b300_sxm": "b300-sxm"}
FORMATS = {"fp8": "fp8", "fp4": "nvfp4", None: None}

_SELECT = """
select id, backend, model_path, system, precision, isl, osl, batch_size, tp_size, attention_dp_size, moe_tp_size,
moe_ep_size, silicon_tpot_ms from FILE where mode = 'agg'"""

_REPLICATED = ("norm", "router")


class Run(NamedTuple):
    """One served run."""

    model: str
    system: str
    backend: str
    weights: str | None
    devices: int
    data_parallel: bool
    prompt: int
    answer: int
    concurrency: int
    tpot_s: float


class Served(NamedTuple):
    """All runs: model of each, their times under an efficiency, as measured, and the plain roofline."""

    model: Words
    system: Words
    times: Times
    seconds: Array
    floor: Array


def served() -> Served:
    """Every distinct run; a token waits for a decode step and for the prefills of the other requests' prompts.

    While a request decodes, each of the other requests of the same concurrency starts anew about once: their prompts
    take (concurrency - 1) prefills for every ``answer`` tokens.
    """
    runs = list(dict.fromkeys(_runs()))
    decode, prefill = stack([_decode(run) for run in runs]), stack([_prefill(run) for run in runs])
    others = np.array([(run.concurrency - 1) / run.answer for run in runs])

    def times(efficiency: Efficiency) -> Array:
        return np.asarray(efficiency.seconds(decode) + others * efficiency.seconds(prefill))

    return Served(
        model=np.array([run.model for run in runs]),
        system=np.array([run.system for run in runs]),
        times=times,
        seconds=np.array([run.tpot_s for run in runs]),
        floor=decode.floor,
    )


def _runs() -> Iterator[Run]:
    for row in query(FILE, _SELECT):
        yield _run(*row)


def _run(name: str, backend: str, path: str, system: str, precision: str | None, *rest: Any) -> Run:
    prompt, answer, batch, tp, dp, moe_tp, moe_ep, tpot = rest
    tp, dp, moe_tp, moe_ep = (max(int(n or 1), 1) for n in (tp, dp, moe_tp, moe_ep))
    squared = moe_tp == moe_ep > 1 and tp * dp == moe_tp * moe_ep
    concurrency = re.search(r"_c(\d+)_", name)
    return Run(
        model=next(model for model in MODELS if model in path),
        system=SYSTEMS.get(system, system.replace("_", "-")),
        backend=backend,
        weights=FORMATS[precision],
        devices=moe_tp if squared else max(tp * dp, moe_tp * moe_ep),
        data_parallel=dp > 1,
        prompt=prompt,
        answer=answer,
        concurrency=int(concurrency[1]) if concurrency else int(batch) * dp,
        tpot_s=tpot / 1e3,
    )


@functools.cache
def _model(name: str, weights: str | None) -> Model:
    path = CONFIGS / MODELS[name]
    return load_model(str(Path(path)), weights=weights)


def _decode(run: Run) -> Load:
    one = Pass(1.0, run.prompt + run.answer / 2, float(run.concurrency), decode=True)
    return _load(run, one, answers=float(run.concurrency), tokens=float(run.concurrency))


def _prefill(run: Run) -> Load:
    return _load(run, Pass(float(run.prompt)), prompts=1.0, tokens=float(run.prompt))


def _load(run: Run, one: Pass, *, tokens: float, prompts: float = 0.0, answers: float = 0.0) -> Load:
    model, n = _model(run.model, run.weights), run.devices
    accelerator = catalogue.find(run.system)
    dtype = next(dtype for dtype in model.compute if dtype in accelerator.peaks)
    layers = float(model.architecture.layers)
    sent = 2 * layers * 2 * (n - 1) / n * tokens * model.architecture.hidden * ACTIVATION
    return of_operations(
        [_share(op, run) for op in work.step(model, one).operations],
        roof(run.system, dtype),
        layers=layers,
        prompts=prompts,
        answers=answers,
        wire_s=sent / accelerator.link_rate if accelerator.link_rate else 0.0,
        messages=2 * layers if n > 1 else 0.0,
    )


def _share(op: Operation, run: Run) -> Operation:
    """What one device does: a part of everything, but norms and router whole; all attention weights with data-parallel
    attention, and without it all of the latent that MLA caches."""
    n = run.devices
    whole_weights = op.name in _REPLICATED or (run.data_parallel and op.name in ("qkv", "output"))
    whole_cache = op.name == "attention" and run.model == "DeepSeek" and not run.data_parallel
    return Operation(
        op.name,
        op.flops / n,
        op.weight_bytes / (1 if whole_weights else n),
        op.kv_bytes / (1 if whole_cache else n),
    )
