"""Any measurement that the models allow, sensible or not, drawn from the models' own fields."""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MinLen
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fleet.bench.folder import AskedCost
from fleet.bench.measurement import Distribution, Gpus, Histogram, ServerTimeline, Timeline

WORDS = st.sampled_from(
    ["", "connection", "timeout", "http 503", "http", "open files", "512", "x", "random-prefix-len"]
)
INTEGERS = st.one_of(st.integers(-1, 5), st.integers(-(10**30), 10**30))
FLOATS = st.one_of(st.floats(-2, 500), st.floats())
FINITE = st.one_of(st.floats(-2, 500), st.floats(allow_nan=False, allow_infinity=False))
"""What the pods' own files may say; the merged figures may be of any kind."""

_UNREAD: dict[Any, BaseModel] = {
    ServerTimeline: ServerTimeline(at=(), running=(), waiting=(), kv_mean=(), kv_max=()),
    Gpus: Gpus(readings=(), timeline=None, watt_hours_per_million_tokens=None),
    AskedCost: AskedCost(usd_per_hour=1.0, at_least=False, capacity="spot"),
}
"""What no check reads, as one thing: drawing it takes most of the time."""


def _timeline(rates: list[float]) -> Timeline:
    values = tuple(rates)
    at = tuple(float(second) for second in range(len(rates)))
    return Timeline(at=at, total_tokens_per_s=values, output_tokens_per_s=values, in_flight=values)


def _distribution(p50: float) -> Distribution:
    names = ("mean", "std", "min", "p10", "p50", "p90", "p95", "p99", "p999", "max")
    values: dict[str, Any] = dict.fromkeys(names, p50)
    return Distribution(count=1, histogram=Histogram(edges=(0.0, 1.0), counts=(1,)), **values)


@cache
def any_of(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Every field drawn by its own type."""
    unbounded = model.model_config.get("allow_inf_nan", True)
    fields = {name: _field(info, unbounded) for name, info in model.model_fields.items()}
    return st.fixed_dictionaries(fields).map(lambda drawn: model(**drawn))


def _field(info: FieldInfo, unbounded: bool) -> st.SearchStrategy[Any]:
    least = next((int(one.ge) for one in info.metadata if isinstance(one, Ge)), None)  # type: ignore[call-overload]
    most = next((int(one.le) for one in info.metadata if isinstance(one, Le)), 10**30)  # type: ignore[call-overload]
    length = next((one.min_length for one in info.metadata if isinstance(one, MinLen)), 0)
    return _type(info.annotation, unbounded, least, length, most)


def _type(
    kind: Any, unbounded: bool, least: int | None = None, length: int = 0, most: int = 10**30
) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, UnionType):
        return st.one_of(*(_type(one, unbounded) for one in inner))
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return st.lists(_type(inner[0], unbounded), min_size=length, max_size=max(2, length)).map(tuple)
        return st.tuples(*(_type(one, unbounded) for one in inner))
    if origin is dict:
        return st.dictionaries(WORDS, _type(inner[1], unbounded), max_size=2)
    if kind in _UNREAD:
        return st.just(_UNREAD[kind])
    if kind is Timeline:
        return st.lists(FLOATS, max_size=9).map(_timeline)
    if kind is Distribution:
        return st.builds(_distribution, FLOATS)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return st.deferred(lambda: any_of(kind))
    if kind is int and least is not None:
        return st.one_of(st.integers(least, min(least + 3, most)), st.integers(least, most))
    return {
        str: WORDS,
        int: INTEGERS,
        float: FLOATS if unbounded else FINITE,
        bool: st.booleans(),
        NoneType: st.none(),
    }[kind]
