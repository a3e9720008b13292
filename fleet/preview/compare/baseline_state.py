"""Reads the live state from a file written by `pulumi stack export`.

A state holds more than the program's inputs: provider defaults, the engine's markers, resources pending
deletion, default providers. These are dropped, so that they do not show as changes.
Encrypted secrets stay encrypted; the comparison reports them as "may change".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from facts import strict_json
from fleet.preview.compare.baseline import Baseline, BaselineError, StateBaseline
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, STACK_TYPE, RecordedResource
from fleet.preview.record.recording_json import REFERENCE, SECRET, SIGNATURE, UNKNOWN_TEXT
from fleet.preview.record.values import UNKNOWN, Secret, Value

if TYPE_CHECKING:
    from types import TracebackType

_DEFAULTS: Final = "__defaults"
"""Property in which the Google provider lists map entries that it added."""
_OWN_ANNOTATIONS: Final = ("pulumi.com/autonamed",)
_OF_PROVIDERS: Final = ("version", "__internal")
"""Inputs that the engine adds to a provider. Source: pulumi, pkg/resource/deploy/providers/registry.go."""
_EXPORT: Final = "pulumi stack export --file state.json"
"""Never to the file that was named: it may be one that must not be replaced."""
_HELM_RELEASE: Final = "kubernetes:helm.sh/v3:Release"


class StateFile:
    """The state of one stack, read at once."""

    def __init__(self, path: Path, stacks: Sequence[str]) -> None:
        if len(stacks) > 1:
            raise BaselineError(f"{path} holds the state of one stack, but this is a preview of {len(stacks)}")
        self._path, self.state = path, read_state(path)

    @property
    def tree(self) -> None:
        """A state has no files."""

    def wait(self, stack: str) -> Baseline:
        """The state, if it is this stack's."""
        state = self.state
        if state.resources and state.stack != stack:
            raise BaselineError(
                f"{self._path} is the state of stack {state.stack}, but this is a preview of {stack}: pass "
                f"--stack {state.stack}, or the export of {stack}"
            )
        remarks = ["Live values that depend on the cloud count as unchanged unless their source changes."]
        if not state.resources:
            remarks = [f"{self._path} contains no resources: everything is new."]
        return Baseline(resources=state, label=state.label, remarks=tuple(remarks))

    def __enter__(self) -> StateFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to clean up."""


def read_state(path: Path) -> StateBaseline:
    """Parses an exported state. Raises BaselineError if it is invalid."""
    try:
        document = strict_json.read(path)
    except OSError as error:
        raise BaselineError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise BaselineError(f"{path} is not JSON ({error}); write it with: {_EXPORT}") from error
    deployment = document.get("deployment") if isinstance(document, dict) else None
    if not isinstance(deployment, dict):
        raise BaselineError(f"{path} has no `deployment`; write it with: {_EXPORT}")
    _check(path, "deployment", deployment, _DEPLOYMENT)
    listed = deployment.get("resources") or []
    for number, one in enumerate(listed):
        _check(path, f"deployment.resources[{number}]", one, _ENTRY)
    entries = [one for one in listed if _belongs(one)]
    stack = next((entry for entry in entries if entry.get("type") == STACK_TYPE), None)
    if entries and stack is None:
        raise BaselineError(f"{path} has resources but no stack; it is not a complete export")
    parts = str(stack["urn"]).split("::") if stack else ["urn:pulumi:", ""]
    when = str((deployment.get("manifest") or {}).get("time") or "")[:10]
    return StateBaseline(
        project=parts[1],
        stack=parts[0].removeprefix("urn:pulumi:"),
        resources=tuple(_resource(entry) for entry in entries),
        outputs=dict(_opened(stack.get("outputs") or {})) if stack else {},
        ids={entry["urn"]: str(entry["id"]) for entry in entries if entry.get("id")},
        label=f"the state in {path.name}" + (f" of {when}" if when else ""),
    )


def _texts_of(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and SIGNATURE not in value


_Shape: TypeAlias = Mapping[str, tuple[str, Callable[[Any], bool]]]
_DEPLOYMENT: Final[_Shape] = {
    "manifest": ("an object", _is_map),
    "resources": ("a list of objects", lambda value: isinstance(value, list) and all(map(_is_map, value))),
}
_ENTRY: Final[_Shape] = {
    "urn": (
        "a URN",
        lambda value: isinstance(value, str) and bool(re.fullmatch(r"urn:pulumi:[^:]+(::.+){3}", value, re.DOTALL)),
    ),
    "type": ("a type", lambda value: isinstance(value, str)),
    **dict.fromkeys(("parent", "provider", "deletedWith"), ("text", lambda value: isinstance(value, str))),
    **dict.fromkeys(("inputs", "outputs"), ("an object", _is_map)),
    "dependencies": ("a list of URNs", _texts_of),
    "propertyDependencies": (
        "an object of lists of URNs",
        lambda value: _is_map(value) and all(urns is None or _texts_of(urns) for urns in value.values()),
    ),
}
"""Fields read from a resource. Source: pulumi, sdk/go/common/apitype/core.go (ResourceV3)."""


def _check(path: Path, where: str, given: Mapping[str, Any], shape: _Shape) -> None:
    """Refuse what the engine would not write. Every key except a resource's type and URN may be missing or null."""
    for key, (allowed, holds) in shape.items():
        value = given.get(key)
        if key in ("urn", "type") if value is None else not holds(value):
            raise BaselineError(f"{path}: {where}.{key} must be {allowed}. Export the state again: {_EXPORT}")


