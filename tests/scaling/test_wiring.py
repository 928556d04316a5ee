"""Which scaler the settings choose, and what the controller makes of it."""

import pytest

from lagless.group_ports import GroupMember
from lagless.settings import Settings, parse
from lagless.wiring import group_controller, scaling


def chosen(kind: str, **more: str) -> Settings:
    document = {"group": "orders", "topics": ["orders"], "members": {"kind": "group"}}
    return parse({**document, "provisioner": {"kind": kind, **more}})


@pytest.mark.parametrize(
    ("settings", "scales", "ordered"),
    [
        (chosen("none"), False, False),
        (chosen("keda"), True, False),
        (chosen("deployment", workload="reader"), True, False),
        (chosen("statefulset", workload="reader"), True, True),
    ],
    ids=lambda value: value.provisioner.kind if isinstance(value, Settings) else str(value),
)
def test_members_are_only_left_without_work_if_something_scales_them(
    settings: Settings, scales: bool, ordered: bool
) -> None:
    policy = group_controller.policy(settings)
    assert (policy.scales, policy.ordered) == (scales, ordered)


def test_without_a_workload_nothing_is_asked_of_kubernetes() -> None:
    assert scaling.scaler(chosen("none")) is None
    elsewhere = scaling.scaler(chosen("keda"))
    assert elsewhere is not None
    assert not elsewhere.ordered
    elsewhere.scale(3, [GroupMember("m")])
