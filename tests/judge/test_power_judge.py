"""Power per phase: planted series, published watts, and what voids a figure."""

from __future__ import annotations

from typing import Any

import pytest
from power_by_hand import series, steps

from phasewise.judge.power.power import Joined, judge
from phasewise.judge.power.recordings import beside, recording
from phasewise.judge.power.windows import Span
from phasewise.record.observation import Check
from phasewise.record.power import Power

# 3 s idle, 2 s of prefill (10 x 0.2 s, 1,000 tokens each), 1 s idle, 2 s of decode (100 tokens), 3 s idle.
PREFILL = tuple(Span("prefill", 103 + 0.2 * i, 103.2 + 0.2 * i, 1000) for i in range(10))
DECODE = (Span("decode", 106.0, 108.0, 100),)
BUSY = ((103.0, 105.0), (106.0, 108.0))
JOINED = Joined(spans=(*PREFILL, *DECODE), busy=BUSY, boundary="planted")
WATTS = steps((0, 80), (3, 640), (5, 80), (6, 250), (8, 80))
UTILISATION = steps((0, 0), (3, 1), (5, 0), (6, 1), (8, 0))


def energy(t: float) -> float:
    """Integral of WATTS by hand."""
    parts = ((0, 3, 80), (3, 5, 640), (5, 6, 80), (6, 8, 250), (8, 99, 80))
    return sum(watts * max(0.0, min(t, end) - begin) for begin, end, watts in parts)


def judged(*found: Any, joined: Joined = JOINED) -> Power:
    return judge(found, joined, provenance="measured", how="planted.")


def planted(**more: Any) -> Any:
    given: dict[str, Any] = {
        "seconds": 12,
        "watts": WATTS,
        "joules": energy,
        "utilisation": UTILISATION,
        "limit_w": 700,
        "sm_hz": 1.98e9,
        "highest": 1.98e9,
        "capped": 0.0,
        "hot": 0.0,
        "slowed": 0.0,
    } | more
    return series(**given)


def check(power: Power, name: str, phase: str) -> Check:
    (found,) = [one for one in power.checks if one.name == name and one.phase == phase]
    return found


def test_watts_and_joules_per_token_are_those_that_were_planted() -> None:
    power = judged(planted())
    prefill, decode = power.phases["prefill"], power.phases["decode"]
    assert prefill.watts.value == pytest.approx(640, rel=0.001)
    assert prefill.joules.value == pytest.approx(1280, rel=0.001)
    assert prefill.tokens == 10_000
    assert prefill.per_token is not None
    assert prefill.per_token.value == pytest.approx(0.128, rel=0.001)
    assert prefill.share is not None
    assert prefill.share.value == pytest.approx(640 / 700, rel=0.001)
    assert prefill.requests == 10
    assert decode.watts.value == pytest.approx(250, rel=0.001)
    assert decode.per_token is not None
    assert decode.per_token.value == pytest.approx(5.0, rel=0.001)
    assert decode.net_per_token is not None
    assert decode.net_per_token.value == pytest.approx((250 - 80) * 2 / 100, rel=0.001)
    assert power.idle.before is not None
    assert power.idle.before.value == pytest.approx(80)
    assert power.idle.after is not None
    assert power.idle.after.value == pytest.approx(80)


def test_the_integral_counts_where_there_is_no_counter() -> None:
    power = judged(planted(joules=None))
    # The trapezoid smears each edge over one reading: 50 ms of 2 s.
    assert power.phases["prefill"].joules.value == pytest.approx(1280, rel=0.03)
    assert power.phases["prefill"].counted is None
    assert power.phases["prefill"].joules.source == "integral of the readings"
    assert check(power, "energy_counter", "run").status == "not_checked"


def test_a_counter_and_readings_that_agree_are_told_with_their_difference() -> None:
    power = judged(planted(joules=lambda t: 1.01 * energy(t)))
    assert power.phases["decode"].joules.value == pytest.approx(1.01 * 500, rel=0.001)
    assert power.phases["decode"].differ == pytest.approx(0.01, abs=0.03)
    assert check(power, "energy_counter", "run").status == "passed"


