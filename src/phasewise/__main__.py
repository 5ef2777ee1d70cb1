"""``python -m phasewise``: the command, where its script is not on the PATH."""

from __future__ import annotations

from phasewise.cli import main

if __name__ == "__main__":
    main()
