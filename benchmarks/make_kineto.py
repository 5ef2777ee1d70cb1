"""A made-up Kineto trace of any size, shaped as vLLM's own are, with what is in it counted beside it.

    python benchmarks/make_kineto.py trace.json --mb 500

Steps of a mixture-of-experts model with 24 layers on one MI300X: of 20 steps, 19 are decode (32 requests, one graph
launch) and one holds prompts and generations (25 graph launches, attention and the rest outside of them). Kinds of
events, their number per step, the lengths of names and arguments, and kernel times follow two real steps that
AMD-AGI/TraceLens publishes; every name of a file, id and time here is made up. The same size gives the same file.
500 MB hold some 2.3 million events, 340,000 kernels, 40 mixed and 760 decode steps.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

EVERY = 20
"""One step in so many is mixed."""

PYTHON = (
    "<built-in function len>",
    "<built-in method get of dict object at 0x7f6078eca900>",
    "<built-in function isinstance>",
    "vllm/v1/worker/gpu_input_batch.py(443): update_req_spec_token_ids",
    "<built-in method append of list object at 0x7f17c92d5f40>",
    "triton/runtime/jit.py(325): specialize_impl",
    "triton/backends/amd/compiler.py(174): get_arg_specialization",
    "torch/utils/_pytree.py(675): is_namedtuple_class",
    "<built-in method item of numpy.int32 object at 0x7f1736e0fa50>",
    "vllm/v1/worker/gpu_model_runner.py(3155): _preprocess",
    "torch/nn/modules/module.py(1951): __getattr__",
    "<frozen os>(709): __getitem__",
)

SLICE = (
    '"Concrete Inputs": ["", "0", "0", "32", "1"], "Input type": ["int", "Scalar", "Scalar", "Scalar", "Scalar"], '
    '"Input Strides": [[72, 1], [], [], [], []], "Input Dims": [[1024, 72], [], [], [], []]'
)
COPY = (
    '"Concrete Inputs": ["", "", "True"], "Input type": ["int", "int", "Scalar"], '
    '"Input Strides": [[1], [1], []], "Input Dims": [[1024], [1024], []]'
)
GEMM = (
    '"Concrete Inputs": ["", "", ""], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"], '
    '"Input Strides": [[2880, 1], [2880, 1], [1]], "Input Dims": [[%TOKENS, 2880], [5120, 2880], [5120]]'
)
OPERATORS = (
    ("aten::slice", SLICE),
    ("aten::as_strided", SLICE),
    ("aten::slice", SLICE),
    ("aten::copy_", COPY),
    ("aten::addmm", GEMM),
)

CIJK = (
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_{tile}_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1_ASEM1_CLR1_CADS0_DTLA0_"
    "DTLB0_DTVA0_DTVB0_EPS0_FDSI0_GRPM1_GRVWA8_GRVWB8_GSUAMB_GLS0_ISA942_IU1_K1_LBSPPA2048_LBSPPB256_LPA32_LPB16_LPM0"
)
NORM = (
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_26Rmsnorm2dFwdPipelineProblemIDF16bS4_"
    "fS4_fDF16bS5_NS_24Generic2dBlockShapeINS_8sequenceIJLi4ELi512EEEENS7_IJLi1ELi256EEEENS7_IJLi1ELi8EEEEEE"
)
ROPE = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, c10::BFloat16*, int, long)"
WRITE = (
    "void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0>"
    "(__hip_bfloat16 const*, __hip_bfloat16 const*, __hip_bfloat16*, __hip_bfloat16*, long const*, long, long, long)"
)
ADD = (
    "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctorOnSelf_add<int>, std::array<char*, 2ul>, 4, "
    "TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithoutCast>(int, std::array<char*, 2ul>)"
)


class Kernel(NamedTuple):
    """A kernel of a layer; its usual length in ns in a decode and in a mixed step."""

    name: str
    decode: int
    mixed: int


ATTENTION = Kernel("kernel_unified_attention_2d", 14_400, 180_000)
LAYER = (
    Kernel(CIJK.format(tile="MT32x32x256"), 15_600, 382_000),
    Kernel("triton_poi_fused__to_copy_1", 12_000, 18_500),
    Kernel(ROPE, 6_200, 71_400),
    Kernel(WRITE, 5_500, 24_600),
    ATTENTION,
    Kernel(CIJK.format(tile="MT32x16x256"), 16_300, 320_000),
    Kernel(NORM, 7_400, 70_000),
    Kernel(CIJK.format(tile="MT16x16x512"), 8_700, 25_200),
    Kernel("triton_poi_fused_constant_pad_nd_moe_forward_0", 5_500, 68_400),
    Kernel("_topk_forward", 5_500, 6_200),
    Kernel("_sum_bitmatrix_rows", 5_600, 5_600),
    Kernel("_combined_routing_memset", 4_900, 6_200),
    Kernel("_combined_routing_compute", 5_800, 6_300),
    Kernel("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", 136_000, 3_450_000),
    Kernel("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", 157_000, 1_640_000),
    Kernel("_finalize_matmul_scatter_bf16", 5_400, 97_000),
    Kernel(NORM, 6_900, 69_500),
)
LAYERS = 24
EXTRA = Kernel("reduce_segments", 5_900, 5_900)
SAMPLING = (
    Kernel("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long)", 4_700, 4_700),
    Kernel(CIJK.format(tile="MT64x32x256"), 277_000, 347_000),
    Kernel(
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>",
        40_000,
        40_000,
    ),
)


class Written(NamedTuple):
    """What the trace holds: events, steps and kernels by phase, and the kernels' time in ns."""

    events: int
    decode_steps: int
    mixed_steps: int
    decode_kernels: int
    mixed_kernels: int
    decode_ns: int
    mixed_ns: int


