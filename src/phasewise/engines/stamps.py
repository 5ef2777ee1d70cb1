"""When bytes arrived: the kernel's receive stamp where the system gives one, our own clock where it does not.

Linux stamps each TCP segment as it comes in from the driver (SO_TIMESTAMPNS) and hands the stamp of the last segment
of a read to recvmsg. Between that moment and the read lie the wake-up of our process and whatever it was busy with; a
stamp takes both out of every timing. It is of CLOCK_REALTIME, timings are of ``time.perf_counter``: the offset between
the two is taken again and again, because the former is steered.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

import numpy as np
from numpy.typing import NDArray

SO_TIMESTAMPNS = 35
"""Of asm-generic/socket.h on 64-bit Linux; the socket module does not name it."""

ROOM = 64
"""Bytes of ancillary data that a read takes: one stamp needs 32."""

_SPEC = struct.Struct("qq")
_TRIES = 5


def enable(opened: socket.socket) -> bool:
    """Ask the kernel for receive stamps on a TCP socket; False where there are none."""
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return False
    try:
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def offset() -> int:
    """CLOCK_REALTIME minus ``perf_counter``, ns, of the quickest of a few readings."""
    best = (1 << 62, 0)
    for _ in range(_TRIES):
        before = time.perf_counter_ns()
        real = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.perf_counter_ns()
        best = min(best, (after - before, real - (before + after) // 2))
    return best[1]


def stamp(ancillary: bytes, offset_ns: int) -> int:
    """``perf_counter_ns`` of a stamp as recvmsg gave it."""
    seconds, nanoseconds = _SPEC.unpack_from(ancillary)
    return int(seconds) * 1_000_000_000 + int(nanoseconds) - offset_ns


def at(mark: bytes | int, offset_ns: int) -> int:
    """``perf_counter_ns`` of a read, given as recvmsg's stamp or as our own."""
    return mark if isinstance(mark, int) else stamp(mark, offset_ns)


def stamps(marks: list[bytes | int], offset_ns: int) -> NDArray[np.int64]:
    """``perf_counter_ns`` of some reads, each given as recvmsg's stamp or as our own."""
    try:
        both = np.frombuffer(b"".join(marks), np.int64).reshape(-1, 2)  # type: ignore[arg-type]
    except TypeError:
        return np.array([at(mark, offset_ns) for mark in marks], np.int64)
    return np.asarray(both[:, 0] * 1_000_000_000 + both[:, 1] - offset_ns, np.int64)
