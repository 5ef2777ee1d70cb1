"""The job behind `phasewise capture --print`: how to start an engine under a profiler."""

from __future__ import annotations

from phasewise.engines.recipes import engines
from phasewise.engines.recipes import recipe as assembled
from phasewise.errors import UsageError
from phasewise.record.recipe import EngineName, Profiler, Recipe


def recipe(profiler: Profiler, engine: EngineName | None) -> Recipe:
    """The recipe of ``profiler`` for ``engine``.

    Raises:
        UsageError: no engine is named, or there is no recipe for it.
    """
    if engine is None:
        raise UsageError(f"--print {profiler} needs the engine: --engine {', '.join(engines())}.")
    return assembled(profiler, engine)
