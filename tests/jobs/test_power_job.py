"""Power beside a profile, and telemetry joined to a run: against a GPU whose watts are planted by phase."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kineto_by_hand

sys.path.append(str(Path(__file__).parent.parent / "isolate"))

from power_planted import DECODE_W, IDLE_W, PREFILL_W, plant

from phasewise.errors import InputError, UsageError
from phasewise.jobs import power as jobs
from phasewise.jobs import profile as profiles
from phasewise.observe.telemetry.read import Placing
from phasewise.observe.telemetry.times import zone
from phasewise.record.power import Power
from phasewise.record.run import Run, load, save


def nothing(doing: str, done: float) -> None:
    pass


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A profile beside which power was sampled."""
    folder = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch:
        engine = plant(folder, patch)
        patch.setattr(profiles, "open_engine", lambda target, connection: engine)
        patch.setattr("phasewise.jobs.profile.what_runs", lambda *given: (None, None, "no model is known"))
        done = profiles.profile(profiles.Options(budget_s=9, max_prompt=1024, out=folder), nothing)
    assert not done.unsaved
    return done.run, done.folder


def of(run: Run) -> Power:
    assert run.power is not None
    return run.power


def test_watts_of_each_phase_are_those_that_were_planted(planted: tuple[Run, Path]) -> None:
    power = of(planted[0])
    for phase, watts in (("prefill", PREFILL_W), ("decode", DECODE_W)):
        figures = power.phases[phase]  # type: ignore[index]
        # Between two requests it idles: that part is said, and belongs to the window.
        expected = figures.busy * watts + (1 - figures.busy) * IDLE_W
        assert figures.watts.value == pytest.approx(expected, rel=0.03)
        assert figures.counted is not None
        assert figures.joules.value == pytest.approx(figures.watts.value * figures.seconds, rel=1e-6)
        assert min(figures.windows, figures.requests) >= 1
    assert power.idle.before is not None
    assert power.idle.before.value == pytest.approx(IDLE_W, rel=0.01)
    assert power.idle.after is not None
    assert power.idle.after.value == pytest.approx(IDLE_W, rel=0.01)


def test_joules_per_token_are_energy_over_the_tokens_of_the_windows(planted: tuple[Run, Path]) -> None:
    decode = of(planted[0]).phases["decode"]
    assert decode.tokens is not None
    assert decode.per_token is not None
    assert decode.per_token.value == pytest.approx(decode.joules.value / decode.tokens)
    # 8 ms a step at 260 W, and what lies between the answers.
    assert decode.per_token.value == pytest.approx(DECODE_W * 8e-3, rel=0.05)


def test_sampling_says_all_that_a_reader_must_know(planted: tuple[Run, Path]) -> None:
    power = of(planted[0])
    assert "first token" in power.boundary
    assert "50 ms" in power.how
    (device,) = power.devices
    assert device.every_s == pytest.approx(0.05, rel=0.5)
    assert power.rows == "telemetry.parquet"
    assert (planted[1] / "telemetry.parquet").exists()
    assert {check.name for check in power.checks} >= {"throttling", "power_cap", "clock_drift", "energy_counter"}
    assert planted[0].observation is not None
    assert set(power.checks) <= set(planted[0].observation.checks)


def test_the_saved_run_holds_it_and_when_its_rows_began(planted: tuple[Run, Path]) -> None:
    run = load(planted[1])
    assert run.power == planted[0].power
    assert run.envelope.zero is not None
    assert 0 < time.time() - run.envelope.zero < 600


def test_a_remote_server_s_power_is_not_this_machine_s() -> None:
    from phasewise.jobs.sampled import Beside, of_requests

    with Beside("http://10.0.0.1:8000") as beside:
        assert "--exporter" in beside.power(of_requests([], 0.0), None).missing["run"]
    with pytest.raises(UsageError, match=r"--exporter http://127.0.0.1:9/metrics: the exporter does not answer"):
        Beside("http://10.0.0.1:8000", "http://127.0.0.1:9/metrics")
    with Beside(None, wanted=False) as beside:
        assert "--no-power" in beside.power(of_requests([], 0.0), None).missing["run"]


# --- files joined to a run ----------------------------------------------------------------------------------------