class Step:
    """A step as one format string, and where its numbers come from: every event's start and length, and its ids."""

    def __init__(self, name: str, tokens: int, host: int) -> None:
        self.name, self.tokens, self.host = name, tokens, host
        self.texts: list[str] = []
        self.slots: list[tuple[str, int]] = []
        self.start: list[int] = []
        self.length: list[int] = []
        self.on_gpu: list[bool] = []
        self.kernels: list[int] = []
        self.ids = 0
        self.calls = 0

    def event(self, text: str, start: int, length: int, *numbers: tuple[str, int], gpu: bool = False) -> int:
        """Adds ``text``, whose ``@`` is the time and whose other places are ``numbers``; its index comes back."""
        index = len(self.start)
        self.start.append(start)
        self.length.append(length)
        self.on_gpu.append(gpu)
        times = {"@": ("us", "ns"), "@+": ("us", "ns", "length_us", "length_ns")}
        mark = "@+" if "@+" in text else "@"
        formats = {"@": '"ts": %d.%03d', "@+": '"ts": %d.%03d, "dur": %d.%03d'}
        self.texts.append(text.replace(mark, formats[mark]))
        self.slots += [(slot, index) for slot in times[mark]] + list(numbers)
        return index

    def called(self, name: str, start: int, length: int, more: str = "") -> int:
        """A runtime call, with its flow arrow; its correlation comes back."""
        self.calls += 1
        self.ids += 1
        self.event(
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": 851, "tid": 851, @+, "args": '
            f'{{"External id": %d, "cid": 107, "correlation": %d{more}}}}}',
            start,
            length,
            ("external", self.ids),
            ("correlation", self.calls),
        )
        return self.calls

    def arrow(self, end: str, call: int, start: int, gpu: bool) -> None:
        place = '"pid": 2, "tid": 0' if gpu else '"pid": 851, "tid": 851'
        bind = ', "bp": "e"' if end == "f" else ""
        text = f'{{"ph": "{end}", "id": %d, {place}, @, "cat": "ac2g", "name": "ac2g"{bind}}}'
        self.slots.append(("correlation", call))
        self.event(text, start, 0, gpu=gpu)

    def finish(self) -> None:
        self.text = ", ".join(self.texts)
        order = ("us", "ns", "length_us", "length_ns", "external", "correlation")
        count = max(len(self.start), self.ids + 1, self.calls + 1)
        self.order = np.array([order.index(slot) * count + index for slot, index in self.slots])
        self.count = count
        self.starts, self.lengths, self.gpu = np.array(self.start), np.array(self.length), np.array(self.on_gpu)


