"""Hold the simulated transfers from prefill to decode (lab/simulators/model_server/transfers.py) against vLLM's NIXL connector.

Run with `.venv-vllm-0.33/bin/python -m tests.vllm.check_transfer` (`make vllm-check` does). vLLM's scheduler side decides for requests
that stand-ins hold; no NIXL, no GPU and no cache is there.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from lab.results.clock import Clock
from lab.simulators.model_server.answers import Asked
from lab.simulators.model_server.node import Transfer
from lab.simulators.model_server.transfers import Transfers
from tests.vllm.check_parser import Check, _equal, report

TOKENS = 768
ASKED: tuple[Mapping[str, Any] | None, ...] = (None, {"do_remote_decode": True}, {"do_remote_decode": False})


def _asked(params: Mapping[str, Any] | None) -> Asked:
    return Asked(
        api="completions",
        model="m",
        input_tokens=TOKENS,
        output_tokens=1,
        stream=False,
        include_usage=False,
        transfer=params,
    )


def _ours(params: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, int, int]:
    """What prefill answers to these parameters, what decode fetches for that answer, and what for one without an address."""

    async def both() -> tuple[dict[str, Any] | None, int, int]:
        prefill, decode = (Transfers(Transfer(role=role), Clock(1_000)) for role in ("kv_producer", "kv_consumer"))
        await prefill.start()
        try:
            kept = prefill.keep(_asked(params), "r")
            return (
                kept,
                await decode.fetch(_asked(kept)),
                await decode.fetch(_asked(kept and {**kept, "remote_host": ""})),
            )
        finally:
            prefill.stop()

    return asyncio.run(both())


def _scheduler() -> Any:
    """As much of vLLM's scheduler side as decides: of a model with recurrent states, which keeps the last token for decode."""
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import NixlPullConnectorScheduler

    made = MagicMock(spec=NixlPullConnectorScheduler)
    made.is_bidirectional_kv_xfer_enabled = made.use_host_buffer = False
    made.kv_recompute_threshold = 64
    made._kv_lease_duration = 30
    made._reqs_need_send, made._reqs_need_recv, made._reqs_in_batch = {}, {}, set()
    made.vllm_config, made._TRANSFER_MODE, made._registration_generation = MagicMock(), "read", 0
    made.engine_id, made.side_channel_host, made.side_channel_port, made.transfer_tp_size = "e", "127.0.0.1", 5600, 1
    made.get_exchange_clipped_blocks = lambda blocks: blocks
    made._prefill_backoff = lambda: 1
    made._get_remote_prefill_token_count = lambda tokens: NixlPullConnectorScheduler._get_remote_prefill_token_count(
        made, tokens
    )
    return made


def _theirs(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import NixlPullConnectorScheduler
    from vllm.v1.request import RequestStatus

    request = SimpleNamespace(
        kv_transfer_params=None if params is None else dict(params),
        request_id="r",
        status=RequestStatus.FINISHED_LENGTH_CAPPED,
        num_computed_tokens=TOKENS,
    )
    return NixlPullConnectorScheduler.request_finished(_scheduler(), request, ([1],))[1]


def _fetched(params: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens that vLLM's decode expects from prefill, and how many requests it sends there."""
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import NixlPullConnectorScheduler

    scheduler = _scheduler()
    request = SimpleNamespace(
        kv_transfer_params=dict(params), request_id="d", prompt_token_ids=[1] * TOKENS, num_prompt_tokens=TOKENS
    )
    tokens, _ = NixlPullConnectorScheduler.get_num_new_matched_tokens(scheduler, request, 0)
    blocks = SimpleNamespace(blocks=(), get_unhashed_block_ids_all_groups=lambda: ([1],))
    NixlPullConnectorScheduler.update_state_after_alloc(scheduler, request, blocks, tokens)
    return tokens, len(scheduler._reqs_need_recv)


def checks() -> Iterator[Check]:
    """One check for each side."""

    def prefill() -> None:
        for params in ASKED:
            ours, theirs = _ours(params)[0], _theirs(params)
            _equal(theirs is None, ours is None, f"no address for {params}")
            if ours is not None and theirs is not None:
                _equal(set(ours) - set(theirs), set(), "keys that only ours has")
                for key in ("do_remote_prefill", "do_remote_decode", "remote_num_tokens", "remote_request_id"):
                    _equal(theirs[key], ours[key], key)

    def decode() -> None:
        kept, fetched, without = _ours(ASKED[1])
        assert kept is not None
        _equal(_fetched(kept), (fetched, 1), "tokens from prefill")
        # vLLM sends no request, but still expects the tokens; ours computes them.
        _equal(
            _fetched({key: one for key, one in kept.items() if key != "remote_host"})[1],
            0,
            "requests without an address",
        )
        _equal(without, 0, "tokens without an address")

    yield "prefill answers with an address when vLLM does, in vLLM's words", prefill
    yield "decode fetches all but the last token, as vLLM does for recurrent states", decode


def main() -> int:
    """Run every check. 2 without vLLM."""
    if importlib.util.find_spec("vllm") is None:
        sys.stderr.write("vLLM is not installed here: see tests/vllm/check_parser.py\n")
        return 2
    return report(checks(), lambda line: sys.stdout.write(f"{line}\n"))


if __name__ == "__main__":
    sys.exit(main())
