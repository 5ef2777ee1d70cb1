"""Workers as Ray actors, on the nodes of a cluster or on this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Any, Literal, NamedTuple

from phasewise.engines.embedded import usable_cores
from phasewise.engines.text import clean
from phasewise.errors import EngineError, MissingExtra, PhasewiseError, UsageError
from phasewise.isolate.crew.clocks import Trip
from phasewise.isolate.crew.hand import Gone, Hand, Silent
from phasewise.isolate.crew.member import Member

_WRITTEN = re.compile(r"ray:(?:(local|auto)(?::([1-9]\d{0,3}))?|//(?:[\w.-]+|\[[\da-fA-F:.]+\]):\d{1,5})", re.A)

_THREADS = 4
"""Calls that an actor answers at once: a report that is on its way keeps no clock from being read."""

_STORE_BYTES = 100 * 2**20
"""Object store of a Ray of our own: rows pass through it in small pieces; Ray takes no less than 75 MiB."""

_TRIP_S, _BORN_S = 1.0, 60.0
"""Time for a clock to be read, and for all actors to start."""


class Place(NamedTuple):
    """Where workers are, as ``written``: a Ray of our own on this machine, the cluster that this machine is in, or one
    that is reached through its client server.

    ``workers`` of them; None: one for each core but one here, one for each node elsewhere.
    """

    written: str
    kind: Literal["local", "auto", "client"]
    workers: int | None = None


def place(text: str) -> Place:
    """Read ``ray:local``, ``ray:local:4``, ``ray:auto``, ``ray:auto:8``, ``ray://host:10001``.

    Raises:
        UsageError: it is none of these.
    """
    written = text.strip()
    found = _WRITTEN.fullmatch(written)
    if found is None:
        raise UsageError(
            f"--workers {clean(text, 80)!r} is not known: write ray:local, ray:local:4, ray:auto or ray://HOST:PORT."
        )
    if found[1] is None:
        return Place(written, "client")
    return Place(written, "local" if found[1] == "local" else "auto", int(found[2]) if found[2] else None)


def require() -> None:
    """See that Ray is installed.

    Raises:
        MissingExtra: it is not.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtra("--workers needs Ray: pip install 'phasewise[ray]'.")


@contextmanager
def hired(where: Place) -> Iterator[list[RayHand]]:
    """Workers at ``where``, spread over its nodes; they end with the block.

    Raises:
        UsageError: more workers than cores.
        EngineError: the cluster cannot be reached, or its cores are taken.
    """
    _prepare(where)
    before = signal.getsignal(signal.SIGTERM)  # Ray puts a handler of its own in its place
    with ExitStack() as stack:
        # Ray prints what its nodes complain of on standard output, where a document may be asked for. The record says
        # who was lost.
        stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w", encoding="utf-8"))))
        try:
            _connect(where, stack)
        except (PhasewiseError, KeyboardInterrupt):
            raise
        except Exception as error:  # Ray raises whatever its layers do
            raise EngineError(f"Ray does not answer ({_first_line(error)}): see `ray status` there.") from None
        finally:
            with suppress(ValueError, TypeError):  # not the main thread, or a handler that Python did not set
                signal.signal(signal.SIGTERM, before)
        hands = _hands(where)
        try:
            yield hands
        finally:
            for hand in hands:
                hand.end()


