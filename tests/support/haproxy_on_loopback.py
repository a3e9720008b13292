"""A router's configuration as deployed, moved to the loopback address."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workloads import names


def on_loopback(text: str, ports: Sequence[int], servers: Sequence[str] | None = None) -> str:
    """The configuration on these ports for clients, metrics and commands. `servers`: HOST:PORT of known ones in place of DNS names."""
    clients, metrics, commands = ports
    lines = {
        r"maxconn \d+": "maxconn 1000",
        f"bind :{names.HTTP_PORT}": f"bind 127.0.0.1:{clients}",
        f"bind :{names.ROUTER_METRICS_PORT}": f"bind 127.0.0.1:{metrics}",
        f"(stats socket ipv4@127.0.0.1):{names.ROUTER_ADMIN_PORT}": rf"\1:{commands}",
    }
    if servers is not None:
        lines["server-template .*$"] = "\n    ".join(f"server s{index} {one}" for index, one in enumerate(servers))
    for line, instead in lines.items():
        text, found = re.subn(rf"^    {line}", f"    {instead}", text, flags=re.MULTILINE)
        assert found == 1, line
    return text
