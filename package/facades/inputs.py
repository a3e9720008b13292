"""From flat inputs to checked settings: each input has its place in a stack file, and the program's own checks judge it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

import pulumi
from pulumi.errors import InputPropertiesError, InputPropertyError, InputPropertyErrorDetails
from pulumi.provider.experimental.util import camel_case

from facts.finding import Finding, shown
from facts.secrets_in_text import form_of
from settings.load import check, parse
from settings.problems import SettingsError
from settings.sections.section import NAMESPACE
from settings.stack import Settings

PACKAGE = NAMESPACE
"""Name of the package, and first part of its types: `vllm-fleet:index:VllmFleet`."""

EXISTING_CLUSTER: Mapping[str, Any] = {
    "project": "existing-cluster",
    "platform": {"stack": "existing-cluster"},
    "monitoring": {"enabled": False},
}
"""Settings of a part on a cluster that the caller has: nothing made of them reaches a resource."""

PLACES: Mapping[str, str] = {
    "project": "project",
    "zones": "zones",
    "namespace": "namespace",
    "machine": "machine",
    "capacity": "capacity.mode",
    "model": "model.id",
    "revision": "model.revision",
    "model_size_gb": "model.sizeGb",
    "model_config": "model.config",
    "reasoning_parser": "model.reasoningParser",
    "tool_call_parser": "model.toolCallParser",
    "profile": "server.profile",
    "engine": "server.engine",
    "reasons": "server.reasons",
    "replicas": "server.replicas",
    "server_name": "server.name",
    "concurrency_per_replica": "server.needs.concurrencyPerReplica",
    "startup_minutes": "server.startupMinutes",
    "internal_load_balancer": "server.internalLoadBalancer",
    "weights_size_gib": "weights.sizeGib",
    "weights_throughput_mibps": "weights.throughputMibps",
    "release_channel": "cluster.releaseChannel",
    "deletion_protection": "cluster.deletionProtection",
    "labels": "labels",
}
"""Where each input is in a stack file."""

PLACES_BY_MODE: Mapping[str, Mapping[str, str]] = {
    "flex-start": {"run_duration_seconds": "capacity.runDurationSeconds"},
    "calendar": {"reservation": "capacity.reservation"},
    "reservation": {"reservation": "capacity.name"},
    "ladder": {
        "reservation": "capacity.reservation.name",
        "run_duration_seconds": "capacity.flexStartSeconds",
        "spot_rung": "capacity.spot",
    },
}
"""The same for inputs that belong to some capacity modes only."""

SECRETS: Mapping[str, str] = {"hf_token": "hfToken", "api_key": "apiKey"}
"""Secret inputs, and the keys of a stack file that say whether they are there."""

SECRET_PLACES: Mapping[str, str] = {"weights.tokenSecret": "hfToken", "server.apiKeySecret": "apiKey"}
"""Where a stack file's checks miss a secret, and the input that gives it."""


class CapacityMode(Enum):
    """How GPU nodes are obtained."""

    ON_DEMAND = "on-demand"
    """List price. Not every machine is sold so: A4 is not."""
    SPOT = "spot"
    """Cheapest; Google may take a node back at any moment."""
    FLEX_START = "flex-start"
    """Nodes that start when there is room and end after `runDurationSeconds`."""
    CALENDAR = "calendar"
    """An approved FutureReservation in calendar mode: `reservation`."""
    RESERVATION = "reservation"
    """A specific reservation: `reservation`."""
    LADDER = "ladder"
    """A ComputeClass that tries a reservation, then flex-start, then Spot."""