def test_a_counter_that_is_far_off_is_not_believed_and_that_is_said() -> None:
    power = judged(planted(joules=lambda t: 1.5 * energy(t)))
    assert power.phases["decode"].joules.value == pytest.approx(500, rel=0.03)
    assert power.phases["decode"].joules.source == "integral of the readings"
    found = check(power, "energy_counter", "run")
    assert (found.status, found.voids) == ("failed", False)


def test_a_counter_set_back_in_decode_leaves_prefill_its_count() -> None:
    power = judged(planted(joules=lambda t: energy(t) if t < 7 else energy(t) - energy(7)))
    assert power.phases["prefill"].counted is not None
    assert power.phases["decode"].counted is None
    assert power.phases["decode"].joules.value == pytest.approx(500, rel=0.03)
    assert "set back" in check(power, "energy_counter", "run").detail


def test_a_counter_alone_is_enough_and_is_no_witness_of_itself() -> None:
    power = judged(planted(watts=None, kind="cpu", utilisation=None, capped=None, hot=None, slowed=None))
    assert power.phases["prefill"].joules.value == pytest.approx(1280, rel=0.001)
    assert power.phases["prefill"].differ is None
    assert check(power, "energy_counter", "run").status == "not_checked"
    assert check(power, "throttling", "prefill").status == "not_checked"


def test_several_devices_add_up_and_an_idle_one_is_left_out() -> None:
    power = judged(
        planted(),
        planted(index=1, watts=lambda t: 0.5 * WATTS(t), joules=lambda t: 0.5 * energy(t)),
        planted(index=2, watts=lambda t: 70, joules=lambda t: 70 * t, utilisation=0.0),
    )
    assert [device.index for device in power.devices] == [0, 1]
    assert power.phases["prefill"].watts.value == pytest.approx(960, rel=0.001)
    assert power.phases["prefill"].share is not None
    assert power.phases["prefill"].share.value == pytest.approx(960 / 1400, rel=0.001)
    assert power.notes == ("Devices that the run did not use are left out: 2.",)


def test_a_device_that_is_busy_all_the_time_has_no_part_in_the_run() -> None:
    other = planted(index=1, watts=lambda t: 500, joules=lambda t: 500 * t, utilisation=1.0)
    assert [device.index for device in judged(planted(), other).devices] == [0]


def test_where_no_device_was_busier_nothing_is_told() -> None:
    power = judged(planted(watts=lambda t: 80, joules=lambda t: 80 * t, utilisation=0.0))
    assert not power.phases
    assert "--offset" in power.missing["run"]


def test_readings_a_second_apart_do_not_judge_short_phases() -> None:
    power = judged(planted(every=1.0))
    assert not power.phases
    assert "shorter than 3 s" in power.missing["decode"]
    assert "-lms" in power.missing["decode"]


def smeared(t: float) -> float:
    """Mean of WATTS over the second before."""
    return (energy(t) - energy(t - 1.0)) if t >= 1 else 80.0


def test_watts_that_are_a_mean_of_a_second_count_from_a_second_after_the_begin() -> None:
    power = judged(planted(watts=smeared, joules=None, averages_s=1.0))
    assert power.phases["prefill"].watts.value == pytest.approx(640, rel=0.005)
    assert power.phases["decode"].watts.value == pytest.approx(250, rel=0.005)


def test_a_short_window_cannot_be_told_by_means_of_a_second_and_can_by_the_counter() -> None:
    spans = (Span("decode", 106.0, 107.0, 50),)
    joined = Joined(spans=spans, busy=((106.0, 107.0),), boundary="planted")
    power = judged(planted(watts=smeared, joules=None, averages_s=1.0), joined=joined)
    assert "power.draw.instant" in power.missing["decode"]
    counted = judged(planted(watts=smeared, averages_s=1.0), joined=joined).phases["decode"]
    assert counted.watts.value == pytest.approx(250, rel=0.001)
    assert counted.differ is None


