"""kubectl's own words as an error: a reason for the program, and a cure where kubectl names none.

Source of the messages: kubectl 1.32, staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go, apimachinery's status reasons, client-go's
exec plugin (plugin/pkg/client/auth/exec), remotecommand and tools/clientcmd, etcd's rpctypes.
"""

from __future__ import annotations

import re
from typing import Final

from fleet.clients.errors import LiveError, Reason

_LOG_LINE: Final = re.compile(r"[EWIF]\d{4} \d\d:\d\d:\d\d\.\d+ ")
"""klog lines, which repeat the error for every attempt."""
_BEGINNINGS: Final = ("error:", "Error from server", "Unable to connect to the server", "The connection to the server")
"""Source: kubectl's pkg/cmd/util, CheckErr and its standard messages."""
GCLOUD: Final = re.compile(r"ERROR: \([\w.-]+\) ([^\n]+)")
"""gcloud's reason, in its plugin's log lines."""
OFFLINE: Final = re.compile(
    r"Max retries exceeded|TransportError|Unable to find the server|Network is unreachable|Connection aborted|timed out"
)
"""gcloud's messages for a token renewal without network, when a new login would not help. Source: google.auth.exceptions,
urllib3.exceptions."""
_LOGIN: Final = (
    "log in (`gcloud auth login`), and install the plugin: `gcloud components install gke-gcloud-auth-plugin`"
)
_REACH: Final = "check the network, the VPN and the kubeconfig: `kubectl config get-contexts`, `kubectl version`"
_ALLOW: Final = (
    "roles/container.developer on the project allows it, or a Role in the cluster with that verb and resource"
)
_CASES: Final[tuple[tuple[str, Reason, str], ...]] = (
    # A plugin that is missing, or a token that cannot be renewed.
    (r"getting credentials: .*not found", "missing program", _LOGIN),
    (r"getting credentials|unauthorized|must be logged in", "credentials", _LOGIN),
    (r"cannot \S+ resource", "forbidden", _ALLOW),
    (r"\(forbidden\)|is forbidden:", "forbidden", ""),
    (r"executable file not found|exit code 127", "missing program", ""),
    # A control plane during an upgrade or overload, and an aborted stream: asked again by whoever waits.
    (
        r"\((internalerror|serviceunavailable|servertimeout|timeout|toomanyrequests)\)|internal error occurred|"
        r"currently unable to handle the request|has prevented the request from succeeding|"
        r"unable to return a response in the time allotted|too many requests|could not find the requested resource|"
        r"etcdserver:|apiserver not ready|unexpected eof|connection lost|abnormal closure|"
        r"error reading from error stream|lost connection to pod",
        "unreachable",
        "",
    ),
    (r'context "[^"]+" does not exist', "refused", _REACH),
    (r"\(notfound\)|\bnot found\b", "not found", ""),
    (r"\(alreadyexists\)", "already exists", ""),
    # client-go's default address: the kubeconfig has no cluster or no current context.
    (r"connection to the server localhost:8080 was refused", "refused", _REACH),
    (
        r"unable to connect to the server|was refused - did you specify|no such host|i/o timeout|connection refused|"
        r"tls handshake timeout|no route to host|network is unreachable|client\.timeout exceeded|"
        r"connection reset by peer|context deadline exceeded|service unavailable",
        "unreachable",
        _REACH,
    ),
)
"""What kubectl says in lower case, the reason, and a cure. The first that fits holds."""


def live_error(what: str, said: str) -> LiveError:
    """`what`: the attempt; `said`: kubectl's stderr."""
    words = last_words(said)
    reason, cure = _read(words.lower())
    if reason == "credentials" and OFFLINE.search(said):
        reason, cure = "unreachable", _REACH
    if reason == "credentials" and (own := GCLOUD.search(said)):
        words = f"{words} ({own[1].strip().rstrip('.')})"
    return LiveError(f"{what}: {words}{f'. What to do: {cure}' if cure else ''}", reason=reason)


def _read(low: str) -> tuple[Reason, str]:
    for pattern, reason, cure in _CASES:
        if re.search(pattern, low):
            return reason, cure
    return "refused", ""


def last_words(said: str) -> str:
    """Output of kubectl without log lines, on one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    plain = [line for line in lines if not _LOG_LINE.match(line)] or lines[-1:]
    # A plugin's output may precede kubectl's message.
    begin = next((number for number, line in enumerate(plain) if line.startswith(_BEGINNINGS)), 0)
    kept = " ".join(dict.fromkeys(plain[begin:]))
    kept = re.sub(r"^(?:error: )?(?:Error from server )?", "", kept)
    return kept[:600].rstrip(" .?") or "kubectl failed without a message"
