"""Rules for what autoscalers ask, and whether they can scale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from facts.finding import Finding
from google_provider import projects
from objects import by_key, named, namespace_of, number, of_kind, own_name, selects_by_text, shown
from pods import all_servers, quantity
from promql import is_constant
from rule import Resource, Setting, Settings, StackRule, dig, finding, has, listed, mapped
from scalers import KEDA, POD_COUNT, Scaler, scalers

MONITORING: Final = "monitoring.googleapis.com"
_PATH: Final = re.compile(r"/v1/projects/([a-z0-9.:-]+)/location/global/prometheus/?")
_IN_CLUSTER: Final = re.compile(r"(?!localhost)[a-z][a-z0-9-]*(?:\.([a-z0-9-]+)(\.svc(?:\.cluster\.local)?)?)?")
_IDENTITIES: Final = ("podIdentity", "gcpSecretManager", "azureKeyVault", "awsSecretManager", "hashiCorpVault")
_ASKS: Final = (
    "serverAddress",
    "url",
    "scalerAddress",
    "host",
    "address",
    "addresses",
    "endpoint",
    "apiURL",
    "tokenURL",
    "oauthTokenURI",
)
"""Metadata that is an address, of every trigger. Source: keda 2.20.2, pkg/scalers."""
_WITHOUT_ADDRESS: Final = (
    "cron",
    "cpu",
    "memory",
    "kubernetes-workload",
    "gcp-stackdriver",
    "gcp-pubsub",
    "gcp-cloudtasks",
)
"""Triggers that ask the cluster or the cloud's own API."""
_LIKE_AN_ADDRESS: Final = re.compile(r"://|^[\w-]+(\.[\w-]+)+:[0-9]+")
_SECRET: Final = ("customheaders", "headers", "bearertoken", "password", "token", "apikey")
_PAUSED: Final = "autoscaling.keda.sh/paused"
_MOST_FAILURES: Final = 100
_LONGEST_RISE: Final = 600
_DEFAULT_MOST: Final = 100_000.0
"""Requests in flight of one replica. Assumed: a hundred times what an engine admits."""
CONCURRENCY: Final = "vllm-fleet.dev/concurrency-per-replica"


