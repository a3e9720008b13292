"""What the report says to machines, as JSON data; with the keys that docs/preview.md lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.preview.compare.engine_words import engine_words
from fleet.preview.record.redact import Redactor

if TYPE_CHECKING:
    from facts.cost import LineItem
    from facts.figures import Match
    from fleet.plan.model.estimates import Estimate
    from fleet.plan.modelled import Modelled
    from fleet.preview.compare.changes import Changes, PropertyChange, ResourceChange
    from fleet.preview.judges import Judge
    from fleet.preview.report.model import Policies, Report


def as_document(report: Report) -> dict[str, Any]:
    """The whole report. Secrets read `[secret]`, unknown values `[unknown]`."""
    changes = _created(report) if report.comparison is None else _changes(report.comparison, report.policies)
    recording = report.recording
    document = {
        "project": recording.project,
        "stack": recording.stack,
        "resources": [
            {
                "urn": resource.urn,
                "type": resource.type,
                "name": resource.name,
                "parent": resource.parent,
                "provider": resource.provider,
                "dependencies": list(resource.dependencies),
                "protect": resource.protect,
                "inputs": resource.inputs,
            }
            for resource in recording.resources
        ],
        "outputs": recording.outputs,
        "violations": [
            {
                **violation.finding.as_json(),
                "policy": violation.policy,
                "level": violation.level,
                "urn": violation.urn,
                "judges": list(violation.judges) or [judge.side for judge in report.policies.judges],
            }
            for violation in report.policies.violations
        ],
        "changes": changes,
        "plan": _plan(report),
    }
    return dict(Redactor(recording.plaintexts).value(document))


def _created(report: Report) -> dict[str, Any]:
    """Without a comparison, every resource is a create."""
    operations = [change.operation for change in report.changes]
    return {
        "summary": {operation: operations.count(operation) for operation in sorted(set(operations))},
        "steps": [{"operation": change.operation, "urn": change.urn} for change in report.changes],
    }


def _changes(changes: Changes, policies: Policies) -> dict[str, Any]:
    radius = changes.blast_radius
    return {
        "summary": {operation: count for operation, count in sorted(changes.summary.items()) if count},
        "against": changes.against,
        "pending": changes.pending,
        "engine": engine_words(changes.resources),
        "headline": list(changes.headline),
        "dangers": [
            {"id": danger.id, "message": danger.message, "urns": list(danger.urns)} for danger in changes.dangers
        ],
        "deltas": [
            {
                "id": one.id,
                "label": one.label,
                "unit": one.unit,
                "before": one.before,
                "after": one.after,
                "difference": one.difference,
                "beforeIsAtLeast": one.before_at_least,
                "afterIsAtLeast": one.after_at_least,
            }
            for one in changes.deltas
        ],
        "blastRadius": {
            "replicasRestarted": radius.replicas_restarted,
            "replicasAdded": radius.replicas_added,
            "replicasRemoved": radius.replicas_removed,
            "gpusRestarted": radius.gpus_restarted,
            "atOnce": radius.at_once,
            "minutesOfReducedCapacity": radius.minutes_of_reduced_capacity,
            "assumption": radius.assumption,
            "volumesReplaced": radius.volumes_replaced,
            "clustersReplaced": radius.clusters_replaced,
        },
        "steps": [_step(one) for one in changes.changed],
        "outputs": [_property(output) for output in changes.outputs],
        "remarks": list(changes.remarks),
        "judge": [
            {
                "kind": change.kind,
                "subject": change.subject,
                "before": change.before,
                "after": change.after,
                "file": change.file,
                "weaker": change.weaker,
            }
            for change in policies.changes
        ],
    }


def _step(change: ResourceChange) -> dict[str, Any]:
    return {
        "operation": change.operation,
        "urn": change.urn,
        "oldUrn": change.old_urn,
        "type": change.type,
        "name": change.name,
        "deleteFirst": change.delete_first,
        "reasons": [
            {"path": reason.path, "certainty": reason.certainty, "source": reason.source, "maybe": reason.maybe}
            for reason in change.reasons
        ],
        "properties": [_property(property_) for property_ in change.properties],
        "options": [_property(option) for option in change.options],
    }


def _property(change: PropertyChange) -> dict[str, Any]:
    return {
        "path": change.path,
        "kind": change.kind,
        "before": change.before,
        "after": change.after,
        "secret": change.secret,
    }


def _plan(report: Report) -> dict[str, Any]:
    fleet = report.fleet
    return {
        "mode": report.mode,
        "remarks": list(report.remarks),
        "dangers": list(report.dangers),
        "fleet": {
            "model": fleet.model,
            "revision": fleet.revision,
            "vllm": fleet.vllm,
            "profile": fleet.profile,
            "reproduces": fleet.reproduces,
            "nodes": fleet.nodes,
            "gpus": fleet.gpus,
            "capacity": fleet.capacity,
            "zones": list(fleet.zones),
            "routing": fleet.routing,
            "platform": fleet.platform,
        },
        "figures": _figures(report, report.figures.match),
        "bill": _bill(report),
        "atMost": [
            {"usd": round(bound.usd, 2), "until": bound.until, "ofKnownPrices": bound.is_of_known_prices}
            for bound in report.bounds
        ],
        "findings": [finding.as_json() for finding in report.findings],
        "notices": [notice.as_json() for notice in report.notices],
        "diagnostics": [
            {"severity": diagnostic.severity, "message": diagnostic.message, "urn": diagnostic.urn}
            for diagnostic in report.diagnostics
        ],
        "policies": report.policies.state,
        "judges": [_judge(judge) for judge in report.policies.judges],
    }


def _judge(judge: Judge) -> dict[str, Any]:
    switched = (*judge.disabled, *judge.lowered)
    return {
        "side": judge.side,
        "label": judge.label,
        "policies": len(judge.states),
        "asked": judge.asked,
        "disabled": [one.name for one in judge.disabled],
        "lowered": [one.name for one in judge.lowered],
        "levels": [{"policy": one.name, "own": one.own, "level": one.level, "by": one.by} for one in switched],
        "settings": {
            state.name: {name: state.settings[name] for name in state.given} for state in judge.states if state.given
        },
        "file": judge.file,
        "fileMissing": judge.missing,
        "blocking": judge.blocking,
        "warnings": judge.warnings,
    }


def _figures(report: Report, match: Match) -> dict[str, Any]:
    figures, figure = report.figures, match.figure
    return {
        "match": match.kind if figure is not None else "none",
        "reason": match.reason,
        "proven": figures.proven,
        "published": None
        if figure is None
        else {
            "id": figure.id,
            "title": figure.title,
            "label": figure.label,
            "origin": figure.origin,
            "totalTokensPerSecond": figure.total_tokens_per_s,
            "outputTokensPerSecond": figure.output_tokens_per_s,
            "tpotMedianMs": figure.tpot_median_ms,
            "ttftMedianMs": figure.ttft_median_ms,
            "alsoPublished": list(figure.also_published),
            "source": figure.source.title,
        },
        "differences": [
            {
                "field": difference.field,
                "published": difference.published,
                "here": difference.ours,
                "argument": difference.argument,
            }
            for difference in match.differences
        ],
        "modelled": _modelled(report.modelled),
    }


def _modelled(modelled: Modelled | None) -> dict[str, Any] | None:
    if modelled is None:
        return None
    return {
        "workload": modelled.requests.title,
        "requestsInFlight": modelled.in_flight,
        "totalTokensPerSecond": _estimate(modelled.total_tokens_per_s),
        "outputTokensPerSecond": _estimate(modelled.output_tokens_per_s),
        "tpotMs": _estimate(modelled.performance.tpot_ms),
        "ttftMs": _estimate(modelled.performance.ttft_ms),
        "basis": modelled.performance.basis,
        "reasons": list(modelled.performance.reasons),
    }


def _estimate(estimate: Estimate) -> dict[str, float]:
    return {"value": round(estimate.value, 1), "low": round(estimate.low, 1), "high": round(estimate.high, 1)}


def _bill(report: Report) -> dict[str, Any]:
    bill, figures = report.figures.bill, report.figures
    return {
        "region": bill.region,
        "usdPerHour": None if bill.usd_per_hour is None else round(bill.usd_per_hour, 4),
        "isAtLeast": bool(bill.unknown),
        "usdPerMillionTokens": figures.usd_per_million_tokens,
        "usdPerMillionOutputTokens": figures.usd_per_million_output_tokens,
        "usdPerHourAtZeroReplicas": round(bill.residual_usd_per_hour, 4),
        "usdPerMonthAfterDestroy": round(bill.after_destroy_usd_per_month, 4),
        "items": [_item(item) for item in bill.items],
        "once": [_item(item) for item in bill.once],
        "excluded": list(bill.excluded),
    }


def _item(item: LineItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "name": item.name,
        "quantity": item.quantity,
        "unit": item.unit,
        "unitPriceUsd": item.unit_price_usd,
        "usdPerHour": item.usd_per_hour,
        "atZeroReplicas": item.paid_at_zero_replicas,
        "afterDestroy": item.paid_after_destroy,
        "reason": item.reason,
        "indication": None
        if item.indicated_usd_per_hour is None or item.elsewhere is None
        else {
            "usdPerHour": round(item.indicated_usd_per_hour, 4),
            "region": item.elsewhere.region,
            "date": item.elsewhere.date,
        },
        "note": item.note,
        "source": None
        if item.price is None or item.source is None
        else {"title": item.source.title, "date": item.price.date, "region": item.price.region},
    }
