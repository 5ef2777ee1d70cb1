"""The plugin for vLLM on a stand-in of its worker side: which band each step gets, and that nothing ever breaks it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mark_fakes import Log, profiler
from plugin_vllm_fake import Life, Plain, Worker, WorkerWrapperBase, new, output

from phasewise.mark import vllm_plugin
from phasewise.mark.engines.vllm import Marks, wrap
from phasewise.record import marks

LOGGER = logging.getLogger("test.vllm")
PROMPT = "phasewise:step prefill requests=1 tokens=8 context=8 squares=64 products=64"


@pytest.fixture
def wrapper() -> type[WorkerWrapperBase]:
    """The wrapper class, one of its own for each test, with the plugin in it."""
    mine = type("WorkerWrapperBase", (WorkerWrapperBase,), {})
    wrap(mine, LOGGER)
    return mine


def names(log: Log) -> list[str]:
    return [name for what, name in log.told() if what == "enter"]


def ran(wrapper: type[WorkerWrapperBase], *steps: Any, worker: Plain | None = None) -> WorkerWrapperBase:
    one = wrapper(worker or Worker())
    for step in steps:
        if one.execute_model(step) is None:
            assert one.sample_tokens(None) == "tokens"
    return one


def test_a_band_lasts_from_the_execution_to_the_sampled_tokens(wrapper: type[WorkerWrapperBase], profiled: Log) -> None:
    one = wrapper(Worker())
    assert one.execute_model(output({"a": 8}, (new("a", 8),))) is None
    assert profiled.told() == [("enter", PROMPT)]
    assert one.sample_tokens(grammar_output=None) == "tokens"
    assert profiled.told() == [("enter", PROMPT), ("exit", PROMPT)]
    assert one.worker.calls == ["execute", "sample"]


@pytest.mark.parametrize("kind", [Plain, Worker])
def test_each_step_has_one_band_whether_a_worker_annotates_or_not(
    wrapper: type[WorkerWrapperBase], profiled: Log, kind: type[Plain]
) -> None:
    generated = [output({"a": 1}, cached={"a": (8 + at, 1 + at)}) for at in range(3)]
    ran(wrapper, output({"a": 8}, (new("a", 8),)), *generated, worker=kind())
    assert [what for what, _ in profiled.told()] == ["enter", "exit"] * 4
    contexts = [found.decode.context for name in names(profiled)[1:] if (found := marks.read(name)) and found.decode]
    assert contexts == [9, 10, 11]


def test_a_profiler_that_starts_and_stops_within_a_call_gets_whole_steps(
    wrapper: type[WorkerWrapperBase], monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    """vLLM's own counts steps before it starts and until it stops, right before it would annotate one."""
    count = iter(range(10))

    def step() -> None:
        running = 2 <= next(count) < 4
        monkeypatch.setitem(sys.modules, "torch.autograd.profiler", profiler(log, on=running))

    generated = [output({"a": 1}, cached={"a": (8 + at, 1 + at)}) for at in range(5)]
    ran(wrapper, output({"a": 8}, (new("a", 8),)), *generated, worker=Worker(step=step))
    contexts = [found.decode.context for name in names(log) if (found := marks.read(name)) and found.decode]
    assert contexts == [10, 11]
    assert [what for what, _ in log.told()] == ["enter", "exit"] * 2


@pytest.mark.parametrize("worker", [Worker("output"), Worker(None, pools=True)])
def test_a_band_ends_at_once_where_nothing_is_sampled_later(
    wrapper: type[WorkerWrapperBase], profiled: Log, worker: Worker
) -> None:
    one = wrapper(worker)
    assert one.execute_model(output({"a": 8}, (new("a", 8),))) == worker.output
    assert profiled.told() == [("enter", PROMPT), ("exit", PROMPT)]


