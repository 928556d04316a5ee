"""The controller without I/O: step(state, event, policy) gives the next state and instructions.

Rules
 1. Time is in the events. The same events give the same instructions.
 2. Every instruction may be lost, and may be given twice without harm: it is given again until
    what it asks for is seen.
 3. Orders carry the generation. Any change of mind is a new generation, persisted with the orders.
 4. An order names the incarnation that it means. An incarnation that is over is never ordered
    anything but to end, and nothing that it says counts but the generation that it knows.
 5. A partition is started only when no other member holds it or has an open order for it.
 6. A start is confirmed by "held under its generation", a stop by "not held" from someone who
    knows its generation: then no older order can undo it.
 7. What is older than the last word of the same incarnation is a sign of life and no news.
 8. An order without receipt is sent again every `repeat` seconds, in the same generation.
 9. What a member says is the truth. If it is not what was believed, Synchronize: a new generation,
    a report from every member under it, and nothing is moved before all have answered or are lost.
10. Silence counts only while the mailbox is heard: after the controller's own start, pause or
    outage everyone has a full deadline.
11. Who waits for Spark, Kafka or the lake is late through no fault of its own, and not lost.
12. A number is given to a new consumer only when what ran under it is gone.
13. Nobody is taken away on measurements that are stale or missing.
14. A stop is ordered only when the new consumer is ready to start.
15. Consumers are deleted only when they hold nothing and have no open order, or are over.
"""

from dataclasses import replace

from lagless import messages
from lagless.controller import facts, learning, membership, provisioning, turns, wording
from lagless.controller.events import Deaf, Event, Instruction, Mail, Persist, Provisioned
from lagless.controller.facts import Phase, Policy, State
from lagless.errors import GiveUp

STRIDE = 1000
"""Generations to go past what consumers know when the own state was lost."""
CONTRADICTION = "what consumers report is not what is believed"

TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.SYNCHRONIZE, "all have reported or are lost"): Phase.SENTINEL,
    (Phase.SENTINEL, "a partition has no consumer"): Phase.REASSIGN,
    (Phase.SENTINEL, "a partition has two consumers"): Phase.REASSIGN,
    (Phase.SENTINEL, "a consumer is lost"): Phase.REASSIGN,
    (Phase.SENTINEL, "a consumer has more than its capacity"): Phase.REASSIGN,
    (Phase.SENTINEL, "partitions appeared"): Phase.REASSIGN,
    (Phase.SENTINEL, "partitions went"): Phase.REASSIGN,
    (Phase.SENTINEL, "the interval is up"): Phase.REASSIGN,
    (Phase.REASSIGN, "a new assignment"): Phase.MANAGEMENT,
    (Phase.REASSIGN, "nothing to change"): Phase.SENTINEL,
    (Phase.MANAGEMENT, "everyone holds what it should"): Phase.SENTINEL,
    (Phase.MANAGEMENT, "a consumer is lost"): Phase.REASSIGN,
    (Phase.MANAGEMENT, "partitions appeared"): Phase.REASSIGN,
    (Phase.MANAGEMENT, "partitions went"): Phase.REASSIGN,
    (Phase.SYNCHRONIZE, CONTRADICTION): Phase.SYNCHRONIZE,
    (Phase.SENTINEL, CONTRADICTION): Phase.SYNCHRONIZE,
    (Phase.MANAGEMENT, CONTRADICTION): Phase.SYNCHRONIZE,
}
"""The paper's figure "Controller State Machine"; the diagram in the docs is made from this."""


def begin(persisted: messages.ControllerState | None, at: float) -> State:
    """Begin with what was persisted, in Synchronize."""
    return facts.begin(persisted, at)