def _belongs(entry: Mapping[str, Any]) -> bool:
    """Whether a program created it: not read, not pending deletion, not a default provider."""
    if entry.get("delete") or entry.get("external") or entry.get("type") == STACK_REFERENCE_TYPE:
        return False
    return not _is_default_provider(str(entry.get("urn", "")))


def _is_default_provider(urn: str) -> bool:
    return "::pulumi:providers:" in urn and urn.rpartition("::")[2].startswith("default")


def _resource(entry: Mapping[str, Any]) -> RecordedResource:
    urn, provider = str(entry["urn"]), str(entry.get("provider") or "")
    inputs = _opened(entry.get("inputs") or {})
    type_ = str(entry["type"])
    return RecordedResource(
        urn=urn,
        type=type_,
        name=urn.split("::", 3)[3],
        parent=str(entry.get("parent") or ""),
        provider="" if _is_default_provider(provider.rpartition("::")[0]) else provider,
        dependencies=tuple(sorted(entry.get("dependencies") or ())),
        property_dependencies={
            key: tuple(sorted(urns)) for key, urns in (entry.get("propertyDependencies") or {}).items() if urns
        },
        custom=bool(entry.get("custom")),
        protect=bool(entry.get("protect")),
        retain_on_delete=bool(entry.get("retainOnDelete")),
        deleted_with=str(entry.get("deletedWith") or ""),
        inputs=dict(_without_additions(inputs, type_)),
        outputs=dict(_opened(entry.get("outputs") or {})),
    )


def as_the_program_says(old: Mapping[str, Any], new: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Inputs of a live resource without provider defaults."""
    if type_ == _HELM_RELEASE:  # helm options, object names, a checksum
        return {key: value for key, value in old.items() if key in new}
    if type_.startswith("pulumi:providers:"):
        return {key: value for key, value in old.items() if key not in _OF_PROVIDERS}
    if not type_.startswith("kubernetes:"):
        return old
    said, metadata = _metadata(new), _metadata(old)
    if "namespace" not in said and metadata.get("namespace") == "default":
        metadata = {key: value for key, value in metadata.items() if key != "namespace"}
    if "labels" not in said and metadata.get("labels") == {"app.kubernetes.io/managed-by": "pulumi"}:
        metadata = {key: value for key, value in metadata.items() if key != "labels"}
    return {**old, "metadata": metadata} if "metadata" in old else old


def _metadata(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = inputs.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _opened(value: Any) -> Value:
    """Converts a value of a state: plaintext secrets kept, encrypted ones unknown, references as recorded."""
    if value == UNKNOWN_TEXT:
        return UNKNOWN
    if isinstance(value, list):
        return [_opened(item) for item in value]
    if not isinstance(value, dict):
        return value
    signature = value.get(SIGNATURE)
    if signature == SECRET:
        return Secret(_plaintext(value))
    if signature == REFERENCE:
        return {key: value[key] for key in ("urn", "id") if key in value}
    return {key: _opened(item) for key, item in value.items()}


def _plaintext(value: Mapping[str, Any]) -> Value:
    if "plaintext" not in value:
        return UNKNOWN
    try:
        return _opened(strict_json.loads(str(value["plaintext"])))
    except ValueError:
        return UNKNOWN


def _without_additions(value: Value, type_: str) -> Value:
    if isinstance(value, Mapping):
        additions = {*_texts(value.get(_DEFAULTS)), _DEFAULTS}
        if type_.startswith("kubernetes:"):
            additions.update(_OWN_ANNOTATIONS)
        kept = {key: _without_additions(item, type_) for key, item in value.items() if key not in additions}
        # A map with nothing but additions was absent.
        return {key: item for key, item in kept.items() if item or item == value[key]}
    if isinstance(value, list):
        return [_without_additions(item, type_) for item in value]
    return value


def _texts(value: Value) -> Iterator[str]:
    return (item for item in value if isinstance(item, str)) if isinstance(value, list) else iter(())
