"""``python -m phasewise.engines.simulated``: the child of ``SimulatedServer``."""

import sys

from phasewise.engines.simulated.child import main

sys.exit(main())
