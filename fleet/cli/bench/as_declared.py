"""Check before a measurement: the running servers match the stack file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from facts.texts import plural
from fleet.cli.exits import CommandError

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from settings.stack import Settings

_SHOWN: Final = 4
"""Most differences in the message."""


def require_as_declared(kubectl: Kubectl, settings: Settings) -> None:
    """Flags, environment and image of every server pod match the stack file. Raises CommandError: the figure would be recorded for
    a configuration that never ran.
    """
    from fleet.verify import checks_engine, checks_service, cluster
    from fleet.verify.facts import Cluster, Facts

    facts = Facts(endpoint="", door=None, cluster=Cluster(pods=cluster.read_pods(kubectl, settings)))
    checks = (
        checks_engine.flags(facts, settings),
        checks_engine.environment(facts, settings),
        checks_service.version(facts, settings),
    )
    where: dict[str, int] = {}
    for one in (one for check in checks if check for one in check[1:] if one.blocks):
        what = f"{one.subject.partition(' · ')[2]} is {one.found}, in the file {one.allowed}"
        where[what] = where.get(what, 0) + 1
    if where:
        differences = "; ".join(f"{what} ({plural(pods, 'pod')})" for what, pods in list(where.items())[:_SHOWN])
        more = f"; and {len(where) - _SHOWN} more" if len(where) > _SHOWN else ""
        raise CommandError(
            f"the running servers differ from Pulumi.{settings.stack}.yaml: {differences}{more}. The figures would be recorded for a "
            f"configuration that did not run; run: pulumi up --stack {settings.stack}, or restore the deployed file"
        )
