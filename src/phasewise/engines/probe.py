"""What a server is and what it can do, found out with a few tiny requests whose cost is told."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from phasewise.engines import endings, forms, metrics, tokenizer
from phasewise.engines.base import Activity, Answer
from phasewise.engines.capabilities import Evidence, capabilities
from phasewise.engines.client import Client
from phasewise.engines.dialect import Form
from phasewise.engines.identity import identify
from phasewise.engines.models import served
from phasewise.engines.prompts import Calibration, TokenIds, Words
from phasewise.errors import BrokenStream, NotAnEngine, Stalled
from phasewise.record.target import Target

_LONGER = 64
"""Words of the second text that tells how many tokens a word is."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine works with.

    Attributes:
        target: for the record.
        form: how requests are written.
        prompts: makes a prompt of a number of tokens.
        metrics_path: of a metrics page that holds counters we know; None without one.
        root: path of the server's other pages.
    """

    target: Target
    form: Form
    prompts: TokenIds | Words
    metrics_path: str | None
    root: str = ""


def probe(client: Client, model: str | None, progress: Callable[[str], None]) -> Findings:
    """Find out what the server is and can do; see ``openai.connect`` for errors."""
    progress("looking for the served models")
    found = served(client, model)
    name = found.card.id
    progress("asking the server what it is")
    identity = identify(client, found)
    counter = tokenizer.find(client, found.root, name, identity.engine)
    metrics_path = f"{found.root}{metrics.PATHS.get(identity.engine, '/metrics')}"
    seen = activity(client, metrics_path)
    progress("trying how the server takes prompts")
    meta = found.card.meta
    ids, words = TokenIds(meta.n_vocab if meta else None), Words(Calibration())
    settled = forms.settle(client, found.api, name, identity.engine, ids, words)
    progress("trying whether answers run to their full length")
    ending = endings.settle(client, settled.form, found.api, words)
    by_ids = settled.form.prompting == "token_ids"
    prompts = ids if by_ids else Words(_calibrate(client, settled, counter, words))
    evidence = Evidence(
        found=found,
        settled=settled,
        ending=ending,
        tokenizer=counter,
        activity=seen,
        vocabulary=ids.disbelieved,
    )
    target = Target(
        name=client.address.shown,
        engine=identity.engine,
        served_model=name,
        prompting=settled.form.prompting,
        endpoint=settled.form.path,
        max_context=identity.max_context,
        capabilities=capabilities(client, evidence),
        reported=identity.reported,
    )
    return Findings(
        target=target,
        form=ending.form,
        prompts=prompts,
        metrics_path=metrics_path if seen is not None else None,
        root=found.root,
    )


def activity(client: Client, path: str) -> Activity | None:
    """Read the metrics page at ``path``; None when there is none that we know.

    Raises:
        Unreachable: the server is gone.
    """
    try:
        page = client.get(path)
    except (BrokenStream, NotAnEngine, Stalled):
        return None
    return metrics.activity(page.body.decode("utf-8", "replace")) if page.status == 200 else None


def _calibrate(
    client: Client, settled: forms.Settled, counter: tokenizer.Tokenizer | None, words: Words
) -> Calibration:
    """How long texts are, from the tokenizer and the usage of a text already sent, or from two usages."""
    form, text, counted = settled.form, str(settled.prompt.payload), settled.answer.prompt_tokens
    if counter is not None:
        fixed = 0 if counted is None else counted - counter(text)
        return Calibration(fixed=fixed, count=counter, exact=counted is not None or form.prompting == "text")
    if counted is None:
        return Calibration()
    longer = client.stream(form.path, form.body(" ".join(words.draw(_LONGER)), 1), 1, form.wire)
    if not isinstance(longer, Answer) or longer.prompt_tokens is None:
        return Calibration(fixed=max(0, counted - forms.PROMPT))
    per_word = max(1.0, (longer.prompt_tokens - counted) / (_LONGER - forms.PROMPT))
    return Calibration(fixed=max(0.0, counted - per_word * forms.PROMPT), per_word=per_word)
