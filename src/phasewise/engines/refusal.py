"""An HTTP answer that says no, or that no LLM server would give, as one sentence with the next step."""

from __future__ import annotations

from phasewise.engines.address import Address
from phasewise.engines.dialect import complaint
from phasewise.engines.text import clean
from phasewise.engines.wire import Page
from phasewise.errors import EngineError, NotAnEngine, Refused

KEY_VARIABLES = ("PHASEWISE_API_KEY", "OPENAI_API_KEY")
"""Where an API key is looked for, in this order."""


def refusal(
    page: Page, address: Address, path: str, *, served: tuple[str, ...] = (), secret: str = "", elsewhere: str = ""
) -> EngineError:
    """The error for an answer other than 2xx, or for a page that is no API's.

    Args:
        page: the answer.
        address: of the server, for the text.
        path: what was asked for.
        served: models that the server named, for the text.
        secret: the API key, taken out of anything that the server echoes.
        elsewhere: a base path that is known to answer.
    """
    base = f"{address.scheme}://{address.authority}"
    status, where = page.status, f"{base}{path}"
    kind = page.headers.get("content-type", "")
    said = "" if "html" in kind else complaint(page.body, secret)
    said = f" ({said})" if said else ""
    if elsewhere:
        return Refused(
            f"{where} answered HTTP {status}{said}, but {base}{elsewhere} answers: give that.", status=status
        )
    if 200 <= status < 300:
        return NotAnEngine(
            f"{where} answers with {clean(kind, 60) or 'something'} that no OpenAI-compatible server sends: check that "
            "the URL is the LLM server's own, with its base path."
        )
    return Refused(f"{where} answered HTTP {status}{said}: {_next_step(page, said, served, secret)}.", status=status)


def _next_step(page: Page, said: str, served: tuple[str, ...], secret: str) -> str:
    status = page.status
    if 300 <= status < 400:
        # A redirect is named, not followed: the timing, and the API key, would go to somebody else.
        location = _public(page.headers.get("location", "elsewhere"), secret)
        return f"it redirects to {location}, which is not followed; give the address that the requests should go to"
    if status in (401, 403):
        return f"set {KEY_VARIABLES[0]} or {KEY_VARIABLES[1]} to a key that this server accepts"
    if status == 404 and "model" in said.lower():
        names = ", ".join(clean(name, 80) for name in served[:10])
        return f"give --served-model one of: {names}" if names else "give --served-model a model that is served"
    if status in (404, 405):
        return "check the base path of the URL; most servers have theirs at /v1"
    if status == 429:
        after = clean(page.headers.get("retry-after", ""), 40)
        pause = f" for another {after} s" if after.isdigit() else ""
        return f"the server limits requests{pause}; wait, or raise its limit"
    if status == 503:
        return "the server is not ready; wait until it has loaded its model, or look at its log"
    return "look at the server's log" if status >= 500 else "see what the server accepts"


def _public(location: str, secret: str) -> str:
    """A URL without login and query."""
    scheme, separator, rest = location.split("?")[0].rpartition("//")
    authority, slash, path = rest.partition("/")
    return clean(f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}", secret=secret)
