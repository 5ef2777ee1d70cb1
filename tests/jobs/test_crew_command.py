"""`phasewise load --workers` without Ray: what is refused, and what the report says of workers."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phasewise.cli import run
from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.errors import UsageError
from phasewise.isolate.crew.on_ray import Place, place
from phasewise.jobs import crew as hiring
from phasewise.jobs import load
from phasewise.record import crew as record
from phasewise.record.run import load as read
from phasewise.record.run import save


@pytest.mark.parametrize(
    ("text", "kind", "workers"),
    [
        ("ray:local", "local", None),
        ("ray:local:4", "local", 4),
        (" ray:auto", "auto", None),
        ("ray:auto:16", "auto", 16),
        ("ray://10.0.0.5:10001", "client", None),
        ("ray://head.cluster:10001", "client", None),
        ("ray://[fd00::2]:10001", "client", None),
    ],
)
def test_places(text: str, kind: str, workers: int | None) -> None:
    assert place(text) == Place(text.strip(), kind, workers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "ray", "ray:", "ray:local:0", "ray:local:-1", "ray:local:4:5", "ray://", "ray://host", "ray://user:pw@h:1",
     "ray://h:1/x", "local", "4", "ray:local:99999", "ray://host:10001:4", "RAY:LOCAL", "ray:local\n;x", "\udcff"],
)  # fmt: skip
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(UsageError, match="ray:local:4"):
        place(text)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    assert run(["load", *arguments, "--users", "1"]) == code
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_a_place_that_is_none_is_refused_before_anything_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'slurm'" in refused(capsys, "http://127.0.0.1:9", "--workers", "slurm")


def test_a_missing_ray_names_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "ray" else found(name, *a))
    said = refused(capsys, "http://127.0.0.1:9", "--workers", "ray:local:2", "--out", str(tmp_path / "runs"))
    assert said.endswith("--workers needs Ray: pip install 'phasewise[ray]'.")
    assert not (tmp_path / "runs").exists()


@dataclasses.dataclass
class Elsewhere:
    """A worker that is never asked anything."""

    where: str
    here: bool

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        raise AssertionError(method)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_of_this_machine_alone_is_refused_to_workers_elsewhere(
    host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would look for it, and perhaps find another one, at home."""
    monkeypatch.setattr(load, "require", lambda: None)
    monkeypatch.setattr(
        hiring, "hired", lambda where: nullcontext([Elsewhere("10.0.0.1", True), Elsewhere("10.0.0.2", False)])
    )
    with SimulatedServer(Plan()) as server:
        url = server.url.replace("127.0.0.1", host)
        said = refused(capsys, url, "--workers", "ray:auto")
    assert "10.0.0.2" in said
    assert "ray:local" in said


def test_a_dry_run_says_that_workers_share_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--rate", "5", "--duration", "10s", "--workers", "ray:auto", "--dry-run", "--json")
    assert run(["load", "http://127.0.0.1:9", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "Workers (ray:auto) share it by request or user, and start together." in found["plan"]["notes"]


def member(worker: int, **given: Any) -> record.Member:
    facts: dict[str, Any] = {
        "where": f"10.0.0.{worker} (ab{worker})", "requests": 50, "returned": 50, "cpu_share": 0.2, "lag_p99_s": 1e-4,
        "clock_error_s": 3e-4, "round_trip_s": 5e-4, "drift": 1e-6, "due_error_s": 1e-4,
    }  # fmt: skip
    return record.Member(worker=worker, **(facts | given))


def reports(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    found = {}
    for form in ("text", "markdown", "html", "json"):
        assert run(["report", str(folder), "--as", form]) == 0
        found[form] = " ".join(capsys.readouterr().out.split())
    return found


def test_a_lost_worker_is_in_every_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedServer(Plan()) as server:
        arguments = ("--rate", "40", "--duration", "1s", "--answer", "3", "--warmup", "0", "--out", str(tmp_path))
        assert run(["load", server.url, *arguments]) in (0, 3)
    capsys.readouterr()
    folder = next(tmp_path.iterdir())
    sent = read(folder)
    assert sent.load is not None
    alone = reports(folder, capsys)
    lost = record.Lost(
        worker=1,
        where="10.0.0.1\x1b[31m <b>",
        trial=0,
        from_s=12.34,
        requests=40,
        in_flight=3,
        share=0.5,
        why="its <i>",
    )
    crew = record.Crew(hired="ray:auto", members=(member(0), member(1, returned=10, clock_error_s=2e-3)), lost=(lost,))
    save(msgspec.structs.replace(sent, load=msgspec.structs.replace(sent.load, crew=crew)), folder)
    found = reports(folder, capsys)
    for form in ("text", "markdown", "html"):
        assert "But from 12.3 s on 50.0% of the load was missing" in found[form]
        assert "A worker was lost, the others went on" in found[form]
        assert "40 of its requests have no row, 3 of them in the air" in found[form]
        assert "1 (lost)" in found[form]
        assert "their times are ours within 2.00 ms" in found[form]
        assert "\x1b[31m" not in found[form]
        assert "their times are ours" not in alone[form]
    assert "<i>" not in found["html"]
    document = json.loads(found["json"])
    assert document["crew"]["lost"][0]["requests"] == 40
    assert document["crew"]["members"][1]["returned"] == 10
    assert json.loads(alone["json"])["crew"] is None
