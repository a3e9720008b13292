"""kubectl's last words as an error that says what to do.

Source of the words: kubectl 1.32, staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go, apimachinery's status reasons, client-go's
exec plugin (plugin/pkg/client/auth/exec) and tools/clientcmd.
"""

from __future__ import annotations

import re
from typing import Final

from fleet.clients.errors import LiveError, Reason

_LOG_LINE: Final = re.compile(r"[EWIF]\d{4} \d\d:\d\d:\d\d\.\d+ ")
"""klog's own lines: the same trouble again, once for every attempt."""
_BEGINNINGS: Final = ("error:", "Error from server", "Unable to connect to the server", "The connection to the server")
"""Source: kubectl's pkg/cmd/util, CheckErr and its standard messages."""
_FORBIDDEN: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)"(?: in API group "(?P<group>[^"]*)")?'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
GCLOUD: Final = re.compile(r"ERROR: \([\w.-]+\) ([^\n]+)")
"""gcloud's own reason, which its plugin passes on among its log lines."""
OFFLINE: Final = re.compile(
    r"Max retries exceeded|TransportError|Unable to find the server|Network is unreachable|Connection aborted|timed out"
)
"""In gcloud's words, where it renews a token and no network is there: a new login would not help. Source: google.auth.exceptions,
urllib3.exceptions, which it prints."""
_PLUGIN: Final = re.compile(r"exec: (?:executable )?\"?(?P<plugin>[^\s\":]+)\"?(?:: executable file)? not found")
_NO_CLUSTER: Final = "connection to the server localhost:8080 was refused"
"""Source: client-go, tools/clientcmd: its address of last resort. Seen with kubectl 1.32: a kubeconfig that is empty, that has
clusters and no current context, and one whose context names a cluster that is not there."""
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
"""What a control plane says while it is upgraded or overloaded, and a stream that broke off. Source: apimachinery's api/errors, etcd's
rpctypes, client-go's remotecommand."""


def live_error(what: str, said: str) -> LiveError:
    """`what` is what was tried, `said` what kubectl wrote on stderr."""
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
            f"`kubectl config get-contexts` names the contexts there are; {match[1]!r} is not one",
            "refused",
        )
    if "(forbidden)" in low or "is forbidden:" in low:
        return _forbidden(what, words)
    if "executable file not found" in low or "exit code 127" in low:
        return LiveError(f"{what}: the container has no such program: {words}", reason="missing program")
    if any(sign in low for sign in _TROUBLED):
        return _error(
            what,
            words,
            "the cluster's control plane has trouble of its own, which passes: again in a minute",
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
            "kubectl asks localhost:8080 where its kubeconfig names no cluster: the kubeconfig has none, or no current context. "
            "`kubectl config get-contexts` shows what it has; name another with --kubeconfig, or one of its contexts with --context",
            "refused",
        )
    if any(sign in low for sign in _UNREACHABLE):
        return _error(
            what,
            words,
            "the cluster's control plane does not answer this machine: check the network and the VPN, whether the stack still "
            "is up, and that the kubeconfig is its own: `kubectl version`",
            "unreachable",
        )
    return LiveError(f"{what}: {words}", reason="refused")


def last_words(said: str) -> str:
    """What kubectl wrote, without its log lines, on one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    plain = [line for line in lines if not _LOG_LINE.match(line)] or lines[-1:]
    # Before kubectl's own words may stand what a plugin had to say, on as many lines as it liked.
    begin = next((number for number, line in enumerate(plain) if line.startswith(_BEGINNINGS)), 0)
    kept = " ".join(dict.fromkeys(plain[begin:]))
    kept = re.sub(r"^(?:error: )?(?:Error from server )?", "", kept)
    return kept[:600].rstrip(" .?") or "kubectl failed and said nothing"


def _forbidden(what: str, words: str) -> LiveError:
    found = _FORBIDDEN.search(words)
    if found is None:
        return LiveError(f"{what}: {words}", reason="forbidden")
    resource = found["resource"] + (f".{found['group']}" if found["group"] else "")
    place = f" in namespace {found['namespace']}" if found["namespace"] else ""
    return LiveError(
        f"{what}: user {found['user']} may not {found['verb']} {resource}{place}. roles/container.developer on the project "
        "allows it, or a Role of the cluster with that verb and resource",
        reason="forbidden",
    )


def _plugin_missing(what: str, plugin: str) -> LiveError:
    mend = (
        "gcloud components install gke-gcloud-auth-plugin"
        if plugin == "gke-gcloud-auth-plugin"
        else f"put {plugin} on the PATH"
    )
    return LiveError(
        f"{what}: the kubeconfig asks {plugin} for the user's credentials, and it is not on the PATH: {mend}",
        reason="missing program",
    )


def _error(what: str, words: str, mend: str, reason: Reason) -> LiveError:
    return LiveError(f"{what}: {words}. What to do: {mend}", reason=reason)
