"""What is known of a server's profiler before it runs: by its pages, or by the arguments of its process here."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phasewise.engines.address import Address
from phasewise.engines.client import Client
from phasewise.errors import EngineError

_PARENTS = 3
"""Ancestors of the process that listens whose arguments may be the server's: launchers and worker processes."""

_PYTHON = r"python|pypy|pt_main_thread|ray::"
"""How processes of Python begin that do not name an engine; PyTorch and Ray rename theirs."""

_SIZES = {
    "tensor": ("tensor_parallel_size", "tp_size", "tensor-parallel-size", "tp-size", "tp"),
    "pipeline": ("pipeline_parallel_size", "pp_size", "pipeline-parallel-size", "pp-size", "pp"),
    "data": ("data_parallel_size", "dp_size", "data-parallel-size", "dp-size", "dp"),
}


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of its profiler; empty or None where nothing does.

    Attributes:
        profiler: ``torch``, ``cuda`` (a range for Nsight), ``proton``.
        folder: where it writes, on the server's disk.
        stacks: whether it records Python stacks.
        ranks: worker processes, each of which writes a file.
        local: the server's process was found on this machine.
        launcher: ``nsys`` or ``ncu`` where that started it.
        by: who said it.
    """

    profiler: str = ""
    folder: str = ""
    stacks: bool | None = None
    ranks: int | None = None
    local: bool = False
    launcher: str = ""
    by: str = ""


def stated(client: Client, root: str, engine: str) -> Stated:
    """What the server at ``client`` says, by its pages first, then by its process if that runs here.

    Raises:
        EngineError: the server is gone.
    """
    page = _by_page(client, root, engine)
    process = _by_process(client.address)
    if process is None:
        return page
    if not page.by:
        return process
    return msgspec.structs.replace(
        page,
        local=True,
        launcher=process.launcher,
        folder=page.folder or process.folder,
        profiler=page.profiler or process.profiler,
    )


def _by_page(client: Client, root: str, engine: str) -> Stated:
    if engine == "vLLM":
        path = "/server_info"  # with VLLM_SERVER_DEV_MODE=1
        config = _dict(_look(client, f"{root}{path}?config_format=json").get("vllm_config"))
        if not config:
            return Stated()
        own = _dict(config.get("profiler_config"))
        return _of_config(own, _ranks(_dict(config.get("parallel_config"))), path)
    for path in ("/get_server_info", "/server_info"):
        if found := _look(client, f"{root}{path}"):
            return Stated(profiler="torch", ranks=_ranks(found), by=path)
    return Stated(profiler="torch")


def _look(client: Client, path: str) -> dict[str, Any]:
    with contextlib.suppress(EngineError):
        return client.look(path) or {}
    return {}


def _of_config(own: dict[str, Any], ranks: int | None, by: str) -> Stated:
    """Of vLLM's ProfilerConfig, whose default for stacks is on."""
    profiler = str(own.get("profiler") or "")
    folder = str(own.get("torch_profiler_dir") or own.get("proton_profiler_dir") or "")
    stacks = bool(own.get("torch_profiler_with_stack", True)) if profiler == "torch" else None
    return Stated(profiler=profiler, folder=folder, stacks=stacks, ranks=ranks, by=by)


def _ranks(found: dict[str, Any]) -> int | None:
    """World size by its factors; None when none of them is named."""
    sizes = [next((found[key] for key in keys if key in found), None) for keys in _SIZES.values()]
    if all(size is None for size in sizes):
        return None
    product = 1
    for size in sizes:
        product *= size if isinstance(size, int) and size > 0 else 1
    return product


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _by_process(address: Address) -> Stated | None:
    """By the arguments of the process that listens at ``address``; None when it is not here or not ours to see."""
    import psutil

    if not _here(address.host):
        return None
    for process in _listening(address.port):
        with contextlib.suppress(psutil.Error, OSError):
            if not serves([process.name(), *process.cmdline()]) or not _same_files(process.pid):
                continue
            lineage = [process, *process.parents()[:_PARENTS]]
            launcher = _launcher([one.name() for one in lineage])
            for one in lineage:
                arguments = one.cmdline()
                config = profiler_config(arguments)
                if config:
                    found = _of_config(config, world(arguments), "the server's arguments")
                    folder = str(Path(one.cwd()) / Path(found.folder).expanduser()) if found.folder else ""
                    return msgspec.structs.replace(found, folder=folder, local=True, launcher=launcher)
            ranks = next((size for one in lineage if (size := world(one.cmdline()))), None)
            return Stated(ranks=ranks, local=True, launcher=launcher, by="the server's arguments")
    return None


def _here(host: str) -> bool:
    """Whether ``host`` is this machine by its loopback or an address of its own."""
    import psutil

    if host == "localhost":
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    own = {one.address.split("%")[0] for many in psutil.net_if_addrs().values() for one in many}
    return ip.is_loopback or str(ip) in own


def _listening(port: int) -> Iterator[Any]:
    """Processes that listen on ``port``, of those that we may look at."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        sockets = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN and one.pid]
        for pid in sorted({one.pid for one in sockets if one.laddr and one.laddr[1] == port and one.pid}):
            yield psutil.Process(pid)


def serves(words: Sequence[str]) -> bool:
    """Whether the process of this name and command line can be an engine itself.

    What forwards a port listens here too (docker-proxy, ssh, kubectl), with the engine and its disk somewhere else.
    """
    called = [Path(word).name for word in words[:2]]
    return world(words) is not None or any(re.match(_PYTHON, name, re.IGNORECASE) for name in called)


def _same_files(pid: int) -> bool:
    """Whether the process sees the file system that we see, which one in a container does not; True when unknown."""
    try:
        theirs, ours = os.stat(f"/proc/{pid}/root"), os.stat("/")
    except OSError:
        return True
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def _launcher(names: Sequence[str]) -> str:
    return next((tool for tool in ("nsys", "ncu") if any(name.startswith(tool) for name in names)), "")


def profiler_config(arguments: Sequence[str]) -> dict[str, Any]:
    """vLLM's ``--profiler-config`` of a command line: as JSON, or key by key."""
    found: dict[str, Any] = {}
    for name, value in _flags(arguments):
        if name == "profiler-config":
            with contextlib.suppress(ValueError):
                found |= _dict(json.loads(value))
        elif name.startswith("profiler-config."):
            key = name.removeprefix("profiler-config.").replace("-", "_")
            found[key] = {"true": True, "false": False}.get(value.lower(), value)
    return found


def world(arguments: Sequence[str]) -> int | None:
    """How many workers a command line of vLLM or SGLang asks for: one unless it says more, None for other programs."""
    if not any(re.search(r"vllm|sglang", part, re.IGNORECASE) for part in arguments[:6]):
        return None
    sizes = {}
    for name, value in _flags(arguments):
        if value.isdecimal():
            sizes[name] = int(value)
    return _ranks({"tp": 1, **sizes})


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names without dashes, in hyphens but for what follows a dot, and values of a command line."""
    for at, part in enumerate(arguments):
        if not part.startswith("-"):
            continue
        name, equals, value = part.lstrip("-").partition("=")
        if not equals:
            value = arguments[at + 1] if at + 1 < len(arguments) else ""
        head, dot, key = name.partition(".")
        yield head.replace("_", "-") + dot + key, value
