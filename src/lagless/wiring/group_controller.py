"""The controller of members that lagless did not write, on real parts."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from threading import Event

from lagless import extras
from lagless.controller.group import metrics
from lagless.controller.group.group_state import GroupPolicy
from lagless.controller.group.service import GroupService
from lagless.controller.state import Pack
from lagless.group_ports import Scaler
from lagless.settings import Settings
from lagless.wiring import controller, scaling
from lagless.wiring.clock import RealClock
from lagless.wiring.compiling import ready_at_once

with extras.needed("kafka"):
    from lagless.adapters import endpoints
    from lagless.adapters.kafka.plan_mail import PlanMailbox
    from lagless.adapters.kafka.planned_group import PlannedGroup


def policy(settings: Settings) -> GroupPolicy:
    """Return the policy that the settings ask for."""
    tuned, members = settings.controller, settings.members
    return GroupPolicy(
        packing=controller.policy(settings),
        rate=members.rate,
        share=1 - tuned.rebalance / tuned.iteration,
        follow_deadline=members.follow_deadline,
        scales=settings.provisioner.kind != "none",
        ordered=settings.provisioner.kind == "statefulset",
        to_zero=settings.provisioner.scale_to_zero,
        blind=max(30.0, 5 * members.look),
    )


def run(
    settings: Settings, ending: Event, tell: Callable[[str], None], starts: Scaler | None = None
) -> None:
    """Lead, or stand by to lead, until `ending` is set.

    `starts` takes the place of the scaler that the settings name.
    """
    with ready_at_once(controller.algorithm(settings)) as pack:
        _lead(settings, starts or scaling.scaler(settings), pack, ending, tell)


def _lead(
    settings: Settings,
    starts: Scaler | None,
    pack: Pack,
    ending: Event,
    tell: Callable[[str], None],
) -> None:
    chosen = policy(settings)
    chosen = replace(chosen, packing=replace(chosen.packing, pack=pack))
    record = metrics.GroupRecord(chosen)
    clock = RealClock(ending)
    registry = endpoints.registry(metrics.METRICS, lambda: record, clock.now)
    endpoint = endpoints.serve(settings.controller.metrics_port, registry, lambda: "", tell=tell)
    try:
        while not ending.is_set():
            mailbox = PlanMailbox(settings, ending.is_set)
            with closing(mailbox), closing(PlannedGroup(settings)) as members:
                service = GroupService(
                    mailbox, members, clock, chosen, starts, record, look=settings.members.look
                )
                controller.take_turn(service, clock, ending, tell)
    finally:
        endpoint.close()
