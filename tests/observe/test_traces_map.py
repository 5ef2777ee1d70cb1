"""The package's map names every module, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from phasewise.observe import traces


def test_every_module_is_on_the_map() -> None:
    assert traces.__file__ is not None
    assert traces.__doc__ is not None
    folder = Path(traces.__file__).parent
    there = {one.stem for one in folder.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`([a-z_]+)(?:\.\w+)?`", traces.__doc__)) == there
