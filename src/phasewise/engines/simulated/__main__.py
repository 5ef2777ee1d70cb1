"""``python -m phasewise.engines.simulated``: the child of ``SimulatedServer``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from phasewise.engines.simulated.child import Orders
from phasewise.engines.simulated.pacer import go_first
from phasewise.engines.simulated.server import listening, new_loop
from phasewise.errors import UsageError


def main() -> int:
    """Read the orders, print the URL, serve until the parent's end of the pipe closes."""
    go_first()
    try:
        orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(orders))
    except (msgspec.DecodeError, UsageError) as error:
        print(f"phasewise simulate: {error}", file=sys.stderr)
        return 2
    return 0


async def _serve(orders: Orders) -> None:
    log = Path(orders.log) if orders.log else None
    async with listening(orders.plan, api_key=orders.api_key, log=log) as url:
        print(url, flush=True)
        closed = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(closed), sys.stdin)
        await closed.read()


if __name__ == "__main__":
    sys.exit(main())
