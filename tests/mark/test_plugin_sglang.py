"""The plugin for SGLang on a stand-in of 0.5.23: which band each forward gets, and that nothing ever breaks it."""

from __future__ import annotations

import logging
import sys

import pytest
from mark_fakes import Log
from plugin_sglang_fake import ForwardMode, Sglang, batch, install

from phasewise.mark import sglang_plugin

D, E, M, V = ForwardMode.DECODE, ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.TARGET_VERIFY


@pytest.fixture
def sglang(monkeypatch: pytest.MonkeyPatch) -> Sglang:
    return install(monkeypatch)


@pytest.fixture
def marked(sglang: Sglang, monkeypatch: pytest.MonkeyPatch) -> Sglang:
    """A scheduler that was made with the plugin on."""
    monkeypatch.setenv("PHASEWISE_MARK", "1")
    sglang_plugin.register()
    sglang.apply_hooks()
    sglang.Scheduler("arguments", port_args=None)
    return sglang


def names(log: Log) -> list[str]:
    return [name for what, name in log.told() if what == "enter"]


@pytest.mark.parametrize(
    ("scheduled", "said"),
    [
        (batch(E, [(8, 0)]), "prefill requests=1 tokens=8 context=8 squares=64 products=64"),
        # The last token of a prompt whose others lay in the cache is no generation.
        (batch(E, [(8, 2), (1, 6)]), "prefill requests=2 tokens=9 context=17 squares=65 products=87"),
        (batch(D, [(1, 9), (1, 4)]), "decode requests=2 tokens=2 context=15 squares=2 products=15"),
        # Overlapped: the lengths are on the GPU.
        (batch(D, [(1, 9), (1, 4)], lengths_known=False), "decode requests=2 tokens=2"),
        (batch(V, [(4, 9)], drafted=4), "decode requests=1 tokens=4 context=13 squares=16 products=52 speculative"),
        (batch(V, [(4, 9)], drafted=4, lengths_known=False), "decode requests=1 tokens=4 speculative"),
        # SGLang's own span would say that both requests with one token generate.
        (
            batch(M, [(5, 3), (1, 6), (1, 9)], decoding=(2,)),
            "prefill requests=2 tokens=6 context=15 squares=26 products=47"
            " + decode requests=1 tokens=1 context=10 squares=1 products=10",
        ),
        # Nothing says which of them were generating.
        (batch(M, [(5, 3), (1, 9)]), "mixed"),
        # Generations that run as an extension, because another rank has a prompt.
        (batch(E, [(1, 9)], decoding=(0,)), "decode requests=1 tokens=1 context=10 squares=1 products=10"),
    ],
)
def test_each_forward_is_named_by_its_batch(marked: Sglang, profiled: Log, scheduled: object, said: str) -> None:
    assert marked.forward(scheduled) == "logits"
    assert profiled.told() == [("enter", f"phasewise:step {said}"), ("exit", f"phasewise:step {said}")]


@pytest.mark.parametrize("mode", [m for m in ForwardMode if m not in (D, E, M, V)])
def test_other_modes_get_none(marked: Sglang, profiled: Log, mode: ForwardMode) -> None:
    assert marked.forward(batch(mode, [(4, 4)])) == "logits"
    assert profiled.told() == []


def test_the_draft_model_gets_none(marked: Sglang, profiled: Log) -> None:
    assert marked.forward(batch(D, [(1, 4)]), draft=True) == "logits"
    assert profiled.told() == []


def test_nothing_is_written_while_nobody_listens(marked: Sglang, log: Log) -> None:
    assert marked.forward(batch(D, [(1, 4)])) == "logits"
    assert log.told() == []


def test_an_error_of_the_engine_goes_on_and_ends_the_band(marked: Sglang, profiled: Log) -> None:
    with pytest.raises(MemoryError, match="no space"):
        marked.forward(batch(D, [(1, 4)] * 666))
    assert [what for what, _ in profiled.told()] == ["enter", "exit"]


def test_a_batch_that_lacks_something_is_one_warning(
    marked: Sglang, profiled: Log, caplog: pytest.LogCaptureFixture
) -> None:
    odd = batch(E, [(4, 4)])
    odd.extend_lens = None
    assert [marked.forward(odd) for _ in range(3)] == ["logits"] * 3
    assert marked.forward(batch(D, [(1, 4)])) == "logits"
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert profiled.told() == []


@pytest.mark.parametrize("said", [None, "0"])
def test_without_the_switch_nothing_is_hooked(
    sglang: Sglang, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.delenv("PHASEWISE_MARK", raising=False)
    if said is not None:
        monkeypatch.setenv("PHASEWISE_MARK", said)
    sglang_plugin.register()
    assert sglang.hooks == []


def test_a_process_without_a_scheduler_is_left_alone(sglang: Sglang, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHASEWISE_MARK", "1")
    monkeypatch.delitem(sys.modules, "sglang.srt.managers.scheduler")
    sglang_plugin.register()
    assert sglang.hooks == []


def test_two_schedulers_of_a_process_are_marked_once(marked: Sglang, profiled: Log) -> None:
    marked.Scheduler("again")
    marked.forward(batch(D, [(1, 4)]))
    assert len(names(profiled)) == 1


@pytest.mark.parametrize("lost", ["hook_registry", "model_runner", "forward", "init_new"])
def test_another_sglang_is_one_warning(
    sglang: Sglang, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lost: str
) -> None:
    monkeypatch.setenv("PHASEWISE_MARK", "1")
    if lost == "hook_registry":
        monkeypatch.setitem(sys.modules, "sglang.srt.plugins.hook_registry", None)
    elif lost == "model_runner":
        monkeypatch.delitem(sys.modules, "sglang.srt.model_executor.model_runner")
    elif lost == "forward":
        del sglang.ModelRunner.forward
    else:
        del sglang.ForwardBatch.init_new
    sglang_plugin.register()
    sglang.apply_hooks()
    assert sglang.Scheduler("arguments").server_args == "arguments"
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert "not one that it can mark" in caplog.text
