"""Llama in plain PyTorch, as engines lay it out: one matmul for q, k and v, one for gate and up, a fixed KV cache.

Weights and caches are random, never zeros: a matmul of zeros draws less power and runs faster (an H200 multiplied bf16
zeros at 894 TFLOP/s and random numbers at 788).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

_EPS, _THETA = 1e-5, 500_000.0


class Layer(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        hidden, heads, groups = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
        self.heads, self.groups, self.size = heads, groups, hidden // heads
        self.before = nn.RMSNorm(hidden, _EPS)
        self.qkv = nn.Linear(hidden, (heads + 2 * groups) * self.size, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.between = nn.RMSNorm(hidden, _EPS)
        self.gate_up = nn.Linear(hidden, 2 * config["intermediate_size"], bias=False)
        self.down = nn.Linear(config["intermediate_size"], hidden, bias=False)

    def forward(self, x: Tensor, cache: Tensor, at: int, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self._attention(self.before(x), cache, at, cos, sin)
        gate, up = self.gate_up(self.between(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

    def _attention(self, x: Tensor, cache: Tensor, at: int, cos: Tensor, sin: Tensor) -> Tensor:
        rows, new, hidden = x.shape
        q, k, v = (
            self.qkv(x)
            .view(rows, new, self.heads + 2 * self.groups, self.size)
            .transpose(1, 2)
            .split((self.heads, self.groups, self.groups), 1)
        )
        keys, values = cache
        keys[:, :, at : at + new] = _turned(k, cos, sin)
        values[:, :, at : at + new] = v
        seen = F.scaled_dot_product_attention(
            _turned(q, cos, sin),
            keys[:, :, : at + new],
            values[:, :, : at + new],
            is_causal=new > 1,
            enable_gqa=self.groups < self.heads,
        )
        return self.out(seen.transpose(1, 2).reshape(rows, new, hidden))


class Llama(nn.Module):
    """The shape of ``config`` (``num_hidden_layers`` may be overridden) with random weights, in bf16 on ``device``."""

    def __init__(self, config: dict[str, Any], device: str, layers: int | None = None) -> None:
        super().__init__()
        self.config = config
        count = config["num_hidden_layers"] if layers is None else layers
        with torch.device(device):
            self.embedding = nn.Embedding(config["vocab_size"], config["hidden_size"], dtype=torch.bfloat16)
            self.layers = nn.ModuleList(Layer(config).to(torch.bfloat16) for _ in range(count))
            self.norm = nn.RMSNorm(config["hidden_size"], _EPS, dtype=torch.bfloat16)
            self.head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False, dtype=torch.bfloat16)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)
        self.eval().requires_grad_(False)

    def forward(self, ids: Tensor, cache: Tensor, at: int = 0) -> Tensor:
        """Logits [rows, vocabulary] after ``ids`` [rows, new], which follow ``at`` tokens in the cache."""
        size = self.config["hidden_size"] // self.config["num_attention_heads"]
        places = torch.arange(at, at + ids.shape[1], device=ids.device, dtype=torch.float32)
        angles = places[:, None] * _THETA ** (-torch.arange(0, size, 2, device=ids.device, dtype=torch.float32) / size)
        cos, sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
        x = self.embedding(ids)
        for layer, own in zip(self.layers, cache, strict=True):
            x = layer(x, own, at, cos, sin)
        logits: Tensor = self.head(self.norm(x[:, -1]))
        return logits

    def cache(self, rows: int, length: int) -> Tensor:
        """Random keys and values: [layers, 2, rows, KV heads, length, head]."""
        size = self.config["hidden_size"] // self.config["num_attention_heads"]
        shape = (len(self.layers), 2, rows, self.config["num_key_value_heads"], length, size)
        return torch.randn(shape, device=self.device, dtype=torch.bfloat16)

    def ids(self, rows: int, length: int) -> Tensor:
        """Random token ids [rows, length]."""
        return torch.randint(0, self.config["vocab_size"], (rows, length), device=self.device)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device


def lengths(ids: Tensor, cache: Tensor, at: int = 0) -> tuple[list[int], list[int]]:
    """For ``phasewise.instrument``: new tokens and context of each request of a forward."""
    rows, new = ids.shape
    return [new] * rows, [at + new] * rows


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE."""
    one, other = x.chunk(2, -1)
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1)
