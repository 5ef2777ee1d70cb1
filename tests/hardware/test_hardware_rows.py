"""The table itself: every kind of bad row is refused with its file and line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from phasewise.errors import InputError
from phasewise.hardware import rows


def _table(tmp_path: Path, *changes: dict[str, str], drop: str = "") -> Path:
    """The header, the first row, and a copy of it per item of ``changes`` (line 3, 4, ...)."""
    with rows.FILE.open(newline="") as lines:
        reader = csv.DictReader(lines)
        first, columns = next(reader), [name for name in reader.fieldnames or () if name != drop]
    file = tmp_path / "accelerators.csv"
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerow(first)
        for number, change in enumerate(changes, 2):
            own = {"name": f"card-{number}", "aliases": "", "shared_names": "", "unverified": ""}
            writer.writerow(first | own | change)
    return file


def test_a_good_table_is_read(tmp_path: Path) -> None:
    found = rows.read(_table(tmp_path, {"aliases": "Some Card; some other", "tdp_W": ""}))
    assert [row.name for row in found] == ["h100-sxm", "card-2"]
    assert found[1].aliases == ("Some Card", "some other")
    assert found[1].tdp is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bandwidth_GB/s": "-3350"}, "bandwidth"),
        ({"bandwidth_GB/s": "0"}, "bandwidth"),
        ({"bandwidth_GB/s": "nan"}, "bandwidth"),
        ({"bandwidth_GB/s": "inf"}, "bandwidth"),
        ({"bandwidth_GB/s": "fast"}, "bandwidth"),
        ({"bandwidth_GB/s": ""}, "no memory or no bandwidth"),
        ({"memory_GB": ""}, "no memory or no bandwidth"),
        ({"bf16_TFLOP/s": "", "fp8_TFLOP/s": "", "int8_TFLOP/s": ""}, "no peak"),
        ({"source": ""}, "no source"),
        ({"source": "none seen"}, "no source"),
        ({"confidence": "certain"}, "confidence"),
        ({"kind": "toaster"}, "kind"),
        ({"name": "H100 SXM"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "h100_sxm"}, "name"),
        ({"unverified": "fp4"}, "unverified"),
        ({"aliases": "H100 SXM"}, "names h100-sxm already"),
        ({"name": "h100sxm"}, "names h100-sxm already"),
        ({"name": "h100-sxm"}, "names h100-sxm already"),
        ({"aliases": "One Name; one_name"}, "names card-2 already"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, change: dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=r"^accelerators\.csv line 3.*" + told):
        rows.read(_table(tmp_path, change))


def test_no_source_is_fine_when_it_is_called_unverified(tmp_path: Path) -> None:
    assert (
        rows.read(_table(tmp_path, {"source": "none seen", "confidence": "unverified"}))[1].confidence == "unverified"
    )


def test_a_shared_name_that_is_a_rows_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="own name of h100-sxm"):
        rows.read(_table(tmp_path, {"shared_names": "h100 sxm"}))


def test_a_missing_column_and_a_short_row_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1 must name the columns"):
        rows.read(_table(tmp_path, drop="tdp_W"))
    file = _table(tmp_path)
    file.write_text(file.read_text() + "short,row\n")
    with pytest.raises(InputError, match="line 3 has 2 cells"):
        rows.read(file)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b'name,"unclosed\n'])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "accelerators.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"accelerators\.csv"):
        rows.read(file)
    with pytest.raises(InputError, match="absent"):
        rows.read(tmp_path / "absent")
