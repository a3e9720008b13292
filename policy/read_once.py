"""Lets the policy SDK read each resource once instead of once for every rule.

The SDK converts a resource's properties anew for each policy it asks. Rules only read, so they can share one view.
Measured 2026-11-22, 10 pairs: 26 % of the processor time of `fleet preview --stack spot`.

The names replaced are private to the SDK, so this is done for the versions in `KNOWN` alone; with any other nothing is
replaced: slower, and the same verdicts. FLEET_PLAIN_SDK=1 turns it off.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

SWITCH: Final = "FLEET_PLAIN_SDK"
"""Environment variable that turns this off, in the preview as well."""
KNOWN: Final = ("1.21.0",)
"""Versions of pulumi_policy that this was tried on: the one pinned in requirements.txt."""
_KEPT: Final = 4_096
"""Objects remembered by a thread: more than one stack has resources, so that rules about a stack profit too."""


class Memo(threading.local):
    """A function of one object, remembered for the very same object. Each thread remembers for itself."""

    def __init__(self, function: Callable[..., Any], kept: int = _KEPT) -> None:
        self._function = function
        self._kept = kept
        self._known: OrderedDict[int, tuple[Any, Any]] = OrderedDict()

    def __call__(self, argument: Any, *others: Any) -> Any:
        """The remembered result, or a new one."""
        if others:
            return self._function(argument, *others)
        known = self._known.get(id(argument))
        # The argument is kept with its result, so its id cannot be another object's meanwhile.
        if known is None or known[0] is not argument:
            known = self._known[id(argument)] = argument, self._function(argument)
            if len(self._known) > self._kept:
                self._known.popitem(last=False)
        return known[1]


def install(sdk: Any) -> bool:
    """Replace the conversions in the SDK's module `policy`, once. Says whether it did."""
    if sdk.VERSION not in KNOWN or os.environ.get(SWITCH) or isinstance(sdk.unknown_checking_proxy, Memo):
        return False
    sdk.json_format = SimpleNamespace(MessageToDict=Memo(sdk.json_format.MessageToDict))
    sdk.deserialize_properties = Memo(sdk.deserialize_properties)
    sdk.unknown_checking_proxy = Memo(sdk.unknown_checking_proxy)
    return True
