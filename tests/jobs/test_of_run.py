"""Model and machine of a saved run."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from phasewise.errors import InputError, UsageError
from phasewise.hardware import catalogue
from phasewise.jobs.of_run import of_run
from phasewise.model.load import load
from phasewise.record.envelope import Envelope
from phasewise.record.run import Run, save
from phasewise.record.target import Target

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 256,
}


def saved(folder: Path, *arguments: str, model: str | None, target: str | None = None) -> Path:
    envelope = Envelope(
        id="x",
        command="profile",
        arguments=arguments,
        created="2026-11-29T00:00:00+00:00",
        duration_s=1.0,
        status="complete",
        reason="",
        versions={},
        host="here",
    )
    facts = None if model is None else load("llama-3-8b").facts("bf16")
    run = Run(
        envelope=envelope,
        model=facts and msgspec.structs.replace(facts, name=model),
        machine=catalogue.machine(catalogue.find("h100-sxm"), 2),
        target=Target(name=target, engine="x", served_model="x", prompting="text", endpoint="/") if target else None,
    )
    folder.mkdir(exist_ok=True)
    save(run, folder)
    return folder


def test_a_catalogue_name_is_enough(tmp_path: Path) -> None:
    found = of_run(saved(tmp_path / "run", model="llama-3-8b"))
    assert found.model is not None
    assert found.model.name == "llama-3-8b"
    assert found.machine is not None
    assert (found.machine.name, found.machine.devices) == ("h100-sxm", 2)


@pytest.mark.parametrize("flags", [("--weights", "fp8"), ("--weights=fp8",)])
def test_the_formats_that_its_flags_stated_count(tmp_path: Path, flags: tuple[str, ...]) -> None:
    found = of_run(saved(tmp_path / "run", "profile", "--model", "llama-3-8b", *flags, model="llama-3-8b"))
    assert found.model is not None
    assert found.model.facts("").weights_format == "fp8"


def test_a_file_that_a_flag_or_its_target_names_is_read_again(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA))
    for number, (arguments, target) in enumerate(((("--model", str(config)), None), ((), f"hf:{tmp_path}"))):
        run = saved(tmp_path / str(number), *arguments, model="mine", target=target)
        found = of_run(run)
        assert found.model is not None
        assert found.model.facts("").layers == 2
    config.unlink()
    with pytest.raises(UsageError, match=r"config\.json|no model"):
        of_run(tmp_path / "0")


def test_a_model_known_by_name_alone_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name it with --model"):
        of_run(saved(tmp_path / "run", model="my-own-model", target="http://127.0.0.1:8000"))


def test_a_run_without_a_model_and_what_is_no_run(tmp_path: Path) -> None:
    assert of_run(saved(tmp_path / "run", model=None)).model is None
    with pytest.raises(InputError, match="cannot be read"):
        of_run(tmp_path / "gone")