def test_heat_voids_the_phase_that_it_slowed_and_no_other() -> None:
    power = judged(planted(hot=steps((0, 0), (7, 1), (8, 0))))
    found = check(power, "throttling", "decode")
    assert (found.status, found.voids) == ("failed", True)
    assert check(power, "throttling", "prefill").status == "passed"


def test_a_power_limit_that_holds_the_clock_is_named_and_voids_nothing() -> None:
    power = judged(planted(capped=steps((0, 0), (3, 1), (5, 0)), sm_hz=steps((0, 1.98e9), (3, 1.4e9), (5, 1.98e9))))
    found = check(power, "power_cap", "prefill")
    assert (found.status, found.voids) == ("failed", False)
    assert "1,400 MHz" in found.detail
    assert "power-bound" in power.phases["prefill"].text
    assert check(power, "power_cap", "decode").status == "passed"
    assert not [one for one in power.checks if one.name == "full_clock"]


def test_a_clock_that_drifts_without_a_cap_voids_the_phase() -> None:
    power = judged(planted(sm_hz=steps((0, 1.98e9), (7, 1.605e9))))
    found = check(power, "clock_drift", "decode")
    assert (found.status, found.voids) == ("failed", True)
    assert "1,980 MHz to 1,605 MHz" in found.detail


def test_a_clock_that_moves_under_the_cap_is_named_and_voids_nothing() -> None:
    power = judged(planted(sm_hz=steps((0, 1.98e9), (7, 1.605e9)), capped=steps((0, 0), (6, 1), (8, 0))))
    found = check(power, "clock_drift", "decode")
    assert (found.status, found.voids) == ("failed", False)


def test_a_clock_that_is_locked_low_is_named() -> None:
    power = judged(planted(sm_hz=1.605e9))
    found = check(power, "full_clock", "decode")
    assert (found.status, found.voids) == ("failed", False)
    assert "1,605 MHz of 1,980 MHz" in found.detail


def test_watts_that_no_card_draws_under_its_limit_void_the_phase() -> None:
    """Watts of one card beside the limit of another, or a `--limit` in the wrong unit."""
    found = check(judged(planted(limit_w=400)), "over_limit", "prefill")  # 640 W of 400 W
    assert (found.status, found.voids) == ("failed", True)
    assert "160% of its enforced limit" in found.detail
    named = [one.phase for one in judged(planted(limit_w=400)).checks if one.name == "over_limit"]
    assert named == ["prefill"]  # decode draws 250 W
    assert not [one for one in judged(planted(limit_w=600)).checks if one.name == "over_limit"]


def test_a_collective_that_spins_with_no_request_is_named() -> None:
    spinning = {"utilisation": steps((0, 0), (3, 1)), "watts": steps((0, 80), (3, 640), (5, 130), (6, 250), (8, 130))}
    power = judged(planted(joules=None, **spinning))
    found = check(power, "spin_waiting", "run")
    assert found.status == "failed"
    assert "100% utilisation" in found.detail
    assert "130 W" in found.detail


def test_a_rank_that_waits_for_the_others_is_named() -> None:
    slow = planted(index=1, watts=lambda t: 0.3 * WATTS(t), joules=lambda t: 0.3 * energy(t))
    power = judged(planted(), planted(index=2), slow)
    assert "GPU 1" in check(power, "spin_waiting", "run").detail


def test_a_request_of_any_kind_is_no_spin() -> None:
    """Utilisation trails what ran by up to a second."""
    power = judged(planted(utilisation=steps((0, 0), (3, 1), (5.9, 0), (6, 1), (8.9, 0))))
    assert not [one for one in power.checks if one.name == "spin_waiting"]


def test_a_run_that_follows_other_work_has_no_baseline() -> None:
    power = judged(planted(utilisation=steps((0, 0.5), (3, 1), (5, 0), (6, 1), (8, 0.5))))
    assert power.idle.watts is None
    assert "not idle" in power.idle.why_null
    assert power.phases["decode"].net is None