def test_a_worker_without_a_call_for_sampling(wrapper: type[WorkerWrapperBase], profiled: Log) -> None:
    class Oldest:
        def execute_model(self, scheduler_output: Any) -> None: ...

    assert wrapper(Oldest()).execute_model(output({"a": 8}, (new("a", 8),))) is None
    assert profiled.told() == [("enter", PROMPT), ("exit", PROMPT)]


def test_an_error_of_the_engine_goes_on_and_ends_the_band(wrapper: type[WorkerWrapperBase], profiled: Log) -> None:
    one = wrapper(Worker(MemoryError("no space")))
    with pytest.raises(MemoryError, match="no space"):
        one.execute_model(output({"a": 8}, (new("a", 8),)))
    assert profiled.told() == [("enter", PROMPT), ("exit", PROMPT)]


def test_a_step_that_is_never_sampled_ends_where_the_next_begins(
    wrapper: type[WorkerWrapperBase], profiled: Log
) -> None:
    one = wrapper(Worker())
    one.execute_model(output({"a": 8}, (new("a", 8),)))
    one.execute_model(output({"a": 1}, cached={"a": (8, 1)}))
    assert [what for what, _ in profiled.told()] == ["enter", "exit", "enter"]


def test_ranges_of_nvtx_nest(wrapper: type[WorkerWrapperBase], ranged: Log) -> None:
    ran(wrapper, output({"a": 8}, (new("a", 8),)), output({"a": 1}, cached={"a": (8, 1)}))
    assert [what for what, _ in ranged.told()] == ["push", "pop", "push", "pop"]


def test_nothing_is_written_while_nobody_listens_and_prompts_are_known_afterwards(
    wrapper: type[WorkerWrapperBase], monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    one = ran(wrapper, output({"a": 6}, (new("a", 8),)))
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", profiler(log))
    one.execute_model(output({"a": 2}, cached={"a": (6, 0)}))
    assert names(log) == ["phasewise:step prefill requests=1 tokens=2 context=8 squares=4 products=16"]


def test_no_band_without_tokens(wrapper: type[WorkerWrapperBase], profiled: Log) -> None:
    ran(wrapper, output({}, finished=("a",)), worker=Worker("nothing"))
    assert profiled.told() == []


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (output({"a": 8}, (new("a", 8),)), PROMPT),
        # The last token of a prompt whose others lay in the cache.
        (output({"a": 1}, (new("a", 8, 7),)), "prefill requests=1 tokens=1 context=8 squares=1 products=8"),
        # A prompt of one token.
        (output({"a": 1}, (new("a", 1),)), "prefill requests=1 tokens=1 context=1 squares=1 products=1"),
        (output({"a": 3}, (new("a", 3, embedded=True),)), "prefill requests=1 tokens=3 context=3 squares=9 products=9"),
        # A chunk, with a generation beside it.
        (
            output({"b": 1, "a": 4}, (new("a", 9, 2),), {"b": (5, 2)}),
            "prefill requests=1 tokens=4 context=6 squares=16 products=24"
            " + decode requests=1 tokens=1 context=6 squares=1 products=6",
        ),
        # A chunk of one token is no generation.
        (output({"c": 1}, cached={"c": (6, 0)}), "prefill requests=1 tokens=1 context=7 squares=1 products=7"),
        # Drafts are verified.
        (
            output({"b": 4}, cached={"b": (5, 2)}, drafts={"b": [1, 2, 3]}),
            "decode requests=1 tokens=4 context=9 squares=16 products=36 speculative",
        ),
        # Preempted with three answered tokens: eight are computed again, whether they are sent along or not.
        (
            output({"b": 8}, cached={"b": (0, 3)}, resumed={"b": [0] * 8}),
            "prefill requests=1 tokens=8 context=8 squares=64 products=64",
        ),
        (
            output({"b": 1}, cached={"b": (7, 3)}, resumed={"b": None}),
            "prefill requests=1 tokens=1 context=8 squares=1 products=8",
        ),
        # The same in the second model runner, which gets it as a new one.
        (
            output({"b": 6}, (new("b", 5, 2, known=8),)),
            "prefill requests=1 tokens=6 context=8 squares=36 products=48",
        ),
    ],
)
def test_the_phase_of_each_request_is_the_schedulers(
    wrapper: type[WorkerWrapperBase], profiled: Log, step: Any, said: str
) -> None:
    one = ran(wrapper, output({"b": 5, "c": 6}, (new("b", 5), new("c", 20))))
    profiled.clear()
    one.execute_model(step)
    assert names(profiled) == [said if said is PROMPT else f"phasewise:step {said}"]


