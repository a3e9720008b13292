"""Key `machine`: the machine type of the servers' nodes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from facts.machines import DEFAULT, MACHINES, Machine


def _machine(given: Any) -> Machine:
    """The machine of that type. Raises PydanticCustomError, which pydantic reports as a wrong choice."""
    if isinstance(given, Machine):
        return given
    if not isinstance(given, str) or given not in MACHINES:
        raise PydanticCustomError("literal_error", "a machine type", {"expected": ", ".join(MACHINES)})
    return MACHINES[given]


MachineType = Annotated[
    Machine,
    PlainValidator(_machine),
    PlainSerializer(lambda machine: machine.type, return_type=str),
    WithJsonSchema({"type": "string", "enum": list(MACHINES), "default": DEFAULT}),
]
"""A machine type by its name."""
