"""`python -m phasewise`: the command line, where its script is not on the PATH."""

from phasewise.cli import main

if __name__ == "__main__":
    main()
