"""One browser for the tests of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator

import chromium_page
import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium_page.Page]:
    if chromium_page.BINARY is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI has no chromium: .ci/run installs the Debian package chromium")
        pytest.skip("skipped: no chromium on this machine (Debian package chromium)")
    with chromium_page.chromium() as page:
        yield page
