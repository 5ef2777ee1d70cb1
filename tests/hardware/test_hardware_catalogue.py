"""The catalogue: figures against the table they came from, names exact, doubts shown."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.errors import UsageError
from phasewise.hardware.catalogue import accelerators, find, machine, with_overrides
from phasewise.hardware.rows import normalised
from phasewise.record.machine import Machine

SHARED = Path(__file__).parents[3] / "shared" / "data" / "hardware.csv"


def _reference() -> list[dict[str, str]]:
    if not SHARED.exists():
        pytest.skip("skipped: no shared data")
    with SHARED.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _si(cell: str, scale: float) -> float | None:
    return float(cell) * scale if cell else None


def test_every_row_of_the_reference_is_there_with_its_figures() -> None:
    rows = _reference()
    assert len(rows) == 65
    found = [find(row["name"]) for row in rows]
    assert len({one.name for one in found}) == 65 == len(accelerators())
    for row, one in zip(rows, found, strict=True):
        assert one.vendor == row["vendor"]
        assert one.memory == pytest.approx(_si(row["mem_gb_nominal"], 1e9))
        assert one.usable == pytest.approx(_si(row["mem_gib_usable"], 2**30))
        assert one.bandwidth == pytest.approx(_si(row["mem_bw_gbs"], 1e9))
        sixteen = one.peaks.get("bf16", one.peaks.get("fp16"))
        assert sixteen == pytest.approx(_si(row["bf16_tflops_dense"], 1e12)), row["name"]
        for dtype, column in (("fp8", "fp8_tflops_dense"), ("fp4", "fp4_tflops_dense"), ("int8", "int8_tops_dense")):
            assert one.peaks.get(dtype) == pytest.approx(_si(row[column], 1e12)), (row["name"], dtype)
        assert one.link_rate == pytest.approx(_si(row["interconnect_gbs_per_dir"], 1e9))
        assert one.link == row["interconnect"].replace("none", "")
        assert one.tdp == pytest.approx(_si(row["tdp_w"], 1.0))
        assert one.measured.get("bf16") == pytest.approx(_si(row["measured_bf16_tflops"], 1e12))
        assert one.measured.get("fp8") == pytest.approx(_si(row["measured_fp8_tflops"], 1e12))
        assert (one.confidence, one.source) == (row["confidence"], row["source"])
        assert bool(one.notes) or not row["notes"]


def test_only_seen_rows_are_datasheet_and_the_others_say_so() -> None:
    for row in _reference():
        made = machine(find(row["name"]))
        ceilings = made.ceilings[0]
        assert ceilings.basis == "datasheet"
        assert ceilings.bandwidth is not None
        figures = [*ceilings.compute.values(), ceilings.bandwidth]
        assert all(row["source"] in figure.source for figure in figures)
        if row["confidence"] == "seen":
            assert all(figure.provenance == "datasheet" for figure in figures), row["name"]
        else:
            assert all(figure.provenance == "assumed" for figure in figures), row["name"]
            assert any("assumed" in note for note in made.notes)


def test_published_figures_of_the_reference_case() -> None:
    h100 = machine(find("h100-sxm"), devices=8)
    ceilings = h100.ceilings[0]
    assert h100.devices == 8
    assert ceilings.compute["bf16"].value == 989e12  # per device: not times 8
    assert ceilings.compute["fp8"].value == 1978e12
    assert ceilings.bandwidth is not None
    assert ceilings.bandwidth.value == 3.35e12


def test_a_figure_that_a_seen_row_calls_unverified_is_assumed() -> None:
    made = machine(find("h800-sxm"))
    assert made.power_limit_w is not None
    assert made.power_limit_w.provenance == "assumed"
    assert made.ceilings[0].compute["bf16"].provenance == "datasheet"


def test_cards_without_bf16_have_no_bf16_peak() -> None:
    for name in ("t4", "v100-sxm2-32gb", "v100-pcie-16gb"):
        assert "bf16" not in find(name).peaks
        assert "fp16" in find(name).peaks


def test_two_dies_of_one_card_are_said() -> None:
    assert any("two dies" in note for note in machine(find("mi250")).notes)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200-sxm"),
        ("h200", "h200-sxm"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("RTX4090", "rtx-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA B300 SXM6 AC", "b300-sxm"),
        ("AMD Instinct MI300X", "mi300x"),
        ("TPU v5 lite", "tpu-v5e"),
    ],
)
def test_what_drivers_and_people_call_them(said: str, name: str) -> None:
    assert find(said).name == name


@pytest.mark.parametrize(
    "name",
    [
        # Real cards that a search by part of the name takes for another.
        "NVIDIA RTX A4000",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA H800 PCIe",
        "NVIDIA H20-3e",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "NVIDIA A10M",
        "NVIDIA L2",
        "",
        "l",
        "nvidia",
        "h100-sxm-2",
    ],
)
def test_other_cards_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a known accelerator"):
        find(name)


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("h100", {"h100-sxm", "h100-pcie", "h100-nvl"}),
        ("NVIDIA H100", {"h100-sxm", "h100-pcie", "h100-nvl"}),
        ("A100", {"a100-sxm-80gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-pcie-40gb"}),
        ("a100_80gb", {"a100-sxm-80gb", "a100-pcie-80gb"}),
        ("gh200", {"gh200-96gb", "gh200-144gb"}),
        ("m3 max", {"m3-max-40c"}),
        ("tpu-v5", {"tpu-v5e", "tpu-v5p"}),
        ("AMD Instinct MI250X/MI250", {"mi250", "mi250x"}),
    ],
)
def test_a_name_of_several_versions_is_refused_with_all_of_them(name: str, versions: set[str]) -> None:
    with pytest.raises(UsageError) as told:
        find(name)
    said = set(re.split(r"[ ,.:]+", str(told.value)))
    assert {row.name for row in accelerators()} & said == versions


def test_the_nearest_names_are_told() -> None:
    with pytest.raises(UsageError, match="h100-sxm"):
        find("h100-smx")
    with pytest.raises(UsageError, match="rtx-4090"):
        find("rtx 4080")


def test_a_hostile_name_is_told_back_short_and_harmless() -> None:
    with pytest.raises(UsageError) as told:
        find("\x1b[31m\u202eh100" + "x" * 100_000)
    said = str(told.value)
    assert said.isprintable()
    assert len(said) < 500


NAMES = [name for row in accelerators() for name in (row.name, *row.aliases)]


@given(st.sampled_from(NAMES), st.data())
def test_case_spaces_underscores_and_hyphens_do_not_count(name: str, data: st.DataObject) -> None:
    other = "".join(
        data.draw(st.sampled_from(" _-")) if c in " _-" else data.draw(st.sampled_from((c.lower(), c.upper())))
        for c in name
    )
    assert find(other) is find(name)


@given(st.sampled_from(NAMES), st.text(max_size=4), st.text(max_size=4))
def test_only_whole_names_are_found(name: str, before: str, after: str) -> None:
    asked = before + name + after
    listed = {normalised(one) for one in NAMES}
    if normalised(asked) in listed:
        assert normalised(asked) in map(normalised, (find(asked).name, *find(asked).aliases))
    else:
        with pytest.raises(UsageError):
            find(asked)


def test_a_stated_peak_goes_in_front_and_keeps_the_rest() -> None:
    plain = machine(find("h100-sxm"))
    stated = with_overrides(plain, 1e15, None)
    first = stated.ceilings[0]
    assert first.basis == "stated"
    assert {dtype: peak.value for dtype, peak in first.compute.items()} == {"bf16": 1e15, "fp8": 1e15, "int8": 1e15}
    assert (first.compute["bf16"].provenance, first.compute["bf16"].source) == ("assumed", "--peak")
    assert first.bandwidth == plain.ceilings[0].bandwidth
    assert stated.ceilings[1:] == plain.ceilings
    assert any("--peak" in note and "1.00 PFLOP/s" in note for note in stated.notes)


def test_a_stated_peak_for_one_dtype_leaves_the_others() -> None:
    first = with_overrides(machine(find("h100-sxm")), 1e15, dtype="bf16").ceilings[0]
    assert first.compute["bf16"].value == 1e15
    assert first.compute["fp8"].value == 1978e12


def test_a_machine_without_ceilings_gets_the_stated_ones_for_all_dtypes() -> None:
    stated = with_overrides(Machine(name="stated by flags", kind="unknown"), 1e12, 2e11).ceilings
    assert len(stated) == 1
    assert {"bf16", "fp16", "fp8", "fp4", "int8", "fp32"} == set(stated[0].compute)
    assert stated[0].bandwidth is not None
    assert (stated[0].bandwidth.value, stated[0].bandwidth.provenance) == (2e11, "assumed")


def test_nothing_stated_changes_nothing() -> None:
    plain = machine(find("l4"))
    assert with_overrides(plain, None, None) is plain
