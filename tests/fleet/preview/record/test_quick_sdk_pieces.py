from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

from fleet.preview.record.quick_sdk import Definitions, cut

GENERATED = '''
"""A module as the generator writes it."""
import builtins as _builtins
import sys
if sys.version_info >= (3, 11):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict

__all__ = ["First", "FirstDict", "Second"]

class First:
    def where(self):
        return __name__

class FirstDict(TypedDict):
    value: "First"

@decorate
class Second(First, dict):
    """Documented."""
    number = 2
'''


def definitions(source: str, **names: Any) -> Definitions | None:
    module = types.ModuleType("example")
    parts = cut(compile(source, "example.py", "exec"))
    if parts is None:
        return None
    module.__dict__.update(names)
    made = Definitions(module.__dict__, parts)
    exec(parts.header, module.__dict__)
    return made


def namespace_of(made: Definitions) -> dict[str, Any]:
    return made._namespace


def test_nothing_is_made_before_it_is_asked_for() -> None:
    made = definitions(GENERATED, decorate=lambda cls: cls)
    assert made is not None
    assert "First" in made
    assert "First" not in namespace_of(made)
    assert namespace_of(made)["__all__"] == ["First", "FirstDict", "Second"]


def test_a_class_is_made_once_with_its_decorator_bases_and_body() -> None:
    decorated: list[type] = []

    def decorate(cls: type) -> type:
        decorated.append(cls)
        return cls

    made = definitions(GENERATED, decorate=decorate)
    assert made is not None
    first = made.get("First")  # the base must exist before the class statement runs
    second = made.get("Second")
    assert decorated == [second]
    assert second.__mro__[1:3] == (first, dict)
    assert second.__doc__ == "Documented."
    assert (second.__module__, second.__qualname__, second().where()) == ("example", "Second", "example")
    assert made.get("Second") is second
    assert made.get("FirstDict").__annotations__.keys() == {"value"}


def test_names_that_are_not_there_raise_like_a_module() -> None:
    made = definitions(GENERATED)
    assert made is not None
    with pytest.raises(AttributeError, match="module 'example' has no attribute 'Third'"):
        made.get("Third")


@pytest.mark.parametrize(
    "extra",
    [
        "import os",
        "value = 3",
        "if made:\n    class Third: pass",
        "for name in []:\n    class Third: pass",
        "class First: pass",
        "def function(): pass",
        "try:\n    class Third: pass\nexcept NameError: pass",
        "del First",
        "print('loaded')",
        "First.number = 3",
    ],
)
@pytest.mark.parametrize("after", ["", "\nclass Last: pass\n"])
def test_a_module_that_does_more_than_define_classes_is_left_whole(extra: str, after: str) -> None:
    assert definitions(GENERATED + extra + after) is None


def test_an_error_while_a_class_is_made_names_the_line_of_the_class() -> None:
    made = definitions(GENERATED)
    assert made is not None
    with pytest.raises(NameError, match="decorate") as caught:
        made.get("Second")
    assert GENERATED.splitlines()[caught.traceback[-1].lineno].startswith(("@decorate", "class Second"))


def test_a_module_without_classes_or_list_of_names_is_left_whole() -> None:
    assert definitions("__all__ = []\n") is None
    assert definitions("class First: pass\n") is None


def test_large_modules_with_long_arguments_are_cut_right() -> None:
    names = [f"Class{index}" for index in range(1500)]
    bodies = "".join(f"class {name}(Base):\n    index = {index}\n" for index, name in enumerate(names))
    made = definitions(f"__all__ = {names!r}\n{bodies}", Base=dict)
    assert made is not None
    for index in (0, 255, 256, 257, 1499):
        assert made.get(f"Class{index}").index == index
        assert issubclass(made.get(f"Class{index}"), dict)


def test_line_tables_cover_the_code_exactly() -> None:
    """Python does not check: a table too long overwrites memory as soon as somebody profiles or debugs."""
    parts = cut(compile(GENERATED, "example.py", "exec"))
    assert parts is not None
    for code in (parts.header, *(parts.runnable(name) for name in parts.pieces)):
        assert [end for _, end, _ in code.co_lines()][-1] == len(code.co_code)


def test_pieces_bear_being_traced() -> None:
    made = definitions(GENERATED, decorate=lambda cls: cls)
    assert made is not None
    seen: list[str] = []

    def trace(frame: types.FrameType, event: str, _: object) -> Any:
        seen.append(f"{event} {frame.f_code.co_name} {frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        made.get("First")
        made.get("Second")
    finally:
        sys.settrace(before)
    assert any(line.startswith("call Second") for line in seen)


def test_threads_that_ask_at_once_get_the_same_class() -> None:
    made = definitions(GENERATED, decorate=lambda cls: cls)
    assert made is not None
    got: list[type] = []
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        got.append(made.get("First"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len(set(got)) == 1
