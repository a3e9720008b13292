"""Section `rollout`: one replica of the next release beside the servers, before they all become it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from settings.sections.model import ChosenModel, Config, Model, Repository, Revision, SizeGb
from settings.sections.section import NAMESPACE, Section, like
from settings.sections.server import ImageChoice, Resources, Server

CANARY_ENDING: Final = "-canary"
"""Behind the servers' name: the name of the canary's Deployment and Service, and its label `app`."""
_PATH: Final = f"{NAMESPACE}:rollout.canary"


class CanaryModel(Section):
    """What differs from the model that the servers serve."""

    id: Repository | None = None
    """Hugging Face repository. Default: the servers' model."""
    revision: Revision | None = None
    """Commit of that repository. Default: the servers', or the catalogue's of another model."""
    size_gb: SizeGb | None = None
    """Size of the repository's files in GB (10**9 bytes). Default: likewise."""
    config: Config | None = None
    """Path of the model's config.json, from the stack file's folder. Default: likewise."""


class Canary(Section):
    """What differs from `server` and `model`; what is left out is as there. docs/rollout.md is the guide."""

    profile: str | None = None
    """Which set of engine flags. Default: the servers'."""
    engine: dict[str, Any] = {}
    """Engine settings laid over the servers' own, e.g. `{version: 0.33.0}`; null leaves one to vLLM, as in `server.engine`."""
    image: ImageChoice | None = None
    """The vLLM image, tag and digest together. Default: that of `engine.version` where the canary sets one, else the servers'."""
    model: CanaryModel | None = None
    """Another revision or another model. Its weights get a volume of their own beside the servers'."""
    resources: Resources | None = None
    """CPU, memory and disk of a pod, all of them. Default: the servers'."""
    replicas: Annotated[int, Field(ge=1, le=100)] = 1
    """Pods of the canary, which get no user's requests. One is enough to measure against one of the servers."""

    def server(self, server: Server) -> Server:
        """The server that the canary's pods run, for what `server` is here. It is no client's, and nobody scales it."""
        engine, image = {**server.engine, **self.engine}, server.image
        if self.image is not None:
            image = self.image
            if "repository" not in image.model_fields_set:
                image = image.model_copy(update={"repository": server.image.repository})
            if image.tag is not None and "version" not in self.engine:
                engine.pop("version", None)
        elif "version" in self.engine:
            image = ImageChoice(repository=server.image.repository)
        # Without the limit of a name: settings/checks/rollout.py says which name is too long for this.
        return Server.model_construct(
            name=server.name + CANARY_ENDING,
            profile=self.profile or server.profile,
            replicas=self.replicas,
            gpus=server.gpus,
            engine=engine,
            needs=server.needs,
            image=image,
            resources=self.resources or server.resources,
            startup_minutes=server.startup_minutes,
            compile_cache=server.compile_cache,
            api_key_secret=server.api_key_secret,
        )

    def chosen_model(self, own: ChosenModel | None, served: Model) -> ChosenModel | None:
        """The model as `model` of a stack file would name it, where `own` is named there and `served` is what follows."""
        if self.model is None:
            return own
        given = {name: value for name, value in self.model if value is not None}
        if self.model.id in (None, served.id):
            known = {"id": served.id, "revision": served.revision, "size_gb": served.size_gb}
            given = {**known, "config": own and own.config, **given}
        return ChosenModel.model_construct(**{**dict.fromkeys(ChosenModel.model_fields), **given})


class Rollout(Section):
    """An upgrade on its way. `fleet rollout` writes it and takes it away."""

    canary: Canary | None = None
    """The replicas that already run what the servers shall run. Default: none."""
    promoted: Annotated[str, like(r"^.{1,500}$", "one line of up to 500 characters")] | None = None
    """Why the servers were given what the canary runs. `fleet rollout promote` writes it; until `--finish`, the canary stays."""


def canary_path(path: str) -> str:
    """A key of `server` or `model` as the one of `rollout.canary` that sets it; every other as it is."""
    section, _, rest = path.removeprefix(f"{NAMESPACE}:").partition(".")
    if section == "model":
        return ".".join(filter(None, (f"{_PATH}.model", rest)))
    if section == "server" and rest.partition(".")[0] in ("profile", "engine", "image", "resources"):
        return f"{_PATH}.{rest}"
    return path
