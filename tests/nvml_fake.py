"""The fake NVML for tests: planted states, and the environment of a process that shall see them.

``fake`` is tests/fakes/pynvml.py under a name of its own, so that the real pynvml stays importable beside it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

FAKES = Path(__file__).parent / "fakes"
sys.path.append(str(FAKES))  # behind the real pynvml

from nvml_state import ROW, Load, change, gpu, read, state, write  # noqa: E402

__all__ = ["ROW", "Load", "change", "environment", "fake", "gpu", "limits", "read", "state", "write"]


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fake_pynvml", FAKES / "pynvml.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fake_pynvml"] = module
    spec.loader.exec_module(module)
    return module


fake = _load()


def limits(path: Path) -> list[int]:
    """The limit of each GPU, mW."""
    return [about["limit"] for about in read(path)["gpus"]]


def environment(path: Path, **more: str) -> dict[str, str]:
    """The environment of a child process that sees ``path``'s GPUs instead of this machine's."""
    before = os.environ.get("PYTHONPATH", "")
    folders = [str(FAKES), *([before] if before else [])]
    return {**os.environ, "FAKE_NVML": str(path), "PYTHONPATH": os.pathsep.join(folders), **more}