def _prepare(where: Place) -> None:
    """Set what Ray reads when it is imported."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # it would report to its makers
    if where.kind == "local" and "ray" not in sys.modules:
        # It listens on every address of the machine: nobody else may use it. Given here, the token is in no file.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _connect(where: Place, stack: ExitStack) -> None:
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if where.kind != "local":
        stack.callback(ray.shutdown)
        ray.init(address="auto" if where.kind == "auto" else where.written, **quiet)
        return
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="phasewise-", ignore_cleanup_errors=True))
    stack.callback(ray.shutdown)
    ray.init(
        address="local",
        num_cpus=_local(where),
        include_dashboard=False,
        object_store_memory=_STORE_BYTES,
        _temp_dir=folder,
        **quiet,
    )


def _local(where: Place) -> int:
    return where.workers or max(1, usable_cores() - 1)


def _hands(where: Place) -> list[RayHand]:
    """Actors, each with a core, in turns on every node that has cores.

    Raises:
        UsageError: more than there are cores.
        EngineError: not all of them start.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    cores = [int(node["Resources"]["CPU"]) for node in nodes]
    places = [
        node for turn in range(max(cores, default=0)) for node, has in zip(nodes, cores, strict=True) if turn < has
    ]
    count = _local(where) if where.kind == "local" else where.workers or len(nodes)
    if not 1 <= count <= len(places):
        raise UsageError(
            f"--workers {where.written} needs {count or 1} cores, and the nodes of that Ray have {len(places)}: "
            "ask for fewer workers, or add nodes."
        )
    actor = ray.remote(num_cpus=1, max_concurrency=_THREADS, max_restarts=0, max_task_retries=0)(Member)
    here = "" if where.kind == "client" else ray.util.get_node_ip_address()
    hands = []
    for number, node in enumerate(places[:count]):
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        born = actor.options(scheduling_strategy=there).remote(number)
        address = node["NodeManagerAddress"]
        hands.append(RayHand(born, f"{address} ({node['NodeID'][:8]})", here=address in (here, "127.0.0.1", "::1")))
    try:
        _await(hands)
    except BaseException:
        for hand in hands:
            hand.end()
        raise
    return hands


def _await(hands: Sequence[RayHand]) -> None:
    until = time.monotonic() + _BORN_S
    for hand in hands:
        try:
            hand.ask("version").result(max(0.0, until - time.monotonic()))
        except Gone as error:
            raise EngineError(
                f"A worker at {hand.where} did not start ({error}): see that phasewise is installed there."
            ) from None
        except (Silent, TimeoutError):
            raise EngineError(
                f"{len(hands)} workers did not start in {_BORN_S:g} s: each needs a free core; see `ray status`."
            ) from None


class RayHand(Hand):
    """An actor; ``here`` when it is on this machine."""

    def __init__(self, actor: Any, where: str, *, here: bool) -> None:
        self._actor = actor
        self.where, self.here = where, here

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """See `Hand`."""
        answer: Future[Any] = Future()

        def told(by_ray: Future[Any]) -> None:
            if (error := by_ray.exception()) is not None:
                answer.set_exception(_ours(error))
            else:
                answer.set_result(by_ray.result())

        try:
            getattr(self._actor, method).remote(*arguments).future().add_done_callback(told)
        except Exception as error:  # of an actor that is known to be dead
            answer.set_exception(_ours(error))
        return answer

    def trip(self) -> Trip:
        """See `Hand`: straight, for a future takes longer."""
        import ray

        before = time.perf_counter()
        try:
            there = ray.get(self._actor.clock.remote(), timeout=_TRIP_S)
        except Exception as error:
            raise _ours(error) from None
        return Trip(before, there, time.perf_counter())

    def end(self) -> None:
        """End the actor."""
        import ray

        with suppress(Exception):
            ray.kill(self._actor)


def _ours(error: BaseException) -> BaseException:
    """What an error of Ray's means."""
    from ray import exceptions

    if isinstance(error, exceptions.RayTaskError):
        return error.cause if isinstance(error.cause, PhasewiseError) else Gone(_first_line(error.cause))
    if isinstance(error, exceptions.ActorUnavailableError | exceptions.GetTimeoutError):
        return Silent(_first_line(error))
    return Gone("its node was lost" if "node has died" in str(error) else _first_line(error))


def _first_line(error: BaseException) -> str:
    """What it says, without its traceback; of an introduction (that ends with a colon) also what it ends with."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    said = f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
    return clean(said, 200).rstrip(".:")
