"""A simulated OpenAI-compatible server with planted, known timings.

``SimulatedServer(plan)`` runs it in a child process; ``server.serve`` in this one.
"""

from __future__ import annotations

from phasewise.engines.simulated.child import SimulatedServer
from phasewise.engines.simulated.plan import OtherLoad, Plan

__all__ = ["OtherLoad", "Plan", "SimulatedServer"]
