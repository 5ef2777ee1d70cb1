"""A real headless Chromium, driven over its debugging pipe: load a page, read it, watch its console and its network."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
_PATIENCE = 60.0


class Page:
    """One tab. ``events`` holds everything the browser said besides answers."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._buffer, self._last = read, write, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask, wait for the answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._read, 1 << 20) if ready else b""
            assert chunk, "chromium is silent or gone"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def open(self, file: Path, scheme: str, width: int = 1200) -> None:
        """Load ``file`` under the ``light`` or ``dark`` scheme and wait for its load event."""
        self.events.clear()
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def complaints(self) -> list[dict[str, Any]]:
        """Console messages, exceptions and log entries (also those of the content security policy)."""
        loud = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event["method"] in loud]

    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        asked = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in asked]

    def screenshot(self, file: Path) -> None:
        """The whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, file: Path) -> None:
        """The page as it prints."""
        file.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))


def _high(fd: int) -> int:
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(fd)
    return copy


@contextlib.contextmanager
def chromium() -> Iterator[Page]:
    """A browser with a profile of its own; it ends with the block."""
    assert BINARY
    # High numbers first, so that placing them on 3 and 4 in the child cannot overwrite one with the other.
    ends = [_high(fd) for pair in (os.pipe(), os.pipe()) for fd in pair]
    child_read, ours_write, ours_read, child_write = ends[0], ends[1], ends[2], ends[3]

    def place() -> None:
        os.dup2(child_read, 3)
        os.dup2(child_write, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [BINARY, *FLAGS, f"--user-data-dir={profile}"],
            preexec_fn=place,
            close_fds=False,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Page(ours_read, ours_write)
        finally:
            browser.terminate()
            browser.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)  # its renderers, should one have outlived it
            for fd in ends:
                os.close(fd)


def text(page: Page, selector: str) -> str:
    return " ".join(str(page.value(f"document.querySelector({json.dumps(selector)}).innerText")).split())


def quiet(browser: Page, tmp_path: Path) -> None:
    """The page complained of nothing and asked nobody."""
    assert browser.complaints() == []
    assert browser.requests() == [(tmp_path / "report.html").as_uri()]


CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d');
  const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data; };
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = (colour) => { const [r, g, b] = [...rgb(colour)].map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (element) => { for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor; if (rgb(colour)[3]) return colour; } return 'white'; };
  let worst = {ratio: 99};
  for (const element of document.querySelectorAll('body *:not(title, script)')) {
    if (![...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(element), colour = element.closest('svg') ? style.fill : style.color;
    const [a, b] = [luminance(colour), luminance(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst.ratio) worst = {ratio, text: element.textContent.slice(0, 60), colour};
  }
  return worst;
})()"""
"""The text that is hardest to read against what is behind it, with its contrast."""
