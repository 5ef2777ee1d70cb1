"""The plugin for SGLang, which loads it in each of its processes by the entry point ``sglang.srt.plugins``.

Without ``PHASEWISE_MARK=1`` nothing else is imported and nothing is hooked. Written and tested against the source of
SGLang 0.5.23, not against a running one. docs/plugin.md.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable
from typing import Any

from phasewise.mark.switch import switched_on

LOGGER = logging.getLogger("sglang.phasewise")

_SCHEDULER = "sglang.srt.managers.scheduler"
_BATCH = "sglang.srt.model_executor.forward_batch_info"
_RUNNER = "sglang.srt.model_executor.model_runner"


def register() -> None:
    """What SGLang calls: hooks the making of the scheduler, in the processes that have one, when the switch says so."""
    if not switched_on(LOGGER) or _SCHEDULER not in sys.modules:
        return
    try:
        hooks = importlib.import_module("sglang.srt.plugins.hook_registry")
        hooks.HookRegistry.register(f"{_SCHEDULER}.Scheduler.__init__", _made, hooks.HookType.AROUND)
    except Exception as error:
        _refuse(error)


def _made(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The scheduler is made, and its model loaded, warmed up and captured; from now on its forwards are steps."""
    made = make(*args, **kwargs)
    try:
        # Both are imported by now. To import them earlier would do so in processes that run no model.
        from phasewise.mark.engines.sglang import wrap

        wrap(sys.modules[_BATCH].ForwardBatch, sys.modules[_RUNNER].ModelRunner, LOGGER)
        LOGGER.info("phasewise: each step will be marked with its phase and token counts.")
    except Exception as error:
        _refuse(error)
    return made


def _refuse(error: Exception) -> None:
    LOGGER.warning("phasewise: this SGLang is not one that it can mark: %s: %s", type(error).__name__, error)
