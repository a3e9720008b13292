"""Calls of a provider as the engine makes them, without an engine: real messages, and a state of one's own."""

from __future__ import annotations

from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2

from fleet.preview.record.wire import decode_struct, encode_struct
from lab.providers.base import Provider

Diff = provider_pb2.DiffResponse
Kind = provider_pb2.PropertyDiff.Kind


class RefusedCallError(Exception):
    """The provider refused."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Context:
    """Of a call: an abort is an exception of the caller's."""

    def abort(self, code: grpc.StatusCode, message: str) -> None:
        assert code is grpc.StatusCode.UNKNOWN
        raise RefusedCallError(message)


class Resource:
    """One resource of a stack, with its part of the state."""

    def __init__(self, provider: Provider, type_: str, name: str, stack: str = "dev") -> None:
        self.provider, self.type, self.name = provider, type_, name
        self.urn = f"urn:pulumi:{stack}::fixture::{type_}::{name}"
        self.id, self.inputs, self.outputs = "", dict[str, Any](), dict[str, Any]()

    def check(self, inputs: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Checked inputs and what is wrong."""
        request = provider_pb2.CheckRequest(
            urn=self.urn, olds=encode_struct(self.inputs), news=encode_struct(inputs), randomSeed=b"seed"
        )
        answer = self.provider.Check(request, Context())
        return decode_struct(answer.inputs), [failure.reason for failure in answer.failures]

    def create(self, inputs: dict[str, Any], *, preview: bool = False, timeout: float = 0) -> dict[str, Any]:
        """Check and create; outputs."""
        checked, wrong = self.check(inputs)
        assert not wrong, wrong
        request = provider_pb2.CreateRequest(
            urn=self.urn, name=self.name, properties=encode_struct(checked), preview=preview, timeout=timeout
        )
        answer = self.provider.Create(request, Context())
        if preview:
            assert not answer.id
            return decode_struct(answer.properties)
        return self._keep(answer.id, checked, decode_struct(answer.properties))

    def update(self, inputs: dict[str, Any], *, preview: bool = False, ignored: tuple[str, ...] = ()) -> dict[str, Any]:
        """Check and update; outputs."""
        checked, wrong = self.check(inputs)
        assert not wrong, wrong
        request = provider_pb2.UpdateRequest(
            id=self.id,
            urn=self.urn,
            olds=encode_struct(self.outputs),
            old_inputs=encode_struct(self.inputs),
            news=encode_struct(checked),
            preview=preview,
            ignoreChanges=ignored,
        )
        answer = self.provider.Update(request, Context())
        return (
            decode_struct(answer.properties)
            if preview
            else self._keep(self.id, checked, decode_struct(answer.properties))
        )

    def diff(self, inputs: dict[str, Any]) -> Any:
        """Check and compare."""
        checked, _ = self.check(inputs)
        request = provider_pb2.DiffRequest(
            id=self.id,
            urn=self.urn,
            olds=encode_struct(self.outputs),
            old_inputs=encode_struct(self.inputs),
            news=encode_struct(checked),
        )
        return self.provider.Diff(request, Context())

    def read(self, id_: str = "") -> Any:
        """As a refresh; with an id, as an import."""
        known = not id_
        request = provider_pb2.ReadRequest(
            id=id_ or self.id,
            urn=self.urn,
            properties=encode_struct(self.outputs if known else {}),
            inputs=encode_struct(self.inputs if known else {}),
        )
        return self.provider.Read(request, Context())

    def delete(self) -> None:
        """Delete it."""
        request = provider_pb2.DeleteRequest(
            id=self.id, urn=self.urn, properties=encode_struct(self.outputs), old_inputs=encode_struct(self.inputs)
        )
        self.provider.Delete(request, Context())

    def _keep(self, id_: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Any]:
        self.id, self.inputs, self.outputs = id_, inputs, outputs
        return outputs