def step(state: State, event: Event, policy: Policy) -> tuple[State, list[Instruction]]:
    """Take one event in; give the next state, and the instructions that follow from it."""
    before = state
    state = _pass_time(state, event, policy)
    state = learning.learn(state, event, policy)
    if isinstance(event, Mail) and _is_quiet(before, state):
        return state, []
    state, out = _judge(state, policy, len(before.lost))
    if isinstance(event, Provisioned):
        out += _troubles(before, state, policy)
    state, moved = _run(state, policy)
    out += moved
    if state.phase is not Phase.SYNCHRONIZE:
        state, managed = provisioning.manage(state, policy)
        out += managed
    state, farewells = provisioning.retire(state, policy)
    out += farewells
    if facts.must_persist(before, state) or before.at == before.began_at:
        out.append(Persist(facts.persisted(state, policy.group)))
    return state, out


def _pass_time(state: State, event: Event, policy: Policy) -> State:
    at = max(state.at, event.at)
    if is_break(state, event, policy):
        return replace(state, at=at, hearing_since=at)
    return replace(state, at=at)


def is_break(state: State, event: Event, policy: Policy) -> bool:
    """Say whether the controller did not hear the mailbox for a while (rule 10)."""
    return isinstance(event, Deaf) or event.at - state.at > policy.max_gap


def _is_quiet(before: State, after: State) -> bool:
    """Say whether mail brought signs of life only, so that there is nothing to decide."""
    if after.contradiction or after.retired or before.members.keys() != after.members.keys():
        return False
    return all(
        b.revision == a.revision and b.ready == a.ready and b.asked == a.asked
        for b, a in zip(before.members.values(), after.members.values(), strict=True)
        if b is not a
    )


def _judge(state: State, policy: Policy, known: int) -> tuple[State, list[Instruction]]:
    """Find who is lost and who never started; `known` of them were told before."""
    for n, member in list(state.members.items()):
        reason = membership.why_lost(state, member, policy)
        if reason:
            state = membership.lose(state, n, reason)
    for n, request in list(state.requests.items()):
        reason = membership.why_not_ready(state, n, request, policy)
        if reason and state.phase is not Phase.SYNCHRONIZE:
            state = learning.fail(state, n, f"consumer {n} did not start: {reason}", policy)
    return state, [wording.say(state, policy, "lost", reason) for reason in state.lost[known:]]


def _troubles(before: State, after: State, policy: Policy) -> list[Instruction]:
    """Say what keeps instances from starting that may still start, a pod without room say."""
    known = {n: instance.trouble for n, instance in (before.instances or {}).items()}
    return [
        wording.say(
            after, policy, "warning", f"consumer {n} does not start: {found.trouble}", consumer=n
        )
        for n, found in (after.instances or {}).items()
        if found.phase == "starting" and found.trouble not in ("", known.get(n))
    ]


def _run(state: State, policy: Policy) -> tuple[State, list[Instruction]]:
    """Go through phases until one stays; at most once around."""
    out: list[Instruction] = []
    rested = False
    while not rested:
        if state.contradiction:
            turn = turns.Turn(state, [], CONTRADICTION, state.contradiction)
        else:
            turn = turns.PHASES[state.phase](state, policy)
        state = turn.state
        out += turn.out
        if turn.cause is None:
            return state, out
        after = move(state, turn.cause)
        rested = after.phase is Phase.SENTINEL
        if turn.cause not in ("nothing to change", "the interval is up"):
            out.append(
                wording.say(after, policy, "phase", turn.reason or turn.cause, cause=turn.cause)
            )
        state = after
    return state, out


def move(state: State, cause: str) -> State:
    """Go to the phase that the cause leads to; a cause that is not in the table is a mistake."""
    phase = TRANSITIONS.get((state.phase, cause))
    if phase is None:
        raise GiveUp(
            f"the controller cannot leave {state.phase.value} because {cause!r} "
            f"(generation {state.generation}, members {sorted(state.members)})"
        )
    if phase is not Phase.SYNCHRONIZE:
        return replace(state, phase=phase)
    highest = max(state.generation, state.known)
    # What was lost with the state may have been ahead of what consumers have heard of.
    generation = highest + (STRIDE if state.knew_nothing else 1)
    return replace(
        state,
        phase=phase,
        generation=generation,
        fence=generation,
        synchronizing_since=state.at,
        contradiction="",
        members={
            n: replace(m, asked={}, reported_at=float("-inf")) for n, m in state.members.items()
        },
    )
