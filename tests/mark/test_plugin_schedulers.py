"""The plugin for vLLM against vLLM's own schedulers, also those that no CPU engine runs: see `vllm_schedulers.py`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from engines_python import ROOT, environment, python


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_life_at_random_under_each_scheduler_of_vllm(tmp_path: Path) -> None:
    lent, model = tmp_path / "lent", tmp_path / "model"
    lent.mkdir()
    model.mkdir()
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "vocab_size": 100}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 256}
    about = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16"}
    (model / "config.json").write_text(json.dumps(sizes | heads | about))
    variables = environment(lent) | {"VLLM_HOST_IP": "127.0.0.1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    variables["PYTHONPATH"] += f":{ROOT / 'tests'}"
    done = subprocess.run(
        [python(), str(ROOT / "tests/mark/vllm_schedulers.py"), str(model)],
        capture_output=True,
        text=True,
        env=variables,
        cwd=tmp_path,
        check=False,
    )
    if "No module named 'vllm'" in done.stderr:
        pytest.skip("skipped: these engines have no vLLM")
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert len(report) == 8
    for one in report:
        assert one["wrong"] == []
        # None of it is vacuous.
        assert one["steps"] > 500
        assert one["preempted"] >= 1
        assert one["cached"] > 50
        assert (one["drafted"] > 100) == (one["drafts"] > 0)
    assert sum(one["single"] for one in report) > 5
