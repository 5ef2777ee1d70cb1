"""What the name of a kernel (or of an operator, on a trace without a device) tells of the pass it is in.

A name is evidence, not proof: an engine may run its prefill kernel for decode. `phase.py` weighs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from phasewise.observe.traces.events import Small

BITS = tuple(1 << bit for bit in range(14))
PROMPT, STEP, EITHER, CACHE, CAUSAL, ROTARY, EMBED, SAMPLE, TRAIN, SOFTMAX, VECTOR, WIDE, NARROW, MATMUL = BITS
"""Attention over a prompt, of a decode step, of either; KV-cache work, causal attention, rotary embedding; embedding
lookup, sampling; training; softmax; matrix-vector product, matmul with a large tile, with a small one, any matmul."""

ATTENTION = PROMPT | STEP | EITHER

_STEP = re.compile(
    r"paged_attention|(?:^|[:_ ])pa_(?:decode|fwd|bf16|fp8|a8w8)|splitkv_mla|[Ss]plit[Kk][Vv].{0,500}combine"
    r"|fwd_combine|FwdCombine|BatchDecode|SingleDecode|ForGen|unified_attention_3d|reduce_segments|masked_multihead_attention|\bxqa|mla_decode"
    r"|decode_att|attention_decode|decode_attention|grouped_kernel_stage1|_fwd_kernel_stage[12]|flash_attn_vec|fmha_decode"
    r"|kernel_mha\b|FmhaFwdSplitKV|FmhaFwdDecode|flash_decod|flashdecod|decode_kernel"
)
_PROMPT = re.compile(
    r"flash_fwd_kernel|FmhaBatchPrefill|FmhaFwd|BatchPrefill|SinglePrefill|Persistent(?:Context|Causal)|Context(?:StaticSched)?$"
    r"|fmhaSm\d+.{0,500}Context|fmha_v2.{0,500}causal|context_attention|extend_attention|prefill|_fwd_kernel_unified"
    r"|attention_forward_.{0,500}prefill|flash_attn_ext_f16"
)
_EITHER = re.compile(
    r"(?i)splitkv|unified_attention|compute_attn_ws|flashattnfwd|flash_fwd|fmha|attn_fwd|flash_attn|cpu_attention|mla_|sdpa"
    r"|scaled_dot_product|(?<!linear_)attention|paged_kv|mha_varlen|MemEffAttention"
)
_CACHE = re.compile(
    r"(?i)reshape_and_cache|store_?kv_?cache|concat_and_cache|kv_?cache|paged|flashinfer_kv_indices"
    r"|unified_attention|set_rows|kv_indices"
)
_CAUSAL = re.compile(r"(?i)causal|flash_fwd_\w*kernel<.*?>, *(?:\(bool\)0|false), *(?:\(bool\)1|true)")
_ROTARY = re.compile(r"(?i)rotary|rope|ApplyRotary")
_EMBED = re.compile(
    r"(?i)vectorized_gather_kernel|indexSelect(?:Small|Large)|embedding|get_rows|lookup_kernel|aten::index_select"
)
_SAMPLE = re.compile(
    r"(?i)argmax|arg_max|(?<!up)(?<!down)(?<!grid_)(?<!re)sampl(?:ing|e_|er)|_sample\b|multinomial|top_?p|softmax.{0,500}topk|(?<!moe_)topk|top_?k|sbtopk|gumbel|random_from"
)
_GATING = re.compile(r"(?i)moe|gating|rout|expert|grouped_topk|radixsort|sort")
_TRAIN = re.compile(
    r"(?i)backward|_bwd|bwd_|dgrad|wgrad|optimizer\.|optimizer_step|fused_adam|adamw?_|multi_tensor.{0,500}(?:adam|sgd|lamb|l2norm)"
    r"|FusedAdam|FusedSgd|nll_loss|cross_entropy|dropout_kernel"
)
_SOFTMAX = re.compile(r"(?i)softmax|soft_max")
_VECTOR = re.compile(r"(?i)gemv|wvSplt?i?tK|LLMM1|mul_mat_vec|dot_kernel")
_MATMUL = re.compile(
    r"(?i)gemm|cijk_|nvjet|matmul|cutlass.{0,500}kernel|scaled_mm|xmma|mul_mat|marlin|aten::(?:mm|addmm|bmm|linear)|onednn_mm|bmm_"
)
_TILE = re.compile(r"(?:MT|tilesize|_tst_|bf16_|f16_|fp16_|mxfp4_|_)(\d{1,3})x(\d{1,3})(?:x\d+)?(?=_|x|$|[^0-9])")
_BATCHED = re.compile(r"(?i)bmm_|ogs|moe|expert|group")
"""Of experts: their tile follows the tokens per expert, not those of the step."""

_GROUPS = (
    ((_TRAIN, TRAIN),),
    ((_STEP, STEP), (_PROMPT, PROMPT), (_EITHER, EITHER)),
    ((_CACHE, CACHE),),
    ((_CAUSAL, CAUSAL),),
    ((_ROTARY, ROTARY), (_EMBED, EMBED)),
)
"""Of each group the first that matches counts."""

_NAME = 2048
"""Characters of a name that are looked at: the patterns take time with the square of its length."""


def bits(name: str) -> int:
    """The bits that the first 2,048 characters of ``name`` set."""
    return _bits(name[:_NAME])


@lru_cache(maxsize=1 << 14)
def _bits(name: str) -> int:
    found = sum(next((bit for pattern, bit in group if pattern.search(name)), 0) for group in _GROUPS)
    if not _GATING.search(name):
        if not found & ATTENTION and _SAMPLE.search(name):
            found |= SAMPLE
        if _SOFTMAX.search(name):
            found |= SOFTMAX
    if _VECTOR.search(name):
        found |= VECTOR | MATMUL
    elif _MATMUL.search(name) and not found & ATTENTION:
        found |= MATMUL | _tile(name)
    return found


def _tile(name: str) -> int:
    """Whether the output tile of a matmul is made for many rows or for few: its smaller side, as its name says."""
    tile = _TILE.search(name)
    if tile is None or _BATCHED.search(name):
        return 0
    small = min(int(tile[1]), int(tile[2]))
    return WIDE if small >= 128 else NARROW if small <= 32 else 0


def table(names: Sequence[str], used: Small) -> Small:
    """Bits of every name that ``used`` refers to, by name index; 0 for the others."""
    found = np.zeros(len(names) + 1, np.int32)
    for index in np.unique(used[used >= 0]).tolist():
        found[index] = bits(names[index])
    return found