def _elsewhere(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    allowed = {str(one) for one in listed(settings["addresses"])}
    own_projects = projects(resources)
    spaces = {own_name(resource) for resource in of_kind(resources, "Namespace")}
    known = {kind: by_key(resources, kind) for kind in ("TriggerAuthentication", "ClusterTriggerAuthentication")}
    for resource in (*of_kind(resources, "ScaledObject", KEDA), *of_kind(resources, "ScaledJob", KEDA)):
        for index, trigger in enumerate(listed(dig(resource.props, "spec", "triggers"))):
            kind, metadata = str(dig(trigger, "type") or ""), mapped(dig(trigger, "metadata"))
            reference = dig(trigger, "authenticationRef")
            chosen = str(dig(reference, "kind") or "TriggerAuthentication")
            where = f"{named(resource)}: spec.triggers[{index}] ({kind})"
            by_name = {name: auth for (space, name), auth in known.get(chosen, {}).items()
                       if chosen != "TriggerAuthentication" or space == namespace_of(resource)}  # fmt: skip
            authentication = by_name.get(str(dig(reference, "name")))
            written = {key: str(dig(metadata, key)) for key in sorted(set(metadata))}
            addresses = [
                (key, text)
                for key, text in written.items()
                if key in _ASKS or (key != "query" and _LIKE_AN_ADDRESS.search(text))
            ]
            if kind not in _WITHOUT_ADDRESS and not addresses:
                yield finding(f"{where} names no address that this rule can read", urn=resource.urn)
            for key, address in addresses:
                if address not in allowed and (why := _foreign(address, own_projects, spaces, reference)):
                    yield finding(f"{where}.metadata.{key} is {_short(address)}: {why}", urn=resource.urn)
                elif (
                    MONITORING in address
                    and address not in allowed
                    and not any(
                        has(dig(authentication.props, "spec") if authentication else None, key) for key in _IDENTITIES
                    )
                ):
                    yield finding(
                        f"{where}.authenticationRef: no {chosen} of the stack named {dig(reference, 'name')} has an identity",
                        write="authenticationRef of a TriggerAuthentication with podIdentity: {provider: gcp}",
                        urn=resource.urn,
                    )
            if str(dig(metadata, "unsafeSsl")).lower() == "true":
                yield finding(f"{where}.metadata.unsafeSsl is true", write="remove unsafeSsl", urn=resource.urn)
            for key in set(metadata):
                if key.lower() in _SECRET:
                    yield finding(
                        f"{where}.metadata.{key} is sent along", write="a TriggerAuthentication", urn=resource.urn
                    )


def _short(text: str) -> str:
    # Without credentials, which secret-in-plain-text reports.
    return re.sub(r"//[^/]*@", "//…@", text)[:120]


def _foreign(address: str, own_projects: set[str], spaces: set[str], reference: Any) -> str:
    """Why an address is not the cloud's or the cluster's own; empty where it is."""
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "it is no address"
    if parts.username is not None or parts.password is not None:
        return "it has a user before its host"
    if host == MONITORING and parts.scheme == "https" and port in (None, 443):
        match = _PATH.fullmatch(parts.path)
        if match is None or parts.query or parts.fragment:
            return "its path is not that of Cloud Monitoring's Prometheus API"
        return (
            f"the stack is in project {', '.join(sorted(own_projects))}"
            if own_projects and match[1] not in own_projects
            else ""
        )
    if host == MONITORING:
        return "Cloud Monitoring is asked by https, without another port"
    service = _IN_CLUSTER.fullmatch(host)
    # Two words are a Service and its namespace, or a domain: a namespace of the stack decides.
    if service is None or not (service[2] or service[1] is None or service[1] in spaces):
        return "it is neither Cloud Monitoring nor a Service of the cluster"
    return "an identity's token is sent to it" if reference is not None and parts.scheme != "https" else ""


def _stuck(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    found = tuple(scalers(resources))
    scaled = {one.resource.urn for one in found}
    spaces = {server.pod.namespace for server in all_servers(resources)}
    for resource in (*of_kind(resources, "ScaledObject", KEDA), *of_kind(resources, "HorizontalPodAutoscaler")):
        target = mapped(dig(resource.props, "spec", "scaleTargetRef"))
        kind = str(dig(target, "kind") or "Deployment")
        there = by_key(resources, kind)
        if (
            resource.urn not in scaled
            and namespace_of(resource) in spaces
            and (namespace_of(resource), str(dig(target, "name"))) not in there
        ):
            yield finding(
                f"{named(resource)} scales {kind} {dig(target, 'name')}, which the stack does not have",
                urn=resource.urn,
            )
    for scaler in found:
        for what in _holds_still(scaler):
            yield scaler.found(f"{named(scaler.resource)}: {what}")


def _holds_still(scaler: Scaler) -> Iterator[str]:
    annotations = mapped(dig(scaler.resource.props, "metadata", "annotations"))
    for key in set(annotations):
        # At 0 the fleet is paused, which costs nothing.
        if key.startswith(_PAUSED) and str(annotations[key]).lower() not in ("0", "false"):
            yield f"metadata.annotations: {key} is {annotations[key]}"
    least, most = scaler.least, scaler.most
    if least is not None and most is not None and least >= most:
        yield f"its minimum is {shown(least)}, and its maximum {shown(most)}"
    horizontal = ("advanced", "horizontalPodAutoscalerConfig") if scaler.is_keda else ()
    for direction in ("scaleUp", "scaleDown"):
        if dig(scaler.spec, *horizontal, "behavior", direction, "selectPolicy") == "Disabled":
            yield f"behavior.{direction}.selectPolicy is Disabled"
    failures = number(dig(scaler.spec, "fallback", "failureThreshold"))
    if failures is not None and failures > _MOST_FAILURES:
        yield f"spec.fallback.failureThreshold is {shown(failures)}"
    for key, longest in (("pollingInterval", 300), ("initialCooldownPeriod", 3600)):
        if (number(dig(scaler.spec, key)) or 0) > longest:
            yield f"spec.{key} is {shown(dig(scaler.spec, key))} seconds"
    formula = dig(scaler.spec, "advanced", "scalingModifiers", "formula")
    names = {str(dig(metric, "name")) for metric in scaler.metrics}
    if formula and names.isdisjoint(re.findall(r"[\w-]+", str(formula))):
        yield f"advanced.scalingModifiers.formula is {formula}, which reads no trigger"
    window = number(dig(scaler.spec, *horizontal, "behavior", "scaleUp", "stabilizationWindowSeconds"))
    if window is not None and window > _LONGEST_RISE:
        yield f"behavior.scaleUp.stabilizationWindowSeconds is {shown(window)}"
    admitted = quantity(scaler.pod.annotation(CONCURRENCY)) or _DEFAULT_MOST
    for trigger in scaler.pod_counts:
        selector = dig(trigger, "metadata", "podSelector")
        if selects_by_text(selector, scaler.pod.labels):
            yield f"its {POD_COUNT} trigger counts the servers themselves: podSelector is {selector or 'empty'}"
    for trigger in scaler.metrics:
        metadata, what = mapped(dig(trigger, "metadata")), str(dig(trigger, "type") or "metric")
        if (query := dig(metadata, "query")) is not None and is_constant(str(query)):
            yield f"the query of its {what} trigger is a constant"
        amounts = [dig(metadata, key) for key in ("threshold", "targetValue")] + [
            dig(trigger, place, "target", "averageValue") for place in ("external", "pods", "object")
        ]
        for amount in (quantity(one) for one in amounts):
            if amount is not None and not 1 <= amount <= admitted:
                yield f"its {what} adds a replica at {amount:g}; a replica takes {admitted:g}"


RULES: Final = (
    StackRule(
        name="scaler-asks-elsewhere",
        subject="scaling",
        statement="An autoscaler asks Cloud Monitoring or a Service of its cluster, and sends its identity nowhere else.",
        evidence="KEDA sends the Google token of its service account with every query, and scales by the answer: a foreign server reads "
        "the project's metrics and sets the number of replicas. Source: keda 2.20.2, prometheus_scaler.go, gcp_auth. Mandatory: a "
        "mistyped host is enough",
        fix="serverAddress: https://monitoring.googleapis.com/v1/projects/PROJECT/location/global/prometheus",
        level="mandatory",
        severity="critical",
        settings=(Setting(name="addresses", type="array", default=(), why="Further addresses, in full"),),
        judge=_elsewhere,
    ),
    StackRule(
        name="scaler-stuck",
        subject="scaling",
        statement="An autoscaler has a target and can scale it in both directions, by load.",
        evidence="a pause, a constant query, equal bounds and a disabled direction freeze the replicas while the autoscaler looks healthy. "
        "Source: keda 2.20.2, scaledobject_types.go; Kubernetes, HorizontalPodAutoscaler. Mandatory: it costs the fleet at night or the "
        "answers at noon. A pause at 0 replicas is allowed",
        fix="see the finding; remove the autoscaler where the number is fixed",
        level="mandatory",
        severity="high",
        judge=_stuck,
    ),
)
