"""A simulated server's side of vLLM's NIXL connector: prefill keeps prompts for decode, and decode fetches them.

The protocol in requests and answers is vLLM's: a request with `do_remote_decode` makes prefill keep its blocks and answer where they
are, and a request with that answer makes decode fetch them. The way between two servers is this module's own, one line of JSON each way,
and moves a count of bytes instead of bytes.

Source: vLLM 0.33.0, distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from facts.disaggregation import transfer_bytes
from facts.memory import CacheLayout
from lab.simulators.model_server.listener import LOOPBACK

if TYPE_CHECKING:
    from lab.results.clock import Clock
    from lab.simulators.model_server.answers import Asked
    from lab.simulators.model_server.node import Transfer

# Of the article's model without drafts, which do not matter here.
_LAYOUT: Final = CacheLayout(speculative_tokens=0, prefix_caching=False)
_NEEDED: Final = ("remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port")
_ANSWER_WALL_SECONDS: Final = 5.0


class TransferError(Exception):
    """The other server is gone, is another one than before, or no longer keeps the prompt."""


@dataclass(slots=True)
class Moved:
    """Counters, as vLLM names them."""

    bytes_of: list[int] = field(default_factory=list)
    """Of each transfer to this server."""
    seconds_of: list[float] = field(default_factory=list)
    """Simulated, of each of them."""
    failed: int = 0
    expired: int = 0
    """Prompts that were not fetched within the lease."""


class Transfers:
    """The connector of one server. Start and stop it in the server's event loop."""

    def __init__(self, node: Transfer, clock: Clock) -> None:
        self.moved = Moved()
        self._node, self._clock = node, clock
        self._engine = uuid.uuid4().hex
        self._kept: dict[str, asyncio.TimerHandle] = {}
        self._listening: asyncio.Server | None = None

    @property
    def kept(self) -> int:
        """Prompts that are kept for decode now."""
        return len(self._kept)

    async def start(self) -> None:
        """Listen for other servers."""
        self._listening = await asyncio.start_server(self._give, LOOPBACK, 0)

    def stop(self) -> None:
        """Forget every prompt, and listen no more."""
        for lease in self._kept.values():
            lease.cancel()
        self._kept.clear()
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def keep(self, asked: Asked, request_id: str) -> dict[str, Any] | None:
        """The `kv_transfer_params` of an answer; None unless the request asks that decode happens elsewhere."""
        if self._node.role != "kv_producer" or not (asked.transfer or {}).get("do_remote_decode"):
            return None
        if self._listening is None:
            return None
        loop = asyncio.get_running_loop()
        lease = self._clock.wall_seconds(self._node.lease_seconds)
        self._kept[request_id] = loop.call_later(lease, self._expire, request_id)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [[0]],
            "remote_engine_id": self._engine,
            "remote_request_id": request_id,
            "remote_host": LOOPBACK,
            "remote_port": self._listening.sockets[0].getsockname()[1],
            "tp_size": 1,
            "remote_num_tokens": asked.input_tokens,
        }

    async def fetch(self, asked: Asked) -> int:
        """Prompt tokens that came from prefill: all but the last, or none where the request names no prefill. Raises TransferError."""
        params = asked.transfer or {}
        if self._node.role != "kv_consumer" or not params.get("do_remote_prefill"):
            return 0
        if any(not params.get(name) for name in _NEEDED):
            return 0
        try:
            async with asyncio.timeout(_ANSWER_WALL_SECONDS):
                await self._ask(params)
        except (OSError, ValueError, TimeoutError, TransferError) as error:
            self.moved.failed += 1
            raise TransferError(str(error)) from None
        number = transfer_bytes(_LAYOUT, asked.input_tokens)
        seconds = number / self._node.bytes_per_s
        await asyncio.sleep(self._clock.wall_seconds(seconds))
        self.moved.bytes_of.append(number)
        self.moved.seconds_of.append(seconds)
        return asked.input_tokens - 1

    async def _ask(self, params: Mapping[str, Any]) -> None:
        reader, writer = await asyncio.open_connection(params["remote_host"], params["remote_port"])
        try:
            asked = {
                "engine": params["remote_engine_id"],
                "request": params["remote_request_id"],
                "agreement": self._node.agreement,
            }
            writer.write(json.dumps(asked).encode() + b"\n")
            answer = json.loads(await reader.readline() or "{}")
        finally:
            writer.close()
        if answer.get("differs"):
            raise TransferError("the other server has other settings")
        if not answer.get("kept"):
            raise TransferError(f"request {params['remote_request_id']} is not kept")

    async def _give(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = json.loads(await reader.readline() or "{}")
            differs = asked.get("agreement", "") != self._node.agreement
            is_here = asked.get("engine") == self._engine and not differs
            lease = self._kept.pop(asked.get("request", ""), None) if is_here else None
            if lease is not None:
                lease.cancel()
            writer.write(json.dumps({"kept": lease is not None, "differs": differs}).encode() + b"\n")
            await writer.drain()
        finally:
            writer.close()

    def _expire(self, request_id: str) -> None:
        del self._kept[request_id]
        self.moved.expired += 1
