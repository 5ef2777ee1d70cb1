"""The simulated server in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from phasewise.engines.simulated.plan import Plan
from phasewise.errors import EngineError


class Orders(msgspec.Struct, kw_only=True):
    """What the parent writes to the child's standard input, as one line of JSON; then it keeps the pipe open."""

    plan: Plan
    api_key: str | None = None
    log: str | None = None


class SimulatedServer:
    """``with SimulatedServer(plan) as server: ... server.url``: a child process on a free loopback port.

    The child ends when it is closed, when this object's process ends in any way, and not by Ctrl-C at the terminal.
    ``log`` names a file that gets one JSON line per request (see docs/simulate.md).

    Raises:
        EngineError: the child did not start.
    """

    def __init__(self, plan: Plan, *, api_key: str | None = None, log: Path | None = None) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "phasewise.engines.simulated"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        orders = Orders(plan=plan, api_key=api_key, log=str(log.absolute()) if log else None)
        try:
            self._child.stdin.write(msgspec.json.encode(orders) + b"\n")
            self._child.stdin.flush()
            self.url = self._child.stdout.readline().decode().strip()
        except BrokenPipeError:
            self.url = ""
        if not self.url:
            self.close()
            raise EngineError("The simulated server did not start: its reason is above.")

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._child.pid

    def close(self) -> None:
        """Stop the child and wait for its end. Safe to call twice."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        try:
            self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
