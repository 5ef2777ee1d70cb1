"""A simulated OpenAI-compatible server with planted, known timings."""

from __future__ import annotations

from phasewise.engines.simulated.child import SimulatedServer
from phasewise.engines.simulated.plan import OtherLoad, Plan
from phasewise.engines.simulated.server import listening, new_loop

__all__ = ["OtherLoad", "Plan", "SimulatedServer", "listening", "new_loop"]
