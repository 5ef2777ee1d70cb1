"""The user's own accelerators: found like the others, and a wrong row is refused with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.errors import InputError
from phasewise.hardware import catalogue

HEADER = "name,kind,memory_GB,bandwidth_GB/s,bf16_TFLOP/s,source,aliases,confidence"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = tmp_path / "phasewise"
    found.mkdir()
    return found


def write(folder: Path, *lines: str) -> Path:
    file = folder / "accelerators.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_a_row_is_found_by_name_and_alias_beside_the_shipped_ones(folder: Path) -> None:
    file = write(folder, HEADER, "my-card,gpu,48,1000,200,our bench,My Lab Card; mlc,seen", "", "other,npu,8,100,20,,,")
    mine, other = catalogue.find("my lab card"), catalogue.find("other")
    assert (mine.name, mine.memory, mine.bandwidth, mine.peaks) == ("my-card", 48e9, 1e12, {"bf16": 200e12})
    assert (mine.origin, other.origin) == (f"{file} line 2", f"{file} line 4")
    assert len(catalogue.accelerators()) == 67
    assert catalogue.find("h100-sxm").origin == ""
    # A row with a source that its maker has seen is a datasheet's; one without is assumed.
    made = [catalogue.machine(row).ceilings[0].compute["bf16"].provenance for row in (mine, other)]
    assert made == ["datasheet", "assumed"]
    assert other.confidence == "unverified"


def test_no_file_and_an_empty_table_add_nothing(folder: Path) -> None:
    assert len(catalogue.accelerators()) == 65
    write(folder, HEADER)
    catalogue._with.cache_clear()
    assert len(catalogue.accelerators()) == 65


def test_a_byte_order_mark_and_spaces_do_no_harm(folder: Path) -> None:
    (folder / "accelerators.csv").write_text(
        "name, kind, memory_GB, bandwidth_GB/s, bf16_TFLOP/s\nmy-card , gpu, 48, 1000, 200\n", encoding="utf-8-sig"
    )
    assert catalogue.find("my-card").memory == 48e9


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("h100-sxm,gpu,48,1000,200,x,,seen", "'h100-sxm' names h100-sxm of the catalogue"),
        ("mine,gpu,48,1000,200,x,H100_SXM,seen", "'H100_SXM' names h100-sxm of the catalogue"),
        ("mine,gpu,48,1000,200,x,h100,seen", "'h100' names h100-"),  # no short cut around "which version?"
        ("first,gpu,48,1000,200,x,,seen", "'first' names first already"),
        ("mine,gpu,0,1000,200,x,,seen", "memory"),
        ("mine,gpu,48,-1,200,x,,seen", "bandwidth"),
        ("mine,gpu,48,1e999,200,x,,seen", "bandwidth"),
        ("mine,gpu,48,nan,200,x,,seen", "bandwidth"),
        ("mine,gpu,48,1000,,x,,seen", "no peak"),
        ("mine,toaster,48,1000,200,x,,seen", "toaster"),
        ("mine,,48,1000,200,x,,seen", "kind"),
        ("My Card,gpu,48,1000,200,x,,seen", "lower case"),
        ("mine,gpu,48,1000,200,,,seen", "no source"),
        ("mine,gpu,48,1000,200,x,,certain", "certain"),
        ("mine,gpu,48,1000", "4 cells, not 8"),
        ('mine,gpu,48,1000,200,"x', "unexpected end"),
    ],
)
def test_a_wrong_row_is_refused_with_file_and_line(folder: Path, row: str, told: str) -> None:
    file = write(folder, HEADER, "first,gpu,48,1000,200,x,,seen", row)
    with pytest.raises(InputError) as caught:
        catalogue.find("h100-sxm")
    text = str(caught.value)
    assert text.startswith(str(file))
    assert told in text
    assert "line 3" in text or "unexpected end" in told
    assert "\n" not in text


@pytest.mark.parametrize(
    "header",
    [
        "",
        "name",
        "name,kind,memory,bandwidth_GB/s,bf16_TFLOP/s",
        "name,kind,memory_GB,bandwidth_W,bf16_TFLOP/s",
        "name,kind,memory_GB,bandwidth_GB/s,bf16_TFLOP/s,colour",
        "name,name,kind,memory_GB,bandwidth_GB/s,bf16_TFLOP/s",
    ],
)
def test_a_wrong_header_is_line_1(folder: Path, header: str) -> None:
    file = write(folder, header, "x" + "," * header.count(","))
    with pytest.raises(InputError) as caught:
        catalogue.accelerators()
    assert f"{file} line {2 if header == 'name' else 1}" in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00n", b"name\x00,kind\n"])
def test_bytes_that_are_no_text_are_one_sentence(folder: Path, content: bytes) -> None:
    (folder / "accelerators.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"accelerators\.csv"):
        catalogue.accelerators()


def test_a_folder_or_a_huge_file_in_its_place_is_refused(folder: Path) -> None:
    file = folder / "accelerators.csv"
    file.mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        catalogue.accelerators()
    file.rmdir()
    with file.open("wb") as out:
        out.truncate(17 * 2**20)
    with pytest.raises(InputError, match="larger than 16 MB"):
        catalogue.accelerators()


def test_a_relative_xdg_home_is_not_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / ".config" / "phasewise"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    write(home, HEADER, "my-card,gpu,48,1000,200,x,,seen")
    assert catalogue.find("my-card").name == "my-card"
