from phasewise.jobs.in_process import judged as judged
from phasewise.mark.instrument import instrument as instrument
from phasewise.mark.phase import phase as phase

__version__: str
