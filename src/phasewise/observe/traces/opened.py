"""A trace file opened for reading: plain, gzip or one member of a zip, by its content; never written to."""

from __future__ import annotations

import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from phasewise.errors import InputError

HEAD = 1 << 16
"""Bytes of content that decide what a file is."""

BLOCK = 4 << 20
"""Bytes that are read, or unpacked, at a time."""

_BOMB_RATIO, _BOMB_FROM = 300, 256 << 20
"""A trace packs 10 to 40 times; over 300, and over 256 MiB unpacked, is a bomb. gzip itself ends at about 1,030."""

_DAMAGED = (zlib.error, zipfile.BadZipFile, EOFError)
"""What reading the member of a damaged zip raises."""

_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


def no_file(path: Path, mode: int) -> str:
    """Why what is at ``path`` and of ``mode`` is not read."""
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
        return (
            f"{path} is a pipe or a device, and a trace is read more than once: save it to a file first, and name that."
        )
    return f"{path} is no regular file: name a trace file or a folder of them."


def text(path: Path) -> str:
    """``path`` as text that any file can hold: a name may have bytes that are no UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A folder for a copy of the trace called ``name``, gone after the block.

    Raises:
        InputError: there is no place for one.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="phasewise-", ignore_cleanup_errors=True)
    except OSError as error:
        raise _no_room(name, error) from None
    with folder as path:
        yield Path(path)


def _no_room(name: str, error: OSError) -> InputError:
    why = (error.strerror or str(error)).rstrip(".")
    return InputError(f"{name} cannot be unpacked to be read ({why}): set TMPDIR to a folder with room for it.")


class Opened:
    """One file, or one member of a zip.

    Attributes:
        path: the file.
        name: what it is called in messages: its path, and the member behind a colon.
        head: its first bytes, unpacked.
        size: bytes on disk (packed), for progress.
        packed: True when ``path`` itself does not hold the content as it is.
        truncated: why its end is missing, "" when it is not; known once `blocks` has ended.
        done: packed bytes read so far.
    """

    def __init__(self, path: Path, member: str | None = None) -> None:
        self.path = path
        self.name = text(path) if member is None else f"{text(path)}:{member}"
        self.truncated = ""
        self.done = 0
        self._member = member
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                raise InputError(no_file(path, mode))
            self.size = max(path.stat().st_size, 1)
            with path.open("rb") as file:
                self._gzip = file.read(2) == _GZIP
            self.packed = self._gzip or member is not None
            self.head = b""
            for block in self.blocks(HEAD):
                self.head += block
                if len(self.head) >= HEAD:
                    break
            self.head = self.head[:HEAD]
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}): name a trace file that can.") from None

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """The content, unpacked, from its start, in blocks of about ``size`` bytes.

        A packed stream that breaks off ends early, and `truncated` says so.

        Raises:
            InputError: it unpacks to what no trace is.
        """
        self.truncated, self.done = "", 0
        with self._raw() as file:
            packed = _gunzipped(self, file, size) if self._gzip_inside(file) else self._plain(file, size)
            out = 0
            for block in packed:
                out += len(block)
                if out > _BOMB_FROM and out > _BOMB_RATIO * self.size:
                    raise InputError(f"{self.name} is a bomb: {self.size} bytes unpack to over {out >> 20} MiB.")
                yield block

    @contextmanager
    def on_disk(self, name: str) -> Iterator[Path]:
        """A file that holds the content as it is: ``path``, or a copy called ``name`` that is gone after the block."""
        if not self.packed:
            yield self.path
            return
        with scratch(self.name) as folder:
            yield self.copied(folder / name)

    def copied(self, path: Path) -> Path:
        """``path``, with the content in it.

        Raises:
            InputError: there is no room for it.
        """
        try:
            with path.open("wb") as file:
                file.writelines(self.blocks())
        except OSError as error:
            raise _no_room(self.name, error) from None
        return path

    def _plain(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        while block := self.read(file, size):
            self.done += len(block) if self._member is None else 0
            yield block

    def read(self, file: BinaryIO, size: int) -> bytes:
        """At most ``size`` bytes of ``file``; none at its end, and where a zip is damaged, which `truncated` says."""
        try:
            return file.read(size)
        except _DAMAGED as error:
            self.truncated = f"the zip breaks off or is damaged ({error})"
            return b""

    def _raw(self) -> BinaryIO:
        if self._member is None:
            return self.path.open("rb")
        try:
            with zipfile.ZipFile(self.path) as archive:
                if archive.getinfo(self._member).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise NotImplementedError("packed by another method than deflate")
                return cast(BinaryIO, archive.open(self._member))
        except (zipfile.BadZipFile, UnicodeDecodeError, KeyError, RuntimeError, NotImplementedError) as error:
            raise InputError(f"{self.name} cannot be unpacked ({error}): unpack it yourself.") from None

    def _gzip_inside(self, file: BinaryIO) -> bool:
        if self._member is None:
            return self._gzip
        try:
            return isinstance(file, zipfile.ZipExtFile) and file.peek(2)[:2] == _GZIP
        except _DAMAGED:  # reading says so
            return False


def _gunzipped(opened: Opened, file: BinaryIO, size: int) -> Iterator[bytes]:
    """Every member of a gzip stream; what follows the last and is no member is left out, as gzip does with padding."""
    inflater = zlib.decompressobj(wbits=31)
    data = b""
    while True:
        if not data:
            data = opened.read(file, min(size, BLOCK))
            opened.done += len(data)
            if not data:
                break
        try:
            block = inflater.decompress(data, size)
        except zlib.error as error:
            opened.truncated = f"the gzip stream is damaged ({error})"
            return
        data = inflater.unconsumed_tail
        if block:
            yield block
        if inflater.eof:
            data = inflater.unused_data.lstrip(b"\0") or opened.read(file, BLOCK)
            if not data.startswith(_GZIP):
                return
            inflater = zlib.decompressobj(wbits=31)
    if not inflater.eof and not opened.truncated:
        opened.truncated = "the gzip stream breaks off before its end"


def members(path: Path) -> tuple[Opened, ...]:
    """The file itself, or every member of a zip that is not a folder.

    Raises:
        InputError: unreadable, or a zip without members.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != _ZIP:
                return (Opened(path),)
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir() and info.file_size]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a trace file that can.") from None
    except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as error:
        raise InputError(f"{path} is a damaged zip ({error}): pack it again.") from None
    if not names:
        raise InputError(f"{path} is a zip without files: name a trace.")
    if len(names) > 1024:
        raise InputError(f"{path} holds {len(names)} files, which no trace does: unpack it and name the traces.")
    return tuple(Opened(path, name) for name in names)
