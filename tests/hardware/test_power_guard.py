"""The guard of the power limits: whatever ends the process that sweeps, the limits it found are back within 2 s."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nvml_fake

SRC = Path(__file__).parents[2] / "src"
FOUND = 650_000
"""The limit before: none that a driver has by default, and none of the sweep's."""

WITHIN_S = 2.0
"""The promise of the guard, not a measure of speed."""

SWEEP = """
import os, sys, time
from phasewise.hardware.power.guard import Guard
mode = sys.argv[1] if len(sys.argv) > 1 else ""
def at(stage):
    print("at", stage, flush=True)
    time.sleep(float(os.environ["PAUSE"])) if os.environ["PAUSE"] else sys.stdin.readline()
at("before the guard")
print("starting", flush=True)
with Guard() as guard:
    at("held")
    if mode == "fork" and os.fork() == 0:
        time.sleep(30)  # a child that inherited the pipe to the guard
        os._exit(0)
    for watts in (600, 400, 250):
        print(f"setting {watts}", flush=True)
        guard.set(1000 * watts)
        at(f"set {watts}")
    print("restoring", flush=True)
at(f"restored {[back.now for back in guard.restored]}")
"""


class Sweep:
    """A process that sweeps caps on the fake, in a process group of its own."""

    def __init__(self, folder: Path, *arguments: str, gpus: int = 1, pause: str = "", **faults: Any) -> None:
        self.state = folder / "nvml.json"
        cards = [nvml_fake.gpu(limit=FOUND, uuid=f"GPU-{number}") for number in range(gpus)]
        nvml_fake.write(self.state, nvml_fake.state(*cards, **faults))
        env = nvml_fake.environment(self.state, XDG_STATE_HOME=str(folder), PAUSE=pause)
        env["PYTHONPATH"] += os.pathsep + str(SRC)
        self.env = env
        self.process = subprocess.Popen(
            [sys.executable, "-c", SWEEP, *arguments],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def until(self, stage: str) -> None:
        """Let it go on to ``stage``, where it waits, or, where it does not wait, to what begins with that."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.removeprefix("at ").startswith(stage):
                return
            if line.startswith("at "):
                self.process.stdin.write("\n")
                self.process.stdin.flush()
        raise AssertionError(f"it ended before {stage!r}")

    def guard(self) -> int:
        """Process id of the guard, the only child of its own."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert len(children) == 1
        return int(children[0])

    def limits(self) -> list[int]:
        return nvml_fake.limits(self.state)

    def go_on(self) -> None:
        """Leave the stage where it waits."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def eventually(seen: Callable[[], bool], within_s: float = WITHIN_S) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if seen():
            return True
        time.sleep(0.02)
    return seen()


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def left_over(folder: Path) -> bool:
    return (folder / "phasewise" / "power-limits.json").exists()


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Callable[..., Sweep]]:
    started: list[Sweep] = []

    def start(*arguments: str, **more: Any) -> Sweep:
        started.append(Sweep(tmp_path, *arguments, **more))
        return started[-1]

    yield start
    for one in started:
        one.close()


STAGES = [
    "before the guard",
    "starting",
    "held",
    "setting 600",
    "set 600",
    "set 400",
    "set 250",
    "restoring",
    "restored",
]


def kill(sweep: Sweep) -> None:
    os.kill(sweep.process.pid, signal.SIGKILL)


def kill_group(sweep: Sweep) -> None:
    os.killpg(sweep.process.pid, signal.SIGKILL)


def term_group(sweep: Sweep) -> None:
    os.killpg(sweep.process.pid, signal.SIGTERM)


def hang_up_group(sweep: Sweep) -> None:
    os.killpg(sweep.process.pid, signal.SIGHUP)


def ctrl_c_twice(sweep: Sweep) -> None:
    os.killpg(sweep.process.pid, signal.SIGINT)
    time.sleep(0.05)
    os.killpg(sweep.process.pid, signal.SIGINT)


OTHERS = [pytest.param(end, marks=pytest.mark.slow) for end in (kill_group, hang_up_group, ctrl_c_twice)]


@pytest.mark.parametrize("end", [kill, term_group, *OTHERS], ids=lambda f: f.__name__)
@pytest.mark.parametrize("stage", STAGES)
def test_the_limit_is_back_however_the_sweep_ends(
    sweep: Callable[..., Sweep], tmp_path: Path, stage: str, end: Callable[[Sweep], None]
) -> None:
    running = sweep(gpus=2)
    running.until(stage)
    if stage.startswith("set "):
        assert running.limits() == [1000 * int(stage[4:])] * 2
    end(running)
    assert eventually(lambda: running.limits() == [FOUND, FOUND])
    assert eventually(lambda: not left_over(tmp_path))
    running.process.wait()
    assert running.limits() == [FOUND, FOUND]


@pytest.mark.parametrize("skip", [0, 1, 2, 3, 4])
def test_killed_while_the_driver_is_setting(sweep: Callable[..., Sweep], skip: int) -> None:
    """The first set is the guard's own trial, the last its restoring; each takes half a second here."""
    slow = {"sleep_s": 0.5, "skip": skip, "times": 1}
    running = sweep(nvmlDeviceSetPowerManagementLimit=slow)
    running.until(["starting", "setting 600", "setting 400", "setting 250", "restoring"][skip])
    time.sleep(0.2)
    os.kill(running.process.pid, signal.SIGKILL)
    assert eventually(lambda: running.limits() == [FOUND])
    time.sleep(0.6)
    assert running.limits() == [FOUND]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(after=st.floats(0.0, 0.5))
def test_killed_at_any_moment(tmp_path: Path, after: float) -> None:
    running = Sweep(tmp_path, pause="0.03")
    try:
        running.until("before the guard")
        time.sleep(after)
        os.kill(running.process.pid, signal.SIGKILL)
        assert eventually(lambda: running.limits() == [FOUND])
        assert eventually(lambda: not left_over(tmp_path))
        assert running.limits() == [FOUND]
    finally:
        running.close()


def test_a_child_that_inherited_the_pipe_does_not_keep_the_guard_waiting(sweep: Callable[..., Sweep]) -> None:
    running = sweep("fork")
    running.until("set 400")
    os.kill(running.process.pid, signal.SIGKILL)  # its child lives on
    assert eventually(lambda: running.limits() == [FOUND])
    os.killpg(running.process.pid, signal.SIGKILL)


def test_no_signal_but_kill_ends_the_guard(sweep: Callable[..., Sweep]) -> None:
    running = sweep()
    running.until("held")
    guard = running.guard()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(guard, number)
    running.go_on()
    running.until("set 600")
    assert not gone(guard)
    running.go_on()
    running.until("restored [650000]")
    assert eventually(lambda: gone(guard))


def test_when_only_the_guard_is_killed_the_sweep_ends_and_puts_back(
    sweep: Callable[..., Sweep], tmp_path: Path
) -> None:
    running = sweep()
    running.until("set 400")
    os.kill(running.guard(), signal.SIGKILL)
    assert eventually(lambda: running.limits() == [FOUND])
    running.go_on()
    assert running.process.wait() != 0  # GuardLost
    assert not left_over(tmp_path)


def killed_with_its_guard(sweep: Callable[..., Sweep], tmp_path: Path, **more: Any) -> Sweep:
    running = sweep(**more)
    running.until("set 250")
    guard = running.guard()
    os.kill(running.process.pid, signal.SIGSTOP)  # it may not notice that its guard is gone
    os.kill(guard, signal.SIGKILL)
    os.kill(running.process.pid, signal.SIGKILL)
    assert eventually(lambda: gone(guard))
    assert running.limits()[0] == 250_000
    assert left_over(tmp_path)
    return running


def call(running: Sweep, program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], env=running.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


RECOVER = "from phasewise.hardware.power import held; print([(b.met, b.now, b.trouble) for b in held.recover()])"


def test_when_both_are_killed_the_next_start_puts_back(sweep: Callable[..., Sweep], tmp_path: Path) -> None:
    running = killed_with_its_guard(sweep, tmp_path)
    assert call(running, RECOVER).strip() == "[(250000, 650000, '')]"
    assert running.limits() == [FOUND]
    assert not left_over(tmp_path)
    assert call(running, RECOVER).strip() == "[]"


def test_when_both_are_killed_the_next_guard_finds_what_was_there_before(
    sweep: Callable[..., Sweep], tmp_path: Path
) -> None:
    running = killed_with_its_guard(sweep, tmp_path)
    program = (
        "from phasewise.hardware.power.guard import Guard\n"
        "with Guard() as guard: print(guard.cards[0].limit, guard.recovered[0].met)"
    )
    assert call(running, program).split() == ["650000", "250000"]


def test_a_card_that_is_gone_keeps_no_other_from_being_put_back(sweep: Callable[..., Sweep], tmp_path: Path) -> None:
    running = killed_with_its_guard(sweep, tmp_path, gpus=2)
    nvml_fake.change(running.state, lambda content: content["gpus"][0].update(lost=True))
    assert "cannot be reached" in call(running, RECOVER)
    assert running.limits() == [250_000, FOUND]
    assert left_over(tmp_path)  # for the one that is gone
    nvml_fake.change(running.state, lambda content: content["gpus"][0].update(lost=False))
    call(running, RECOVER)
    assert running.limits() == [FOUND, FOUND]


def test_after_a_start_of_the_machine_what_was_found_is_told_and_nothing_set(
    sweep: Callable[..., Sweep], tmp_path: Path
) -> None:
    running = killed_with_its_guard(sweep, tmp_path)
    file = tmp_path / "phasewise" / "power-limits.json"
    content = file.read_text()
    restarted = content.replace('"boot":"', '"boot":"another-')
    file.write_text(restarted)
    told = call(running, RECOVER)
    assert "the machine has started since" in told
    assert f"-pl {FOUND / 1000:g}" in told
    assert running.limits() == [250_000]  # as the start of the machine, or somebody since, has set it
    assert not left_over(tmp_path)
    nvml_fake.change(running.state, lambda state: state["gpus"][0].update(limit=FOUND))
    file.write_text(restarted)
    assert call(running, RECOVER).strip() == "[]"
    assert not left_over(tmp_path)
    file.write_text(restarted)
    nvml_fake.change(running.state, lambda state: state["gpus"][0].update(lost=True))
    assert "cannot be reached" in call(running, RECOVER)
    assert left_over(tmp_path)  # until it can be told


def test_a_second_sweep_is_refused_and_the_first_goes_on(sweep: Callable[..., Sweep]) -> None:
    running = sweep()
    running.until("set 600")
    program = (
        "from phasewise.hardware.power.guard import Guard\n"
        "try:\n    Guard().__enter__()\nexcept Exception as error: print(type(error).__name__, error)"
    )
    assert "another sweep holds" in call(running, program)
    assert "Busy" in call(running, RECOVER.replace("print", "\ntry: print") + "\nexcept held.Busy: print('Busy')")
    assert running.limits() == [600_000]
    running.go_on()
    running.until("restored [650000]")


def enter(tmp_path: Path, *gpus: dict[str, Any], wanted: str = "None", **faults: Any) -> str:
    """What a guard says that cannot start."""
    state = tmp_path / "nvml.json"
    nvml_fake.write(state, nvml_fake.state(*gpus, **faults))
    env = nvml_fake.environment(state, XDG_STATE_HOME=str(tmp_path))
    env["PYTHONPATH"] += os.pathsep + str(SRC)
    program = (
        "from phasewise.errors import UsageError\nfrom phasewise.hardware.power.guard import Guard\n"
        f"try:\n    Guard({wanted}).__enter__()\nexcept UsageError as error: print(error)\nelse: print('held')"
    )
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert eventually(lambda: not left_over(tmp_path))  # a guard that was let go is still at it
    assert nvml_fake.limits(state) == [about["limit"] for about in gpus]
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("about", "more", "told"),
    [
        ({"mig": [1, 1]}, {}, "split by MIG"),
        ({"mig": [0, 1]}, {}, "split by MIG"),
        ({"lost": True}, {}, "does not answer"),
        ({}, {"wanted": "['3']"}, "no GPU '3'"),
        ({}, {"wanted": "['GPU-no']"}, "no GPU 'GPU-no'"),
        ({}, {"nvmlDeviceSetPowerManagementLimit": {"error": 4}}, "root only"),
        ({}, {"nvmlDeviceGetPowerManagementLimitConstraints": {"error": 3}}, "no power limit that can be set"),
        ({}, {"nvmlInit": {"error": 9}}, "no NVIDIA driver answers"),
        ({"mig": None}, {}, "held"),
        ({}, {"wanted": "['GPU-00000000-0000-0000-0000-000000000000', '0']"}, "held"),
    ],
)
def test_what_cannot_be_guarded_is_refused_in_one_sentence(
    tmp_path: Path, about: dict[str, Any], more: dict[str, Any], told: str
) -> None:
    said = enter(tmp_path, nvml_fake.gpu(**about), **more)
    assert told in said
    assert len(said.splitlines()) == 1


