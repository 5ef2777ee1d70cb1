"""Power, energy, clocks and limits of this machine's devices: meters that read them, limits that change them."""
