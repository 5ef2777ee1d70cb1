"""Links by name and by rate, and their latencies."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from phasewise.errors import UsageError
from phasewise.hardware import catalogue
from phasewise.predict.parallel import link
from phasewise.predict.parallel.link import NVLINK3, NVLINK4, PCIE, Kind, Latencies, Link
from phasewise.record.machine import Machine
from phasewise.record.quantity import assumed

KERNELS = Path(__file__).parents[3] / "shared" / "data" / "measured" / "kernels"


def of(name: str) -> Link | None:
    return link.of(catalogue.machine(catalogue.find(name)))


@pytest.mark.parametrize(
    ("accelerator", "rate", "latencies"),
    [
        ("h100-sxm", 450e9, NVLINK4),
        ("a100-sxm-80gb", 300e9, NVLINK3),
        ("b200-sxm", 900e9, NVLINK4),
        ("gh200-96gb", 450e9, NVLINK4),
        ("v100-sxm2-32gb", 150e9, NVLINK3),
        ("l40s", 32e9, PCIE),
        ("mi300x", 448e9, {}),
    ],
)
def test_an_accelerator_has_the_link_of_its_row(accelerator: str, rate: float, latencies: Latencies) -> None:
    found = of(accelerator)
    assert found is not None
    assert (found.rate.value, found.latencies) == (rate, latencies)


def test_what_has_no_link_has_none() -> None:
    assert of("m3-max-40c") is None
    assert link.of(Machine(name="stated by flags", kind="unknown")) is None


def test_a_stated_link_is_a_name_or_a_rate() -> None:
    assert link.stated("nvlink5").rate.value == 900e9
    own = link.stated("100 GB/s", catalogue.machine(catalogue.find("h100-sxm")))
    assert (own.name, own.rate.value, own.latencies) == ("NVLink4", 100e9, NVLINK4)
    assert link.stated("100GB/s").latencies == {}
    for wrong in ("foo", "xGMI", "UPI", "-3GB/s", "450", "1e400GB/s", ""):
        with pytest.raises(UsageError) as caught:
            link.stated(wrong)
        assert str(caught.value).count("\n") == 0


def test_latencies_lie_between_those_known_and_go_on_by_doublings() -> None:
    one = Link(name="x", rate=assumed(1.0, "B/s", ""), latencies=NVLINK3)
    assert one.latency("all-reduce", 4) == 5.18e-6
    assert one.latency("all-reduce", 3) == pytest.approx(4.88e-6 + 0.30e-6 * math.log2(1.5))
    assert one.latency("all-reduce", 16) == pytest.approx(5.68e-6 + 0.50e-6)
    assert one.latency("send", 8) == 9.06e-6
    assert one.latency("all-reduce", 1) == 0
    assert Link(name="x", rate=one.rate).latency("all-reduce", 8) == 0


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
@pytest.mark.parametrize(("machine", "latencies", "rate"), [("a100_sxm", NVLINK3, 300e9), ("h100_sxm", NVLINK4, 450e9)])
def test_constants_are_the_tables_and_never_above_what_was_measured(
    machine: str, latencies: Latencies, rate: float, kind: Kind
) -> None:
    """The medians over small messages, and latency + bytes / rate as a floor of the whole table (10% for noise)."""
    if not KERNELS.is_dir():
        pytest.skip("skipped: no shared data")
    import duckdb

    name = "custom_allreduce_perf" if kind == "all-reduce" else "nccl_perf"
    operation = "all_reduce" if kind == "all-reduce" else {"all-to-all": "alltoall"}.get(kind, kind.replace("-", "_"))
    chosen = "backend = 'vllm_graph'" if kind == "all-reduce" else "nccl_dtype = 'half'"
    file = next((KERNELS / machine).glob(f"*/{name}.parquet"))
    for devices in (2, 4, 8):
        rows = duckdb.sql(
            f"SELECT message_size, latency / 1e3 FROM '{file}' WHERE op_name = '{operation}' AND {chosen} "
            f"AND num_gpus = {devices}"
        ).fetchall()
        assert len(rows) > 10
        small = sorted(seconds for size, seconds in rows if size <= 1024)
        middle = (small[(len(small) - 1) // 2] + small[len(small) // 2]) / 2
        assert latencies[kind][devices] == pytest.approx(middle, rel=2e-3)
        sent = (2 if kind == "all-reduce" else 1) * (devices - 1) / devices * 2
        above = [(latencies[kind][devices] + sent * size / rate) / seconds for size, seconds in rows]
        assert sorted(above)[int(0.95 * len(above))] < 1.1