def smi(
    run: Run, file: Path, *, hours: float = 0.0, every: float = 0.1, seconds: float = 40.0, lead: float = 5.0
) -> Path:
    """What nvidia-smi would have written beside ``run``, in a zone ``hours`` ahead of UTC, by the run's own bands."""
    assert run.envelope.zero is not None
    power = of(run)
    first = run.envelope.zero + _first(run, file.parent)
    lines = ["timestamp, index, power.draw.instant [W], enforced.power.limit [W], clocks.sm [MHz], utilization.gpu [%]"]
    for i in range(round(seconds / every)):
        since = i * every - lead
        phase = next((band.phase for band in power.bands if band.begin_s <= since < band.end_s), "")
        watts = {"prefill": 500, "decode": 200}.get(phase, 60)
        at = datetime.fromtimestamp(first + since, UTC) + timedelta(hours=hours)
        lines.append(
            f"{at:%Y/%m/%d %H:%M:%S}.{at.microsecond // 1000:03d}, 0, {watts} W, 700 W, 1980 MHz, {100 * bool(phase)} %"
        )
    file.write_text("\n".join(lines) + "\n")
    return file


def _first(run: Run, folder: Path) -> float:
    """When the first request of any kind was sent, seconds since the zero of the rows."""

    file = next(one for one in (folder, *folder.iterdir()) if (one / "requests.parquet").exists())
    (row,) = duckdb.sql(f"SELECT min(sent_s) FROM '{file / 'requests.parquet'}'").fetchall()
    assert row is not None
    return float(row[0])


def options(folder: Path, *files: Path, **placing: Any) -> jobs.Options:
    return jobs.Options(
        inputs=(folder,),
        telemetry=files,
        placing=Placing(**({"zone": zone("UTC")} | placing)),
        out=folder.parent / "out",
    )


def test_a_file_is_joined_to_the_phases_by_its_times(planted: tuple[Run, Path]) -> None:
    run, folder = planted
    done = jobs.power(options(folder, smi(run, folder.parent / "smi.csv")), nothing)
    figures = of(done.run).phases
    assert figures["prefill"].watts.value == pytest.approx(500, rel=0.06)
    assert figures["decode"].watts.value == pytest.approx(200, rel=0.06)
    assert figures["decode"].watts.provenance == "reported"
    assert of(done.run).idle.before is not None
    assert of(done.run).devices[0].file == "smi.csv"
    assert done.folder is not None
    assert load(done.folder).power == done.run.power
    assert load(folder).power == run.power  # the run itself stays as it was


def test_a_file_of_another_zone_says_so_with_both_ranges_and_the_shift(planted: tuple[Run, Path]) -> None:
    run, folder = planted
    file = smi(run, folder.parent / "berlin.csv", hours=1)
    with pytest.raises(UsageError, match=r"do not overlap.*UTC.*-1 h would make them meet.*--zone"):
        jobs.power(options(folder, file), nothing)
    done = jobs.power(options(folder, file, zone=zone("+01:00")), nothing)
    assert of(done.run).phases["decode"].watts.value == pytest.approx(200, rel=0.06)


def test_a_clock_that_was_behind_is_moved(planted: tuple[Run, Path]) -> None:
    run, folder = planted
    file = smi(run, folder.parent / "behind.csv", hours=-100 / 3600)
    with pytest.raises(UsageError, match="do not overlap"):
        jobs.power(options(folder, file), nothing)
    done = jobs.power(options(folder, file, offset_s=100.0), nothing)
    assert of(done.run).phases["decode"].watts.value == pytest.approx(200, rel=0.06)


def test_rare_readings_judge_nothing_and_the_exit_code_says_so(planted: tuple[Run, Path]) -> None:
    run, folder = planted
    done = jobs.power(options(folder, smi(run, folder.parent / "rare.csv", every=2.0)), nothing)
    assert done.exit_code == 3
    assert set(of(done.run).missing) == {"prefill", "decode"}


def test_devices_are_chosen_and_a_limit_is_stated(planted: tuple[Run, Path]) -> None:
    run, folder = planted
    file = smi(run, folder.parent / "one.csv")
    with pytest.raises(UsageError, match="it holds 0"):
        jobs.power(jobs.Options(inputs=(folder,), telemetry=(file,), placing=Placing(zone=UTC), gpus=(1,)), nothing)
    bare = folder.parent / "bare.csv"
    bare.write_text("\n".join(",".join(line.split(",")[:3]) for line in file.read_text().splitlines()))
    asked = options(folder, bare)
    assert of(jobs.power(asked, nothing).run).phases["decode"].share is None
    import msgspec

    stated = msgspec.structs.replace(asked, limit_w=400.0)
    share = of(jobs.power(stated, nothing).run).phases["decode"].share
    assert share is not None
    assert share.value == pytest.approx(0.5, rel=0.06)


