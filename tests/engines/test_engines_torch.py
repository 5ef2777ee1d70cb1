"""The engine in process, against a child with planted times: answers, failures, and what a directory may not hold."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from phasewise.engines import torch_local
from phasewise.engines.base import Engine
from phasewise.engines.torch_local import TorchEngine, refuse_code, start
from phasewise.errors import EngineError, InputError, MissingExtra, Unreachable, UsageError
from phasewise.isolate.run import Isolation
from phasewise.record.local import Settings

pytestmark = pytest.mark.alone


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_local, "_CHILD", "torch_child")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.fixture
def begun() -> Iterator[Callable[..., TorchEngine]]:
    """``start``, with an end."""
    engines: list[TorchEngine] = []

    def begin(settings: Settings, **options: int) -> TorchEngine:
        engines.append(start(settings, **options))
        return engines[-1]

    yield begin
    for engine in engines:
        engine.close()


Begun = Callable[..., TorchEngine]


def model(folder: Path, name: str = "model", **config: object) -> Settings:
    where = folder / name
    where.mkdir()
    (where / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    (where / "model.safetensors").write_bytes(b"")
    return Settings(directory=str(where))


@pytest.mark.usefixtures("planted")
def test_an_answer_has_the_times_of_its_tokens(tmp_path: Path, begun: Begun) -> None:
    engine: Engine = begun(model(tmp_path))
    prompt = engine.prompt(32)
    answer = engine.ask(prompt, 4)
    engine.close()
    engine.close()
    assert abs(answer.sent_at - time.perf_counter()) < 60
    assert [chunk.at - answer.sent_at for chunk in answer.chunks] == [0.5, 0.625, 0.75, 0.875]
    assert answer.first_at == answer.chunks[0].at
    assert answer.last_at == answer.ended_at == answer.chunks[-1].at
    assert [chunk.read for chunk in answer.chunks] == [0, 1, 2, 3]
    assert {chunk.tokens for chunk in answer.chunks} == {1}
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (32, 4, 0)
    assert answer.finish_reason == "length"


@pytest.mark.usefixtures("planted")
def test_what_runs_is_said(tmp_path: Path, begun: Begun) -> None:
    settings = model(tmp_path)
    engine = begun(settings, context=4096)
    engine.close()
    target = engine.target
    assert (target.name, target.engine, target.served_model) == (f"hf:{settings.directory}", "transformers", "model")
    assert target.max_context == 512
    assert target.settings["dtype"] == "bf16"
    assert target.settings["threads"] == "3"
    assert target.settings["timed by"] == "the CPU's clock"


@pytest.mark.usefixtures("planted")
def test_prompts_are_fresh_and_fit_the_context(tmp_path: Path, begun: Begun) -> None:
    engine = begun(model(tmp_path), context=64)
    firsts = {engine.prompt(8).payload for _ in range(20)}
    assert len(firsts) == 20
    assert all(isinstance(ids, tuple) and len(ids) == 8 and 0 < min(ids) <= max(ids) < 32000 for ids in firsts)
    with pytest.raises(UsageError, match="context of 64"):
        engine.prompt(65)
    engine.close()


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    ("way", "error", "words"),
    [
        ("memory", EngineError, r"out of memory.*--max-prompt"),
        ("dies", Unreachable, "ended by signal 9"),
        ("short", EngineError, "something else"),
    ],
)
def test_a_request_that_fails(tmp_path: Path, begun: Begun, way: str, error: type[Exception], words: str) -> None:
    engine = begun(model(tmp_path, way))
    with pytest.raises(error, match=words):
        engine.ask(engine.prompt(8), 4)
    engine.close()


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    ("way", "error", "words"),
    [
        ("unknown", InputError, r"cannot load .*model type `zzz`\[31m"),
        ("stillborn", Unreachable, "no such library"),
        ("babble", EngineError, "nobody understands"),
    ],
)
def test_a_model_that_does_not_load(tmp_path: Path, way: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        start(model(tmp_path, way))


@pytest.mark.usefixtures("planted")
def test_closing_ends_a_child_that_computes(tmp_path: Path, begun: Begun) -> None:
    engine = begun(model(tmp_path, "stuck"))
    process = engine._child._process
    assert process.stdin is not None
    process.stdin.write(b'{"ids": [1], "tokens": 1}\n')
    process.stdin.flush()
    began = time.monotonic()
    engine.close()
    assert process.poll() is not None
    assert time.monotonic() - began < 60


@pytest.mark.usefixtures("planted")
def test_isolation_reads_the_planted_times(tmp_path: Path, begun: Begun) -> None:
    """A prompt takes 1/64 s for each token, each further token 1/8 s."""
    engine = begun(model(tmp_path))
    isolation = Isolation(engine, budget_s=1000.0, lengths=(16, 32, 64), clock=lambda: 0.0)
    seen = isolation.run()
    engine.close()
    assert seen.prefill is not None
    found = {point.tokens: point.ttft.value for point in seen.prefill.points}
    assert found == pytest.approx({16: 0.25, 32: 0.5, 64: 1.0}, rel=1e-3)
    assert seen.decode is not None
    assert seen.decode.tpot.value == pytest.approx(0.125)


def test_without_torch_the_install_command_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"torch and transformers .*pip install 'phasewise\[torch\]'"):
        start(model(tmp_path))


@pytest.mark.parametrize("settings", [Settings(directory="x", threads=0), Settings(directory="x", threads=5000)])
@pytest.mark.usefixtures("planted")
def test_threads_that_cannot_be(settings: Settings) -> None:
    with pytest.raises(UsageError, match="1 to 1024 threads"):
        start(settings)


@pytest.mark.parametrize(
    "config",
    [
        {"auto_map": {"AutoModelForCausalLM": "modeling.Evil"}},
        {"text_config": {"auto_map": {"AutoConfig": "configuration.Evil"}}},
        {"towers": [{"auto_map": {}}]},
    ],
)
def test_code_of_the_directorys_own_is_refused(tmp_path: Path, config: dict[str, object]) -> None:
    with pytest.raises(InputError, match="auto_map"):
        refuse_code(Path(model(tmp_path, **config).directory))


def test_directories_that_hold_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        refuse_code(tmp_path / "nowhere")
    where = Path(model(tmp_path).directory)
    refuse_code(where)
    os.remove(where / "model.safetensors")
    (where / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(InputError, match=r"no \.safetensors file"):
        refuse_code(where)
    refuse_code(where, random_weights=True)
    (where / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="adapter"):
        refuse_code(where, random_weights=True)
    for broken in (b"{", b"[]", b"\xff\xfe", b"[" * 100_000):
        (where / "config.json").write_bytes(broken)
        with pytest.raises(InputError, match="JSON"):
            refuse_code(where)
