"""One file per job: it wires stages together, and does nothing else."""
