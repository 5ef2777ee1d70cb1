"""The wire form of one answer: whole or streamed, and the faults that can be seen there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import msgspec

from phasewise.engines.simulated.api import WORDS, Ask, ids_of
from phasewise.engines.simulated.connection import Connection, chunk, head
from phasewise.engines.simulated.outbox import Outbox, Writer
from phasewise.engines.simulated.plan import Plan
from phasewise.engines.simulated.scheduler import Request
from phasewise.engines.simulated.timings import told

_IDS = ids_of(list(WORDS))


class Answer:
    """Sink of one request: what a step gives is encoded when the step starts and sent when it ends.

    ``request`` is the engine's view of it, ``arrived`` when its first bytes came (monotonic seconds). ``ended`` is True
    and ``on_end`` was called once the answer is complete, broken off by a planted fault, or its client has left.
    """

    def __init__(
        self,
        plan: Plan,
        asked: Ask,
        connection: Connection,
        writer: Writer,
        *,
        name: str,
        arrived: float,
        on_end: Callable[[Answer], None],
    ) -> None:
        self.asked = asked
        self.ended = False
        self.request = Request(
            prompt=asked.prompt,
            prompt_tokens=asked.prompt_tokens,
            answer_tokens=asked.answer_tokens,
            arrived=arrived,
            sink=self,
            step_s=asked.step_s,
        )
        self._plan = plan
        self._arrived = arrived
        self._outbox = Outbox(plan, connection, writer, streamed=asked.stream)
        self._on_end = on_end
        self._breaks_at = min((x for x in (plan.drop_after, plan.stall_after) if x is not None), default=None)
        self._tokens = self._step = self._events = 0
        self._last = False
        self._next = b""
        self._written: list[dict[str, float]] = []
        kind = ("chat.completion" + ".chunk" * asked.stream) if asked.chat else "text_completion"
        self._base = {"id": name, "object": kind, "created": int(time.time()), "model": plan.model}
        connection.on_lost = self._end

    def open(self) -> None:
        """Send the head of a stream, as vLLM does before prefill."""
        if self.asked.stream:
            self._outbox.send(head(200, "text/event-stream; charset=utf-8", "transfer-encoding: chunked"))
            if self.asked.chat and self._plan.role_chunk and self._plan.stream:
                self._outbox.send(chunk(self._event(self._choice({"role": "assistant", "content": ""}))))
        if self._breaks_at == 0:
            self._break()

    def prepare(self, tokens: int, last: bool) -> None:
        """Encode the tokens of the step that has started."""
        first, self._tokens, self._step, self._last = self._tokens, self._tokens + tokens, tokens, last
        text = self._text(first)
        if not self.asked.stream:
            self._next = self._whole() if last else b""
        elif not self._plan.stream:
            self._next = self._frames(self._text(0), 0, last) if last else b""
        elif not text and not last and self._plan.partial_utf8 == "withheld":
            self._next = b""
        else:
            self._next = self._frames(text, first, last)

    def flush(self, due: float) -> None:
        """Send them."""
        if self.ended:
            return
        now = time.monotonic()
        if self._next or self._last:
            self._outbox.send(self._next, tokens=True, last=self._last)
        self._written.append({"due": due, "written_at": now, "tokens": self._step})
        if self._last:
            self._end()
        elif self._breaks_at is not None and self._tokens >= self._breaks_at:
            self._break()

    def record(self) -> dict[str, Any]:
        """What happened, for the log: counts in tokens, times in monotonic seconds."""
        return {
            "id": self._base["id"],
            "prompt_tokens": self.asked.prompt_tokens,
            "cached_tokens": self.request.cached,
            "answer_tokens": self._tokens,
            "received_at": self._arrived,
            "prefill_start": self.request.started,
            "steps": self._written,
        }

    def _break(self) -> None:
        if self._plan.drop_after == self._breaks_at:
            self._outbox.close()
        self._end()

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            self._on_end(self)

    def _text(self, first: int) -> str:
        """Text of the tokens from ``first`` on."""
        if self._plan.partial_utf8 == "no":
            end = self._tokens if self._plan.padding_after is None else min(self._tokens, self._plan.padding_after)
            return "".join(map(self._word, range(first, end)))
        return " \N{GRINNING FACE}" * (self._tokens // 3 - first // 3)

    def _word(self, index: int) -> str:
        if self._plan.text == "spaces":
            return "    "
        if self._plan.text == "pieces" and index % 3:
            return "-er"
        return f" {WORDS[index % len(WORDS)]}"

    def _frames(self, text: str, first: int, last: bool) -> bytes:
        reason = self.asked.finish_reason if last else None
        thinking = self.asked.chat and first < self._plan.reasoning and self._plan.stream
        delta = {"reasoning_content" if thinking else "content": text} if self.asked.chat else {"text": text}
        if self.asked.chat and first == 0:
            delta["role"] = "assistant"
        choice = self._choice(delta, reason)
        if self.asked.token_ids:
            choice["token_ids"] = [_IDS[index % len(_IDS)] for index in range(first, self._tokens)]
        self._events += 1
        extra = {"usage": self._usage()} if self.asked.running_usage else {}
        end = told(self._plan, self.request, self._arrived, self._tokens) if last else {}
        frames = chunk(self._event(choice, **extra, **end))
        if last:
            if self.asked.include_usage:
                frames += chunk(_sse({**self._base, "choices": [], "usage": self._usage(), **end}))
            frames += chunk(b"data: [DONE]\n\n") + chunk(b"")
        return frames

    def _choice(self, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        body = {"delta": delta} if self.asked.chat else delta
        return {"index": 0, **body, "logprobs": None, "finish_reason": reason}

    def _event(self, choice: dict[str, Any], **extra: Any) -> bytes:
        event = _sse({**self._base, "choices": [choice], **extra})
        return event[: len(event) // 2] + b"\n\n" if self._plan.invalid_sse else event

    def _whole(self) -> bytes:
        content: dict[str, Any] = {"text": self._text(0)}
        if self.asked.chat:
            words = self._text(0).split(" ")[1:]
            thought = " ".join(words[: self._plan.reasoning]) or None
            content = {"role": "assistant", "content": " ".join(words[self._plan.reasoning :])}
            content = {"message": content | ({"reasoning_content": thought} if thought else {})}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": self.asked.finish_reason}
        usage = {"usage": self._usage()} if self._plan.usage else {}
        body = msgspec.json.encode({**self._base, "choices": [choice], **usage})
        return head(200, "application/json", f"content-length: {len(body)}") + body

    def _usage(self) -> dict[str, Any]:
        prompt, completion = self.asked.prompt_tokens, self._counted() + self._plan.wrong_usage
        if self._plan.prompt_count == "uncached":
            prompt -= self.request.cached
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        if self._plan.cached_count:
            usage["prompt_tokens_details"] = {"cached_tokens": self.request.cached}
        return usage

    def _counted(self) -> int:
        """What usage takes for the tokens of the answer so far."""
        count = self._plan.count
        if count == "tokens":
            return self._tokens
        if count == "answer":
            return max(0, self._tokens - self._plan.reasoning) if self.asked.chat else self._tokens
        if count == "chunks":
            return self._events
        text = self._text(0)
        return len(text.split()) if count == "words" else len(re.findall(r" ?\S+|\s+", text))


def _sse(event: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"
