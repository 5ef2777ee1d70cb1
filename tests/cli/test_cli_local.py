"""`phasewise profile hf:DIR` as a user runs it, in a Python that has torch and transformers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from engines_python import environment, python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

MAIN = "import sys; sys.argv[0] = 'phasewise'; from phasewise.cli import main; main()"
MAKE = """
import sys, torch, transformers
config = transformers.LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=2000, max_position_embeddings=512, dtype="bfloat16")
torch.manual_seed(0)
transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    return environment(tmp_path_factory.mktemp("lent")) | {
        "XDG_CACHE_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "NO_COLOR": "1",
    }


@pytest.fixture(scope="module")
def model(env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    subprocess.run([python(), "-c", MAKE, str(folder)], env=env, check=True, capture_output=True)
    return folder


def profile(env: dict[str, str], cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [python(), "-P", "-c", MAIN, "profile", *arguments, "--peak", "400GFLOP/s", "--bandwidth", "40GB/s"]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def measured(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    # 3: a busy machine makes the checks doubt the figures; they are there all the same.
    assert done.returncode in (0, 3), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_both_phases_are_measured_and_judged(env: dict[str, str], model: Path, tmp_path: Path) -> None:
    found = measured(profile(env, tmp_path, f"hf:{model}", "--json", "--budget", "12", "--threads", "1"))
    assert len(found["prefill"]["points"]) >= 2
    assert found["decode"]["tpot_s"] > 0
    assert 0 < found["prefill"]["mfu"] < 1
    assert 0 < found["decode"]["mbu"] < 1
    settings = found["target"]["settings"]
    assert (settings["dtype"], settings["device"], settings["threads"]) == ("bf16", "cpu", "1")
    checks = {(one["name"], one["phase"]): one["status"] for one in found["checks"]}
    assert (
        checks["uncached", "prefill"] == checks["streamed", "decode"] == checks["ended_by_length", "decode"] == "passed"
    )
    assert sorted(os.listdir(model)) == ["config.json", "generation_config.json", "model.safetensors"]


def test_random_weights_need_a_config_alone(env: dict[str, str], model: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((model / "config.json").read_bytes())
    refused = profile(env, tmp_path, f"hf:{bare}", "--budget", "5")
    assert refused.returncode == 2
    assert "--random-weights" in refused.stderr
    options = ("--random-weights", "--dtype", "fp32", "--phase", "prefill", "--budget", "5", "--json")
    found = measured(profile(env, tmp_path, f"hf:{bare}", *options))
    assert found["target"]["settings"]["dtype"] == "fp32"
    assert found["target"]["settings"]["weights"] == "random"


def test_nothing_in_the_directory_is_executed(env: dict[str, str], model: Path, tmp_path: Path) -> None:
    """Modules of the model's own, beside it and where the command runs, and weights as a pickle."""
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("config.json", "model.safetensors"):
        (trap / name).write_bytes((model / name).read_bytes())
    for name in ("torch", "transformers", "modeling_llama", "msgspec", "sitecustomize"):
        (trap / f"{name}.py").write_text("import os; os.mkdir('sprung'); raise SystemExit('sprung')")
    done = profile(
        env, trap, f"hf:{trap}", "--budget", "5", "--phase", "prefill", "--json", "--out", str(tmp_path / "out")
    )
    measured(done)
    assert not (trap / "sprung").exists()
    config = json.loads((trap / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "modeling_llama.Evil"}
    (trap / "config.json").write_text(json.dumps(config))
    done = profile(env, trap, f"hf:{trap}", "--budget", "5", "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "auto_map" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (trap / "sprung").exists()


def test_a_config_that_transformers_does_not_know(env: dict[str, str], model: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "config.json").write_text('{"model_type": "no_such_thing"}')
    (odd / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes())
    done = profile(env, tmp_path, f"hf:{odd}")
    assert done.returncode == 2, done.stderr
    assert "no_such_thing" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_keeps_what_was_measured_and_ends_the_child(env: dict[str, str], model: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow"  # too slow to be through before it is interrupted
    slow.mkdir()
    config = json.loads((model / "config.json").read_text())
    config |= {"num_hidden_layers": 24, "hidden_size": 512, "intermediate_size": 2048, "head_dim": 128}
    (slow / "config.json").write_text(json.dumps(config))
    command = [python(), "-P", "-c", MAIN, "profile", f"hf:{slow}", "--random-weights", "--budget", "300", "--json"]
    command += ["--peak", "400GFLOP/s", "--bandwidth", "40GB/s"]
    process = subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 120
        while not (found := children(process.pid)) and time.monotonic() < until:
            time.sleep(0.2)
        assert found
        time.sleep(15)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    if out:  # it came far enough
        assert json.loads(out)["run"]["status"] == "interrupted"
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(text) for text in path.read_text().split()] if path.exists() else []
