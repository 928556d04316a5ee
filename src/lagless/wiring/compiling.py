"""Packing that does not wait for a compiler, nor for a library to load.

The first time on a machine, compiling the kernels of an algorithm takes up to half a minute. A
child process does it, behind everything else, and leaves the result in the cache folder. Until then
another child, which has loaded everything before it is asked, runs the same code uncompiled. That
gives the same answers, a few hundred times more slowly: some seconds for a thousand partitions.

Loading numba and compiled kernels takes seconds on a busy machine, too, and the controller would
hear nothing meanwhile: a thread loads them, and only then does the controller use them itself.
"""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lagless import packing
from lagless.controller.state import Pack
from lagless.model import Assignment, Speeds

log = logging.getLogger(__name__)
COMPILE = "import os, sys, lagless; os.nice(10); lagless.pack({0: 1.0}, 1.0, algorithm=sys.argv[1])"
PACK = """
import json, sys, lagless
spec = sys.argv[1]
lagless.pack({0: 1.0}, 1.0, algorithm=spec)
for question in sys.stdin:
    capacity, speeds, previous = json.loads(question)
    before = {i: n for i, n in enumerate(previous) if n is not None}
    print(json.dumps(list(lagless.pack(dict(enumerate(speeds)), capacity, before, spec).values())))
    sys.stdout.flush()
"""


def pack_by(spec: str) -> Pack:
    """Return a packing algorithm in the machine's form."""
    packing.algorithm(spec)  # a wrong name is wrong settings now, not at the first measurement

    def pack(weights: Speeds, capacity: float, previous: Assignment) -> Assignment:
        return packing.pack(weights, capacity, previous, spec) if weights else {}

    return pack


@contextmanager
def uncompiled(spec: str) -> Iterator[Pack]:
    """Return the same algorithm, run by a child process without compiled kernels."""
    words = ["env", "NUMBA_DISABLE_JIT=1", sys.executable, "-c", PACK, spec]
    pipe = subprocess.PIPE
    child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    questions, answers = child.stdin, child.stdout
    assert questions is not None
    assert answers is not None

    def pack(weights: Speeds, capacity: float, previous: Assignment) -> Assignment:
        if not weights:
            return {}
        before = [previous.get(p) for p in weights]
        try:
            print(
                json.dumps([capacity, list(weights.values()), before]), file=questions, flush=True
            )
            return dict(zip(weights, json.loads(answers.readline()), strict=True))
        except (OSError, ValueError) as error:
            log.warning("cannot pack without compiled kernels: %s", error)
            return pack_by(spec)(weights, capacity, previous)

    try:
        yield pack
    finally:
        child.kill()
        child.communicate()


@contextmanager
def ready_at_once(spec: str) -> Iterator[Pack]:
    """Compile an algorithm in the background; return it in a form that never waits for that."""
    compiled = pack_by(spec)
    child = subprocess.Popen([sys.executable, "-c", COMPILE, spec], stderr=subprocess.DEVNULL)
    loaded = threading.Event()

    def load() -> None:
        if child.wait() == 0:
            packing.pack({0: 1.0}, 1.0, None, spec)
            loaded.set()

    with uncompiled(spec) as slow:

        def pack(weights: Speeds, capacity: float, previous: Assignment) -> Assignment:
            chosen = compiled if loaded.is_set() else slow
            return chosen(weights, capacity, previous)

        threading.Thread(target=load, name="kernels", daemon=True).start()
        try:
            yield pack
        finally:
            child.kill()
            child.wait()
