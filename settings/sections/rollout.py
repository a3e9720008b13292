"""Section `rollout`: a canary of the next release beside the servers."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from facts.names import CANARY_ENDING
from settings.sections.model import ChosenModel, Model, Repository, Revision, SizeGb
from settings.sections.section import NAMESPACE, Section
from settings.sections.server import ImageChoice, Server

_OF_THE_MODEL: Final = ("config", "kv_bytes_per_token", "adapters")
"""What another revision of a model has in common with it."""
_OF_THE_SERVER: Final = (
    "gpus",
    "tensor_parallel_reason",
    "needs",
    "resources",
    "startup_minutes",
    "drain_seconds",
    "compile_cache",
    "api_key_secret",
)
"""What a canary has in common with the servers."""
_PATH: Final = f"{NAMESPACE}:rollout"


class CanaryModel(Section):
    """The canary's model, as differences from the servers'."""

    id: Repository | None = None
    """Hugging Face repository. Default: the servers' model."""
    revision: Revision | None = None
    """Commit id in that repository. Default: the servers'; the catalog's for another model."""
    size_gb: SizeGb | None = None
    """Size of the repository's files in GB (10**9 bytes). Default: the servers'; the catalog's for another model."""


class Rollout(Section):
    """One replica of the next release beside the servers: a canary, as differences from `server` and `model`. Guide: docs/rollout.md."""

    engine: dict[str, Any] = {}
    """Engine settings that differ from the servers', e.g. `{version: 0.33.0}`; null restores vLLM's default, as in `server.engine`."""
    image: ImageChoice | None = None
    """The vLLM image, with tag and digest. Default: the image of the canary's `engine.version`, else the servers'."""
    model: CanaryModel | None = None
    """Another revision or model, whose weights get a separate volume."""
    weight: Annotated[int, Field(ge=0, le=50)] | None = None
    """Percent of the users' requests that the gateway sends to the canary; 0 takes them back. Default: an offline trial, without users."""

    def server(self, server: Server) -> Server:
        """The canary's server, from the stack's `server`: without clients and without an autoscaler.

        Raises pydantic.ValidationError for a name that has no room for the ending.
        """
        engine, image = {**server.engine, **self.engine}, server.image
        if self.image is not None:
            image = self.image
            if "repository" not in image.model_fields_set:
                image = image.model_copy(update={"repository": server.image.repository})
            if image.tag is not None and "version" not in self.engine:
                engine.pop("version", None)
        elif "version" in self.engine:
            image = ImageChoice(repository=server.image.repository)
        given = {name: getattr(server, name) for name in _OF_THE_SERVER}
        given |= {"profile": server.profile, "replicas": 1, "engine": engine, "image": image}
        return Server.model_validate({**given, "name": server.name + CANARY_ENDING}, by_alias=False, by_name=True)

    def chosen_model(self, own: ChosenModel | None, served: Model) -> ChosenModel | None:
        """The canary's model as a section `model`. `own`: the stack's section; `served`: the servers' model."""
        if self.model is None:
            return own
        given = {name: value for name, value in self.model if value is not None}
        if self.model.id in (None, served.id):
            known = {} if own is None else {name: getattr(own, name) for name in _OF_THE_MODEL}
            known |= {"id": served.id, "revision": served.revision, "size_gb": served.size_gb}
            given = {**known, **given}
        return ChosenModel.model_validate(given, by_alias=False, by_name=True)


def canary_path(path: str) -> str:
    """The key of `rollout` for a key of `server` or `model`; any other key unchanged."""
    section, _, rest = path.removeprefix(f"{NAMESPACE}:").partition(".")
    if section == "model":
        return ".".join(filter(None, (f"{_PATH}.model", rest)))
    if section == "server" and rest.partition(".")[0] in ("engine", "image"):
        return f"{_PATH}.{rest}"
    return path
