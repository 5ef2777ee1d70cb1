"""NVIDIA's GPUs by NVML: driver, clocks, limits, and what would spoil a measurement.

Sources: NVML's API reference (docs.nvidia.com/deploy/nvml-api) for the calls and the meaning of the clock event
reasons; `nvidia-smi --help` for the cures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from phasewise.hardware.doctor.system import Area
from phasewise.record.doctor import Finding, Status

line = Area("NVIDIA GPUs")

_INSTALL = "pip install 'phasewise[nvidia]'"
_GIVE_CARDS = "docker run --gpus all   # in a container, where the host has such a card"

_HELD: dict[str, tuple[str, str]] = {
    "SwPowerCap": ("the power limit", "nvidia-smi -i {i} -q -d POWER   # a cap, or work at the card's own limit"),
    "SwThermalSlowdown": ("temperature, by the driver", "nvidia-smi -i {i} -q -d TEMPERATURE   # then more air"),
    "HwSlowdown": ("the hardware's slowdown", "nvidia-smi -i {i} -q -d PERFORMANCE,TEMPERATURE,POWER"),
    "HwThermalSlowdown": ("temperature, by the hardware", "nvidia-smi -i {i} -q -d TEMPERATURE   # then more air"),
    "HwPowerBrakeSlowdown": ("the power brake", "nvidia-smi -i {i} -q -d POWER   # then its power supply"),
    "SyncBoost": ("a sync boost group", "dcgmi config --get   # then take the card out of its group"),
}
"""Event reasons that hold the clocks down, by their name in NVML; idle and chosen clocks are none."""


class Answer(NamedTuple):
    """What one card says to one question."""

    key: str
    what: str
    status: Status
    detail: str
    cure: str = ""


def look(root: Path) -> list[Finding]:
    """Every NVIDIA GPU that this process may see; cards that say the same share a line."""
    try:
        import pynvml
    except ImportError:
        return [_not_asked(root)]
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [_no_driver(pynvml, error)]
    try:
        return _of_driver(pynvml)
    except pynvml.NVMLError as error:
        detail = f"it stopped answering: {_text(error)}"
        return [line("nvidia driver", "NVIDIA driver", "blocked", detail, "nvidia-smi")]
    finally:
        pynvml.nvmlShutdown()


def _not_asked(root: Path) -> Finding:
    """Without nvidia-ml-py there is no asking, but a driver that is loaded shows itself; under WSL it does not."""
    if (root / "proc/driver/nvidia").exists():
        detail = "one is loaded, but not asked: nvidia-ml-py is not installed"
        return line("nvidia driver", "NVIDIA driver", "blocked", detail, _INSTALL)
    detail = "none is seen; not asked, as nvidia-ml-py is not installed"
    return line("nvidia driver", "NVIDIA driver", "missing", detail, f"{_INSTALL}   # where there is such a card")


def _no_driver(nvml: Any, error: Any) -> Finding:
    """Why NVML did not start, by its code."""
    code = getattr(error, "value", None)
    if code == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        detail, cure = "the driver's library and kernel module differ in version", "reboot, or restart the container"
        return line("nvidia driver", "NVIDIA driver", "blocked", detail, cure)
    if code == nvml.NVML_ERROR_NO_PERMISSION:
        detail, cure = "this user may not open the driver", "ls -l /dev/nvidia*; docker run --gpus all"
        return line("nvidia driver", "NVIDIA driver", "blocked", detail, cure)
    detail = "none here" if code == nvml.NVML_ERROR_LIBRARY_NOT_FOUND else f"it did not start: {_text(error)}"
    return line("nvidia driver", "NVIDIA driver", "missing", detail, _GIVE_CARDS)


def _of_driver(nvml: Any) -> list[Finding]:
    version = _ask(nvml, nvml.nvmlSystemGetDriverVersion) or "of unknown version"
    cuda = _ask(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    known = f", CUDA {cuda // 1000}.{cuda % 1000 // 10}" if cuda else ""
    count = nvml.nvmlDeviceGetCount()
    if not count:
        return [line("nvidia driver", "NVIDIA driver", "missing", f"{_text(version)}, but no GPU", _GIVE_CARDS)]
    detail = f"{_text(version)}{known}, {count} GPU{'s' if count > 1 else ''}"
    cards = [list(_answers(nvml, nvml.nvmlDeviceGetHandleByIndex(i))) for i in range(count)]
    return [line("nvidia driver", "NVIDIA driver", "ok", detail), *_shared(cards)]


def _shared(cards: list[list[Answer]]) -> list[Finding]:
    """One line for each thing said, with the numbers of the cards that say it."""
    who: dict[Answer, list[int]] = {}
    for number, answers in enumerate(cards):
        for answer in answers:
            who.setdefault(answer, []).append(number)
    order = {key: place for place, key in enumerate(dict.fromkeys(a.key for answers in cards for a in answers))}
    said = sorted(who.items(), key=lambda item: (order[item[0].key], item[1]))
    return [
        line(answer.key, f"GPU {_numbers(numbers)} {answer.what}", answer.status, answer.detail, cure)
        for answer, numbers in said
        for cure in [answer.cure.replace("{i}", ",".join(map(str, numbers)))]
    ]


def _numbers(numbers: list[int]) -> str:
    run = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}-{numbers[-1]}" if run and len(numbers) > 1 else ",".join(map(str, numbers))


def _answers(nvml: Any, card: Any) -> Iterator[Answer]:
    name = _text(_ask(nvml, nvml.nvmlDeviceGetName, card) or "unknown NVIDIA GPU")
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, card)
    used = f", {memory.used / 2**30:.1f} of {memory.total / 2**30:.1f} GiB of memory used" if memory else ""
    yield Answer("gpu", "name", "ok", f"{name}{used}")
    questions: tuple[Callable[[Any, Any], Answer | None], ...] = (
        *(_mig, _compute_mode, _clocks, _application_clocks, _held, _limit, _persistence, _ecc, _energy),
    )
    for question in questions:
        answer = question(nvml, card)
        if answer:
            yield answer


def _mig(nvml: Any, card: Any) -> Answer | None:
    mode = _ask(nvml, nvml.nvmlDeviceGetMigMode, card)
    if mode is None:
        return None
    if mode[0] == nvml.NVML_DEVICE_MIG_ENABLE:
        detail = "on: a slice has not the card's ceilings; state its own with --peak and --bandwidth"
        return Answer("gpu mig", "MIG", "blocked", detail, "sudo nvidia-smi -i {i} -mig 0 (ends what runs there)")
    return Answer("gpu mig", "MIG", "ok", "off")


def _compute_mode(nvml: Any, card: Any) -> Answer | None:
    mode = _ask(nvml, nvml.nvmlDeviceGetComputeMode, card)
    if mode is None:
        return None
    if mode == nvml.NVML_COMPUTEMODE_PROHIBITED:
        detail = "prohibited: no CUDA program can run"
        return Answer("gpu compute mode", "compute mode", "blocked", detail, "sudo nvidia-smi -i {i} -c DEFAULT")
    if mode == nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS:
        detail = "exclusive: one process at a time, nothing beside a running server"
        return Answer("gpu compute mode", "compute mode", "ok", detail)
    return Answer("gpu compute mode", "compute mode", "ok", "default")


def _clocks(nvml: Any, card: Any) -> Answer | None:
    parts = []
    for label, kind in (("SM", nvml.NVML_CLOCK_SM), ("memory", nvml.NVML_CLOCK_MEM)):
        now = _ask(nvml, nvml.nvmlDeviceGetClockInfo, card, kind)
        most = _ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, card, kind)
        if now is not None:
            parts.append(f"{label} {now}{f' of {most}' if most else ''} MHz now")
    return Answer("gpu clocks", "clocks", "ok", ", ".join(parts)) if parts else None


def _application_clocks(nvml: Any, card: Any) -> Answer | None:
    """Clocks that somebody chose for applications, where they are not the default ones."""
    chosen = _ask(nvml, nvml.nvmlDeviceGetApplicationsClock, card, nvml.NVML_CLOCK_GRAPHICS)
    usual = _ask(nvml, nvml.nvmlDeviceGetDefaultApplicationsClock, card, nvml.NVML_CLOCK_GRAPHICS)
    if not chosen or not usual:
        return None
    if chosen < usual:
        detail = f"{chosen} MHz, under the default of {usual} MHz"
        return Answer("gpu application clocks", "application clocks", "blocked", detail, "sudo nvidia-smi -i {i} -rac")
    return Answer("gpu application clocks", "application clocks", "ok", f"{chosen} MHz, the default is {usual} MHz")


def _held(nvml: Any, card: Any) -> Answer | None:
    """What holds the clocks down right now."""
    question = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    reasons = _ask(nvml, question or nvml.nvmlDeviceGetCurrentClocksThrottleReasons, card)
    if reasons is None:
        return None
    held = [name for name in _HELD if reasons & getattr(nvml, f"nvmlClocksThrottleReason{name}")]
    if not held:
        idle = ", idle" if reasons & nvml.nvmlClocksThrottleReasonGpuIdle else ""
        return Answer("gpu throttle", "throttling", "ok", f"nothing holds the clocks down{idle}")
    detail = f"clocks are held down by {' and '.join(_HELD[name][0] for name in held)}: no comparison would hold"
    return Answer("gpu throttle", "throttling", "blocked", detail, _HELD[held[0]][1])


def _limit(nvml: Any, card: Any) -> Answer | None:
    """The enforced power limit, in watts, beside the default and the range that the card allows."""
    milliwatts = _ask(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, card)
    if milliwatts is None:
        return Answer("gpu power limit", "power limit", "missing", "the driver does not say")
    default = _ask(nvml, nvml.nvmlDeviceGetPowerManagementDefaultLimit, card)
    ends = _ask(nvml, nvml.nvmlDeviceGetPowerManagementLimitConstraints, card)
    allowed = f", {ends[0] / 1000:.0f} to {ends[1] / 1000:.0f} W allowed" if ends else ""
    usual = f" (default {default / 1000:.0f} W{allowed})" if default else ""
    detail = f"{milliwatts / 1000:.0f} W{usual}"
    if default and milliwatts < 0.99 * default:
        cure = f"sudo nvidia-smi -i {{i}} -pl {default // 1000}"
        return Answer("gpu power limit", "power limit", "blocked", f"{detail}: prefill is slower under a cap", cure)
    return Answer("gpu power limit", "power limit", "ok", detail)


def _persistence(nvml: Any, card: Any) -> Answer | None:
    mode = _ask(nvml, nvml.nvmlDeviceGetPersistenceMode, card)
    if mode is None:
        return None
    if mode == nvml.NVML_FEATURE_ENABLED:
        return Answer("gpu persistence", "persistence mode", "ok", "on")
    detail = "off: settings and clocks are lost whenever no program runs"
    return Answer("gpu persistence", "persistence mode", "missing", detail, "sudo nvidia-smi -i {i} -pm 1")


def _ecc(nvml: Any, card: Any) -> Answer | None:
    modes = _ask(nvml, nvml.nvmlDeviceGetEccMode, card)
    if modes is None:
        return None
    current, pending = ("on" if mode == nvml.NVML_FEATURE_ENABLED else "off" for mode in modes)
    later = f"; {pending} after a reboot" if pending != current else ""
    return Answer("gpu ecc", "ECC", "ok", f"{current}{later}")


def _energy(nvml: Any, card: Any) -> Answer:
    if _ask(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, card) is not None:
        return Answer("gpu energy", "energy", "ok", "by the card's counter")
    if _ask(nvml, nvml.nvmlDeviceGetPowerUsage, card) is not None:
        return Answer("gpu energy", "energy", "ok", "by sampled power; there is no counter")
    return Answer("gpu energy", "energy", "missing", "neither an energy counter nor power: no joules per token")


def _ask(nvml: Any, question: Any, *about: Any) -> Any:
    """NVML's answer; None when this card or driver has none."""
    try:
        return question(*about)
    except nvml.NVMLError:
        return None


def _text(value: Any) -> str:
    name = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return "".join(c for c in name if c.isprintable())[:80]
