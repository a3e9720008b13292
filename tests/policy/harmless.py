"""Leaves that no rule of the pack has to guard, and why each kind of them is harmless.

A place is `Kind path`: `#` stands for the items of a list, `*` for one step, `**` for any rest. `test_leaves` holds that each
entry still excuses something.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

HARMLESS: Final[Mapping[str, str]] = {
    "The API refuses the object without it.": """
        AlertPolicy: combiner conditions/#/conditionPrometheusQueryLanguage conditions/#/displayName displayName
        AlertPolicy: conditions/#/conditionPrometheusQueryLanguage/disableMetricValidation
        Metric: filter metricDescriptor/metricKind metricDescriptor/valueType metricDescriptor/labels/#/key
        *: apiVersion kind member metadata metadata/name name network region role spec
        Account: accountId
        BucketIAMMember: bucket condition/*
        Cluster: ipAllocationPolicy/*
        ComputeClass: spec/priorities/#/reservations/**
        Dashboard: dashboardJson
        Deployment: spec/selector spec/selector/** spec/template
        Firewall: allows/#/protocol
        FutureReservation: specificSkuProperties/** timeWindow/** zone
        GCPBackendPolicy: spec/targetRef/group
        Gateway: spec/gatewayClassName spec/listeners/**
        HTTPRoute: spec/parentRefs/** spec/rules/#/backendRefs/**
        HealthCheckPolicy: spec/default/config/type spec/targetRef/group
        Job: spec/template spec/template/metadata
        PersistentVolumeClaim: spec/accessModes spec/accessModes/**
        Pod: spec/*/#/*/#/name spec/*/#/name spec/containers spec/containers/# spec/containers/#/*/httpGet/port
        Pod: spec/containers/#/env/#/valueFrom/** spec/containers/#/startupProbe/httpGet spec/containers/#/volumeMounts/#/mountPath
        Pod: spec/initContainers/#/volumeMounts/#/mountPath spec/restartPolicy spec/volumes/# spec/volumes/#/*
        Pod: spec/volumes/#/configMap/items/#/* spec/volumes/#/csi/driver spec/volumes/#/persistentVolumeClaim/claimName
        PodMonitoring: spec/**
        Release: chart repositoryOpts repositoryOpts/**
        Repository: format remoteRepositoryConfig/** repositoryId
        RepositoryIamMember: repository
        RoleBinding: roleRef/** subjects/#/namespace
        Router: *
        RouterNat: natIpAllocateOption router sourceSubnetworkIpRangesToNat
        Rules: spec/**
        SecretIamMember: secretId
        SecretProviderClass: spec/**
        Service: service
        StorageClass: allowedTopologies/** provisioner
        Subnetwork: ipCidrRange secondaryIpRanges/**
        VolumeSnapshot: spec/source spec/source/**
        VolumeSnapshotClass: driver
        VolumeSnapshotContent: spec/driver spec/source spec/source/** spec/volumeSnapshotRef spec/volumeSnapshotRef/**
    """,
    "Held by tests/infra/test_workload_access.py: a bucket of results that pods of the fleet alone write to.": """
        BucketIAMMember: condition
    """,
    "What it named is no longer found or not started; whoever waits for it says so, and nothing new is reached.": """
        *: metadata/labels metadata/labels/** metadata/namespace namespace spec/template/metadata/labels
        *: spec/template/metadata/labels/**
        Cluster: controlPlaneEndpointsConfig/dnsEndpointConfig controlPlaneEndpointsConfig/dnsEndpointConfig/** gatewayApiConfig
        Cluster: gatewayApiConfig/** ipAllocationPolicy secretManagerConfig secretManagerConfig/** subnetwork
        ConfigMap: data data/**
        Firewall: allows allows/# allows/#/ports/#
        PersistentVolumeClaim: spec/dataSource spec/dataSource/*
        Pod: spec/containers/#/args spec/containers/#/args/** spec/containers/#/command spec/containers/#/command/**
        Pod: spec/containers/#/env spec/containers/#/env/** spec/containers/#/volumeMounts spec/containers/#/volumeMounts/#
        Pod: spec/initContainers spec/initContainers/# spec/initContainers/#/args
        Pod: spec/initContainers/#/command/** spec/initContainers/#/env spec/initContainers/#/env/**
        Pod: spec/initContainers/#/volumeMounts spec/initContainers/#/volumeMounts/# spec/serviceAccountName spec/volumes
        Pod: spec/volumes/#/configMap/** spec/volumes/#/csi/volumeAttributes spec/volumes/#/csi/volumeAttributes/**
        Pod: spec/volumes/#/secret/**
        PodDisruptionBudget: spec/selector spec/selector/**
        Release: values values/inferencePool values/inferencePool/** values/provider values/provider/** values/serviceAccount
        Release: values/serviceAccount/**
        Role: rules/# rules/#/apiGroups rules/#/apiGroups/# rules/#/resources rules/#/resources/# rules/#/verbs rules/#/verbs/#
        RouterNat: subnetworks subnetworks/**
        Secret: stringData stringData/**
        Service: spec/ports spec/ports/** spec/selector spec/selector/**
        VolumeSnapshot: spec/volumeSnapshotClassName
    """,
    "A NetworkPolicy adds to what is allowed: with less of it, or with port 0, fewer connections are.": """
        NetworkPolicy: spec/*/#/ports/#/port spec/*/#/ports/#/protocol spec/egress spec/egress/# spec/egress/#/to/# spec/ingress
        NetworkPolicy: spec/ingress/# spec/ingress/#/from/# spec/ingress/#/from/#/namespaceSelector/**
        NetworkPolicy: spec/ingress/#/from/#/podSelector/matchLabels/** spec/podSelector spec/podSelector/matchLabels/**
        NetworkPolicy: spec/policyTypes spec/policyTypes/#
    """,
    "Port 53 alone, of more pods of the cluster or of fewer; or a range that nobody routes to.": """
        NetworkPolicy: spec/egress/#/to/#/namespaceSelector spec/egress/#/to/#/namespaceSelector/** spec/egress/#/to/#/podSelector
        NetworkPolicy: spec/egress/#/to/#/podSelector/** spec/egress/#/to/#/ipBlock/except/#
    """,
    "Autopilot, Kubernetes or Google Cloud has the same value without it.": """
        *: location metadata/annotations project
        Bucket: forceDestroy
        Cluster: clusterAutoscaling/autoProvisioningDefaults/oauthScopes clusterAutoscaling/autoProvisioningDefaults/oauthScopes/**
        Cluster: deletionProtection loggingConfig monitoringConfig/managedPrometheus monitoringConfig/managedPrometheus/enabled
        Cluster: releaseChannel releaseChannel/** workloadIdentityConfig workloadIdentityConfig/**
        Firewall: direction
        FutureReservation: planningStatus shareSettings shareSettings/**
        Network: routingMode
        PersistentVolumeClaim: spec/volumeMode
        Pod: spec/containers/#/resources/limits spec/containers/#/resources/limits/** spec/containers/#/resources/requests
        Pod: spec/containers/#/resources/requests/** spec/containers/#/volumeMounts/#/readOnly spec/initContainers/#/resources
        Pod: spec/initContainers/#/resources/** spec/initContainers/#/volumeMounts/#/readOnly spec/securityContext/seccompProfile
        Pod: spec/securityContext/seccompProfile/** spec/volumes/#/csi/readOnly
        Secret: type
        Service: spec/clusterIP spec/type
        StorageClass: allowVolumeExpansion reclaimPolicy
    """,
    "Said twice: the pod and its account each carry no token, and a user that is not 0 is not root either way.": """
        Pod: spec/automountServiceAccountToken spec/securityContext/runAsNonRoot spec/securityContext/runAsUser
        ServiceAccount: automountServiceAccountToken
    """,
    "A group of files, or variables with addresses of Services: read by a process that is not root and may read them anyway.": """
        Pod: spec/enableServiceLinks spec/securityContext/fsGroup spec/securityContext/fsGroupChangePolicy
        Pod: spec/securityContext/runAsGroup
    """,
    "It decides how fast, how often, how long or on which machine: drills, verify and the certificate show it, nothing is opened.": """
        Cluster: maintenancePolicy maintenancePolicy/**
        ComputeClass: spec/**
        Deployment: spec/replicas spec/revisionHistoryLimit spec/strategy spec/strategy/**
        FutureReservation: *
        GCPBackendPolicy: spec/default/connectionDraining spec/default/connectionDraining/**
        Gateway: spec/listeners
        HTTPRoute: spec/parentRefs spec/rules spec/rules/# spec/rules/#/backendRefs spec/rules/#/matches spec/rules/#/matches/**
        HealthCheckPolicy: spec/default/**
        Job: spec/activeDeadlineSeconds spec/backoffLimit spec/completionMode spec/completions spec/parallelism spec/podFailurePolicy
        Job: spec/podFailurePolicy/**
        Network: autoCreateSubnetworks
        Pod: spec/containers/#/*Probe/* spec/containers/#/lifecycle spec/containers/#/lifecycle/** spec/containers/#/ports
        Pod: spec/containers/#/ports/** spec/containers/#/resources spec/containers/#/startupProbe/httpGet/path spec/nodeSelector
        Pod: spec/nodeSelector/** spec/terminationGracePeriodSeconds spec/tolerations spec/tolerations/**
        Pod: spec/topologySpreadConstraints spec/topologySpreadConstraints/** spec/volumes/#/emptyDir/**
        PodDisruptionBudget: spec/maxUnavailable spec/unhealthyPodEvictionPolicy
        Pod: spec/initContainers/#/readinessProbe spec/initContainers/#/readinessProbe/** spec/initContainers/#/restartPolicy
        Release: values/inferenceExtension/** values/resources values/resources/**
        ScaledObject: spec/**
        TriggerAuthentication: spec/**
        RouterNat: *
        Service: spec/publishNotReadyAddresses
        PersistentVolumeClaim: spec/storageClassName
        StorageClass: allowedTopologies mountOptions/** parameters parameters/enable-multi-zone-provisioning
        StorageClass: parameters/provisioned-throughput-on-create volumeBindingMode
        Subnetwork: privateIpGoogleAccess secondaryIpRanges
    """,
    "The right to read more objects of a namespace, none of which holds a secret.": """
        Role: rules/#/resourceNames rules/#/resourceNames/#
    """,
    "A pod that nobody sends requests to: the alert of its metric finds it, Ready or not.": """
        Pod: spec/containers/#/readinessProbe spec/containers/#/readinessProbe/exec/command
        Pod: spec/containers/#/readinessProbe/exec/command/#
    """,
    "How Pulumi and Helm wait for the object and replace it.": """
        *: metadata/annotations/pulumi.com/*
        ConfigMap: immutable
        Release: atomic compat skipAwait timeout
        Service: disableOnDestroy
        kubernetes: clusterIdentifier
    """,
    "Declared for the rules and for people; the rules that read it say what they cannot judge.": """
        *: description
        Account: displayName
        Bucket: labels labels/**
        Cluster: resourceLabels resourceLabels/**
        Deployment: metadata/annotations/vllm-fleet.dev/* spec/template/metadata/annotations spec/template/metadata/annotations/**
        Repository: labels labels/**
        StorageClass: parameters/labels
        VolumeSnapshotClass: parameters/*
    """,
    "Money, metrics and what is kept for longer: no data gets out or lost.": """
        AlertPolicy: alertStrategy alertStrategy/** documentation documentation/** severity userLabels userLabels/**
        AlertPolicy: conditions/#/conditionPrometheusQueryLanguage/alertRule conditions/#/conditionPrometheusQueryLanguage/duration
        AlertPolicy: conditions/#/conditionPrometheusQueryLanguage/evaluationInterval
        AlertPolicy: conditions/#/conditionPrometheusQueryLanguage/labels conditions/#/conditionPrometheusQueryLanguage/labels/**
        Metric: labelExtractors labelExtractors/** metricDescriptor metricDescriptor/unit metricDescriptor/labels
        Metric: metricDescriptor/labels/# metricDescriptor/labels/#/valueType
        NotificationChannel: displayName forceDelete userLabels userLabels/**
        Bucket: lifecycleRules lifecycleRules/**
        Cluster: costManagementConfig costManagementConfig/** monitoringConfig monitoringConfig/**
        GCPBackendPolicy: spec/default/logging spec/default/logging/**
        Repository: cleanupPolicies cleanupPolicies/** cleanupPolicyDryRun mode remoteRepositoryConfig
        RouterNat: logConfig/**
    """,
}
"""Why, and the places in lines of `Kind: path path ...`."""


def excuse(place: str) -> tuple[str, str] | None:
    """Why a place is harmless and the entry that says so; None where none does."""
    return next(((why, entry) for why, entry, expression in _entries() if expression.fullmatch(place)), None)


def entries() -> set[tuple[str, str]]:
    """Every entry, with its why."""
    return {(why, entry) for why, entry, _ in _entries()}


@cache
def _entries() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple(
        (why, f"{kind} {path}", _expression(f"{kind} {path}"))
        for why, lines in HARMLESS.items()
        for line in lines.split("\n")
        for kind, _, paths in [line.strip().partition(":")]
        for path in paths.split()
    )


def _expression(pattern: str) -> re.Pattern[str]:
    escaped = re.escape(pattern).replace(r"/\*\*", r"/.+").replace(r"\*", r"[^/ ]*").replace(r"\#", "#")
    return re.compile(escaped)
