"""A stand-in for what the plugin touches of SGLang 0.5.23, under the names and signatures of its source.

``sglang/srt/plugins/hook_registry.py``, ``managers/scheduler.py``, ``managers/schedule_batch.py`` and
``model_executor/{forward_batch_info,model_runner}.py``. It was read, not run: SGLang needs CUDA.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from mark_fakes import Values


class ForwardMode(enum.IntEnum):
    EXTEND = enum.auto()
    DECODE = enum.auto()
    MIXED = enum.auto()
    IDLE = enum.auto()
    TARGET_VERIFY = enum.auto()
    DRAFT_EXTEND_V2 = enum.auto()
    PREBUILT = enum.auto()
    SPLIT_PREFILL = enum.auto()
    DLLM_EXTEND = enum.auto()

    def is_decode_or_idle(self) -> bool:
        return self in (ForwardMode.DECODE, ForwardMode.IDLE)


class HookType(enum.Enum):
    BEFORE = "before"
    AFTER = "after"
    AROUND = "around"
    REPLACE = "replace"


def batch(
    mode: ForwardMode,
    rows: list[tuple[int, int]],
    *,
    decoding: tuple[int, ...] = (),
    lengths_known: bool = True,
    drafted: int | None = None,
) -> Any:
    """``ScheduleBatch`` of requests with (new tokens, cached tokens); ``decoding`` are the rows that were running.

    ``seq_lens_cpu`` counts the new tokens too, except those of a verify step.
    """
    requests = [SimpleNamespace(rid=str(at)) for at in range(len(rows))]
    verifies = mode is ForwardMode.TARGET_VERIFY
    return SimpleNamespace(
        forward_mode=mode,
        reqs=requests,
        decoding_reqs=[requests[at] for at in decoding] or None,
        seq_lens=[0] * len(rows),
        seq_lens_cpu=Values([k if verifies else q + k for q, k in rows]) if lengths_known else None,
        extend_lens=[q for q, _ in rows],
        prefix_lens=[k for _, k in rows],
        spec_info=None if drafted is None else SimpleNamespace(draft_token_num=drafted),
    )


class Sglang(types.SimpleNamespace):
    """The classes that the plugin meets, new for each test."""

    def apply_hooks(self) -> None:
        """What SGLang does once its plugins have registered."""
        for target, hook in self.hooks:
            module, kind, method = target.rsplit(".", 2)
            owner = getattr(sys.modules[module], kind)
            setattr(owner, method, _around(getattr(owner, method), hook))

    def forward(self, scheduled: Any, *, draft: bool = False) -> Any:
        """Run a batch as the scheduler's worker does."""
        runner = self.ModelRunner(is_draft_worker=draft)
        made = self.ForwardBatch.init_new(scheduled, runner, return_hidden_states_before_norm=False)
        return runner.forward(made, pp_proxy_tensors=None)


def _around(original: Callable[..., Any], hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return hook(original, *args, **kwargs)

    return wrapper


def install(monkeypatch: pytest.MonkeyPatch) -> Sglang:
    """SGLang as a scheduler's process has it imported."""

    @dataclass
    class ForwardBatch:
        forward_mode: ForwardMode
        batch_size: int
        seq_lens_cpu: Any = None
        extend_num_tokens: int | None = None
        extend_seq_lens_cpu: list[int] | None = None
        extend_prefix_lens_cpu: list[int] | None = None
        spec_info: Any = None

        @classmethod
        def init_new(
            cls,
            batch: Any,
            model_runner: Any,
            *,
            capture_hidden_mode: Any = None,
            return_hidden_states_before_norm: bool,
        ) -> ForwardBatch:
            extends = not batch.forward_mode.is_decode_or_idle()
            return cls(
                forward_mode=batch.forward_mode,
                batch_size=len(batch.seq_lens),
                seq_lens_cpu=batch.seq_lens_cpu,
                extend_seq_lens_cpu=batch.extend_lens if extends else None,
                extend_prefix_lens_cpu=batch.prefix_lens if extends else None,
                spec_info=batch.spec_info,
            )

    class ModelRunner:
        def __init__(self, *, is_draft_worker: bool = False) -> None:
            self.is_draft_worker = is_draft_worker

        def forward(
            self,
            forward_batch: ForwardBatch,
            skip_attn_backend_init: bool | None = None,
            pp_proxy_tensors: Any = None,
            reinit_attn_backend: bool = False,
            split_forward_count: int = 1,
        ) -> str:
            if forward_batch.batch_size == 666:
                raise MemoryError("no space")
            return "logits"

    class Scheduler:
        def __init__(self, server_args: Any, port_args: Any = None) -> None:
            self.server_args = server_args

    hooks: list[tuple[str, Callable[..., Any]]] = []

    class HookRegistry:
        @classmethod
        def register(
            cls, target: str, hook: Callable[..., Any], hook_type: HookType = HookType.AFTER, *, source: Any = None
        ) -> None:
            assert hook_type is HookType.AROUND
            hooks.append((target, hook))

    found = Sglang(ForwardBatch=ForwardBatch, ModelRunner=ModelRunner, Scheduler=Scheduler, hooks=hooks)
    for name, contents in {
        "sglang": {},
        "sglang.srt": {},
        "sglang.srt.plugins": {},
        "sglang.srt.plugins.hook_registry": {"HookRegistry": HookRegistry, "HookType": HookType},
        "sglang.srt.managers": {},
        "sglang.srt.managers.scheduler": {"Scheduler": Scheduler},
        "sglang.srt.model_executor": {},
        "sglang.srt.model_executor.forward_batch_info": {"ForwardBatch": ForwardBatch},
        "sglang.srt.model_executor.model_runner": {"ModelRunner": ModelRunner},
    }.items():
        module = types.ModuleType(name)
        module.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return found