def test_what_cannot_be_joined_is_one_sentence(planted: tuple[Run, Path], tmp_path: Path) -> None:
    run, folder = planted
    file = smi(run, folder.parent / "fine.csv")
    import msgspec

    older = tmp_path / "older"
    older.mkdir()
    save(msgspec.structs.replace(run, envelope=msgspec.structs.replace(run.envelope, zero=None), power=None), older)
    with pytest.raises(UsageError, match="make it again"):
        jobs.power(options(older, file), nothing)
    with pytest.raises(UsageError, match=r"holds no power .*--telemetry FILE"):
        jobs.power(jobs.Options(inputs=(older,)), nothing)
    other = tmp_path / "other"
    other.mkdir()
    save(msgspec.structs.replace(run, observation=None), other)
    with pytest.raises(UsageError, match="no run of phasewise profile"):
        jobs.power(options(other, file), nothing)
    bare = tmp_path / "bare"
    bare.mkdir()
    save(run, bare)
    with pytest.raises(InputError, match="is not there"):
        jobs.power(options(bare, file), nothing)
    (bare / "requests.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="holds no requests"):
        jobs.power(options(bare, file), nothing)
    duckdb.sql("SELECT 'decode' AS phase, 1.0 AS sent_at_s").write_parquet(str(bare / "requests.parquet"))
    with pytest.raises(InputError, match="is of an older phasewise, which kept less: make the run again"):
        jobs.power(options(bare, file), nothing)
    with pytest.raises(UsageError, match="one run"):
        jobs.power(jobs.Options(inputs=(folder, bare), telemetry=(file,)), nothing)


def test_a_saved_run_shows_what_was_sampled_beside_it(planted: tuple[Run, Path]) -> None:
    done = jobs.power(jobs.Options(inputs=(planted[1],)), nothing)
    assert (done.folder, done.run.power) == (None, planted[0].power)


# --- files joined to a trace --------------------------------------------------------------------------------------

BASE_S = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()


def traced(file: Path, base_ns: int) -> Path:
    """1 s of prefill steps of 128 tokens, 20 ms each, half a second of nothing, 1 s of decode steps of 4 requests."""
    kernels, bands = [], []
    for i in range(50):
        start = 10_000_000 + 20_000_000 * i
        kernels.append(("gemm_128x128", start, 19_900_000))
        bands.append(("execute_context_1(128)_generation_0(0)", start - 2_100_000, 200_000))
    for i in range(50):
        start = 1_510_000_000 + 20_000_000 * i
        kernels.append(("gemv", start, 19_900_000))
        bands.append(("execute_context_0(0)_generation_4(4)", start - 2_100_000, 200_000))
    return kineto_by_hand.write(file, kineto_by_hand.events(kernels, bands), base=base_ns)


def telemetry(file: Path) -> Path:
    lines = ["timestamp, power.draw.instant [W], enforced.power.limit [W], utilization.gpu [%]"]
    for i in range(120):
        since = 0.05 * i - 1.0
        watts = 600 if 0 <= since < 1.02 else 240 if 1.5 <= since < 2.52 else 80
        at = datetime.fromtimestamp(BASE_S + since, UTC)
        lines.append(f"{at:%Y-%m-%dT%H:%M:%S.%f}Z, {watts} W, 700 W, {100 * (watts > 80)} %")
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_trace_is_joined_by_its_steps(tmp_path: Path) -> None:
    asked = jobs.Options(
        inputs=(traced(tmp_path / "trace.json", round(BASE_S * 1e9)),),
        telemetry=(telemetry(tmp_path / "smi.csv"),),
        out=tmp_path / "runs",
    )
    figures = of(jobs.power(asked, nothing).run).phases
    assert figures["prefill"].watts.value == pytest.approx(600, rel=0.01)
    assert figures["decode"].watts.value == pytest.approx(240, rel=0.01)
    assert figures["prefill"].tokens == 50 * 128
    assert figures["decode"].tokens == 50 * 4
    assert figures["prefill"].per_token is not None
    assert figures["prefill"].per_token.value == pytest.approx(600 * 1.0 / 6400, rel=0.01)
    assert figures["decode"].requests == 50


def test_a_trace_on_a_clock_of_its_own_cannot_be_joined(tmp_path: Path) -> None:
    asked = jobs.Options(
        inputs=(traced(tmp_path / "trace.json", 0),),
        telemetry=(telemetry(tmp_path / "smi.csv"),),
        out=tmp_path / "runs",
    )
    with pytest.raises(UsageError, match="zero of its own"):
        jobs.power(asked, nothing)
