"""Which models a server serves, and under which base path."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from phasewise.engines.client import Client
from phasewise.engines.text import NOT_JSON, clean
from phasewise.engines.wire import Page
from phasewise.errors import UsageError


class Meta(msgspec.Struct, frozen=True):
    """llama.cpp's facts on a model."""

    n_vocab: int | None = None
    n_ctx: int | None = None
    n_ctx_train: int | None = None
    n_params: int | None = None
    size: int | None = None
    ftype: str | None = None


class Card(msgspec.Struct, frozen=True):
    """One entry of ``/v1/models``."""

    id: str
    owned_by: str | None = None
    root: str | None = None
    max_model_len: int | None = None
    meta: Meta | None = None


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        api: path of the OpenAI-compatible endpoints, e.g. ``/v1``.
        root: path of the server's other pages, e.g. ``""``.
        cards: of all models; empty when the server lists none.
        card: of the chosen one.
        software: the ``Server`` header.
    """

    api: str
    root: str
    cards: tuple[Card, ...]
    card: Card
    software: str


class _List(msgspec.Struct):
    data: list[Any]


def served(client: Client, model: str | None) -> Served:
    """Find the base path and the model.

    Raises:
        UsageError: several models and none named.
        Refused, NotAnEngine: no list of models, and no ``model`` to try without one.
    """
    base = client.address.path
    candidates = [base] if base.endswith("/v1") else [f"{base}/v1", base]
    pages: list[tuple[str, Page]] = []
    for api in candidates:
        page = client.get(f"{api}/models")
        cards = _cards(page)
        if cards is not None:
            client.served = tuple(card.id for card in cards)
            return Served(
                api=api,
                root=api.removesuffix("/v1"),
                cards=cards,
                card=_choose(cards, model),
                software=clean(page.headers.get("server", ""), 80),
            )
        if page.status not in (200, 404, 405) and not (model and page.status == 500):
            # `transformers serve` fails to list its models where no download cache is; it answers all the same.
            raise client.refusal(page, f"{api}/models")
        pages.append((f"{api}/models", page))
    if model is None or all(page.status == 200 for _, page in pages):
        path, page = min(pages, key=lambda found: found[1].status)
        raise client.refusal(page, path, elsewhere=_at_root(client, candidates))
    return Served(api=candidates[0], root=candidates[0].removesuffix("/v1"), cards=(), card=Card(model), software="")


def _at_root(client: Client, tried: list[str]) -> str:
    """The usual base path, when the models are there instead."""
    if "/v1" in tried or _cards(client.get("/v1/models")) is None:
        return ""
    return "/v1"


def _cards(page: Page) -> tuple[Card, ...] | None:
    """The list of models; None when the page is none. Entries that are no cards are left out."""
    try:
        entries = msgspec.json.decode(page.body, type=_List).data if page.status == 200 else None
    except NOT_JSON:
        entries = None
    if entries is None:
        return None
    cards = []
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            meta = entry.get("meta")
            facts = _fitting(entry | {"meta": _fitting(meta, Meta) if isinstance(meta, dict) else None}, Card)
            cards.append(msgspec.convert(facts, Card))
    return tuple(cards)


def _fitting(found: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Those entries of ``found`` that a ``kind`` takes: one that is not what it should be spoils no other."""
    facts: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.convert(found.get(field.name), field.type)
            facts[field.name] = found.get(field.name)
    return facts


def _choose(cards: tuple[Card, ...], model: str | None) -> Card:
    """The card of ``model``, or the only one; the server itself judges a name that it does not list."""
    if model is not None:
        facts = cards[0] if len(cards) == 1 else Card(model)
        return next((card for card in cards if card.id == model), msgspec.structs.replace(facts, id=model))
    if len(cards) == 1:
        return cards[0]
    if not cards:
        raise UsageError("The server lists no model: load one, or name the one to ask for.")
    names = ", ".join(clean(card.id, 80) for card in cards[:10]) + (", ..." if len(cards) > 10 else "")
    raise UsageError(f"The server serves {len(cards)} models: give --served-model one of {names}.")
