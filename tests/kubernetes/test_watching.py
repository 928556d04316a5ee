"""A copy that is told of the same objects in another order than they came about."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import watch

from lagless.adapters.kubernetes.pod_watch import Followed
from tests.waiting import until


def found(version: int, uid: str, name: str = "consumer-1") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}}


class Cluster:
    """What an API server answers: one list, then one watch."""

    def __init__(self, listed: list[dict[str, Any]], *events: tuple[str, Any]) -> None:
        self.listed, self.events = listed, events
        self.resource_version = "0"
        self.stop = lambda: None
        self.meanwhile: dict[str, Any] | None = None
        self.followed = Followed("Deployments", self.answer)

    def answer(self, **_: Any) -> dict[str, Any]:
        if self.meanwhile is not None:
            self.followed.note(self.meanwhile)
        return {"metadata": {"resourceVersion": "1"}, "items": self.listed}

    def stream(self, *_: Any, **__: Any) -> Iterator[dict[str, Any] | None]:
        for kind, thing in self.events:
            yield {"type": kind, "object": thing} if thing else None

    def uids(self) -> list[str]:
        return [thing["metadata"]["uid"] for thing in self.followed.objects()]


def told(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> list[str]:
    monkeypatch.setattr(watch, "Watch", lambda: cluster)
    cluster.followed._watch("1")
    return cluster.uids()


def test_what_was_just_made_replaces_one_whose_end_was_not_told_yet() -> None:
    cluster = Cluster([found(5, "old")])
    cluster.followed._relist()
    cluster.followed.note(found(9, "new"))
    assert cluster.uids() == ["new"]


@pytest.mark.parametrize("late", ["MODIFIED", "DELETED"])
def test_late_news_of_the_former_one_change_nothing(
    late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster([found(5, "old")], (late, found(7, "old")))
    cluster.followed._relist()
    cluster.followed.note(found(9, "new"))
    assert told(monkeypatch, cluster) == ["new"]


def test_an_end_that_is_told_in_its_turn_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([found(5, "old")], ("DELETED", found(7, "old")))
    cluster.followed._relist()
    assert told(monkeypatch, cluster) == []


def test_what_is_made_while_a_list_is_on_its_way_is_kept() -> None:
    cluster = Cluster([found(5, "old"), found(4, "other", "consumer-2")])
    cluster.followed._relist()
    cluster.meanwhile = found(9, "new")
    cluster.followed._relist()
    assert sorted(cluster.uids()) == ["new", "other"]


def test_what_a_new_list_lacks_is_gone_even_where_versions_started_over() -> None:
    cluster = Cluster([found(500, "old")])
    cluster.followed._relist()
    cluster.listed = []
    cluster.followed._relist()
    assert cluster.uids() == []


def test_after_a_watch_that_was_cut_off_all_is_listed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster([found(5, "old")], ("cut off", None))
    monkeypatch.setattr(watch, "Watch", lambda: cluster)
    cluster.followed.start()
    assert cluster.uids() == ["old"]
    cluster.listed = [found(6, "other")]
    until(lambda: cluster.uids() == ["other"], "a new list", 30)
    cluster.followed.stop()
