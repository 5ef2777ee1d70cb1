"""Gaps between tokens as they came: tokens of one read came together, and are one gap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Gaps(NamedTuple):
    """One element per read that brought tokens, but for the first of each request.

    ``seconds`` since the read before it, ``tokens`` that it brought, ``at_s`` when it came.
    """

    seconds: NDArray[np.float64]
    tokens: NDArray[np.int64]
    at_s: NDArray[np.float64]


class Arrived(NamedTuple):
    """Reads that brought tokens, of all requests, in order of request and read."""

    request: NDArray[np.int64]
    at_s: NDArray[np.float64]
    tokens: NDArray[np.int64]


def arrived(
    request: NDArray[np.int64],
    at_s: NDArray[np.float64],
    read: NDArray[np.int64],
    tokens: NDArray[np.float64],
    shows: NDArray[np.bool_],
) -> Arrived:
    """Events (in order of request and read) added up over reads.

    An event that does not say how many tokens it holds counts as one when it shows something, else as none.
    """
    counted = np.where(np.isfinite(tokens), tokens, shows.astype(np.float64)).astype(np.int64)
    if not len(request):
        return Arrived(request, at_s, counted)
    new = np.concatenate([[True], (request[1:] != request[:-1]) | (read[1:] != read[:-1])])
    places = np.flatnonzero(new)
    sums = np.add.reduceat(counted, places)
    some = sums > 0
    return Arrived(request[places][some], at_s[places][some], sums[some])


def gaps(found: Arrived) -> Gaps:
    """The time between one read and the next of the same request."""
    same = found.request[1:] == found.request[:-1]
    return Gaps(np.diff(found.at_s)[same], found.tokens[1:][same], found.at_s[1:][same])
