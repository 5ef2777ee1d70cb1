"""`--workers` to workers that are connected to the server."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from phasewise.engines.embedded import EmbeddedEngine
from phasewise.engines.openai import OpenAIServer
from phasewise.errors import UsageError
from phasewise.isolate.crew.crew import Crew
from phasewise.isolate.crew.on_ray import Place, RayHand, hired


@contextmanager
def crew(
    where: Place | None, engine: OpenAIServer | EmbeddedEngine, progress: Callable[[str, float], None]
) -> Iterator[Crew | None]:
    """The workers of a run, all connected to ``engine``; None without.

    Raises:
        UsageError: the server listens on this machine alone and a worker is elsewhere.
        EngineError: workers cannot be had, or cannot reach the server.
    """
    if where is None:
        yield None
        return
    server = served(engine)
    progress(f"starting workers ({where.written})", 0.0)
    with hired(where) as hands:
        _near(where, server, hands)
        found = Crew(where.written, hands)
        found.connect(server)
        yield found


def served(engine: OpenAIServer | EmbeddedEngine) -> OpenAIServer:
    """What ``engine`` is measured through."""
    return engine.server if isinstance(engine, EmbeddedEngine) else engine


def _near(where: Place, server: OpenAIServer, hands: Sequence[RayHand]) -> None:
    """Refuse an address of this machine alone for a worker elsewhere: it would send to its own machine."""
    away = [hand.where for hand in hands if not hand.here]
    if where.kind != "local" and away and _loopback(server.address.host):
        raise UsageError(
            f"{server.address.shown} is this machine alone, and the worker at {away[0]} would look for it on its own: "
            "give an address that all workers reach, or --workers ray:local."
        )


def _loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")
