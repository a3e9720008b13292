"""The kubeconfig of a cluster that somebody else made: read and judged alike by the program and by whoever checks a stack file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from settings import strict_yaml
from settings.files import read_bounded
from settings.names import CREDENTIALS_PLUGIN
from settings.problems import Problem, SettingsError
from settings.sections.section import key

MOST_BYTES: Final = 2**20
"""Of a kubeconfig. Assumed: hundreds of times one cluster's."""


def read_kubeconfig(path: Path, *, stack: str, project: str, region: str) -> tuple[str, str, str]:
    """Text of the kubeconfig; name and address of the cluster that it names. Raises SettingsError."""
    file = path.name

    def refusal(why: str) -> SettingsError:
        problem = Problem(
            id="platform-kubeconfig",
            path=key("platform.kubeconfig"),
            value=file,
            allowed="what `gcloud container clusters get-credentials` writes of one cluster of gcp:project and gcp:region",
            why=why,
            write=f"KUBECONFIG={file} gcloud container clusters get-credentials NAME --location={region} --project={project} "
            "--dns-endpoint",
        )
        return SettingsError(stack, [problem])

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
        raise refusal("it does not hold one cluster and one user who logs in by a plugin") from None
    if command != CREDENTIALS_PLUGIN or login:
        raise refusal(
            f"its user logs in by more or other than {CREDENTIALS_PLUGIN}: a credential in a file ends in version control"
        )
    kind, _, rest = name.partition("_")
    its_project, _, rest = rest.partition("_")
    its_region, _, called = rest.partition("_")
    if (kind, its_project, its_region) != ("gke", project, region):
        raise refusal(
            f"its cluster is {name}; nodes, secrets and prices follow gcp:project {project} and gcp:region "
            f"{region}, so the name has to begin with gke_{project}_{region}_"
        )
    return data.decode(), called, server
