"""The accelerator by the name that a trace's devices give themselves."""

from __future__ import annotations

import pytest

from phasewise.hardware.catalogue import named_by


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("NVIDIA B200", "b200-sxm"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
    ],
)
def test_the_drivers_own_name_is_enough(said: str, name: str) -> None:
    found = named_by([said] * 8, devices=8)
    assert found is not None
    assert (found.name, found.devices) == (name, 8)


@pytest.mark.parametrize(
    "said",
    [
        [],
        [""],
        ["", "NVIDIA B200"],
        ["NVIDIA B200", "NVIDIA H100 80GB HBM3"],
        ["NVIDIA A100"],
        ["NVIDIA B2000"],
        ["\x1b[31mNVIDIA B200"],
    ],
)
def test_an_empty_ambiguous_or_unknown_name_is_nobody(said: list[str]) -> None:
    assert named_by(said) is None
