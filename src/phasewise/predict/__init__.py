"""What each phase must cost at least: napkin and counted, from the model's work and the machine's ceilings."""
