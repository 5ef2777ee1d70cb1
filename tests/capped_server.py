"""The simulated server on a GPU of the fake NVML: its steps draw power, and the clock that a cap leaves slows them.

``with CappedServer(state, gpu's load file, plan, draws) as server``: a child process, as ``SimulatedServer``. Prefill
takes its planted time over the share of the clock that its own demand of watts is left with under the limit of the
moment, to the power ``follows``: 1 for compute-bound work, 0 for memory-bound work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

import nvml_fake
from phasewise.engines.simulated.child import Orders
from phasewise.engines.simulated.plan import Plan


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """Watts that each phase would draw uncapped, and how its time follows the clock."""

    prefill_w: float = 650.0
    decode_w: float = 300.0
    prefill_follows: float = 1.0
    decode_follows: float = 0.0


class CappedServer:
    """``server.url``; ends with the block."""

    def __init__(self, state: Path, load: Path, plan: Plan, draws: Draws) -> None:
        folders = [os.path.dirname(os.path.abspath(__file__)), str(nvml_fake.FAKES), os.environ.get("PYTHONPATH", "")]
        self._child = subprocess.Popen(
            [sys.executable, __file__, str(state), str(load), msgspec.json.encode(draws).decode()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(msgspec.json.encode(Orders(plan=plan)) + b"\n")
        self._child.stdin.flush()
        self.url = self._child.stdout.readline().decode().strip()
        assert self.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.communicate(timeout=10)


def _serve(state: str, load: str, draws: str) -> int:
    from nvml_state import Load

    from phasewise.engines.simulated import __main__ as child
    from phasewise.engines.simulated import physics, scheduler

    on = Load(Path(load), Path(state))
    asked = msgspec.json.decode(draws, type=Draws)

    class Clocked(physics.Clockwork):
        def duration(self, work: physics.Work, at: float) -> float:
            prefill = bool(work.chunks)
            watts = asked.prefill_w if prefill else asked.decode_w
            follows = asked.prefill_follows if prefill else asked.decode_follows
            seconds = super().duration(work, at) / on.clock_share(watts) ** follows
            on.run(at, seconds, watts)
            return seconds

    scheduler.Clockwork = Clocked  # type: ignore[misc]
    return child.main()


if __name__ == "__main__":
    sys.exit(_serve(*sys.argv[1:]))
