from __future__ import annotations

import pytest

from lab.cloud.pod_needs import GIB, Amounts, PodNeeds, quantity
from tests.lab.cloud.fake_world import gpu_pod, needs, pod


@pytest.mark.parametrize(
    ("text", "value"), [("500m", 0.5), ("64Gi", 64 * GIB), (8, 8.0), ("1.5", 1.5), (None, 0.0), ("2k", 2000.0)]
)
def test_quantities_are_read_in_their_base_unit(text: object, value: float) -> None:
    assert quantity(text) == pytest.approx(value)


def test_what_is_no_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="not a supported quantity"):
        quantity("eight")


def test_containers_add_up_and_a_larger_init_container_counts_instead() -> None:
    one = pod("a", {"cpu": "2", "memory": "4Gi"})
    one["spec"]["containers"].append({"name": "b", "resources": {"requests": {"cpu": "1"}}})
    one["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": "500m", "memory": "9Gi"}}}]
    assert needs(one).amounts == Amounts(cpu_milli=3000, memory_bytes=9 * GIB)


def test_an_init_container_that_starts_again_adds_to_all_that_come_after_it() -> None:
    one = pod("a", {"cpu": "2", "memory": "4Gi"})
    beside = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    one["spec"]["initContainers"] = [beside, {"name": "i", "resources": {"requests": {"cpu": "500m", "memory": "9Gi"}}}]
    assert needs(one).amounts == Amounts(cpu_milli=3000, memory_bytes=10 * GIB)


def test_limits_count_where_no_requests_are_written() -> None:
    one = pod("a", {})
    one["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    assert needs(one).amounts.gpus == 8


def test_pods_of_one_deployment_have_equal_needs() -> None:
    assert needs(gpu_pod("server-0")) == needs(gpu_pod("server-1"))


def test_amounts_survive_the_way_into_a_node_and_back() -> None:
    whole = Amounts(cpu_milli=221_870, memory_bytes=3968 * GIB, ephemeral_bytes=10**13, gpus=8, pods=24)
    assert Amounts.of_resources(whole.as_resources()) == whole


def test_a_selector_must_be_met_label_by_label() -> None:
    wanted = PodNeeds(amounts=Amounts(), selector=(("a", "1"), ("b", "2")))
    assert wanted.unmet({"a": "1", "b": "2", "c": "3"}) == ""
    assert "b: 2" in wanted.unmet({"a": "1"})


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        (("family", "In", ("c4", "c3")), True),
        (("family", "In", ("n4",)), False),
        (("family", "NotIn", ("n4",)), True),
        (("family", "Exists", ()), True),
        (("other", "Exists", ()), False),
        (("other", "DoesNotExist", ()), True),
        (("cores", "Gt", ("8",)), True),
        (("cores", "Lt", ("8",)), False),
    ],
)
def test_node_affinity_is_read_as_the_scheduler_reads_it(
    expression: tuple[str, str, tuple[str, ...]], met: bool
) -> None:
    wanted = PodNeeds(amounts=Amounts(), affinity=((expression,),))
    assert (wanted.unmet({"family": "c4", "cores": "16"}) == "") is met


def test_one_affinity_term_of_several_is_enough_and_names_no_value_for_all() -> None:
    terms = ((("family", "In", ("c4",)),), (("family", "In", ("c3",)),))
    wanted = PodNeeds(amounts=Amounts(), affinity=terms)
    assert wanted.unmet({"family": "c3"}) == ""
    assert wanted.wanted("family") is None
    assert PodNeeds(amounts=Amounts(), affinity=terms[:1]).wanted("family") == "c4"


def test_a_volume_ties_a_pod_to_its_zone() -> None:
    wanted = PodNeeds(amounts=Amounts(), volume_zones=frozenset({"europe-west4-b"}))
    assert wanted.unmet({"topology.kubernetes.io/zone": "europe-west4-b"}) == ""
    assert "europe-west4-b" in wanted.unmet({"topology.kubernetes.io/zone": "europe-west4-a"})


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (("gpu", "Equal", "present", "NoSchedule"), True),
        (("gpu", "Equal", "present", ""), True),
        (("gpu", "Equal", "absent", "NoSchedule"), False),
        (("gpu", "Exists", "", ""), True),
        (("", "Exists", "", ""), True),
        (("gpu", "Equal", "present", "NoExecute"), False),
        (("cpu", "Exists", "", ""), False),
    ],
)
def test_tolerations_are_read_as_the_scheduler_reads_them(
    toleration: tuple[str, str, str, str], tolerates: bool
) -> None:
    wanted = PodNeeds(amounts=Amounts(), tolerations=(toleration,))
    assert wanted.tolerates(("gpu", "present", "NoSchedule")) is tolerates


def test_a_preference_keeps_nobody_away() -> None:
    assert PodNeeds(amounts=Amounts()).untolerated([("a", "b", "PreferNoSchedule")]) is None
