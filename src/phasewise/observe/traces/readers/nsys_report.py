"""Reports of Nsight Systems (.nsys-rep, and .qdrep before it): their format is NVIDIA's own, so nsys exports them.

The export goes into a temporary folder and is read there; nothing is written beside the report.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from phasewise.engines.text import clean
from phasewise.errors import InputError
from phasewise.observe.traces.events import Fault, Trace
from phasewise.observe.traces.opened import Opened, scratch
from phasewise.observe.traces.readers import Progress, nsys_sqlite

FORM = "Nsight Systems report (.nsys-rep, read through an installed nsys)"

_MAGIC = b"NVIDIA Tegra Profiler Report"
_LONGEST_REASON = 300


def sniff(opened: Opened) -> bool:
    """A report says so in its first bytes."""
    return opened.head.startswith(_MAGIC)


def read(opened: Opened, progress: Progress) -> Trace:
    """What `nsys_sqlite` reads from nsys's export of the report.

    Raises:
        InputError: no nsys is installed (the message has the command to run where there is one), or it fails.
    """
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            f"{opened.name} is an Nsight Systems report, which only nsys opens, and there is none on the PATH: run "
            f"`{_command(opened.path)}` where it is installed and name the .sqlite file."
        )
    with scratch(opened.name) as folder, opened.on_disk("report.nsys-rep") as report:
        export = folder / "export.sqlite"
        progress("nsys export", 0.0)
        _export(nsys, report, export, opened.name)
        faults = (Fault("truncated", f"{opened.name}: {opened.truncated}."),) if opened.truncated else ()
        return nsys_sqlite.read_path(export, opened.name, progress, faults)


def _command(report: Path) -> str:
    export = report.with_suffix(".sqlite").name
    return shlex.join(["nsys", "export", "--type", "sqlite", "--output", export, report.name])


def _export(nsys: str, report: Path, export: Path, name: str) -> None:
    command = [nsys, "export", "--type", "sqlite", "--output", str(export), str(report.absolute())]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise InputError(f"{nsys} cannot be started ({error.strerror}): export {name} where it can.") from None
    if done.returncode or not export.is_file():
        said = clean((done.stdout + b" " + done.stderr).decode("utf-8", "replace")[-_LONGEST_REASON:], _LONGEST_REASON)
        raise InputError(
            f"{nsys} could not export {name} (it said: {said or 'nothing'}): a report opens with the version of nsys "
            "that wrote it, or a newer one."
        )
