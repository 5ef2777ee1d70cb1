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
    name = request.request_id
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
        "drafts": len(output.scheduled_spec_decode_tokens.get(name, ())),
        "preemptions": request.num_preemptions,
    }


def expected(rows: list[dict[str, Any]]) -> str:
    """The band that a step of this record must have."""
    halves = []
    for phase in ("prefill", "decode"):
        mine = [(row["new"], row["context"]) for row in rows if row["phase"] == phase]
        if mine:
            halves.append(
                f"{phase} requests={len(mine)} tokens={sum(q for q, _ in mine)} context={sum(k for _, k in mine)}"
                f" squares={sum(q * q for q, _ in mine)} products={sum(q * k for q, k in mine)}"
            )
    # vLLM pads a prompt of which one token is left with drafts that nobody made: that is no verify step.
    drafted = any(row["drafts"] for row in rows if row["phase"] == "decode")
    return f"phasewise:step {' + '.join(halves)}{' speculative' if drafted else ''}"
