"""An engine's own profiler over HTTP: ``/start_profile`` and ``/stop_profile`` of vLLM and SGLang.

Read in vLLM 0.32 (``entrypoints/serve/profile``, ``v1/engine/async_llm.py``) and SGLang
(``srt/managers/scheduler_profiler_mixin.py``). vLLM has the endpoints only with ``--profiler-config``, takes a prefix
of the files' names and a bound of steps, and answers 409 to a second start. SGLang always has them, takes where and
what to record, and answers a start while another one runs with HTTP 500 and no reason. Its ``GET`` starts a profile.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from phasewise.engines.client import PAGE_S, Client
from phasewise.engines.dialect import complaint
from phasewise.engines.wire import Page
from phasewise.errors import EngineError, Refused, Stalled, UsageError

Kind = Literal["vLLM", "SGLang"]

VLLM_FLAG = (
    '--profiler-config \'{"profiler": "torch", "torch_profiler_dir": "/DIR", "torch_profiler_with_stack": false}\''
)
"""What vLLM must be started with; its stacks are on by default, and make a trace 50 times as large."""

OTHERS = "phasewise capture --print nsys"
"""The way for engines without such a profiler."""


class Endpoint:
    """The profiler of one server.

    Attributes:
        kind: whose it is.
        running: a profile that we asked for may be running.
    """

    def __init__(
        self, client: Client, root: str, kind: Kind, *, wait_s: float, output: str = "", launcher: str = ""
    ) -> None:
        """Drive it by ``client``, which is closed with it.

        Args:
            client: a connection of its own.
            root: path before the server's own pages.
            kind: whose it is.
            wait_s: seconds that a start or a stop may take.
            output: the folder that SGLang is to write into; vLLM's is chosen at its start.
            launcher: ``nsys`` or ``ncu`` when the server runs under it: SGLang then drives a cudaProfilerApi range.
        """
        self.kind = kind
        self.running = False
        self._client = client
        self._root = root
        self._wait_s = wait_s
        self._output = output
        self._activities = ["CUDA_PROFILER"] if launcher else ["CPU", "GPU"]

    @property
    def stopping(self) -> str:
        """The command that ends a profile by hand."""
        address = self._client.address
        return f"curl -X POST {address.scheme}://{address.authority}{self._root}/stop_profile"

    def check(self) -> None:
        """See that the endpoints are there, without starting anything.

        Raises:
            UsageError: they are not.
            EngineError: no answer.
        """
        # Of a path that it has, an ASGI server refuses the method (405), of one that it lacks the path (404).
        page = self._client.call("OPTIONS", f"{self._root}/start_profile", wait_s=PAGE_S)
        if page.status == 404:
            raise UsageError(self._absent())

    def start(self, prefix: str, most: int) -> None:
        """Start a profile whose files begin with ``prefix``, where the engine takes one.

        ``most`` steps bound it where the engine can bound it: should we die, it ends by itself.

        Raises:
            EngineError: it did not start, or another one runs.
        """
        self.running = True  # a start that we do not see answered may still take effect
        page = self._post("start_profile", self._body(prefix, most))
        if self.kind == "vLLM" and page.status in (400, 422, 500) and b"already" not in page.body.lower():
            # A worker class of a plugin may take none of the bounds.
            page = self._post("start_profile", {})
        if page.status != 200:
            self.running = False
            raise self._refused(page)

    def stop(self) -> None:
        """End the profile and wait until the engine says that it ended; nothing happens when none of ours runs.

        Raises:
            EngineError: it did not, or the server is gone.
        """
        if not self.running:
            return
        try:
            page = self._post("stop_profile", None)
        except Stalled:
            raise Stalled(
                f"The profiler did not stop within {self._wait_s:g} s: allow more with --timeout, record fewer steps "
                f"with --steps, or turn its stacks off; it may run on until you call: {self.stopping}"
            ) from None
        self.running = False
        # SGLang says so of a profile that has ended by itself.
        if page.status != 200 and not (self.kind == "SGLang" and page.status == 500):
            raise self._refused(page)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _post(self, name: str, body: dict[str, Any] | None) -> Page:
        data = b"" if body is None else msgspec.json.encode(body)
        # A connection of its own: a stop may have to overtake a start that is not answered.
        client = self._client.again()
        try:
            return client.call("POST", f"{self._root}/{name}", data, wait_s=self._wait_s)
        finally:
            client.close()

    def _body(self, prefix: str, most: int) -> dict[str, Any]:
        if self.kind == "vLLM":
            return {"profile_prefix": prefix, "max_iterations": most}
        where = {"output_dir": self._output} if self._output else {}
        return {
            **where,
            "profile_prefix": prefix,
            "activities": self._activities,
            "profile_by_stage": False,
            "with_stack": False,
            "record_shapes": True,
        }

    def _absent(self) -> str:
        where = self._client.address.shown
        if self.kind == "vLLM":
            return f"{where} has no /start_profile: start vLLM with {VLLM_FLAG} and run this again."
        return f"{where} has no /start_profile: give the address of SGLang itself, not of a router before it."

    def _refused(self, page: Page) -> EngineError:
        said = complaint(page.body)
        if page.status in (404, 405):
            return Refused(self._absent(), status=page.status)
        if page.status == 409 or b"already" in page.body.lower():
            return Refused(
                "Somebody's profile is running on this server already, and was left alone: wait until it has ended, "
                f"or end it with: {self.stopping}",
                status=page.status,
            )
        if page.status in (401, 403):
            return Refused(
                f"The profiler asks for a key (HTTP {page.status}): set PHASEWISE_API_KEY to the server's (admin) key.",
                status=page.status,
            )
        guess = ""
        if self.kind == "SGLang" and page.status == 500:
            guess = "; it answers so when a profile is running already, which is then left alone"
        return Refused(
            f"The profiler answered HTTP {page.status}{f' ({said})' if said else ''}{guess}: look at the server's log.",
            status=page.status,
        )


def endpoint(
    engine: str, client: Client, root: str, *, wait_s: float, output: str = "", launcher: str = ""
) -> Endpoint:
    """The profiler of ``engine``, as its probe named it; ``client`` is closed when there is none.

    Raises:
        UsageError: it has none that we know.
    """
    if engine in ("vLLM", "SGLang"):
        kind: Kind = "vLLM" if engine == "vLLM" else "SGLang"
        return Endpoint(client, root, kind, wait_s=wait_s, output=output, launcher=launcher)
    client.close()
    raise UsageError(none(engine))


def none(engine: str) -> str:
    """Why there is no profiler of ``engine``, and what to do."""
    named = "The server does not say what it is, and has" if engine == "unknown" else f"{engine} has"
    known = engine if engine == "llama.cpp" else "own"
    return (
        f"{named} no profiler that can be started from outside: see {OTHERS} --engine {known} for a profiler around it."
    )
