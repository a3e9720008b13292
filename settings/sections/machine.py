"""Key `machine`: the machine type of the servers' nodes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import GetPydanticSchema, WithJsonSchema
from pydantic_core import PydanticCustomError, core_schema

from facts.machines import DEFAULT, MACHINES, Machine, meant_machine


def _machine(given: Any) -> Machine:
    """The machine of that type. Raises PydanticCustomError for an unknown type, as for a wrong choice."""
    if isinstance(given, Machine):
        return given
    if not isinstance(given, str) or given not in MACHINES:
        meant = meant_machine(given) if isinstance(given, str) else None
        context = {"expected": ", ".join(MACHINES), **({"near": meant.type} if meant else {})}
        raise PydanticCustomError("literal_error", "a machine type", context)
    return MACHINES[given]


MachineType = Annotated[
    Machine,
    # Not PlainValidator, which builds a schema of every field of Machine and Gpu at each start.
    GetPydanticSchema(
        lambda _source, _handler: core_schema.no_info_plain_validator_function(
            _machine, serialization=core_schema.plain_serializer_function_ser_schema(lambda machine: machine.type)
        )
    ),
    WithJsonSchema({"type": "string", "enum": list(MACHINES), "default": DEFAULT}),
]
"""A machine type, given by its name."""
