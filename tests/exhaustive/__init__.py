"""Every state, not only random ones: the real machines in a small world, searched in full.

Two partitions, at most two consumers at a time, and one controller that leads while another may
still think that it does. What decides is the real code: `controller.machine.step`, the consumer's
service with its orders, claims and cycle, and the rules of the simulated tables.

    states      a state as a value, and the pool of its parts
    leader      turns of the real controller, with time in coarse steps
    follower    steps of the real consumer
    group       what a turn and a step change in the world
    faults      what can go wrong
    moves       what can happen next, what must never be, and the fair way to rest
    canon       one name for states that differ in names only
    search      breadth first, and from each state to rest
    story       a path for people to read
    witnesses   with which faults each guard is missed

As a command: python -m tests.exhaustive
"""