def test_without_a_gpu(tmp_path: Path) -> None:
    assert "shows no GPU" in enter(tmp_path)


def test_a_folder_that_cannot_be_written_means_no_change(tmp_path: Path) -> None:
    (tmp_path / "phasewise").write_text("a file, not a folder")
    assert "no limit is changed without it" in enter(tmp_path, nvml_fake.gpu())


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "phasewise").mkdir()
    (tmp_path / "phasewise" / "power-limits.json").write_text("{")
    state = tmp_path / "nvml.json"
    nvml_fake.write(state, nvml_fake.state(nvml_fake.gpu()))
    env = nvml_fake.environment(state, XDG_STATE_HOME=str(tmp_path))
    env["PYTHONPATH"] += os.pathsep + str(SRC)
    done = subprocess.run([sys.executable, "-c", RECOVER], env=env, capture_output=True, text=True, check=False)
    assert "power-limits.json is damaged" in done.stderr


ORDERS = """
from phasewise.errors import UsageError
from phasewise.hardware.power.guard import Guard
import os, sys
sys.path.append(os.environ["TESTS"])
import nvml_fake
from pathlib import Path
with Guard() as guard:
    {body}
print("back", [(back.met, back.now, back.trouble) for back in guard.restored])
"""


def order(tmp_path: Path, body: str, about: dict[str, Any], **faults: Any) -> list[str]:
    state = tmp_path / "nvml.json"
    nvml_fake.write(state, nvml_fake.state(nvml_fake.gpu(limit=FOUND, **about), **faults))
    env = nvml_fake.environment(state, XDG_STATE_HOME=str(tmp_path), TESTS=str(Path(nvml_fake.__file__).parent))
    env["PYTHONPATH"] += os.pathsep + str(SRC)
    program = ORDERS.format(body="\n    ".join(body.strip().splitlines()))
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_limit_is_read_back_after_each_set(tmp_path: Path) -> None:
    body = "print([now.limit for now in guard.set(377_000)])"
    assert order(tmp_path, body, {"driver": "clamps"})[0] == "[350000]"
    body = "print([now.limit for now in guard.set(377_000)])"
    assert order(tmp_path, body, {"driver": "ignores"})[0] == "[650000]"
    body = "print([(now.limit, now.enforced) for now in guard.set(600_000)])"
    assert order(tmp_path, body, {"enforced": 450_000})[0] == "[(600000, 450000)]"


