"""How the steps of each engine are marked; loaded only where the switch is on."""
