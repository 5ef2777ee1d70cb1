"""The event model that every trace reader fills: tables of numpy columns, a row per event, no objects.

Times are int64 nanoseconds since `Trace.origin_ns`, the same origin for all ranks of a trace. A name is an index into
`Trace.names`, a thread an index into `Trace.threads`. ``rank`` is the index of the file (`Trace.sources`) an event came
from: a correlation id means something only together with its rank, so that ids of two files never collide. -1 means
"not said" in every id column; 0 is a legal stream, device, rank and name.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Floats = NDArray[np.float64]

NOT_SAID = -1


class LaunchKind(IntEnum):
    """What a runtime or driver call did."""

    KERNEL = 0
    GRAPH = 1
    COPY = 2
    SYNC = 3
    CAPTURE = 4
    OTHER = 5


class CopyKind(IntEnum):
    """Direction of a copy; a memset is a row of its own kind."""

    OTHER = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    PEER = 4
    SET = 5


class Kernels(NamedTuple):
    """Kernels that ran on a device (on a trace without a GPU: see cpu.py).

    ``correlation`` is the id of the launch call, shared by all kernels of one graph launch; ``external`` the id that
    links it to a CPU op (Kineto's External id); ``graph`` the graph exec or graph id when the trace says so and
    ``node`` the node inside it (0: outside any graph); ``blocks`` the thread blocks of its grid and ``threads`` the
    threads of a block, 0 where the trace does not say.
    """

    start: Ints
    end: Ints
    name: Small
    rank: Small
    device: Small
    stream: Ints
    correlation: Ints
    external: Ints
    graph: Ints
    node: Ints
    blocks: Ints
    threads: Small


class Copies(NamedTuple):
    """Copies and memsets. ``bytes`` is 0 where the trace does not say; ``kind`` is a CopyKind."""

    start: Ints
    end: Ints
    rank: Small
    device: Small
    stream: Ints
    correlation: Ints
    kind: Small
    bytes: Ints


class Replays(NamedTuple):
    """Whole graph replays as one interval on the device (Nsight Systems' graph mode): their kernels are not listed."""

    start: Ints
    end: Ints
    rank: Small
    device: Small
    stream: Ints
    correlation: Ints
    graph: Ints


class Launches(NamedTuple):
    """Runtime and driver calls on CPU threads. ``kind`` is a LaunchKind; ``kernel`` names what it launched."""

    start: Ints
    end: Ints
    name: Small
    rank: Small
    thread: Small
    correlation: Ints
    external: Ints
    kind: Small
    kernel: Small


class Bands(NamedTuple):
    """Annotated ranges on CPU threads: NVTX push/pop and start/end, record_function. They may nest, and overlap.

    ``thread`` is that on which it began.
    """

    start: Ints
    end: Ints
    name: Small
    rank: Small
    thread: Small


class Ops(NamedTuple):
    """Framework operators on CPU threads (aten::mm, vllm::unified_attention, ...).

    ``shape`` indexes `Trace.shapes` (the inputs' dimensions as the trace writes them), -1 where not recorded or kept.
    """

    start: Ints
    end: Ints
    name: Small
    rank: Small
    thread: Small
    external: Ints
    shape: Small


class Counters(NamedTuple):
    """Samples over time: GPU metrics of Nsight Systems, clocks. ``name`` carries the unit, e.g. ``SM Active [%]``."""

    time: Ints
    name: Small
    rank: Small
    device: Small
    value: Floats


class Measured(NamedTuple):
    """Kernels with hardware counters and no timeline (Nsight Compute). NaN: the counter was not collected.

    ``duration`` in ns; ``compute``, ``memory`` and ``dram`` are Speed Of Light percentages of the sustained peak;
    ``waves`` are waves per multiprocessor; ``warps`` the achieved occupancy in percent; ``dram_bytes`` read plus
    written; ``sm_clock`` in Hz; ``group`` an index into `Trace.names` of
    the NVTX range around the kernel, -1 none; ``device`` is an index into `Trace.names` too (the device's name).
    """

    name: Small
    rank: Small
    device: Small
    group: Small
    duration: Floats
    compute: Floats
    memory: Floats
    dram: Floats
    waves: Floats
    warps: Floats
    dram_bytes: Floats
    sm_clock: Floats


class Totals(NamedTuple):
    """Kernels summed by name, with no timeline (a summary table): instances, and ns in all, median, least, most."""

    name: Small
    rank: Small
    instances: Ints
    total: Ints
    median: Floats
    least: Ints
    most: Ints


class Thread(NamedTuple):
    """A CPU thread, unique within the trace; ``pid`` and ``tid`` as the file writes them."""

    rank: int
    pid: str
    tid: str


class Device(NamedTuple):
    """What a file says about one device: its name ("" when it does not), multiprocessors (0), bytes/s (0)."""

    id: int
    name: str
    multiprocessors: int = 0
    bandwidth: float = 0.0


class Fault(NamedTuple):
    """Something wrong with a file that its reader got past.

    ``check`` is ``truncated``, ``damaged`` (what cannot be read, an impossible time among it, is left out),
    ``encoding``, ``missing``, ``times`` (a clock of its own); ``detail`` one sentence with numbers and, where there is
    one, the cure.
    """

    check: Literal["truncated", "damaged", "encoding", "missing", "times"]
    detail: str


class Source(NamedTuple):
    """One file of the trace.

    ``form`` names the format (``Kineto JSON``, ``Nsight Systems SQLite 3.24.0``, ...); ``world`` the ranks of its job
    (0 unsaid), ``rank`` its rank by its own word (-1 unsaid); ``graph_mode`` is ``graph`` or ``node`` for
    Nsight Systems, "" elsewhere; ``engine`` what wrote the steps, by the file's own word, e.g. ``vllm 0.32.0``;
    ``notes`` what its reader left out on purpose, a sentence each.
    """

    path: str
    form: str
    rank: int = NOT_SAID
    world: int = 0
    devices: tuple[Device, ...] = ()
    graph_mode: str = ""
    engine: str = ""
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()


class Trace(NamedTuple):
    """Everything that the files of one job hold.

    ``shapes`` are the distinct operator shapes as JSON text; ``on_cpu`` is True when the kernels are CPU operators
    because no device was traced.
    """

    names: tuple[str, ...]
    threads: tuple[Thread, ...]
    shapes: tuple[str, ...]
    sources: tuple[Source, ...]
    origin_ns: int
    kernels: Kernels
    copies: Copies
    replays: Replays
    launches: Launches
    bands: Bands
    ops: Ops
    counters: Counters
    measured: Measured
    totals: Totals
    on_cpu: bool = False
