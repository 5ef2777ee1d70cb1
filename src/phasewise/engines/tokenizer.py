"""The server's own tokenizer over HTTP, where it publishes one."""

from __future__ import annotations

from typing import Any

from phasewise.engines.client import Client
from phasewise.errors import NotAnEngine

_TEXT = "a quiet river runs down to the sea"


class Tokenizer:
    """Counts tokens by asking the server.

    Attributes:
        path: of the endpoint.
        field: name under which it takes the text.
    """

    def __init__(self, client: Client, path: str, model: str, field: str) -> None:
        self.path = path
        self.field = field
        self._client = client
        self._model = model

    def __call__(self, text: str) -> int:
        """Tokens of ``text``, with those that the tokenizer puts around every text.

        Raises:
            EngineError: it does not answer, or not with a count.
        """
        count = self._count(text)
        if count is None:
            raise NotAnEngine(f"The server's {self.path} stopped counting tokens: look at the server's log.")
        return count

    def works(self) -> bool:
        """Whether the endpoint answers with counts that grow with the text."""
        count = self._count(_TEXT)
        return count is not None and 4 <= count <= 40 and (self._count(f"{_TEXT} {_TEXT}") or 0) > count

    def _count(self, text: str) -> int | None:
        body: dict[str, Any] = {self.field: text}
        if self.field == "prompt":
            body["model"] = self._model
        elif self.field == "content":
            body["add_special"] = True
        return _counted(self._client.post(self.path, body))


def find(client: Client, root: str, model: str, engine: str) -> Tokenizer | None:
    """The server's tokenizer; None when it has none.

    vLLM and SGLang take ``prompt`` and give ``count``; llama.cpp takes ``content`` and gives ``tokens``; TGI takes
    ``inputs`` and gives the list.
    """
    fields = {"llama.cpp": ("content", "prompt"), "TGI": ("inputs",)}.get(engine, ("prompt", "content"))
    for field in fields:
        tokenizer = Tokenizer(client, f"{root}/tokenize", model, field)
        if tokenizer.works():
            return tokenizer
    return None


def _counted(answer: Any) -> int | None:
    if not isinstance(answer, dict):
        return len(answer) if isinstance(answer, list) else None
    count, tokens = answer.get("count"), answer.get("tokens")
    if isinstance(count, int):
        return count if 0 <= count < 2**53 else None
    return len(tokens) if isinstance(tokens, list) else None
