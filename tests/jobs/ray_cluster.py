"""Run in a network of its own (``unshare --net``): a Ray cluster of two nodes, a load or a sweep from both.

``python ray_cluster.py FOLDER``, where FOLDER/spec.json says what to run. It leaves there what the command printed
(document.json, stderr), how it ended, when the node was killed, and the log of the simulated server: the truth.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

SIOCSIFFLAGS, IFF_UP = 0x8914, 1
NODE: dict[str, Any] = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}
COMMAND = (sys.executable, "-c", "from phasewise.cli import main; main()")


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def main(folder: Path) -> None:
    from phasewise.engines.simulated import Plan, SimulatedServer

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    loopback_up()
    from ray.cluster_utils import Cluster

    spec = json.loads((folder / "spec.json").read_text())
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    second = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    try:
        with SimulatedServer(Plan(**spec["planted"]), log=folder / "log") as server:
            arguments = [
                *COMMAND,
                spec["verb"],
                server.url,
                "--workers",
                "ray:auto",
                "--out",
                str(folder / "runs"),
                "--json",
            ]
            with (folder / "document.json").open("wb") as out, (folder / "stderr").open("wb") as err:
                child = subprocess.Popen(
                    [*arguments, *spec["arguments"]],
                    stdout=out,
                    stderr=err,
                    env={**os.environ, "RAY_ADDRESS": cluster.address},
                )
            at = None
            if spec["kill"]:
                wait_for_rows(folder / "runs", spec["after_s"])
                at = time.perf_counter()
                if spec["kill"] == "node":
                    cluster.remove_node(second)
                elif spec["kill"] == "actor":
                    os.kill(actor_of(second), signal.SIGKILL)
                else:
                    os.kill(child.pid, getattr(signal, spec["kill"]))
            code = child.wait(timeout=240)
        (folder / "ending.json").write_text(json.dumps({"code": code, "killed_at": at}))
    finally:
        cluster.shutdown()


def actor_of(node: Any) -> int:
    """The process of the worker on ``node``."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    return next(child.pid for child in raylet.children(recursive=True) if child.cmdline()[0].startswith("ray::Member"))


def wait_for_rows(runs: Path, seconds: float) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if list(runs.glob("*/rows/chunks-*.parquet")):
            time.sleep(seconds)
            return
        time.sleep(0.05)
    raise AssertionError("no rows were written")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