@given(st.integers(0, 2**32), st.booleans())
def test_a_life_of_requests_at_random(seed: int, second_runner: bool) -> None:
    life, log = Life(seed, second_runner=second_runner), Log()
    found = Marks(LOGGER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch.autograd.profiler", profiler(log))
        wanted = []
        for _ in range(30):
            step, truth = life.step()
            found.begin(step)
            found.end()
            if truth:
                wanted.append(truth)
    assert len(names(log)) == len(wanted)
    for name, truth in zip(names(log), wanted, strict=True):
        read = marks.read(name)
        assert read is not None
        for phase, half in (("prefill", read.prefill), ("decode", read.decode)):
            rows = [(q, k) for what, q, k, _ in truth if what == phase]
            assert (half is not None) == bool(rows)
            if half is not None:
                sums = [sum(f(q, k) for q, k in rows) for f in (_q, _k, _qq, _qk)]
                assert [half.requests, half.tokens, half.context, half.squares, half.products] == [len(rows), *sums]
        assert read.speculative == any(verifies for *_, verifies in truth)


def _q(q: int, k: int) -> int:
    return q


def _k(q: int, k: int) -> int:
    return k


def _qq(q: int, k: int) -> int:
    return q * q


def _qk(q: int, k: int) -> int:
    return q * k


def test_finished_requests_are_forgotten(wrapper: type[WorkerWrapperBase]) -> None:
    found = Marks(LOGGER)
    for at in range(100):
        done = (f"r{at - 1}",) if at else ()
        found.begin(output({f"r{at}": 3}, (new(f"r{at}", 3),), finished=done))
        found.end()
    assert list(found._prompts) == list(found._due) == ["r99"]


def test_a_name_that_is_used_again_is_another_request(wrapper: type[WorkerWrapperBase], profiled: Log) -> None:
    ran(wrapper, output({"a": 8}, (new("a", 8),)), output({"a": 9}, (new("a", 9),), finished=("a",)))
    assert names(profiled)[1] == "phasewise:step prefill requests=1 tokens=9 context=9 squares=81 products=81"


@pytest.mark.parametrize("lost", ["scheduled_new_reqs", "scheduled_cached_reqs", "num_scheduled_tokens", None])
def test_what_another_version_lacks_is_one_warning_and_no_error(
    wrapper: type[WorkerWrapperBase], profiled: Log, caplog: pytest.LogCaptureFixture, lost: str | None
) -> None:
    step = output({"a": 8}, (new("a", 8),)) if lost else object()
    if lost:
        delattr(step, lost)
    one = ran(wrapper, step, step, step)
    assert one.worker.calls == ["execute", "sample"] * 3
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.WARNING
    assert "steps are no longer marked" in caplog.text
    assert profiled.told() == []


def test_a_request_that_came_before_the_plugin_is_one_warning(
    wrapper: type[WorkerWrapperBase], profiled: Log, caplog: pytest.LogCaptureFixture
) -> None:
    ran(wrapper, output({"x": 1}, cached={"x": (9, 2)}), output({"x": 1}, cached={"x": (10, 3)}))
    assert len(caplog.records) == 1
    assert profiled.told() == []


def test_a_profiler_that_fails_breaks_nothing_and_no_band_stays_open(
    wrapper: type[WorkerWrapperBase], profiled: Log, caplog: pytest.LogCaptureFixture
) -> None:
    one = wrapper(Worker())
    one.execute_model(output({"a": 8}, (new("a", 8),)))
    one.execute_model(object())
    assert profiled.told() == [("enter", PROMPT), ("exit", PROMPT)]
    sys.modules["torch.autograd.profiler"].__dict__["record_function"] = None
    other = ran(wrapper, output({"a": 8}, (new("a", 8),)))
    assert other.worker.calls == ["execute", "sample"]
    assert len(caplog.records) == 2


def test_ray_executes_and_samples_in_one_call(profiled: Log) -> None:
    class Base(WorkerWrapperBase):
        pass

    class RayWorkerWrapper(Base):
        def execute_model_ray(self, execute_model_input: tuple[Any, Any]) -> Any:
            self.worker.execute_model(execute_model_input[0])
            return self.worker.sample_tokens(execute_model_input[1])

    wrap(Base, LOGGER)
    one = RayWorkerWrapper(Worker())
    assert one.execute_model_ray((output({"a": 8}, (new("a", 8),)), None)) == "tokens"
    assert profiled.told() == [("enter", PROMPT), ("exit", PROMPT)]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A vLLM that can be imported."""
    for name in ("vllm", "vllm.v1", "vllm.v1.worker", "vllm.v1.worker.worker_base"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    module = sys.modules["vllm.v1.worker.worker_base"]
    module.__dict__["WorkerWrapperBase"] = type("WorkerWrapperBase", (WorkerWrapperBase,), {})
    return module


@pytest.mark.parametrize("said", [None, "", "0", "yes"])
def test_without_the_switch_nothing_is_touched(
    installed: types.ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, said: str | None
) -> None:
    monkeypatch.delenv("PHASEWISE_MARK", raising=False)
    if said is not None:
        monkeypatch.setenv("PHASEWISE_MARK", said)
    before = dict(vars(installed.WorkerWrapperBase))
    vllm_plugin.register()
    assert dict(vars(installed.WorkerWrapperBase)) == before
    assert caplog.messages == (["phasewise: PHASEWISE_MARK=yes marks nothing: set it to 1."] if said == "yes" else [])


def test_with_the_switch_it_is_wrapped_once(
    installed: types.ModuleType, monkeypatch: pytest.MonkeyPatch, profiled: Log
) -> None:
    monkeypatch.setenv("PHASEWISE_MARK", "1")
    vllm_plugin.register()
    vllm_plugin.register()
    ran(installed.WorkerWrapperBase, output({"a": 8}, (new("a", 8),)))
    assert profiled.told() == [("enter", PROMPT), ("exit", PROMPT)]


@pytest.mark.parametrize("lost", ["class", "module", "method"])
def test_another_vllm_is_one_warning(
    installed: types.ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lost: str
) -> None:
    monkeypatch.setenv("PHASEWISE_MARK", "1")
    if lost == "module":
        monkeypatch.setitem(sys.modules, "vllm.v1.worker.worker_base", None)
    elif lost == "class":
        del installed.__dict__["WorkerWrapperBase"]
    else:
        installed.__dict__["WorkerWrapperBase"] = object
    vllm_plugin.register()
    assert len(caplog.records) == 1
    assert "not one that it can mark" in caplog.text


def test_the_declared_entry_points_import_little_and_do_nothing_without_the_switch() -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"]
    assert set(declared) == {"vllm.general_plugins", "sglang.srt.plugins"}
    program = "import importlib, sys\n"
    for entries in declared.values():
        module, _, name = entries["phasewise"].partition(":")
        program += f"importlib.import_module({module!r}).{name}()\n"
    program += "print(*sorted(name for name in sys.modules if name.startswith(('phasewise', 'msgspec', 'numpy'))))"
    variables = {key: value for key, value in os.environ.items() if key != "PHASEWISE_MARK"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables, check=True)
    own = [
        "phasewise",
        "phasewise.mark",
        *(f"phasewise.mark.{name}" for name in ("sglang_plugin", "switch", "vllm_plugin")),
    ]
    assert done.stdout.split() == own
