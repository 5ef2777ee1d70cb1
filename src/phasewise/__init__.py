"""phasewise: profile prefill and decode apart, predict each first, and name the fix."""

from __future__ import annotations

__version__ = "0.1.0"

# Loaded when first asked for; __init__.pyi tells type checkers what they are.

_LAZY = {
    "phase": "phasewise.mark.phase",
    "instrument": "phasewise.mark.instrument",
    "judged": "phasewise.jobs.in_process",
}


def __getattr__(name: str) -> object:
    """Import what the user's own code is marked with when it is first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
