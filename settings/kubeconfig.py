"""Reads and checks the kubeconfig of an existing cluster, for the program and for `fleet check`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from facts.files import read_bounded
from facts.finding import Finding
from facts.names import CREDENTIALS_PLUGIN
from settings import strict_yaml
from settings.problems import SettingsError
from settings.sections.section import key

MOST_BYTES: Final = 2**20
"""Maximum size of a kubeconfig. Assumed: hundreds of times the size for one cluster."""


def read_kubeconfig(path: Path, *, project: str, region: str) -> tuple[str, str, str]:
    """Text of the kubeconfig, and name and address of its cluster. Raises SettingsError."""
    file = path.name

    def refusal(why: str) -> SettingsError:
        problem = Finding(
            id="platform-kubeconfig",
            subject=key("platform.kubeconfig"),
            found=file,
            allowed="the output of `gcloud container clusters get-credentials` for one cluster in gcp:project and gcp:region",
            why=why,
            write=f"KUBECONFIG={file} gcloud container clusters get-credentials NAME --location={region} --project={project} "
            "--dns-endpoint",
        )
        return SettingsError("", [problem])

    try:
        data = read_bounded(path, MOST_BYTES)
    except OSError as error:
        raise refusal(f"it cannot be read: {error.strerror}") from None
    try:
        config = strict_yaml.load(data, name=file, stack="")
        (cluster,), (user,) = config["clusters"], config["users"]
        name, server, login = str(cluster["name"]), str(cluster["cluster"]["server"]), dict(user["user"])
        command = login.pop("exec")["command"]
    except (SettingsError, KeyError, TypeError, ValueError):  # the text itself may hold credentials
        raise refusal("it must contain one cluster and one user with a credential plugin") from None
    if command != CREDENTIALS_PLUGIN or login:
        raise refusal(
            f"its user must log in with {CREDENTIALS_PLUGIN} only: a credential in a file ends up in version control"
        )
    kind, _, rest = name.partition("_")
    its_project, _, rest = rest.partition("_")
    its_region, _, called = rest.partition("_")
    if (kind, its_project, its_region) != ("gke", project, region):
        raise refusal(
            f"its cluster is {name}; for gcp:project {project} and gcp:region {region} the name must start with "
            f"gke_{project}_{region}_"
        )
    return data.decode(), called, server
