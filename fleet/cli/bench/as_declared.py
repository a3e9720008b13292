"""Before a measurement: whether the servers that are up run as the file says by which they will be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.cli.exits import CommandError
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from settings.stack import Settings

_SHOWN: Final = 4
"""Differences that the message names."""


def require_as_declared(kubectl: Kubectl, settings: Settings) -> None:
    """Flags, environment and image of every server pod are those of the stack file. Raises CommandError: a figure is named after
    the file, and with flags that wait for a `pulumi up` it would be certified, and recorded, under the name of something that never ran.
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
    for one in (one for check in checks if check.state == "failed" for one in check.differences):
        what = f"{one.name} is {one.found} there and {one.declared} in the file"
        where[what] = where.get(what, 0) + 1
    if where:
        told = "; ".join(f"{what} ({plural(pods, 'pod')})" for what, pods in list(where.items())[:_SHOWN])
        more = f"; and {len(where) - _SHOWN} more" if len(where) > _SHOWN else ""
        raise CommandError(
            f"the servers that are up run otherwise than Pulumi.{settings.stack}.yaml says: {told}{more}. The measurement would go under "
            f"a wrong name: run `pulumi up --stack {settings.stack}` to its end, or go back to the file that was brought up"
        )
