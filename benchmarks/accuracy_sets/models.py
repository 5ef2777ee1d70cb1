"""Models that the catalogue does not know, as their config.json says."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from phasewise.model.load import load
from phasewise.model.model import Model

BLOOM = {
    "model_type": "bloom",
    "architectures": ["BloomForCausalLM"],
    "n_embed": 14336,
    "n_layer": 70,
    "num_attention_heads": 112,
    "vocab_size": 250880,
    "seq_length": 2048,
    "torch_dtype": "bfloat16",
}
"""bigscience/bloom: 176,247,271,424 parameters."""


def bloom() -> Model:
    """BLOOM-176B."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bloom-176b.json"
        file.write_text(json.dumps(BLOOM))
        return load(str(file))
