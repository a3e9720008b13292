"""The vLLM server that a stack file declares, as the lessons' `Served`, and the stack file's names of its options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from facts import production
from facts.engines import Flags, parse
from facts.lessons.served import READY_TIMEOUT, Served
from facts.lessons.words import StackFile
from facts.machines import Gpu
from facts.models import ModelShape
from settings import shaped_engine
from settings.derived.scaling import load_of_a_server
from settings.sections.capacity import Reservation
from settings.sections.engine import (
    ALSO_EXTRA,
    ENVIRONMENT,
    Engine,
    environment_text,
    flag_fields,
    long_name,
    option_value,
)
from settings.sections.weights import MOUNT_PATH

if TYPE_CHECKING:
    from settings.stack import Settings


class DeclaredServer(Served):
    """One replica's server of a stack file. `engine` and `tag` replace the stack's."""

    def __init__(self, settings: Settings, *, engine: Engine | None = None, tag: str | None = None) -> None:
        self._settings = settings
        self.engine = engine or settings.serving.engine
        self._tag = tag or settings.serving.image.tag

    @cached_property
    def flags(self) -> Flags:
        """The engine's fields and extra arguments."""
        fields = {field: getattr(self.engine, field) for field in flag_fields()}
        options = {long_name(field): _as_parsed(field, value) for field, value in fields.items() if value is not None}
        # As parsed: of a list option the first value.
        for name, path in list(self._settings.serving.model.adapter_paths(MOUNT_PATH).items())[:1]:
            options["lora-modules"] = f"{name}={path}"
        extra = parse(self.engine.extra_args)
        return Flags("serve", options={**options, **extra.options}, written=extra.written)

    @property
    def model_names(self) -> tuple[str, ...]:
        """The repository."""
        return (self._settings.serving.model.id,)

    @property
    def shape(self) -> ModelShape | None:
        """From the stack's config.json, else from the catalogue."""
        return self._settings.serving.shape

    @property
    def declared_weights_gb(self) -> float:
        """Size of the model's files."""
        return self._settings.serving.model.size_gb

    @property
    def tag(self) -> str:
        """The tag in effect."""
        return self._tag

    def env(self, name: str) -> str | None:
        """Value of a field of the engine or of an extra variable."""
        field = next((field for field, variable in ENVIRONMENT.items() if variable == name), None)
        if field is None:
            return self.engine.extra_env.get(name)
        value = getattr(self.engine, field)
        return None if value is None else environment_text(value)

    @property
    def variables(self) -> Mapping[str, str | None]:
        """Extra variables."""
        return self.engine.extra_env

    @property
    def gpu(self) -> Gpu:
        """GPU of the machine type."""
        return self._settings.machine.gpu

    @property
    def gpus(self) -> int:
        """GPUs of a replica."""
        return self._settings.gpus_per_replica

    @property
    def ready_seconds(self) -> float | None:
        """The engine's field; None if not set, because the program then sets the startup budget."""
        written = self.env(READY_TIMEOUT)
        return None if written is None else float(written)

    @property
    def tensor_parallel_reason(self) -> str:
        """`server.tensorParallelReason`."""
        return self._settings.server.tensor_parallel_reason or ""

    @property
    def why_production(self) -> str:
        """By the stack's labels or name, or by a reservation without an environment label."""
        labels, capacity = self._settings.labels, self._settings.capacity
        if label := production.by_labels(labels):
            return f"the stack has the label {label}"
        if production.by_name(self._settings.stack):
            return f"the stack's name is {self._settings.stack}"
        if isinstance(capacity, Reservation) and not any(key in labels for key in production.LABELS):
            return f"it uses the reservation {capacity.name}, and no environment label is set"
        return ""

    @property
    def is_declared(self) -> bool:
        """Always true."""
        return True

    @property
    def cores(self) -> float:
        """`server.resources.cpu`."""
        return self._settings.resources.cpu

    @property
    def startup_seconds(self) -> float:
        """`server.startupMinutes`."""
        return self._settings.server.startup_minutes * 60

    @property
    def needed_context_tokens(self) -> int:
        """`server.needs` or the profile's."""
        return self._settings.serving.context_tokens

    @property
    def offered_concurrency(self) -> int:
        """`server.needs` or the profile's; with prefill apart at most decode's places: shape-below-load warns of more."""
        load, server = load_of_a_server(self._settings), self._settings.server
        if (
            server.shape is None
            or server.needs.concurrency_per_replica is not None
            or self.engine.max_num_seqs is not None
        ):
            return load
        # vLLM's own number of sequences, and a profile's load, which is one of all engines.
        return min(load, self.sequences * self.answering_engines)

    @property
    def answering_engines(self) -> int:
        """Those of decode with `server.shape`."""
        return shaped_engine.answering_engines(self.engine, self._settings.server.shape)


@cache
def stack_file() -> StackFile:
    """Every option by its name in the stack file."""
    own = [field for field in flag_fields() if field not in ALSO_EXTRA]
    aliases = {long_name(field): Engine.model_fields[field].alias for field in own}
    aliases |= {variable: Engine.model_fields[field].alias for field, variable in ENVIRONMENT.items()}
    return StackFile({option: f"server.engine.{alias}" for option, alias in aliases.items()})


def _as_parsed(field: str, value: Any) -> Any:
    """Convert a setting to what `facts.engines.parse` reads from an argument."""
    written = option_value(field, value)
    return written if isinstance(written, bool | dict) else str(written)
