"""File systems that run full: a small one in memory where root may mount, and folders that vanish."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Path]:
    """``folder`` on a file system of ``kib``; the test is skipped where none can be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except OSError as error:
        pytest.skip(f"skipped: no mount ({error})")
    if done.returncode:
        pytest.skip(f"skipped: no file system can be mounted here ({done.stderr.decode().strip()[:100]})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, but: int = 0) -> None:
    """Take all room of the file system of ``folder`` but ``but`` bytes."""
    with (folder / "ballast").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - but))


@contextmanager
def when(there: Path, pattern: str, then: Callable[[], None], number: int = 1) -> Iterator[None]:
    """Call ``then`` as soon as ``there`` holds ``number`` files of ``pattern``."""
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            if len(list(there.glob(pattern))) >= number:
                then()
                return
            time.sleep(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def vanish(folder: Path) -> None:
    """Take ``folder`` away, whatever is being written into it."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
