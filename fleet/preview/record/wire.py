"""Between protocol buffer Structs and plain Python values. Integers come back as integers."""

from __future__ import annotations

from typing import Any

from google.protobuf import struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime import rpc

from fleet.preview.record.values import UNKNOWN, Secret, Value

_SIGNATURE = rpc._special_sig_key
_SECRET = rpc._special_secret_sig
_REFERENCE = rpc._special_resource_sig
_UNKNOWN = rpc.UNKNOWN


def decode_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """A Struct as a dict, with `Secret` and `UNKNOWN` in place of their signed forms.

    Keys come sorted: a protocol buffer map has no order, and what is printed must not vary between runs.
    """
    fields = struct.fields
    return {key: decode(fields[key]) for key in sorted(fields)}


def decode(value: struct_pb2.Value) -> Value:
    """One Value as plain Python. A resource reference becomes a map of `urn` and `id`, an asset a map of its parts."""
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        text = value.string_value
        return UNKNOWN if text == _UNKNOWN else text
    if kind == "struct_value":
        return _decode_map(value.struct_value)
    if kind == "list_value":
        return [decode(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    return value.bool_value if kind == "bool_value" else None


def _decode_map(struct: struct_pb2.Struct) -> Value:
    plain = decode_struct(struct)
    signature = plain.pop(_SIGNATURE, None)
    if signature == _SECRET:
        return Secret(plain["value"])
    if signature == _REFERENCE:
        # A component has no id; an empty id is unknown.
        return {"urn": plain["urn"]} | ({"id": plain["id"] or UNKNOWN} if "id" in plain else {})
    return plain


def encode_struct(values: dict[str, Any], *, unwrap_secrets: bool = False) -> struct_pb2.Struct:
    """A dict as a Struct. `unwrap_secrets` sends secret values bare, for a reader that knows no signatures."""
    struct = struct_pb2.Struct()
    struct.update({key: _signed(value, unwrap_secrets) for key, value in values.items()})
    return struct


def _signed(value: Value, unwrap_secrets: bool) -> Value:
    if value is UNKNOWN:
        return _UNKNOWN
    if isinstance(value, Secret):
        inner = _signed(value.value, unwrap_secrets)
        return inner if unwrap_secrets else {_SIGNATURE: _SECRET, "value": inner}
    if isinstance(value, dict):
        return {key: _signed(item, unwrap_secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_signed(item, unwrap_secrets) for item in value]
    return value
