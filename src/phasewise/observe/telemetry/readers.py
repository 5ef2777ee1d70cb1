"""Every reader, in the order in which they are asked. A new one is a file in this folder and a name here."""

from __future__ import annotations

from phasewise.observe.telemetry import (
    amd_smi,
    dcgm_exporter,
    dcgmi_dmon,
    nvidia_dmon,
    nvidia_smi,
    powermetrics,
    rocm_smi,
)
from phasewise.observe.telemetry.rows import Reader

READERS: tuple[Reader, ...] = (powermetrics, dcgm_exporter, dcgmi_dmon, rocm_smi, amd_smi, nvidia_dmon, nvidia_smi)
