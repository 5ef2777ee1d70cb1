"""The plugin for vLLM, which loads it in each of its processes by the entry point ``vllm.general_plugins``.

Without ``PHASEWISE_MARK=1`` nothing else is imported and nothing is wrapped. docs/plugin.md.
"""

from __future__ import annotations

import importlib
import logging

from phasewise.mark.switch import switched_on

LOGGER = logging.getLogger("vllm.phasewise")
"""Below vLLM's own logger, whose handler and level it takes over."""


def register() -> None:
    """What vLLM calls: wraps the calls by which an executor has a worker run a step, when the switch says so."""
    if not switched_on(LOGGER):
        return
    try:
        from phasewise.mark.engines.vllm import wrap

        wrap(importlib.import_module("vllm.v1.worker.worker_base").WorkerWrapperBase, LOGGER)
    except Exception as error:
        LOGGER.warning("phasewise: this vLLM is not one that it can mark: %s: %s", type(error).__name__, error)
        return
    LOGGER.info("phasewise: each step will be marked with its phase and token counts.")
