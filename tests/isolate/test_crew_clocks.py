"""Clocks compared over a network that delays each way as it likes: planted offsets and drifts, and what is promised."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.isolate.crew.clocks import Clock, Trip

Delay = Callable[[], float]


class Network:
    """A clock that is ``offset`` behind ours and loses ``drift`` seconds a second, read over two ways."""

    def __init__(self, offset: float, drift: float, there: Delay, back: Delay) -> None:
        self.offset, self.drift, self._there, self._back = offset, drift, there, back

    def theirs(self, ours: float) -> float:
        return (ours - self.offset) / (1 + self.drift)

    def ours(self, theirs: float) -> float:
        return theirs * (1 + self.drift) + self.offset

    def burst(self, ours: float, trips: int) -> list[Trip]:
        found = []
        for _ in range(trips):
            read = ours + self._there()
            after = read + self._back()
            found.append(Trip(ours, self.theirs(read), after))
            ours = after
        return found


@given(
    st.floats(-1e6, 1e6),
    st.floats(-500e-6, 500e-6),
    st.floats(0, 0.05),
    st.floats(0, 0.05),
    st.integers(0, 2**32),
    st.integers(2, 40),
)
def test_no_converted_time_is_off_by_more_than_is_promised(
    offset: float, drift: float, there: float, back: float, seed: int, bursts: int
) -> None:
    """However unequal the ways are: what lies between bursts is converted as it is while a run goes on."""
    chance = random.Random(seed)
    network = Network(
        offset, drift, lambda: 1e-5 + there * chance.random() ** 4, lambda: 1e-5 + back * chance.random() ** 4
    )
    clock, off = Clock(), [0.0]
    at, begun = 1000.0, 0.0
    for number in range(bursts):
        last = number == bursts - 1
        trips = network.burst(at, 20 if number == 0 or last else 4)
        clock.add(trips, sure=last)
        now = trips[-1].after
        begun = begun or now
        at = now + chance.uniform(0.5, 2.0)
        if not last:
            # Rows that come until the next burst began up to a while ago; and what is due is due by this line as well.
            ahead = chance.uniform(now, at)
            moments = (begun, chance.uniform(begun, now), ahead)
            off += [abs(clock.ours(network.theirs(moment)) - moment) for moment in moments]
            off.append(abs(network.ours(clock.theirs(ahead)) - ahead))
    assert max(off) <= clock.error * 1.001 + 1e-6


def test_equal_ways_give_offset_and_drift() -> None:
    """Delays of 0.2 ms each way, one in four of them far more: the quickest of each burst has none of that."""
    chance = random.Random(3)

    def way() -> float:
        return 2e-4 + (chance.random() < 0.25) * chance.uniform(0, 0.02)

    network = Network(-12345.678, 80e-6, way, way)
    clock = Clock()
    for second in range(120):
        clock.add(network.burst(float(second), 4))
    assert clock.drift == pytest.approx(80e-6, abs=2e-6)
    assert clock.round_trip == pytest.approx(4e-4, abs=1e-6)
    assert clock.ours(network.theirs(60.0)) == pytest.approx(60.0, abs=2e-4)


def test_what_a_short_time_cannot_tell_is_not_believed() -> None:
    """Two bursts a second apart whose ways are unequal by 0.1 ms, this way and that: a drift of 200 ppm by itself."""
    clock = Clock()
    clock.add([Trip(0.0, 0.0001, 0.0004)])
    clock.add([Trip(1.0, 1.0003, 1.0004)])
    assert abs(clock.drift) < 10e-6
    assert clock.error == pytest.approx(
        4e-4, rel=0.05
    )  # half the trip, and the 0.2 ms by which the first line missed the second


def test_slow_bursts_between_good_ones_are_left_out_but_not_the_last() -> None:
    good, slow = [Trip(0.0, 5.0, 0.001)], [Trip(1.0, 6.2, 1.3)]
    clock = Clock()
    clock.add(good)
    clock.add(slow)
    assert clock.error == pytest.approx(0.0005)
    clock.add(slow, sure=True)
    assert clock.error > 0.1


@given(st.floats(-1e5, 1e5), st.floats(-1e-3, 1e-3), st.floats(0, 1e4))
def test_there_and_back_is_where_it_was(offset: float, drift: float, at: float) -> None:
    network = Network(offset, drift, lambda: 1e-4, lambda: 1e-4)
    clock = Clock()
    for second in (0.0, 10.0, 20.0):
        clock.add(network.burst(second, 2))
    assert clock.ours(clock.theirs(at)) == pytest.approx(at, abs=1e-6)
