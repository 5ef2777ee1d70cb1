"""Section of a run by several workers: who they were, how well their clocks agree, which were lost."""

from __future__ import annotations

import msgspec


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, numbered as in the rows.

    Attributes:
        worker: its number.
        where: its node: address and the start of its id.
        requests: its share, of all trials; of a sweep, those that it was given.
        returned: of those, requests whose rows arrived.
        cpu_share, lag_p99_s: the worst that it saw of itself; None when it never could say.
        clock_error_s: its times, put on our clock, are off by no more.
        round_trip_s: the quickest between it and us, twice what a time can be off by at one moment.
        drift: seconds a second that our clock gains on its.
        due_error_s: its requests were due within this of the plan's time on our clock; None in a closed loop.
    """

    worker: int
    where: str
    requests: int
    returned: int
    cpu_share: float | None
    lag_p99_s: float | None
    clock_error_s: float
    round_trip_s: float
    drift: float
    due_error_s: float | None


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that fell out.

    Attributes:
        worker, where: which. trial: in which trial.
        from_s: when it was last heard of, seconds from the start of the trial.
        requests: of its share, not returned: lost with it, or never sent. Of a sweep, where a worker is given one when
            it is to be sent, only those that were in the air.
        in_flight: of those, sent and not returned when it was last heard of.
        share: part of the load that was missing from then on: of the requests due after that, or of the users.
        why: in a few words.
    """

    worker: int
    where: str
    trial: int
    from_s: float
    requests: int
    in_flight: int
    share: float
    why: str


class Crew(msgspec.Struct, frozen=True, kw_only=True):
    """All workers of a run; ``hired`` is how they were asked for."""

    hired: str
    members: tuple[Member, ...]
    lost: tuple[Lost, ...] = ()

    @property
    def nodes(self) -> int:
        """How many different ones."""
        return len({one.where for one in self.members})

    @property
    def clock_error_s(self) -> float:
        """The worst of all: two times of different workers may differ by twice as much from what they were."""
        return max(one.clock_error_s for one in self.members)

    @property
    def due_error_s(self) -> float | None:
        """The worst of all."""
        return max((one.due_error_s for one in self.members if one.due_error_s is not None), default=None)
