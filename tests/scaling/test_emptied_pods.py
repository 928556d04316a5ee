"""Which pods may go: never one whose member has work."""

from hypothesis import given
from hypothesis import strategies as st

from lagless.adapters.kubernetes import emptied_pods
from lagless.adapters.kubernetes.emptied_pods import IDLE, Pod
from lagless.group_ports import GroupMember

PODS = [Pod("orders-1", "10.0.0.1"), Pod("orders-2", "10.0.0.2"), Pod("orders-12", "10.0.0.12")]


def found(instance: str = "", client: str = "", host: str = "") -> frozenset[str]:
    return emptied_pods.of([GroupMember("drawn", instance, client, host)], PODS)


def test_a_pod_is_found_by_name_or_by_address() -> None:
    assert found(instance="orders-1") == {"orders-1"}
    assert found(client="reader-orders-12-0") == {"orders-12"}
    assert found(host="/10.0.0.2") == {"orders-2"}
    assert found(instance="c-1", client="rdkafka", host="/10.0.0.12") == {"orders-12"}


def test_where_it_is_not_certain_no_pod_is_found() -> None:
    assert found(instance="orders", host="/10.9.9.9") == frozenset()
    assert found(instance="orders-1 orders-2") == frozenset()
    assert found() == frozenset()
    on_one_node = [Pod("a", "10.0.0.1"), Pod("b", "10.0.0.1")]
    assert emptied_pods.of([GroupMember("m", host="/10.0.0.1")], on_one_node) == frozenset()


def test_only_pods_whose_work_changed_are_marked_and_costs_of_others_stay() -> None:
    pods = [Pod("a"), Pod("b", cost=IDLE), Pod("c", cost=IDLE), Pod("d", cost="7")]
    assert emptied_pods.marks(pods, {"a", "b"}) == {"a": IDLE, "c": None}
    assert emptied_pods.marks(pods, {"b", "c", "d"}) == {"d": IDLE}


fleets = st.integers(0, 12).flatmap(
    lambda count: st.tuples(
        st.lists(st.booleans(), min_size=count, max_size=count),
        st.lists(st.booleans(), min_size=count, max_size=count),
    )
)


@given(fleet=fleets, size=st.integers(0, 15))
def test_a_deployment_never_loses_a_pod_that_works(
    fleet: tuple[list[bool], list[bool]], size: int
) -> None:
    readiness, emptied = fleet
    idle = {f"p-{n}" for n, is_idle in enumerate(emptied) if is_idle}
    pods = [
        Pod(f"p-{n}", ready=ready, cost=IDLE if f"p-{n}" in idle else "")
        for n, ready in enumerate(readiness)
    ]
    wanted = replicas(pods, idle, size, ordered=False)
    # Kubernetes' order: pods that are not ready first, then by cost.
    order = sorted(pods, key=lambda pod: (pod.ready, int(pod.cost or 0)))
    gone = order[: max(0, len(pods) - wanted)]
    assert all(not pod.ready or pod.name in idle for pod in gone)
    works = sum(pod.ready and pod.name not in idle for pod in pods)
    assert wanted == max(size, works), "and everything else goes"


@given(fleet=fleets, size=st.integers(0, 15))
def test_a_stateful_set_loses_its_highest_pods_as_far_as_they_are_free(
    fleet: tuple[list[bool], list[bool]], size: int
) -> None:
    readiness, emptied = fleet
    pods = [Pod(f"orders-{n}", ready=ready) for n, ready in enumerate(readiness)]
    idle = {pod.name for pod, is_idle in zip(pods, emptied, strict=True) if is_idle}
    wanted = replicas(list(reversed(pods)), idle, size, ordered=True)
    assert all(not pod.ready or pod.name in idle for pod in pods[wanted:])
    if size < wanted < len(pods) + 1 and wanted > 0:
        assert pods[wanted - 1].ready
        assert pods[wanted - 1].name not in idle


def replicas(pods: list[Pod], idle: set[str], size: int, *, ordered: bool) -> int:
    return emptied_pods.replicas(
        len(pods), size, emptied_pods.removable(pods, idle, ordered=ordered)
    )
