"""A few requests beside the two profiles: what TTFT consists of, what a burst does, what options cost per token.

They run last and take a tenth of the budget at most, since no figure of the profiles rests on them.
"""

from __future__ import annotations

import msgspec

from phasewise.engines.base import Crowdable, Engine
from phasewise.errors import EngineError
from phasewise.isolate.probes import burst, options, ttft
from phasewise.isolate.probes.asking import Asking, Skipped
from phasewise.isolate.session import Session
from phasewise.record.observation import Phase
from phasewise.record.probes import Probes

SHARE = 0.1
"""Part of the budget that is kept for them, and the most that they take."""


def possible(engine: Engine) -> bool:
    """Whether they can be made on ``engine``."""
    return isinstance(engine, Crowdable)


def made(session: Session, phases: tuple[Phase, ...], allowance_s: float) -> Probes:
    """All that fit into ``allowance_s``; a failure of the engine ends them and not the run."""
    engine = session.engine
    assert isinstance(engine, Crowdable)
    found = Probes()
    skipped: list[str] = []
    try:
        asking = Asking(engine, session, min(allowance_s, session.left()))
    except EngineError as error:
        return Probes(skipped=(str(error),))
    try:
        if "prefill" in phases:
            with asking.skipping("TTFT was not taken apart", skipped):
                found = _with(found, ttft=ttft.measure(asking))
        with asking.skipping("requests were not sent together", skipped):
            for one in burst.measure(asking):
                found = _with(found, bursts=(*found.bursts, one))
        if "decode" in phases:
            with asking.skipping("the options of a request were not tried", skipped):
                found = _with(found, options=options.measure(asking))
    finally:
        asking.close()
    return _with(found, skipped=tuple(skipped))


def _with(found: Probes, **more: object) -> Probes:
    return msgspec.structs.replace(found, **more)


__all__ = ["SHARE", "Skipped", "made", "possible"]
