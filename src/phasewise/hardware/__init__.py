"""What the machine could do: catalogue, detection, measured ceilings."""
