"""Write the goldens of parameter counts: what transformers instantiates on the meta device, no weights, offline.

    pip install torch==2.13.0 transformers==5.24.0 accelerate        # the dependency group `oracle`
    python tests/model/oracle/make_goldens.py CONFIG.json...         # real configs, and the variants beside this file

The oracle shares no code with phasewise. A config is handed to the class that its ``architectures`` or its
``model_type`` names, without its quantisation; nothing remote is executed. Parameters are counted once each, after
tying, and split into those of a vision tower with its projector and the rest. What cannot be instantiated is left out
and named.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers
import transformers.models.auto.modeling_auto as auto
from variants_vision import configs

HERE = Path(__file__).parent
VISION = re.compile(r"(^|\.)(vision_tower|vision_model|visual|multi_modal_projector)\.")
TABLES = (
    auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    auto.MODEL_FOR_CAUSAL_LM_MAPPING,
    auto.MODEL_MAPPING,
)
SAME = {"kimi_k2": "deepseek_v3", "minimax_m3": "minimax_m3_vl_text"}
"""Types that transformers does not know, and the ones whose class builds the same modules from the same keys."""
RENAMED = {"RWForCausalLM": "FalconForCausalLM"}


def model(config: dict[str, Any]) -> torch.nn.Module:
    """The model of ``config`` on the meta device, tied."""
    keys = {key: value for key, value in config.items() if key not in ("quantization_config", "auto_map")}
    named = [getattr(transformers, RENAMED.get(name, name), None) for name in keys.get("architectures") or ()]
    cls = next((found for found in named if found), None)
    kind = keys.pop("model_type", None)
    if kind is None and cls is not None:
        # The falcon file writes n_head and n_layer, which the class of this version no longer maps.
        names = {"n_head": "num_attention_heads", "n_layer": "num_hidden_layers"} if "Falcon" in cls.__name__ else {}
        made = cls.config_class(**{names.get(key, key): value for key, value in keys.items() if key != "architectures"})
    else:
        made = transformers.AutoConfig.for_model(SAME.get(kind, kind), **keys)
    if cls is None:
        cls = next(table[type(made)] for table in TABLES if type(made) in table)
    with torch.device("meta"):
        found = cls._from_config(made)
    found.tie_weights()
    return found


def counts(config: dict[str, Any], named: bool = False) -> dict[str, Any]:
    """Parameters of the language model and of the vision tower; by name too, with layers and experts taken together."""
    total: Counter[str] = Counter(language=0, vision=0)
    tensors: Counter[str] = Counter()
    for name, parameter in model(config).named_parameters():
        total["vision" if VISION.search(name) else "language"] += parameter.numel()
        tensors[re.sub(r"\.\d+(?=\.)", ".0", name)] += parameter.numel()
    return {**total, "tensors": dict(tensors)} if named else dict(total)


def main(files: list[Path]) -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    real, variants = {}, {}
    for file in files:
        try:
            real[file.stem] = counts(json.loads(file.read_text()))
        except Exception as error:
            print(f"left out: {file.stem}: {type(error).__name__}: {str(error)[:100]}")
    for name, config in configs().items():
        try:
            variants[name] = {"config": config, **counts(config, named="," not in name)}
        except Exception as error:
            print(f"left out: {name}: {type(error).__name__}: {str(error)[:200]}")
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    lines = [f'"source": "{versions}, meta device"', f'"configs": {_lines(real)}', f'"variants": {_lines(variants)}']
    (HERE / "goldens.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _lines(entries: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()) + "\n}"


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
