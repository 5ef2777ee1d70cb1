"""Power per phase: energy of a window (energy.py), a phase's windows (windows.py), its figures (figures.py, idle.py),
what they say (words.py), what voids them (checks.py); power.py puts them together, recordings.py compares files."""
