"""How much of a group's response is still wanted, and what pods are made of."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lagless.errors import WrongInput
from lagless.lab.live import pods, response
from lagless.lab.live.journal import Journal
from lagless.settings import parse


class Saw:
    """A witness of one reassignment and some creations."""

    def __init__(self, created: int = 0) -> None:
        self.created = created

    def take(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        made = [{"generation": 1, "consumer": n, "dt3": 1.0} for n in range(self.created)]
        return [{"generation": 1, "dt4": 0.5}], made


def test_every_scene_goes_on_until_it_has_its_part(tmp_path: Path) -> None:
    size = response.Size(observations=16)
    counts = response.Counts(Journal(tmp_path / "response.json", "response", {}), size, "processes")
    seen = []
    for place in range(len(response.SCENES)):
        passes = 0
        while counts.wants(place):
            counts.take(Saw(), place)  # type: ignore[arg-type]  # all that is asked of a witness
            passes += 1
            if passes > 10:
                break
        seen.append(passes)
    assert seen[:3] == [2, 2, 6]
    assert seen[3] > 10, "the last one goes on while consumers were not created"
    counts.take(Saw(size.creations), 3)  # type: ignore[arg-type]  # as above
    assert not counts.wants(3)
    assert counts.done == counts.total
    assert response.Counts(counts._journal, size, "kubernetes").wants(0), "each has its own"


def test_rounds_on_a_full_node_are_counted_apart(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "response.json", "response", {})
    counts = response.Counts(journal, response.Size(), "kubernetes")
    assert counts.full_rounds == response.FULL
    counts.take(Saw(3), 0, full=True)  # type: ignore[arg-type]  # as above
    assert counts.full_rounds == response.FULL - 1
    assert {one["delta"] for one in journal.all("creations")} == {None}


def test_the_settings_of_the_observed_group_are_settings() -> None:
    tree = {**response.tree(response.Size()), "lake": {"path": "lake"}}
    settings = parse(tree)
    assert settings.capacity == settings.max_rate, "no time is kept back for rebalances"
    assert settings.controller.max_consumers == 20


@pytest.mark.parametrize(("text", "found"), [("2", 2000), ("100m", 100), ("0.5", 500)])
def test_cores_are_read_as_kubernetes_writes_them(text: str, found: int) -> None:
    assert pods._thousandths(text) == found


def test_pods_take_python_from_this_machine(tmp_path: Path) -> None:
    spec = pods.template(tmp_path)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["command"][0] == sys.executable
    mounts = {mount["mountPath"]: mount["readOnly"] for mount in container["volumeMounts"]}
    assert mounts.pop(str(tmp_path)) is False
    assert all(mounts.values()), "nothing else can be written to"
    names = {volume["name"] for volume in spec["volumes"]}
    assert names == {mount["name"] for mount in container["volumeMounts"]}


def node(*addresses: str) -> Any:
    listed = [SimpleNamespace(type="InternalIP", address=address) for address in addresses]
    return SimpleNamespace(status=SimpleNamespace(addresses=listed))


def test_a_cluster_elsewhere_is_left_alone() -> None:
    assert pods._address([node("127.0.0.1")], Path("k")) == "127.0.0.1"
    for nodes in ([node("192.0.2.1")], [node("127.0.0.1"), node("127.0.0.1")], []):
        with pytest.raises(WrongInput, match="that should be this machine"):
            pods._address(nodes, Path("k"))
