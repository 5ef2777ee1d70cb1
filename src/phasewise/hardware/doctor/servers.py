"""Servers that already listen at their usual ports of this machine. Each gets a connection and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from phasewise.hardware.doctor.system import Area, listening
from phasewise.record.doctor import Finding

line = Area("Servers")

PORTS = {8000: "vLLM, TensorRT-LLM", 30000: "SGLang", 8080: "llama.cpp", 11434: "Ollama", 1234: "LM Studio"}
"""Ports that engines take when no other is asked for, by their documentation."""


def look(root: Path) -> list[Finding]:
    """The ports that are taken, with the command that looks at who it is; then those that are free."""
    del root
    with ThreadPoolExecutor(len(PORTS)) as pool:
        taken = dict(zip(PORTS, pool.map(listening, PORTS), strict=True))
    found = [
        line(
            f"port {port}",
            f"port {port}",
            "ok",
            f"something listens, usually {PORTS[port]}: phasewise profile http://127.0.0.1:{port}",
        )
        for port, listens in taken.items()
        if listens
    ]
    free = ", ".join(f"{port} ({PORTS[port]})" for port, listens in taken.items() if not listens)
    if free:
        found.append(line("free ports", "free ports", "ok", free))
    return found
