"""Points from CSV files, good and bad, and from runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.errors import ImpossibleMeasurement, InputError, UsageError
from phasewise.judge.calibrate import limits, points
from phasewise.record.envelope import Envelope
from phasewise.record.run import Run
from planted import decode, prefill
from planted import seen as observed

HEAD = "phase,tokens,batch,context,seconds,tp\n"


def read(folder: Path, text: str | bytes) -> tuple[points.Point, ...]:
    file = folder / "points.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return points.from_csv(file)


def test_both_phases_and_defaults(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + "prefill,512,2,,0.25,4\ndecode,,8,600,0.02,\nprefill,100,,,1e-2,\n")
    assert [(p.phase, p.tokens, p.batch, p.context, p.seconds, p.devices) for p in found] == [
        ("prefill", 512, 2, 0, 0.25, 4),
        ("decode", 1, 8, 600, 0.02, 1),
        ("prefill", 100, 1, 0, 0.01, 1),
    ]
    assert found[1].source == "points.csv, line 3"


def test_order_spaces_marks_and_other_columns_do_not_matter(tmp_path: Path) -> None:
    text = "\ufeffseconds, phase ,note, context\n\n0.02, Decode, fine, 100\n,,,\n"
    (found,) = read(tmp_path, text)
    assert (found.phase, found.context, found.seconds) == ("decode", 100, 0.02)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column 'phase'"),
        ("tokens,batch\n1,2\n", "no column 'phase'"),
        ("phase,tokens\nprefill,1\n", "no column 'seconds'"),
        (HEAD + "prefill,512,1,,nan,1\n", "line 2: seconds is 'nan'"),
        (HEAD + "prefill,512,1,,inf,1\n", "seconds is 'inf'"),
        (HEAD + "prefill,512,1,,-0.1,1\n", "seconds is '-0.1'"),
        (HEAD + "prefill,512,1,,0,1\n", "seconds is '0'"),
        (HEAD + "prefill,512,1,,,1\n", "seconds is empty"),
        (HEAD + "prefill,512,1,,0.1 s,1\n", "seconds is '0.1 s'"),
        (HEAD + "prefill,,1,,0.1,1\n", "tokens is empty"),
        (HEAD + "prefill,0,1,,0.1,1\n", "tokens is '0'"),
        (HEAD + "prefill,512,0,,0.1,1\n", "batch is '0'"),
        (HEAD + "prefill,512,1,-5,0.1,1\n", "context is '-5'"),
        (HEAD + "prefill,512,1,,0.1,1.5\n", "tp is '1.5'"),
        (HEAD + "prefill,1e30,1,,0.1,1\n", "tokens is '1e30'"),
        (HEAD + "decode,1,1,,0.1,1\n", "context is empty"),
        (HEAD + "decode,128,1,100,0.1,1\n", "tokens is 128 in a decode step"),
        (HEAD + "mixed,1,1,100,0.1,1\n", "phase is 'mixed'"),
        (HEAD + "prefill,512,1,,0.1,1,7\n", "more fields than columns"),
        (b"\xff\xfe\x00phase", "not a CSV in UTF-8"),
        (b"phase,seconds\n\x00,1\n", "phase is empty"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    said = str(caught.value)
    assert words in said
    assert said.startswith("points.csv")
    assert "\n" not in said
    assert "\x1b" not in said


def test_escapes_do_not_reach_the_terminal(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, HEAD + "\x1b[31mred\x1b]0;title\x07,1,1,1,1,1\n")
    assert "\x1b" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        points.from_csv(tmp_path / "none.csv")


@given(st.binary(max_size=300))
def test_any_bytes_are_points_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    said, found = "", ()
    try:
        found = read(tmp_path_factory.mktemp("csv"), HEAD.encode() + data)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert all(one.seconds > 0 for one in found)


def test_repeats_become_one_point_with_their_median(tmp_path: Path) -> None:
    rows = "".join(f"decode,,1,100,{took},2\n" for took in (0.030, 0.010, 0.011)) + "decode,,1,100,0.5,4\n"
    found = points.merged(read(tmp_path, HEAD + rows))
    assert [(one.devices, one.seconds, one.repeats) for one in found] == [(2, 0.011, 3), (4, 0.5, 1)]


def test_points_of_a_run() -> None:
    seen = observed(prefill(0.01, 1e-4), decode(lambda context: 0.02 + 1e-6 * context))
    envelope = Envelope(
        id="run", command="profile", arguments=(), created="", duration_s=1.0, status="complete", versions={}
    )
    found, notes = points.from_run(Run(envelope=envelope, observation=seen))
    assert notes == ()
    assert [(one.phase, one.tokens, one.context) for one in found][:2] == [("prefill", 512, 0), ("prefill", 1024, 0)]
    assert found[0].seconds == pytest.approx(0.01 + 512e-4)
    assert found[-1].seconds == pytest.approx(0.02 + 1e-6 * 2150)
    assert found[0].repeats == 5


def some(*rows: str) -> list[points.Point]:
    found = []
    for row in rows:
        phase, tokens, batch, devices = row.split()
        prefill = phase == "prefill"
        found.append(
            points.Point(
                phase="prefill" if prefill else "decode",
                tokens=float(tokens) if prefill else 1.0,
                context=0.0 if prefill else float(tokens),
                batch=float(batch),
                devices=int(devices),
                seconds=1.0,
                source="here",
            )
        )
    return found


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["prefill 512 1 1", "prefill 1024 1 1"], "No decode point"),
        (["decode 512 1 1", "decode 1024 1 1"], "No prefill point"),
        (["prefill 512 1 1", "decode 10 1 1"], "One prompt length only"),
        (
            ["decode 512 4 1", "decode 1024 4 1"],
            "One decode batch only (4): bandwidth and overhead cannot be told apart",
        ),
        (["prefill 512 1 2", "prefill 1024 1 2"], "tp 2 only"),
        (["prefill 512 1 1", "prefill 1024 1 1"], "One device only"),
        (["decode 512 1 1", "decode 1024 2 1"], "2 decode points: an 80% interval needs 4"),
    ],
)
def test_what_cannot_be_told_apart(rows: list[str], words: str) -> None:
    found = some(*rows)
    assert any(words in note for note in limits.notes(found, [0.5] * len(found)))  # type: ignore[arg-type]


def test_nothing_is_said_of_points_that_tell_everything() -> None:
    rows = [
        f"{phase} {tokens} {batch} {tp}"
        for phase in ("prefill", "decode")
        for tokens, batch, tp in ((128, 1, 1), (1024, 1, 1), (512, 8, 2), (512, 32, 2))
    ]
    assert limits.notes(some(*rows), [0.5] * 8) == ()  # type: ignore[arg-type]


def test_milliseconds_for_seconds_are_suspected() -> None:
    found = some("prefill 128 1 1", "prefill 1024 1 1")
    assert any("milliseconds" in note for note in limits.notes(found, [1e-3, 1e-3]))  # type: ignore[arg-type]


def test_too_few_and_too_fast() -> None:
    with pytest.raises(UsageError, match="at least 2"):
        limits.enough(some("prefill 512 1 1"))
    with pytest.raises(ImpossibleMeasurement, match="faster than its floor"):
        limits.possible(some("prefill 512 1 1"), [1.5])  # type: ignore[arg-type]
    limits.possible(some("prefill 512 1 1"), [0.5])  # type: ignore[arg-type]