def template(mixed: bool) -> Step:
    """One kind of step; CPU events in ns from the start of its band, GPU events in ns from its first."""
    tokens = 8192 if mixed else 32
    name = (
        "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
        if mixed
        else "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"
    )
    step = Step(name, tokens, 26_353_441 if mixed else 2_408_598)
    step.event(
        f'{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 851, "tid": 851, @+, "args": '
        '{"External id": %d, "Record function id": 0, "Ev Idx": 5272}}',
        0,
        step.host,
        ("external", 0),
    )
    _python(step, 17_038 if mixed else 984)
    _operators(step, 642 if mixed else 100)
    _device(step, mixed)
    step.finish()
    return step


def _python(step: Step, count: int) -> None:
    for i in range(count):
        start = 10_000 + i * (step.host - 20_000) // count
        step.event(
            f'{{"ph": "X", "cat": "python_function", "name": "{PYTHON[i * 7 % len(PYTHON)]}", "pid": 851, "tid": 851, '
            '@+, "args": {"Python parent id": %d, "Python id": %d, "Ev Idx": 109226062}}',
            start,
            900 + i * 37 % 4000,
            ("external", max(0, i - 3)),
            ("external", i),
        )


def _operators(step: Step, count: int) -> None:
    for i in range(count):
        name, inputs = OPERATORS[i % len(OPERATORS)]
        step.ids += 1
        step.event(
            f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 851, "tid": 851, @+, "args": {{"External id": %d, '
            f'"Record function id": 0, {inputs.replace("%TOKENS", str(step.tokens))}, "Ev Idx": 1414019}}}}',
            400_000 + i * (step.host - 800_000) // count,
            5_000 + i * 131 % 9000,
            ("external", step.ids),
        )


def _device(step: Step, mixed: bool) -> None:
    """Copies, then the kernels: in one graph, or a graph per layer with attention between them; then sampling."""
    at, gpu = 500_000, 0
    for _ in range(9):
        call = step.called(
            "hipMemcpyAsync",
            at,
            5_000,
            ', "src": "0x7f1818900000", "dst": "0x7f14db1a4000", "bytes": "9216", "kind": "1"',
        )
        step.arrow("s", call, at, gpu=False)
        step.event(
            '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "pid": 2, "tid": 0, @+, '
            '"args": {"External id": %d, "device": 2, "stream": 0, "correlation": %d, "kind": "DtoD", "bytes": 9216, '
            '"memory bandwidth (GB/s)": 2.618181818181818}}',
            gpu,
            3_500,
            ("external", step.ids),
            ("correlation", call),
            gpu=True,
        )
        step.arrow("f", call, gpu, gpu=True)
        at, gpu = at + 60_000, gpu + 5_000
    gpu = _kernel(step, Kernel(ADD, 4_400, 3_400), mixed, step.called("hipLaunchKernel", at, 6_000), gpu, graph=False)
    at += 60_000
    graph = 0
    for layer in range(LAYERS):
        for kernel in LAYER:
            alone = mixed and kernel is ATTENTION
            if alone:
                for _ in range(10):
                    step.called("hipPointerGetAttribute", at, 400)
                    at += 2_000
                call = step.called(
                    "hipModuleLaunchKernel", at, 10_000, f', "kernel": "{kernel.name}", "grid": [32, 8, 1]'
                )
                step.arrow("s", call, at, gpu=False)
                graph = 0
                at += 60_000
            elif not graph:
                call = graph = step.called("hipGraphLaunch", at, 40_000 if mixed else 506_000)
                step.arrow("s", call, at, gpu=False)
                at += 80_000
            gpu = _kernel(step, kernel, mixed, call, gpu, graph=not alone)
        if layer % 2 and not mixed:
            gpu = _kernel(step, EXTRA, mixed, graph, gpu, graph=True)
    for kernel in SAMPLING:
        call = step.called("hipLaunchKernel", at, 5_000, f', "kernel": "{kernel.name}", "grid": [512, 1, 1]')
        step.arrow("s", call, at, gpu=False)
        gpu = _kernel(step, kernel, mixed, call, gpu, graph=False)
        at += 60_000


def _kernel(step: Step, kernel: Kernel, mixed: bool, call: int, gpu: int, graph: bool) -> int:
    """Adds a kernel and its arrow; where the next one may start comes back (10% is left for what lengths vary)."""
    length = kernel.mixed if mixed else kernel.decode
    numbers = [("correlation", call)] if graph else [("external", step.ids), ("correlation", call)]
    kind = (
        '"kind": "Dispatch Task"' if graph else '"kind": "Dispatch Kernel", "grid": [512, 1, 1], "block": [256, 1, 1]'
    )
    linked = "" if graph else '"External id": %d, '
    index = step.event(
        f'{{"ph": "X", "cat": "kernel", "name": "{kernel.name}", "pid": 2, "tid": 0, @+, '
        f'"args": {{{linked}"device": 2, "stream": 0, "correlation": %d, {kind}}}}}',
        gpu,
        length,
        *numbers,
        gpu=True,
    )
    step.kernels.append(index)
    step.arrow("f", call, gpu, gpu=True)
    return gpu + length + length // 10 + 100


def write(path: Path, megabytes: float) -> Written:
    """Writes whole steps until the file holds ``megabytes`` (of 10^6 bytes)."""
    random = np.random.default_rng(7)
    steps = {mixed: template(mixed) for mixed in (False, True)}
    done = dict.fromkeys(steps, 0)
    spent = dict.fromkeys(steps, 0)
    host = gpu = 6_520_000_000_000_000
    ids = 70_000
    with path.open("w", encoding="utf-8") as file:
        file.write(_head())
        while file.tell() < megabytes * 1e6:
            mixed = sum(done.values()) % EVERY == EVERY // 2
            step = steps[mixed]
            host = max(host + 200_000, gpu - 8_400_000)
            first = max(gpu + 25_000, host + 1_500_000)
            length = np.where(step.gpu, step.lengths * random.uniform(0.95, 1.05, len(step.lengths)), step.lengths)
            length = length.astype(np.int64)
            start = step.starts + np.where(step.gpu, first, host)
            file.write((", " if sum(done.values()) else "") + _text(step, start, length, ids))
            kernels = length[step.kernels]
            done[mixed] += 1
            spent[mixed] += int(kernels.sum())
            host += step.host
            gpu = int((start + length)[step.gpu].max())
            ids += step.ids + 1
        file.write('], "traceName": "/tmp/made_up.json"}\n')
    return Written(
        events=sum(done[mixed] * len(steps[mixed].start) for mixed in steps),
        decode_steps=done[False],
        mixed_steps=done[True],
        decode_kernels=done[False] * len(steps[False].kernels),
        mixed_kernels=done[True] * len(steps[True].kernels),
        decode_ns=spent[False],
        mixed_ns=spent[True],
    )


def _head() -> str:
    device = {"id": 2, "name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992, "warpSize": 64, "numSms": 304}
    head = {
        "schemaVersion": 1,
        "deviceProperties": [device],
        "record_shapes": 1,
        "with_stack": 1,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1767189312000000000,
    }
    return json.dumps(head)[:-1] + ', "traceEvents": ['


def _text(step: Step, start: np.ndarray, length: np.ndarray, ids: int) -> str:
    numbers = np.zeros((6, step.count), dtype=np.int64)
    events = len(start)
    numbers[0, :events], numbers[1, :events] = start // 1000, start % 1000
    numbers[2, :events], numbers[3, :events] = length // 1000, length % 1000
    numbers[4:] = ids + np.arange(step.count)
    return step.text % tuple(numbers.ravel()[step.order].tolist())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("path", type=Path)
    options.add_argument("--mb", type=float, default=500.0, help="Size, in 10^6 bytes.")
    given = options.parse_args()
    print(json.dumps(write(given.path, given.mb)._asdict()))


if __name__ == "__main__":
    main()
