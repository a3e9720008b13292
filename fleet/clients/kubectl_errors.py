"""Turns kubectl's error output into an error with a fix.

Source of the messages: kubectl 1.32, staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go, apimachinery's status reasons, client-go's
exec plugin (plugin/pkg/client/auth/exec) and tools/clientcmd.
"""

from __future__ import annotations

import re
from typing import Final

from fleet.clients.errors import LiveError, Reason

_LOG_LINE: Final = re.compile(r"[EWIF]\d{4} \d\d:\d\d:\d\d\.\d+ ")
"""klog lines, which repeat the error for every attempt."""
_BEGINNINGS: Final = ("error:", "Error from server", "Unable to connect to the server", "The connection to the server")
"""Source: kubectl's pkg/cmd/util, CheckErr and its standard messages."""
_FORBIDDEN: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)"(?: in API group "(?P<group>[^"]*)")?'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
GCLOUD: Final = re.compile(r"ERROR: \([\w.-]+\) ([^\n]+)")
"""gcloud's reason, in its plugin's log lines."""
OFFLINE: Final = re.compile(
    r"Max retries exceeded|TransportError|Unable to find the server|Network is unreachable|Connection aborted|timed out"
)
"""gcloud's messages for a token renewal without network, when a new login would not help. Source: google.auth.exceptions,
urllib3.exceptions."""
_PLUGIN: Final = re.compile(r"exec: (?:executable )?\"?(?P<plugin>[^\s\":]+)\"?(?:: executable file)? not found")
_NO_CLUSTER: Final = "connection to the server localhost:8080 was refused"
"""client-go's default address (tools/clientcmd). Seen with kubectl 1.32: an empty kubeconfig, one with
clusters but no current context, and one whose context names a missing cluster."""
_UNREACHABLE: Final = (
    "unable to connect to the server",
    "was refused - did you specify",
    "no such host",
    "i/o timeout",
    "connection refused",
    "tls handshake timeout",
    "no route to host",
    "network is unreachable",
    "client.timeout exceeded",
    "connection reset by peer",
    "context deadline exceeded",
    "service unavailable",
)
_TROUBLED: Final = (
    "(internalerror)",
    "(serviceunavailable)",
    "(servertimeout)",
    "(timeout)",
    "(toomanyrequests)",
    "internal error occurred",
    "currently unable to handle the request",
    "has prevented the request from succeeding",
    "unable to return a response in the time allotted",
    "too many requests",
    "could not find the requested resource",
    "etcdserver:",
    "apiserver not ready",
    "unexpected eof",
    "connection lost",
    "abnormal closure",
    "error reading from error stream",
    "lost connection to pod",
)
"""Messages of a control plane during an upgrade or overload, and of an aborted stream. Source: apimachinery's api/errors, etcd's
rpctypes, client-go's remotecommand."""


def live_error(what: str, said: str) -> LiveError:
    """`what`: the attempt; `said`: kubectl's stderr."""
    words = last_words(said)
    low = words.lower()
    plugin = _PLUGIN.search(words)
    if plugin is not None and "getting credentials" in low:
        return _plugin_missing(what, plugin["plugin"])
    if "getting credentials" in low and OFFLINE.search(said):
        return _error(what, words, "gcloud could not reach Google to renew the login: check the network", "unreachable")
    if "getting credentials" in low or "unauthorized" in low or "must be logged in" in low:
        of_gcloud = GCLOUD.search(said)
        said_by = f"{words} ({of_gcloud[1].strip().rstrip('.')})" if of_gcloud else words
        return _error(what, said_by, "log in again: `gcloud auth login`", "credentials")
    if match := re.search(r'context "([^"]+)" does not exist', words):
        return _error(
            what,
            words,
            f"context {match[1]!r} does not exist; `kubectl config get-contexts` lists the contexts",
            "refused",
        )
    if "(forbidden)" in low or "is forbidden:" in low:
        return _forbidden(what, words)
    if "executable file not found" in low or "exit code 127" in low:
        return LiveError(f"{what}: program not found in the container: {words}", reason="missing program")
    if any(sign in low for sign in _TROUBLED):
        return _error(
            what,
            words,
            "the cluster's control plane has a temporary problem; try again in a minute",
            "unreachable",
        )
    if "(notfound)" in low or re.search(r"\bnot found\b", low):
        return LiveError(f"{what}: {words}", reason="not found")
    if "(alreadyexists)" in low:
        return LiveError(f"{what}: {words}", reason="already exists")
    if _NO_CLUSTER in low:
        return _error(
            what,
            words,
            "the kubeconfig has no cluster or no current context, so kubectl tried localhost:8080. "
            "`kubectl config get-contexts` lists its contexts; pass --kubeconfig or --context",
            "refused",
        )
    if any(sign in low for sign in _UNREACHABLE):
        return _error(
            what,
            words,
            "the cluster's control plane does not respond to this machine: check the network and VPN, that the stack still "
            "exists, and that the kubeconfig is the stack's: `kubectl version`",
            "unreachable",
        )
    return LiveError(f"{what}: {words}", reason="refused")


def last_words(said: str) -> str:
    """Output of kubectl without log lines, on one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    plain = [line for line in lines if not _LOG_LINE.match(line)] or lines[-1:]
    # A plugin's output may precede kubectl's message.
    begin = next((number for number, line in enumerate(plain) if line.startswith(_BEGINNINGS)), 0)
    kept = " ".join(dict.fromkeys(plain[begin:]))
    kept = re.sub(r"^(?:error: )?(?:Error from server )?", "", kept)
    return kept[:600].rstrip(" .?") or "kubectl failed without a message"


def _forbidden(what: str, words: str) -> LiveError:
    found = _FORBIDDEN.search(words)
    if found is None:
        return LiveError(f"{what}: {words}", reason="forbidden")
    resource = found["resource"] + (f".{found['group']}" if found["group"] else "")
    place = f" in namespace {found['namespace']}" if found["namespace"] else ""
    return LiveError(
        f"{what}: permission denied: user {found['user']} cannot {found['verb']} {resource}{place}. "
        "roles/container.developer on the project allows it, or a Role in the cluster with that verb and resource",
        reason="forbidden",
    )


def _plugin_missing(what: str, plugin: str) -> LiveError:
    mend = (
        "gcloud components install gke-gcloud-auth-plugin"
        if plugin == "gke-gcloud-auth-plugin"
        else f"put {plugin} on the PATH"
    )
    return LiveError(
        f"{what}: the kubeconfig needs {plugin}, which is not on the PATH: {mend}",
        reason="missing program",
    )


def _error(what: str, words: str, mend: str, reason: Reason) -> LiveError:
    return LiveError(f"{what}: {words}. What to do: {mend}", reason=reason)
