"""What is run: a shape, its points in the order of their worth, and what each is predicted to take."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from phasewise.model import catalogue

Phase = Literal["prefill", "decode"]
Mode = Literal["eager", "graphs"]
MODES: tuple[Mode, ...] = ("eager", "graphs")


class Point(NamedTuple):
    """One pass: ``tokens`` new ones of each of ``batch`` prompts, or one new one each after ``tokens`` of context."""

    phase: Phase
    tokens: int
    batch: int


class Plan(NamedTuple):
    """A shape and its lengths; the seed's are those of Llama 3 8B.

    Attributes:
        shape: its name.
        config: its config, under the keys of transformers.
        prompt: tokens of the request's prompt, and of context for the table over batches.
        answer: tokens of the request's answer.
        short: another context for the batches.
        lengths: prompts of the prefill sweep, the longest last.
        contexts: of the decode sweep.
        batches: of the decode sweep, the largest last.
        prompts: prompts at once.
    """

    shape: str
    config: dict[str, Any]
    prompt: int
    answer: int
    short: int
    lengths: tuple[int, ...]
    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    prompts: int

    @property
    def batch(self) -> int:
        """The largest batch."""
        return self.batches[-1]

    def of_the_seed(self) -> list[Point]:
        """What the seed's table needs, but for the sweep over lengths."""
        return [
            Point("prefill", self.prompt, 1),
            Point("decode", self.prompt, 1),
            Point("decode", self.prompt, self.batch),
            Point("decode", self.short, 1),
            Point("decode", self.short, self.batch),
            Point("prefill", self.prompt, self.prompts),
        ]

    def sweeps(self) -> list[Point]:
        """All others: prefill over its lengths, decode over contexts and batches."""
        prefill = [Point("prefill", length, 1) for length in self.lengths]
        decode = [Point("decode", context, batch) for context in self.contexts for batch in self.batches]
        seed = self.of_the_seed()
        return [point for point in (*prefill, *decode) if point not in seed]


def _llama() -> Plan:
    row = catalogue.find("llama-3-8b")
    assert row is not None
    return Plan(
        shape="llama-3-8b",
        config=row.config,
        prompt=2000,
        answer=300,
        short=300,
        lengths=(128, 256, 512, 1024, 2000, 4096, 8192, 16384, 32768),
        contexts=(2000, 128, 512, 8192, 32768),
        batches=(1, 2, 4, 8, 16, 32, 64),
        prompts=4,
    )


def _tiny() -> Plan:
    return Plan(
        shape="tiny",
        config={
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 160,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": 512,
            "tie_word_embeddings": False,
            "max_position_embeddings": 128,
            "torch_dtype": "bfloat16",
        },
        prompt=24,
        answer=8,
        short=8,
        lengths=(8, 24, 64),
        contexts=(24, 64),
        batches=(1, 4),
        prompts=4,
    )


PLANS = {"llama-3-8b": _llama, "tiny": _tiny}
