"""What runs where, as a saved run says: its model and its machine."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from phasewise.errors import UsageError
from phasewise.model import catalogue
from phasewise.model.load import load as load_model
from phasewise.model.model import Model
from phasewise.record.machine import Machine
from phasewise.record.run import Run, load

_FILES = ("gguf:", "hf:")


class OfRun(NamedTuple):
    """The model and the machine of a run; None where it has none."""

    model: Model | None
    machine: Machine | None


def of_run(path: Path) -> OfRun:
    """The model and the machine of the run at ``path``.

    Raises:
        UsageError: its model is known by name only, and that name is in no catalogue.
        InputError: it is no run, or the file of its model is gone.
    """
    run = load(path)
    return OfRun(_model(run, path), run.machine)


def _model(run: Run, path: Path) -> Model | None:
    if run.model is None:
        return None
    said = _flags(run.envelope.arguments)
    target = run.target.name if run.target and run.target.name.startswith(_FILES) else None
    name = said.get("--model") or target or run.model.name
    if name == run.model.name and catalogue.find(name) is None:
        raise UsageError(f"{path} does not say which file its model {name[:80]!r} is in: name it with --model.")
    return load_model(name, weights=said.get("--weights"), kv=said.get("--kv"))


def _flags(arguments: tuple[str, ...]) -> dict[str, str]:
    """Values of a command line's flags, written ``--flag value`` or ``--flag=value``."""
    said = {flag: value for flag, value in pairwise(arguments) if flag.startswith("--")}
    written = (argument.partition("=") for argument in arguments if argument.startswith("--"))
    return said | {flag: value for flag, equals, value in written if equals}
