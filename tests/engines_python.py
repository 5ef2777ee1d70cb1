"""The Python of `make engines` (torch, transformers, vLLM), with phasewise and what it needs beside them.

``PHASEWISE_ENGINES`` names another one than ``.venv-engines/bin/python``, and ``PHASEWISE_SMOLLM2`` another folder of
the small model than ``.venv-engines/smollm2``. The Python must be of the version that runs the tests: what phasewise
needs and it lacks is lent to it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_NEEDED = (
    *("msgspec", "numpy", "scipy", "httptools", "jinja2", "markupsafe", "psutil", "duckdb", "_duckdb", "typer", "rich"),
    *("click", "shellingham", "markdown_it", "mdurl", "pygments", "typing_extensions", "annotated_doc"),
)


def python() -> str:
    """Its path; skips the test where there is none."""
    path = os.environ.get("PHASEWISE_ENGINES") or str(ROOT / ".venv-engines/bin/python")
    if not os.access(path, os.X_OK):
        pytest.skip("skipped: no engines (make engines)")
    return path


def smollm2() -> str:
    """The folder of SmolLM2-135M in transformers' format; skips the test where there is none."""
    path = os.environ.get("PHASEWISE_SMOLLM2") or str(ROOT / ".venv-engines/smollm2")
    if not os.access(Path(path) / "model.safetensors", os.R_OK):
        pytest.skip("skipped: no SmolLM2 for transformers (make engines)")
    return path


def environment(lent: Path) -> dict[str, str]:
    """The environment in which ``python()`` finds phasewise; ``lent`` is an empty folder."""
    program = f"import importlib.util as u; print([n for n in {_NEEDED!r} if u.find_spec(n) is None])"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run([python(), "-c", program], capture_output=True, text=True, check=True, env=bare)
    for name in json.loads(told.stdout.replace("'", '"')):
        spec = importlib.util.find_spec(name)
        if spec is not None:
            origin = Path((spec.submodule_search_locations or [spec.origin])[0] or "")
            (lent / origin.name).symlink_to(origin)
            for about in origin.parent.glob(f"{name}-*.dist-info"):
                (lent / about.name).symlink_to(about)
    return {
        **bare,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests/mark"), str(lent))),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
