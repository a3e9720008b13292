"""Lets the policy SDK read each resource once instead of once for every rule.

The SDK converts a resource's properties anew for each policy it asks. Rules only read, so they can share one view.
Measured 2026-11-22, 10 pairs: 26 % of the processor time of `fleet preview --stack spot`.

The names replaced are private to the SDK, so this is done for the versions in `KNOWN` alone; with any other nothing is
replaced: slower, and the same verdicts. FLEET_PLAIN_SDK=1 turns it off.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

SWITCH: Final = "FLEET_PLAIN_SDK"
"""Environment variable that turns this off, in the preview as well."""
KNOWN: Final = ("1.21.0",)
"""Versions of pulumi_policy that this was tried on: the one pinned in requirements.txt."""


class Memo(threading.local):
    """A function of one object, remembered for the very same object. Each thread remembers for itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, argument: Any, *others: Any) -> Any:
        """The remembered result, or a new one."""
        if others:
            return self._function(argument, *others)
        # The argument is kept with its result, so its id cannot be another object's meanwhile.
        known = self._known.get(id(argument))
        if known is None:
            known = self._known[id(argument)] = argument, self._function(argument)
        return known[1]

    def forget(self) -> None:
        """Begin anew."""
        self._known.clear()


def install(sdk: Any) -> bool:
    """Replace the conversions in the SDK's module `policy`, once. Says whether it did."""
    if sdk.VERSION not in KNOWN or os.environ.get(SWITCH) or isinstance(sdk.unknown_checking_proxy, Memo):
        return False
    to_dict, deserialized, proxy = memos = (
        Memo(sdk.json_format.MessageToDict),
        Memo(sdk.deserialize_properties),
        Memo(sdk.unknown_checking_proxy),
    )
    sdk.json_format = SimpleNamespace(MessageToDict=to_dict)
    sdk.deserialize_properties, sdk.unknown_checking_proxy = deserialized, proxy
    servicer = sdk._PolicyAnalyzerServicer
    begin = servicer._configure_runtime_settings

    def forget_and_begin(self: Any) -> None:
        # The first thing that each question does. What is kept for one question has no bound: with one, a stack above it was
        # converted anew for every rule.
        for memo in memos:
            memo.forget()
        begin(self)

    servicer._configure_runtime_settings = forget_and_begin
    return True
