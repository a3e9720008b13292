"""One context of somebody's kubeconfig, written where kwok can read it: kwok takes a file and knows no contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from rehearsal.results import RehearsalError

_GKE_LOGIN: Final = "gke-gcloud-auth-plugin"
_PATHS: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}
"""Entries that may be relative to the kubeconfig's own folder. Source: client-go, tools/clientcmd, loader.go."""


def minified(source: Path, context: str | None, target: Path) -> str:
    """Write the context (the current one if none is named) alone to `target`, for its owner only; the context's name.

    Raises RehearsalError when the file cannot be used, or when it leads to GKE.
    """
    try:
        document = yaml.safe_load(source.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise RehearsalError(f"{source} cannot be read as a kubeconfig: {error}") from error
    if not isinstance(document, dict):
        raise RehearsalError(f"{source} is no kubeconfig: it holds no contexts")
    wanted = context or document.get("current-context")
    if not wanted:
        raise RehearsalError(f"{source} has no current context; name one of: {', '.join(_names(document, 'contexts'))}")
    chosen = _named(source, document, "contexts", str(wanted), "context")
    cluster = _named(source, document, "clusters", str(chosen.get("cluster")), "cluster")
    user = _named(source, document, "users", str(chosen.get("user")), "user")
    login = user.get("exec") or {}
    if str(login.get("command", "")).rpartition("/")[2] == _GKE_LOGIN:
        raise RehearsalError(
            f"context {wanted} of {source} logs in to GKE ({_GKE_LOGIN}). A rehearsal simulates GKE's part and would fight the "
            "real one, and its pods would cost money. Leave --kubeconfig away, or name a kind cluster"
        )
    if "/" in str(login.get("command", "")):
        login["command"] = str((source.parent / login["command"]).absolute())
    for entry, kind in ((cluster, "cluster"), (user, "user")):
        for key in _PATHS[kind]:
            if entry.get(key):
                entry[key] = str((source.parent / entry[key]).absolute())
    target.touch(mode=0o600)
    target.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": chosen["cluster"], "cluster": cluster}],
                "users": [{"name": chosen["user"], "user": user}],
                "contexts": [{"name": wanted, "context": chosen}],
                "current-context": wanted,
            }
        ),
        encoding="utf-8",
    )
    return str(wanted)


def _named(source: Path, document: dict[str, Any], list_: str, name: str, key: str) -> dict[str, Any]:
    for entry in document.get(list_) or ():
        if entry.get("name") == name:
            return dict(entry.get(key) or {})
    raise RehearsalError(f"{source} has no {key} {name}; it has: {', '.join(_names(document, list_)) or 'none'}")


def _names(document: dict[str, Any], list_: str) -> list[str]:
    return [str(entry.get("name")) for entry in document.get(list_) or ()]
