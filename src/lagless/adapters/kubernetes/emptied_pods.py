"""Which pods of the user's workload may go: those that the plan leaves without work. No I/O.

Kafka names a member by its group.instance.id, its client id and the address that it connects from;
Kubernetes names a pod by its name and its address.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lagless.group_ports import GroupMember

COST = "controller.kubernetes.io/pod-deletion-cost"
IDLE = "-1000"
"""The cost of deleting a pod without work; others cost 0. The lowest go first."""
_ORDINAL = re.compile(r"-(\d+)$")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the workload, as it is now."""

    name: str
    address: str = ""
    ready: bool = True
    cost: str = ""
    """The value of its annotation COST; "" if it has none."""

    @property
    def ordinal(self) -> int:
        """Return its number in a StatefulSet."""
        found = _ORDINAL.search(self.name)
        return int(found[1]) if found else -1


def of(members: Iterable[GroupMember], pods: Sequence[Pod]) -> frozenset[str]:
    """Return the names of the pods that these members run in, where that is certain."""
    # Pods with the node's network share its address.
    shared = Counter(pod.address for pod in pods)
    found = set()
    for member in members:
        named = [p for p in pods if any(_names(text, p.name) for text in _texts(member))]
        address = member.host.lstrip("/")
        placed = [p for p in pods if p.address and p.address == address and shared[address] == 1]
        for fitting in (named, placed):
            if len(fitting) == 1:
                found.add(fitting[0].name)
                break
    return frozenset(found)


def _texts(member: GroupMember) -> tuple[str, ...]:
    return member.instance, member.client, member.host


def _names(text: str, pod: str) -> bool:
    """Return whether a text contains a pod's name as a whole: `a-1` is not in `a-12`."""
    return re.search(rf"(?<![a-z0-9]){re.escape(pod)}(?![a-z0-9])", text) is not None


def marks(pods: Iterable[Pod], idle: Collection[str]) -> dict[str, str | None]:
    """Return the annotation COST for each pod that needs another one; None removes it.

    A cost that somebody else gave to a pod stays, unless the pod has no work.
    """
    changes: dict[str, str | None] = {}
    for pod in pods:
        if pod.name in idle and pod.cost != IDLE:
            changes[pod.name] = IDLE
        elif pod.name not in idle and pod.cost == IDLE:
            changes[pod.name] = None
    return changes


def removable(pods: Iterable[Pod], idle: Collection[str], ordered: bool) -> int:
    """Return how many pods can go without one that has work.

    Kubernetes takes pods that are not ready first, then those that cost least; of a StatefulSet it
    takes the highest ordinals, whatever they do.
    """
    if not ordered:
        return sum(pod.name in idle or not pod.ready for pod in pods)
    count = 0
    for pod in sorted(pods, key=lambda pod: pod.ordinal, reverse=True):
        if pod.ready and pod.name not in idle:
            break
        count += 1
    return count


def replicas(current: int, size: int, removable: int) -> int:
    """Return the number of replicas to ask for: no pod that has work may go."""
    return size if size >= current else max(size, current - removable)