def settings_of(
    component: str,
    name: str,
    args: Mapping[str, Any],
    fixed: Mapping[str, Any] | None = None,
    elsewhere: Collection[str] = (),
) -> Settings:
    """The settings that a stack file with these inputs has. Raises InputPropertiesError with every input that cannot be used.

    `fixed` is what the component decides by itself. `elsewhere` are sections that it does not make: what is wrong with
    their defaults is not its concern.
    """
    given = {key: _whole(value.value if isinstance(value, Enum) else value) for key, value in args.items()}
    mode = str(given.get("capacity", (fixed or {}).get("capacity", {}).get("mode")))
    places = {**PLACES, **PLACES_BY_MODE.get(mode, {})}
    by_mode = {key for keys in PLACES_BY_MODE.values() for key in keys}
    if strays := sorted(by_mode & given.keys() - places.keys()):
        raise _refusal(component, {camel_case(key): f"not allowed with capacity {mode}; remove it" for key in strays})
    sections: dict[str, Any] = json.loads(json.dumps(fixed or {}))
    for key in given.keys() & places.keys():
        *outer, last = places[key].split(".")
        section = sections
        for part in outer:
            section = section.setdefault(part, {})
        section[last] = given[key]
    zone = next(iter(given["zones"]), "")
    sections["region"] = str(zone).rpartition("-")[0]
    sections |= {key: "given" for name_, key in SECRETS.items() if name_ in args}
    config = {
        f"gcp:{key}" if key in ("project", "region") else f"{NAMESPACE}:{key}": value
        if isinstance(value, str)
        else json.dumps(value)
        for key, value in sections.items()
    }
    try:
        settings = parse(f"{pulumi.get_stack()}-{name}", config)
        problems = [problem for problem in check(settings) if _section(problem.subject) not in elsewhere]
        if refused := [problem for problem in problems if problem.severity == "error"]:
            raise SettingsError(settings.stack, refused)
    except SettingsError as error:
        told = dict(_in_inputs_of(problem, places) for problem in error.problems if problem.subject != "gcp:region")
        for wrong in error.problems:
            # The region follows from the zones, of which one may be refused already.
            if wrong.subject == "gcp:region" and not any(path.startswith("zones") for path in told):
                told["zones"] = f"zones of a region are needed; {_in_inputs_of(wrong, places)[1]}"
        raise _refusal(component, told) from None
    for problem in problems:
        path, text = _in_inputs_of(problem, places)
        message = f"{component} {name}: {path}: {shown(problem.found)}; {text}"
        pulumi.log.info(message) if problem.severity == "note" else pulumi.log.warn(message)
    return settings


def secret(args: Mapping[str, Any], key: str) -> pulumi.Output[str] | None:
    """A secret input as a secret, however the caller passed it; None where it is not given."""
    if key not in args:
        return None
    return pulumi.Output.secret(args[key]).apply(lambda value: require_text(camel_case(key), value))


def require_text(name: str, value: Any) -> str:
    """The value of a text input. Raises InputPropertyError for another kind, and for a secret in an input that is none."""
    if not isinstance(value, str):
        raise InputPropertyError(name, "must be text")
    if name not in SECRETS.values() and (what := form_of(value)):
        raise InputPropertyError(
            name, f"looks like {what}, which would be readable in the cluster; remove it and rotate the secret"
        )
    return value


def on_callers_cluster(component: str, opts: pulumi.ResourceOptions | None) -> None:
    """Refuse a part without the caller's Kubernetes provider, which would go to the cluster of some ambient kubeconfig."""
    providers = opts.providers if opts is not None else None
    if not isinstance(providers, Mapping) or "kubernetes" not in providers:
        raise InputPropertiesError(
            f"{component} needs your cluster's Kubernetes provider; write the resource option providers: [yourProvider]",
            [],
        )


def _refusal(component: str, reasons: Mapping[str, str]) -> InputPropertiesError:
    errors: list[InputPropertyErrorDetails] = [
        {"property_path": path, "reason": reason} for path, reason in reasons.items()
    ]
    return InputPropertiesError(f"{component}: {len(errors)} invalid input{'' if len(errors) == 1 else 's'}", errors)


def _in_inputs_of(problem: Finding, places: Mapping[str, str]) -> tuple[str, str]:
    """The input that a problem is about, and what to do about it, in the caller's names."""
    place = problem.subject.partition(":")[2]
    if place in SECRET_PLACES:
        return SECRET_PLACES[place], f"required, as a secret; why: {problem.why}"
    path = _in_inputs(place, places)
    # An example in a stack file begins with the last key of its path.
    last = problem.subject.rpartition(".")[2]
    write = re.sub(rf"^{re.escape(last)}:", f"{path.rpartition('.')[2]}:", problem.write)
    if path == "capacity":
        write = write.replace("{mode:", "{capacity:").replace(", name:", ", reservation:")
    text = f"allowed: {problem.allowed}; why: {problem.why}; write: {write}"
    return path, _in_inputs(text, places)


def _in_inputs(text: str, places: Mapping[str, str]) -> str:
    """A text with the inputs' names for the paths of a stack file."""
    text = re.sub(rf"\b(?:{NAMESPACE}|gcp):(?=[a-z])", "", text)
    for key, place in sorted(places.items(), key=lambda item: -len(item[1])):
        text = re.sub(rf"(?<![\w.]){re.escape(place)}(?!\w)", camel_case(key), text)
    return text


def _section(path: str) -> str:
    return re.split(r"[.\[]", path.partition(":")[2])[0]


def _whole(value: Any) -> Any:
    """A value with whole numbers as such: on the wire every number is a float."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return {key: _whole(item) for key, item in value.items()} if isinstance(value, dict) else value
