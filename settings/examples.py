"""Examples of what to write for a key: the value listed here, else the key's default, else one made from its type.

Imported only after an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from facts.finding import shown
from settings.sections.place import fields_of
from settings.sections.refused import PATTERN_TEXTS

_FIELD: Final = re.compile(r"[a-z]+(?:(?:_|[A-Z])[a-z]+)*")
_LISTED: Final = {
    "gcp:project": "my-project",
    "gcp:region": "europe-west4",
    "vllm-fleet:zones": '["europe-west4-b"]',
    "vllm-fleet:capacity": "{mode: spot}",
    "vllm-fleet:machine": "g2-standard-12",
    "vllm-fleet:platform.stack": "spot, or organization/project/stack",
    "vllm-fleet:batch.input": "gs://my-bucket/documents.jsonl",
    "vllm-fleet:batch.template": '"Summarize: {text}"',
    "vllm-fleet:server.engine.version": '"0.33.0"',
    "vllm-fleet:server.shape.prefillGpus": "3",
    "vllm-fleet:server.shape.decodeGpus": "5",
    "recurrence": '"FREQ=WEEKLY;BYDAY=SA,SU"',
    "runDurationSeconds": "86400",
    "extraArgs": '["--name=value"]',
    "reasoningParser": "qwen3",
    "toolCallParser": "qwen3_coder",
    "revision": "the commit id from the repository's history",
    "usdPerMonth": "10000",
    "usdPerNodeHour": "your price of one node in USD an hour",
    "rank": "the r of its adapter_config.json",
    "billingAccount": "the id that `gcloud billing accounts list` prints",
    "concurrency": "[500, 1000, 2000]",
    "url": "https://alerts.example.com/vllm",
    "sha256": "the output of `sha256sum FILE`",
}
"""Values by the key's path, or by its last name."""
_NUMBER_IN_DOC: Final = re.compile(r"(?:[Dd]efault:?|e\.g\.) ([0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?)")
"""The default of a key that vLLM or the program sets if it is left out, or the docstring's example."""


def listed_example(path: str) -> str | None:
    """The value listed for a path or for its last name."""
    return _LISTED.get(path) or _LISTED.get(path.rpartition(".")[2])


def line(path: str, value: str) -> str:
    """A key and its value, as in the stack file: a key of the top level with its namespace, another by its last name."""
    return f"{path.rpartition('.')[2].partition('[')[0]}: {value}"


def example(type_: Any, name: str, *, path: str = "", info: FieldInfo | None = None, doc: str = "") -> str:
    """A value in YAML that is valid for a key of this type. `info` and `doc`: the key's field, if it is one of a section."""
    if listed := listed_example(path or name):
        return listed
    default = info.default if info is not None else None
    if isinstance(default, bool | int | float) or (isinstance(default, str) and default):
        return shown(default) if not isinstance(default, str) else default
    if isinstance(default, tuple) and default and all(isinstance(item, str) for item in default):
        return f"[{', '.join(default)}]"
    if info is not None and (number := _NUMBER_IN_DOC.search(doc)) and takes(info, float(number[1].replace(",", ""))):
        return number[1].replace(",", "")
    return _of_type(type_, name, [] if info is None else info.metadata)


def takes(info: FieldInfo, value: Any) -> bool:
    """Whether a key takes this value; a number without a fraction is a whole one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    type_: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    try:
        TypeAdapter(type_).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _of_type(type_: Any, name: str, limits: Sequence[Any]) -> str:
    """A section gets its required keys, or else its first one."""
    members = [member for member in get_args(type_) if member is not type(None)]
    origin = get_origin(type_)
    if origin is Annotated:
        inner = [
            part for limit in members[1:] for part in (limit.metadata if isinstance(limit, FieldInfo) else [limit])
        ]
        return _of_type(members[0], name, [*limits, *inner])
    if origin is Literal:
        return str(members[0])
    if origin in (Union, UnionType):
        return _of_type(members[0], name, limits)
    if origin in (tuple, list):
        return f"[{example(members[0], name)}]"
    if origin is dict:
        return f"{{KEY: {example(members[1], 'value')}}}"
    if fields := fields_of(type_):
        required = [field for field, info in fields.items() if info.is_required()] or list(fields)[:1]
        keys = {fields[field].alias or field: fields[field] for field in required}
        return f"{{{', '.join(line(key, example(info.annotation, key, info=info)) for key, info in keys.items())}}}"
    if type_ is bool:
        return "true"
    if type_ in (int, float):
        above = [limit.ge for limit in limits if hasattr(limit, "ge")]
        above += [limit.gt + 1 for limit in limits if hasattr(limit, "gt")]
        return f"{min([max([1, *above]), *(limit.le for limit in limits if hasattr(limit, 'le'))]):g}"
    return _text(name, next((limit.pattern for limit in limits if getattr(limit, "pattern", None)), None))


def _text(name: str, pattern: str | None) -> str:
    """The example in the pattern's description, or a name, or the description itself."""
    # A key that the user chose may contain anything, also a secret.
    word = name if _FIELD.fullmatch(name) else "value"
    named = "my-" + re.sub(r"(?<=.)(?=[A-Z])", "-", word).lower()
    if pattern is None:
        return named
    description = PATTERN_TEXTS.get(pattern, "a text")
    if such_as := re.search(r"such as (\"[^\"]+\"|[^ ,]+)", description):
        return such_as[1]
    return named if re.search(pattern, named) else description
