"""What is assumed of each class of machines."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from phasewise.hardware import catalogue
from phasewise.predict.efficiency import NAMES, SHARES
from phasewise.predict.priors import ANY, class_of, classes, prior
from phasewise.record.machine import Machine


def machine(name: str) -> Machine:
    return catalogue.machine(catalogue.find(name))


def test_every_row_says_what_it_is_and_where_it_is_from() -> None:
    for one in classes().values():
        assert one.about
        for row in one.rows:
            assert row.parameter in NAMES
            assert row.source
            assert row.data
            assert row.spread > 1
            assert 0 < row.value < 1 or row.parameter not in SHARES
            assert row.value > 1 or row.parameter != "corner"
            assert 1e-9 < row.value < 0.1 or not row.parameter.endswith("_s")


def test_classes_name_accelerators_of_the_catalogue_once() -> None:
    named = [name for one in classes().values() for name in one.accelerators]
    assert len(named) == len(set(named))
    assert set(named) <= {row.name for row in catalogue.accelerators()}


def test_any_has_every_parameter() -> None:
    assert {row.parameter for row in classes()[ANY].rows} == set(NAMES)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("h100-sxm", "hbm"),
        ("a100-sxm-80gb", "hbm"),
        ("l40s", "gddr"),
        ("mi300x", "instinct"),
        ("m3-max-40c", "apple"),
        ("xeon-8480+", "cpu"),
        ("tpu-v5e", "any"),
    ],
)
def test_class_of_a_machine(name: str, found: str) -> None:
    assert class_of(machine(name)) == found


def test_a_cpu_of_any_name_is_a_cpu_and_an_unknown_gpu_is_in_no_class() -> None:
    assert class_of(msgspec.structs.replace(machine("xeon-8480+"), name="some CPU")) == "cpu"
    assert class_of(msgspec.structs.replace(machine("h100-sxm"), name="some GPU")) == ANY


def test_rows_are_averaged_and_their_difference_widens_the_spread() -> None:
    # Compute of Instinct: 0.51, 0.60 and 0.68, each with odds ×/÷ 1.4.
    odds = np.log([0.51 / 0.49, 0.60 / 0.40, 0.68 / 0.32])
    found = prior("instinct")
    middle = found.free[NAMES.index("compute")]
    assert middle == pytest.approx(odds.mean())
    assert found.spread[NAMES.index("compute")] == pytest.approx(np.hypot(np.log(1.4), odds.std()))
    assert found.efficiency.compute == pytest.approx(1 / (1 + np.exp(-middle)))


def test_what_a_class_has_no_row_for_is_an_order_of_magnitude() -> None:
    found, plain = prior("apple"), prior(ANY)
    assert found.efficiency.launch_s == pytest.approx(plain.efficiency.launch_s)
    assert found.efficiency.bandwidth != pytest.approx(plain.efficiency.bandwidth)
    assert "llama.cpp" in found.sources["bandwidth"]


def test_data_that_is_scored_can_be_left_out() -> None:
    with_, without = prior("hbm"), prior("hbm", without=("splitwise", "kernels"))
    assert not np.allclose(with_.free, without.free)
    assert "splitwise" not in " ".join(without.sources.values())
    assert "splitwise" in " ".join(with_.sources.values())
    none_left = prior("hbm", without=("",))
    assert np.allclose(none_left.free, prior(ANY).free)
