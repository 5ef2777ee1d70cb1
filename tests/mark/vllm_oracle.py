"""A plugin of the tests for vLLM: writes what the scheduler decided, step by step, as JSON lines in ``ORACLE_LOG``.

It shares no code with phasewise and looks where phasewise does not: at the scheduler's own requests, in its process. A
request generates from the step on that follows the one which computed all that was known of it, until it is preempted.
"""

from __future__ import annotations

import functools
import json
import os
from typing import Any

_generating: dict[str, int] = {}
"""The number of preemptions of each request that generates."""


def register() -> None:
    if not (path := os.environ.get("ORACLE_LOG")):
        return
    from vllm.v1.core.sched.scheduler import Scheduler

    schedule = Scheduler.schedule

    @functools.wraps(schedule)
    def logged(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = schedule(self, *args, **kwargs)
        rows = [_row(self.requests[name], new, output) for name, new in output.num_scheduled_tokens.items()]
        if rows:
            with open(path, "a") as log:
                log.write(json.dumps(rows) + "\n")
        return output

    Scheduler.schedule = logged


def _row(request: Any, new: int, output: Any) -> dict[str, Any]:
    name, drafts = request.request_id, output.scheduled_spec_decode_tokens.get(name_of(request), ())
    # schedule() has counted this step's tokens as computed already.
    before = request.num_computed_tokens - new
    generates = _generating.get(name) == request.num_preemptions
    if before + new >= request.num_tokens:
        _generating[name] = request.num_preemptions
    return {
        "request": name,
        "phase": "decode" if generates else "prefill",
        "new": new,
        "context": before + new,
        "drafts": len(drafts),
        "preemptions": request.num_preemptions,
    }


def name_of(request: Any) -> str:
    return str(request.request_id)
