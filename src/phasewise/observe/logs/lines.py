"""From a file's bytes to blocks of whole lines; what cannot be text is refused here."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from phasewise.errors import InputError
from phasewise.observe.logs.rows import Block

SIZE = 4 << 20
"""Bytes of a block; a line may be as long."""

_PACKED = {
    b"\x28\xb5\x2f\xfd": ("packed with zstd", "unpack it with zstd -d"),
    b"\xfd7zXZ": ("packed with xz", "unpack it with xz -d"),
    b"BZh": ("packed with bzip2", "unpack it with bzip2 -d"),
    b"PK\x03\x04": ("a zip archive", "unpack it"),
    b"PAR1": ("a Parquet file", "write it as CSV"),
    b"SQLite": ("an SQLite file", "write its table as CSV"),
}
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def shown(path: Path) -> str:
    """A path as an error names it: no control characters."""
    return str(path) if str(path).isprintable() else ascii(str(path))


def blocks(path: Path, read: Callable[[int], None] = lambda _: None) -> Iterator[Block]:
    """The lines of ``path``, gzip or plain, in blocks; line ends are newlines, a byte order mark is gone.

    ``read`` is told, now and then, how many bytes of the file were read.

    Raises:
        InputError: it cannot be opened, is no text, has too long a line, or its gzip is cut short or damaged.
    """
    line = 1
    try:
        with _open(path) as raw, _unpacked(raw) as file:
            for text in _whole_lines(file):
                text = _checked(text, path) if line == 1 else text
                yield Block(line, text.replace(b"\r\n", b"\n") if b"\r" in text else text)
                line += text.count(b"\n")
                read(raw.tell() if raw.seekable() else 0)
    except _TooLong:
        raise InputError(
            f"{shown(path)} line {line:,} is longer than {SIZE >> 20} MiB: a request log has one request per line."
        ) from None
    except EOFError:
        raise InputError(f"{shown(path)} is a gzip file cut short after line {line - 1:,}: copy it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{shown(path)} is a damaged gzip file after line {line - 1:,} ({error}): copy it again."
        ) from None
    except OSError as error:
        raise InputError(f"{shown(path)} cannot be read ({error.strerror}): name a request log.") from None


def _open(path: Path) -> io.BufferedReader:
    if path.is_dir():
        raise InputError(f"{shown(path)} is a directory: name the request logs in it.")
    return path.open("rb")


def _unpacked(raw: io.BufferedReader) -> io.BufferedReader | gzip.GzipFile:
    return gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw


class _TooLong(Exception):
    """A line that no block can hold."""


def _whole_lines(file: io.BufferedReader | gzip.GzipFile) -> Iterator[bytes]:
    rest = b""
    while text := file.read(SIZE):
        end = text.rfind(b"\n") + 1
        if end:
            yield rest + text[:end]
            rest = text[end:]
        elif len(rest) + len(text) >= SIZE:
            raise _TooLong
        else:
            rest += text
    if rest:
        yield rest + b"\n"


def _checked(text: bytes, path: Path) -> bytes:
    """The first block without its byte order mark.

    Raises:
        InputError: not text, or not in an encoding whose digits are ASCII.
    """
    for magic, (what, cure) in _PACKED.items():
        if text.startswith(magic):
            raise InputError(f"{shown(path)} is {what}: {cure}.")
    if text.startswith(_UTF16_MARKS):
        raise InputError(f"{shown(path)} is written in UTF-16: save it as UTF-8.")
    if b"\0" in text[:4096]:
        raise InputError(f"{shown(path)} is not a text file: name a request log (CSV, or one JSON object per line).")
    if text.count(b"\n") == 1 and b"\r" in text.rstrip():
        raise InputError(f"{shown(path)} ends its lines with carriage returns: convert them to newlines.")
    return text.removeprefix(_UTF8_MARK)


def size(path: Path) -> int:
    """Bytes of a regular file, 0 of anything else."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
