"""Telemetry files of every form that is read, as their monitors write them, and as they get damaged.

Formats: nvidia-smi's query CSV and dmon as people quote them; NVIDIA/DCGM dcgmi/DeviceMonitor.cpp and
dcgmlib/src/dcgm_fields.cpp; NVIDIA/dcgm-exporter etc/default-counters.csv; ROCm/amdsmi amdsmi_cli/amdsmi_commands.py;
ROCm/rocm_smi_lib python_smi_tools/rocm_smi.py. The files below are written by hand after them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from phasewise.errors import InputError
from phasewise.observe.telemetry.read import Placing, Recorded, own, recorded
from phasewise.observe.telemetry.times import zone


def read(tmp_path: Path, text: str | bytes) -> Recorded:
    file = tmp_path / "telemetry"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return recorded(file)


SMI = (
    "timestamp, index, uuid, name, power.draw [W], power.draw.instant [W], enforced.power.limit [W], "
    "clocks.current.sm [MHz], clocks.current.memory [MHz], temperature.gpu, utilization.gpu [%], "
    "clocks_event_reasons.active\n"
    "2026/11/30 14:30:00.250, 0, GPU-a, NVIDIA H100 80GB HBM3, 300.10 W, 431.25 W, 700.00 W, 1980 MHz, 2619 MHz, 61, "
    "99 %, 0x0000000000000004\n"
    "2026/11/30 14:30:00.250, 1, GPU-b, NVIDIA H100 80GB HBM3, 70.00 W, 71.00 W, 700.00 W, 345 MHz, 2619 MHz, 33, "
    "0 %, 0x0000000000000001\n"
    "2026/11/30 14:30:00.350, 0, GPU-a, NVIDIA H100 80GB HBM3, 300.10 W, 640.00 W, 700.00 W, 1410 MHz, 2619 MHz, 62, "
    "100 %, 0x0000000000000024\n"
)


def test_nvidia_smi_with_units_and_two_gpus(tmp_path: Path) -> None:
    found = read(tmp_path, SMI)
    assert (found.form, found.clock) == ("nvidia-smi CSV", "local")
    first, second = found.series
    assert first.watts.tolist() == [431.25, 640.0]  # instantaneous before the mean of a second
    assert first.device.watts_are == "instantaneous"
    assert (first.device.uuid, first.device.name) == ("GPU-a", "NVIDIA H100 80GB HBM3")
    assert first.sm_hz.tolist() == [1.98e9, 1.41e9]
    assert first.limit_w.tolist() == [700, 700]
    assert first.utilisation.tolist() == [0.99, 1.0]
    assert first.capped.tolist() == [1, 1]
    assert first.hot.tolist() == [0, 1]
    assert float(np.diff(first.time)[0]) == pytest.approx(0.1)
    assert (second.device.index, second.watts.tolist(), second.capped.tolist()) == (1, [71.0], [0.0])


def test_nvidia_smi_without_units_of_an_older_driver(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "timestamp, gpu_uuid, power.draw [W], clocks.sm [MHz], clocks_throttle_reasons.sw_power_cap, "
        "clocks_throttle_reasons.hw_slowdown, clocks_throttle_reasons.hw_thermal_slowdown\n"
        "2026/11/30 14:30:00.000, GPU-b, 200.5, 1410, Active, Not Active, Not Active\n"
        "2026/11/30 14:30:00.000, GPU-a, 210, 1410, Not Active, Active, [N/A]\n",
    )
    first, second = found.series
    assert (first.device.uuid, first.watts.tolist()) == ("GPU-b", [200.5])  # without an index: as they are met
    assert (first.capped.tolist(), first.slowed.tolist(), first.hot.tolist()) == ([1], [0], [0])
    assert second.slowed.tolist() == [1]
    assert np.isnan(second.hot).all()
    assert np.isnan(first.limit_w).all()


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.encode("utf-16"),
        lambda text: text + text,  # the header again, as two files put together have it
        lambda text: "Mon Nov 30 14:29:59 2026\n\n" + text,
        lambda text: text + "2026/11/30 14:30:00.450, 0, GPU-a, NVID",
        lambda text: (
            text.replace(", ", ";").replace(".", ",").replace("clocks_event_reasons,", "clocks_event_reasons.")
        ),
    ],
    ids=["crlf", "bom", "utf-16", "twice", "preamble", "cut", "spreadsheet"],
)
def test_nvidia_smi_in_other_clothes(tmp_path: Path, mangle: object) -> None:
    text = "timestamp, index, power.draw [W], clocks.sm [MHz]\n2026/11/30 14:30:00.500, 0, 431.25 W, 1980 MHz\n"
    dotted = {"power,draw": "power.draw", "clocks,sm": "clocks.sm"}
    mangled = mangle(text)  # type: ignore[operator]
    if isinstance(mangled, str):
        for wrong, right in dotted.items():
            mangled = mangled.replace(wrong, right)
    (one,) = read(tmp_path, mangled).series
    assert set(one.watts.tolist()) == {431.25}
    assert set(one.sm_hz.tolist()) == {1.98e9}


def test_what_is_no_number_is_none(tmp_path: Path) -> None:
    rows = ["[N/A]", "ERR!", "[Unknown Error]", "[GPU requires reset]", "N/A", "", "nan", "inf W", "300 W"]
    text = "timestamp, index, power.draw [W], temperature.gpu\n" + "".join(
        f"2026/11/30 14:30:0{i}.000, 0, {value}, 50\n" for i, value in enumerate(rows)
    )
    (one,) = read(tmp_path, text).series
    assert len(one.time) == len(rows)
    assert np.isnan(one.watts[:-1]).all()
    assert one.watts[-1] == 300


def test_damaged_rows_are_counted_and_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, SMI + "2026/11/30 14:30:00.4\n, , ,\n")
    assert "2 of 5 rows are cut off or damaged" in found.notes[0]


DMON = (
    "#Date        Time         gpu    pwr  gtemp  mtemp     sm    mem    jpg   mclk   pclk  pviol  tviol\n"
    "#YYYYMMDD    HH:MM:SS     Idx      W      C      C      %      %      %    MHz    MHz      %   bool\n"
    " 20261130    14:30:00       0    650     64     80     99     60      0   2619   1395     83      0\n"
    " 20261130    14:30:00       1     70     30      -      0      0      -   2619    345      0      0\n"
)


def test_dmon_with_date_and_time(tmp_path: Path) -> None:
    found = read(tmp_path, DMON)
    assert (found.form, found.clock, found.notes) == ("nvidia-smi dmon", "local", ())
    first, second = found.series
    assert first.watts.tolist() == [650]
    assert first.capped == pytest.approx([0.83])
    assert first.hot.tolist() == [0]
    assert second.sm_hz.tolist() == [3.45e8]


def test_a_header_with_other_columns_holds_from_there_on(tmp_path: Path) -> None:
    """Rows that do not fit it are no guess at their columns."""
    found = read(tmp_path, DMON + "# gpu    pwr\n# Idx      W\n" + DMON.splitlines()[2] + "\n")
    assert found.series[0].watts.tolist() == [650]
    assert "1 of 3 rows" in found.notes[0]


def test_dmon_of_an_older_driver_and_its_header_again(tmp_path: Path) -> None:
    header = (
        "# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk\n"
        "# Idx     W     C     C     %     %     %     %   MHz   MHz\n"
    )
    row = "    0   {watts}    44     -    29     5     0     0  9501  1800\n"
    found = read(tmp_path, header + row.format(watts=120) + header + row.format(watts="-") + row.format(watts=130))
    assert found.clock == "none"
    (one,) = found.series
    assert one.time.tolist() == [0, 1, 2]
    assert one.watts[[0, 2]].tolist() == [120, 130]
    assert np.isnan(one.watts[1])


def test_dmon_as_csv(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "#Date, Time, gpu, pwr, sm\n#YYYYMMDD, HH:MM:SS, Idx, W, %\n20261130, 14:30:00, 0, 500, 90\n",
    )
    assert (found.clock, found.series[0].watts.tolist()) == ("local", [500])


def test_dmon_made_a_table_with_times_of_its_own(tmp_path: Path) -> None:
    """As vLLMBatchingMemoryGap keeps it: names and units as two rows, seconds since the start."""
    found = read(
        tmp_path,
        "time,gpu,pwr,sm,mclk,pclk,pviol\ns,Idx,W,%,MHz,MHz,%\n0.129,0,107,39,1593,1605,0\n1.239,0,383,72,1593,1605,0\n",
    )
    assert (found.form, found.clock) == ("nvidia-smi dmon", "own")
    assert found.series[0].time.tolist() == [0.129, 1.239]
    assert found.series[0].sm_hz.tolist() == [1.605e9, 1.605e9]


def test_dmon_with_the_time_of_day_only(tmp_path: Path) -> None:
    found = read(tmp_path, "#Time gpu pwr\n#HH:MM:SS Idx W\n 23:59:59 0 100\n 00:00:00 0 101\n")
    assert (found.clock, found.series[0].time.tolist()) == ("day", [86399, 0])


DCGMI = (
    "#Entity         POWER              TOTEC                    SMCLK      DVCCTR\n"
    "ID              W                  mJ\n"
    "GPU 0           431.201            98123456                 1980       4\n"
    "GPU 1           N/A                N/A                      N/A        N/A\n"
    "GPU-I 0         12.000             1                        1980       0\n"
)


def test_dcgmi_dmon(tmp_path: Path) -> None:
    found = read(tmp_path, DCGMI + DCGMI.replace("98123456", "98166576"))
    assert (found.form, found.clock) == ("dcgmi dmon", "none")
    (one,) = found.series  # a GPU that says nothing is none, a slice is a part of another
    assert one.watts.tolist() == [431.201, 431.201]
    assert np.diff(one.joules).tolist() == pytest.approx([43.12])
    assert one.capped.tolist() == [1, 1]


def test_dcgmi_dmon_with_times_set_before_its_rows(tmp_path: Path) -> None:
    text = "".join(f"2026-11-30T14:30:0{i}Z {line}\n" for i, line in enumerate(DCGMI.splitlines()))
    found = read(tmp_path, text)
    assert (found.clock, len(found.series[0].time)) == ("utc", 1)


PAGE = (
    "# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n"
    "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
    'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="n"} 312.5\n'
    'DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",modelName="NVIDIA H100 80GB HBM3",pod="a}b \\"c\\""} 67.3\n'
    'DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",GPU_I_ID="3"} 9\n'
    'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a"} 196764132\n'
    'DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a"} 1980\n'
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 97\n'
    'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-c"} NaN\n'
)


def test_pages_of_a_dcgm_exporter(tmp_path: Path) -> None:
    found = read(tmp_path, f"# 2026-11-30T14:30:00Z\n{PAGE}# 2026-11-30T14:30:01Z\n{PAGE.replace('312.5', '600')}")
    assert (found.form, found.clock) == ("DCGM exporter's pages", "utc")
    first, second = found.series
    assert first.watts.tolist() == [312.5, 600]
    assert np.diff(first.time).tolist() == [1.0]
    assert first.joules.tolist() == [196764.132] * 2
    assert first.utilisation.tolist() == [0.97] * 2
    assert second.watts.tolist() == [67.3, 67.3]


def test_pages_without_times_are_told_apart_by_what_comes_again(tmp_path: Path) -> None:
    found = read(tmp_path, PAGE + PAGE)
    assert (found.clock, found.series[0].time.tolist()) == ("none", [0, 1])


def test_pages_whose_samples_carry_times(tmp_path: Path) -> None:
    found = read(tmp_path, 'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 312.5 1796049000123\n')
    assert (found.clock, found.series[0].time.tolist()) == ("utc", [1796049000.123])


def test_amd_smi_with_its_header_before_each_round(tmp_path: Path) -> None:
    header = "timestamp,gpu,power_usage,hotspot_temperature,memory_temperature,gfx,gfx_clock,mem,mem_clock\n"
    rows = "1796049000,0,612,71,58,99,2100,40,1300\n1796049000,1,N/A,N/A,N/A,N/A,N/A,N/A,N/A\n\n"
    found = read(tmp_path, header + rows + header + rows.replace("1796049000", "1796049001"))
    assert (found.form, found.clock) == ("amd-smi CSV", "utc")
    (one,) = found.series
    assert (one.watts.tolist(), one.sm_hz.tolist(), one.utilisation.tolist()) == ([612] * 2, [2.1e9] * 2, [0.99] * 2)


@pytest.mark.parametrize("kind", ["Average Graphics Package", "Current Socket Graphics Package"])
def test_rocm_smi_in_a_loop(tmp_path: Path, kind: str) -> None:
    header = f"device,Temperature (Sensor junction) (C),sclk clock speed:,{kind} Power (W),GPU use (%),Card Series\n"
    rows = 'card0,64.0,(1700Mhz),431.0,98,"AMD Instinct MI250"\ncard1,64.0,(1700Mhz),N/A (Secondary die),98,x\n'
    found = read(tmp_path, f"WARNING: AMD GPU device(s) is/are in a low-power state.\n\n{header}{rows}\n{header}{rows}")
    assert (found.form, found.clock) == ("rocm-smi CSV", "none")
    one = found.series[0]
    assert (one.watts.tolist(), one.sm_hz.tolist(), one.celsius.tolist()) == ([431.0] * 2, [1.7e9] * 2, [64.0] * 2)
    assert one.device.name == "AMD Instinct MI250"
    assert np.isnan(found.series[1].watts).all()


def test_powermetrics_knows_its_zone(tmp_path: Path) -> None:
    block = (
        "*** Sampled system activity (Mon Nov 30 14:30:0{second} 2026 -0800) (200.00ms elapsed) ***\n\n"
        "CPU Power: 450 mW\nGPU Power: 17120 mW\nANE Power: 0 mW\nCombined Power (CPU + GPU + ANE): 17570 mW\n"
        "**** GPU usage ****\nGPU HW active frequency: 1398 MHz\nGPU HW active residency:  97.10% (1398 MHz: 97%)\n"
    )
    found = read(tmp_path, "Machine model: Mac15,9\n" + "".join(block.format(second=i // 5) for i in range(10)))
    assert (found.form, found.clock) == ("powermetrics", "utc")
    (one,) = found.series
    assert one.watts.tolist() == [17.57] * 10
    assert one.utilisation[0] == pytest.approx(0.971)
    assert np.diff(one.time) == pytest.approx(np.full(9, 0.2))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no telemetry that phasewise reads"),
        ("hello\nworld\n", "no telemetry that phasewise reads"),
        ("2026/11/30 14:30:00.000, 0, 300 W\n", "with its header"),
        ("timestamp, index, power.draw [W]\n", "ends after its header"),
        ("timestamp, utilization.gpu [%]\n2026/11/30 14:30:00, 5 %\n", "has no column of power: record power.draw"),
        ("timestamp, index, power.draw [W]\n2026/11/30 14:30:00, 0, [N/A]\n", "has no row with a number"),
        ("# gpu sm mem\n# Idx % %\n 0 5 5\n", "holds no power"),
        ("#Entity GPUTL\nID\nGPU 0 5\n", "holds no power"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 97\n', "shows no GPU's power"),
        ("timestamp,gpu,power_usage\n1796049000,0,N/A\n", "has no row with a number"),
        ("*** Sampled system activity (x) (200.00ms elapsed) ***\n", "holds no combined power"),
        (
            "timestamp, index, power.draw [W]\n2026/11/30 14:30:00, 0, 5 W\nlater, 0, 5 W\n",
            "rows with a time and rows without",
        ),
    ],
)
def test_a_file_that_is_no_use_says_why(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path))
    assert str(error.value).count(". ") == 0


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no text"):
        read(tmp_path, b"SQLite format 3\x00" + bytes(range(256)))
    with pytest.raises(InputError, match="no regular file"):
        recorded(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        recorded(tmp_path / "gone")


def test_no_file_of_random_bytes_is_a_traceback(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    pieces = [SMI, DCGMI, PAGE, "#Time gpu pwr\n 1:2:3 0 5\n", "timestamp,gpu,power_usage\n1796049000,0,5\n"]
    for _ in range(300):
        text = "".join(pieces[i] for i in random.integers(0, len(pieces), 2))
        data = bytearray(text.encode())
        for at in random.integers(0, len(data), 12):
            data[at] = random.integers(0, 256)
        try:
            read(tmp_path, bytes(data[: random.integers(1, len(data))]))
        except InputError:
            continue


ROWS = "".join(
    f"2026/11/30 14:30:{second:02d}.000, 0, NVIDIA H100, {300 + second}.00 W, 700.00 W\n" for second in range(30)
)
HEAD = "timestamp, index, name, power.draw.instant [W], enforced.power.limit [W]\n"


@pytest.mark.parametrize("damaged", ["[N/A]", "2026/13/45 99:30:07.000", "07.000"])
def test_a_row_whose_time_is_none_costs_that_row_only(tmp_path: Path, damaged: str) -> None:
    found = read(tmp_path, HEAD + ROWS.replace("2026/11/30 14:30:07.000", damaged))
    assert (found.clock, len(found.series[0].time)) == ("local", 29)
    assert 307.0 not in found.series[0].watts
    assert "1 of 30 rows" in found.notes[0]
    assert found.notes[0] in found.series[0].device.notes  # so that a report says it


def test_half_the_rows_without_a_time_are_no_damage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rows with a time and rows without"):
        read(tmp_path, HEAD + ROWS.replace("2026/11/30 14:30:1", "x"))


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        ("watts", "307.00 W", "-5 W"),
        ("watts", "307.00 W", "1e308 W"),
        ("watts", "307.00 W", "4294967.29 W"),
        ("limit_w", "307.00 W, 700.00 W", "307.00 W, 99999 W"),
    ],
)
def test_a_reading_that_no_device_has_is_left_out_and_told(tmp_path: Path, column: str, good: str, bad: str) -> None:
    series = read(tmp_path, HEAD + ROWS.replace(good, bad)).series[0]
    assert np.isnan(getattr(series, column)).sum() == 1
    assert any(f"1 readings of {column}" in note for note in series.device.notes)


def test_names_may_hold_a_form_feed_and_rows_a_comma_at_their_end(tmp_path: Path) -> None:
    series = read(tmp_path, HEAD + ROWS.replace("NVIDIA H100", "NVIDIA\x0c\x1cH100").replace(" W\n", " W,\n")).series[0]
    assert len(series.time) == 30


def test_amd_smi_metric_holds_lists(tmp_path: Path) -> None:
    """`amd-smi metric --csv` writes [N/A, N/A] for engines that have no utilisation, not always in quotes."""
    text = "timestamp,gpu,gfx_activity,vcn_activity,socket_power,gfx_0_clk\n" + "".join(
        f"{1796049000 + k},0,99,[N/A, N/A, N/A],{600 + k},2100\n" for k in range(3)
    )
    assert read(tmp_path, text).series[0].watts.tolist() == [600, 601, 602]


def test_decimal_commas_between_commas_are_refused_for_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row with as many fields as its header"):
        read(tmp_path, HEAD + ROWS.replace(".00 W", ",00 W"))


def test_a_file_by_itself_keeps_the_hour_that_came_twice(tmp_path: Path) -> None:
    """In Berlin 02:30 came twice on 2026-10-25: an hour apart, not at once."""
    clock = ["02:20:00", "02:40:00", "02:00:00", "02:20:00", "02:40:00", "03:00:00"]
    text = HEAD + "".join(f"2026/10/25 {at}, 0, H100, {100 + k} W, 700 W\n" for k, at in enumerate(clock))
    series = own(read(tmp_path, text), Placing(zone=zone("Europe/Berlin")))[0]
    assert np.diff(series.time).tolist() == [1200.0] * 5
    assert series.watts.tolist() == [100, 101, 102, 103, 104, 105]
