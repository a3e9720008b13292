"""What the host refuses before a component is made, in this process."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.errors import InputPropertyError

from facades.host import Host

HOST = Host()


def refused(component: str, inputs: dict[str, Any]) -> InputPropertyError:
    with pytest.raises(InputPropertyError) as error:
        HOST.map_inputs(inputs, HOST._component_defs[component])
    return error.value


@pytest.mark.parametrize("value", [["x"], {"a": "b"}, 5.0, True, None])
def test_a_text_of_another_kind_is_refused_by_its_name(value: Any) -> None:
    for component, name in (("ModelWeights", "hfToken"), ("VllmServer", "weightsClaim"), ("VllmFleet", "apiKey")):
        assert refused(component, {name: value}).property_path == name