def test_a_cap_outside_the_range_is_refused_and_the_guard_goes_on(tmp_path: Path) -> None:
    body = """
try: guard.set(199_999)
except UsageError as error: print(error)
print([now.limit for now in guard.set(200_000)])
"""
    said = order(tmp_path, body, {})
    assert "takes 200 to 700 W" in said[0]
    assert said[1:] == ["[200000]", "back [(200000, 650000, '')]"]


def test_somebody_else_who_changes_the_limit_is_noticed(tmp_path: Path) -> None:
    body = """
guard.set(400_000)
nvml_fake.change(Path(os.environ["FAKE_NVML"]), lambda content: content["gpus"][0].update(limit=555_000))
print([(now.ours, now.met) for now in guard.look()])
print([(now.ours, now.met, now.limit) for now in guard.set(300_000)])
"""
    said = order(tmp_path, body, {})
    assert said == ["[(400000, 555000)]", "[(400000, 555000, 300000)]", "back [(300000, 650000, '')]"]


def test_a_driver_that_fails_for_a_while_is_asked_again(tmp_path: Path) -> None:
    failing = {"error": 999, "skip": 2, "times": 3}
    assert order(tmp_path, "guard.set(400_000)", {}, nvmlDeviceSetPowerManagementLimit=failing) == [
        "back [(400000, 650000, '')]"
    ]


def test_a_limit_that_cannot_be_put_back_is_said_and_kept_on_disk(tmp_path: Path) -> None:
    body = """
guard.set(400_000)
nvml_fake.change(Path(os.environ["FAKE_NVML"]), lambda content: content["gpus"][0].update(driver="ignores"))
"""
    said = order(tmp_path, body, {})
    assert "sudo nvidia-smi -i 0 -pl 650" in said[0]
    assert left_over(tmp_path)