def test_an_exporter_s_values_are_as_rare_as_it_collects_them() -> None:
    held = planted(
        joules=None, meter="DCGM exporter", watts=lambda t: 100.0 + float(int(t)), utilisation=UTILISATION, every=0.5
    )
    power = judged(held)
    assert "shorter than 3 s" in power.missing["decode"]


# --- published watts ----------------------------------------------------------------------------------------------

# argonne-lcf/LLM-Inference-Bench, Plots/Fig_16_a_b/power_results.csv (BSD-3): avg_power in mW, Llama-2-7B, 1,024 tokens
# in and out; limits are the cards' 400 W (A100) and 700 W (H100).
ARGONNE = {
    ("A100 vLLM", 1): (222122.27, 400),
    ("A100 vLLM", 64): (344362.07, 400),
    ("H100 vLLM", 1): (367078.06, 700),
    ("H100 vLLM", 64): (594583.73, 700),
    ("H100 TensorRT-LLM", 64): (449306.39, 700),
}


@pytest.mark.parametrize(("row", "share"), [
    (("A100 vLLM", 1), "56"), (("A100 vLLM", 64), "86"), (("H100 vLLM", 1), "52"), (("H100 vLLM", 64), "85"),
    (("H100 TensorRT-LLM", 64), "64"),
])  # fmt: skip
def test_argonne_s_watts_are_read_as_shares_of_the_limit(row: tuple[str, int], share: str) -> None:
    milliwatts, limit = ARGONNE[row]
    one = series(
        seconds=12, watts=steps((0, 60), (2, milliwatts / 1e3), (10, 60)), limit_w=limit,
        utilisation=steps((0, 0), (2, 1), (10, 0)),
    )  # fmt: skip
    joined = Joined(spans=(Span("decode", 102.1, 109.9, 64 * 1024),), busy=((102.1, 109.9),), boundary="planted")
    power = judge([one], joined, provenance="reported", how="Argonne.")
    figures = power.phases["decode"]
    assert figures.watts.value == pytest.approx(milliwatts / 1e3, rel=0.01)
    assert figures.share is not None
    assert f"{100 * figures.share.value:.0f}" == share
    assert ("no fault" in figures.text) == (int(share) < 60)


# FerranAgulloLopez/vLLMBatchingMemoryGap, benchmarks/definitive_results/background/llama-2-7b/_N_/
# metrics_gpu_device_nvidia_smi_dom_0_server_0.csv: median watts and SM clock (MHz) of the rows with sm >= 50, once a
# second, pviol 0 throughout.
MEMORY_GAP = {1: (299, 1980), 64: (400, 1980), 96: (391, 1980), 128: (404, 1980), 192: (338, 1605)}


def test_memory_gap_s_run_at_another_clock_is_told_from_the_others() -> None:
    files = [
        recording(
            f"b{batch}.csv",
            "nvidia-smi dmon",
            [series(seconds=60, every=1.0, watts=lambda t, w=watts: w, sm_hz=clock * 1e6, utilisation=0.9, capped=0.0)],
        )
        for batch, (watts, clock) in MEMORY_GAP.items()
    ]
    found = beside(files)
    (same,) = found.checks
    assert (same.status, same.voids) == ("failed", True)
    assert "b192.csv at 1,605 MHz (-19%)" in same.detail
    assert "b128.csv" not in same.detail
    drawn = {one.name: one.power.phases["busy"].watts.value for one in found.files}
    assert drawn["b1.csv"] == pytest.approx(299)
    assert drawn["b128.csv"] == pytest.approx(404)
    for one in found.files:
        assert check(one.power, "power_cap", "run").status == "passed"


def test_files_at_one_clock_compare() -> None:
    files = [
        recording(f"{i}.csv", "x", [series(seconds=60, every=1.0, watts=lambda t: 300, sm_hz=1.98e9, utilisation=0.9)])
        for i in range(2)
    ]
    assert beside(files).checks[0].status == "passed"
