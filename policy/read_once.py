"""Makes the policy SDK convert each resource once instead of once for each rule.

The SDK converts a resource's properties again for each policy. Rules only read, so they can share one view.
Measured 2026-11-22, 10 pairs: 26 % of the processor time of `fleet preview --stack spot`.

The replaced names are private to the SDK, so only versions in `KNOWN` are patched; others are slower, with the same verdicts.
FLEET_PLAIN_SDK=1 turns it off.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

SWITCH: Final = "FLEET_PLAIN_SDK"
"""Environment variable that turns this off, also in the preview."""
KNOWN: Final = ("1.21.0",)
"""Tested versions of pulumi_policy: the one pinned in requirements.txt."""


class Memo(threading.local):
    """Caches a function of one object by the object's identity, per thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, argument: Any, *others: Any) -> Any:
        """The cached result, or a new one."""
        if others:
            return self._function(argument, *others)
        # Keeping the argument prevents another object from getting its id.
        known = self._known.get(id(argument))
        if known is None:
            known = self._known[id(argument)] = argument, self._function(argument)
        return known[1]

    def forget(self) -> None:
        """Clear the cache."""
        self._known.clear()


def install(sdk: Any) -> bool:
    """Replace the conversions in the SDK's module `policy`, once. Returns whether it did."""
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
        # The first call of each evaluation. The cache has no limit: with one, a larger stack would be converted again for every rule.
        for memo in memos:
            memo.forget()
        begin(self)

    servicer._configure_runtime_settings = forget_and_begin
    return True
