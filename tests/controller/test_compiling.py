"""Packing while kernels are still being compiled: the same answers, and nobody waits."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from lagless.errors import WrongInput
from lagless.model import TopicPartition
from lagless.wiring import compiling
from tests.waiting import until


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["sticky:slack=0.1", "mbfp"])
def test_uncompiled_kernels_give_the_same_answers(spec: str) -> None:
    rng = np.random.default_rng(11)
    names = [TopicPartition("orders", n) for n in rng.permutation(120)]
    compiled = compiling.pack_by(spec)
    before: dict[TopicPartition, int] = {}
    with compiling.uncompiled(spec) as uncompiled:
        for _ in range(2):
            rates = map(float, rng.uniform(0, 60, len(names)))
            speeds = dict(zip(names, rates, strict=True))
            answer = uncompiled(speeds, 100.0, before)
            assert answer == compiled(speeds, 100.0, before)
            before = dict(answer)
        assert uncompiled({}, 100.0, {}) == {}


@pytest.mark.slow
def test_the_first_packing_on_a_machine_does_not_wait_for_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = tmp_path / "kernels"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cold))
    speeds = {TopicPartition("orders", n): 10.0 * n for n in range(8)}
    with compiling.ready_at_once("sticky:slack=0.05") as pack:
        began = time.monotonic()
        answer = pack(speeds, 100.0, {})
        first = time.monotonic() - began
        until(lambda: any(cold.rglob("*.nbc")) and not _compiles(), "compiled kernels", 300)
        whole = time.monotonic() - began
    assert answer == compiling.pack_by("sticky:slack=0.05")(speeds, 100.0, {})
    assert first < whole


def test_a_helper_that_ended_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "PACK", "")
    with compiling.uncompiled("wf") as pack:
        assert pack({TopicPartition("orders", 0): 1.0}, 100.0, {}) == {
            TopicPartition("orders", 0): 1
        }


def _compiles() -> bool:
    import psutil  # type: ignore[import-untyped]  # it ships no types

    return any(
        compiling.COMPILE in (child.cmdline() if child.status() != psutil.STATUS_ZOMBIE else [])
        for child in psutil.Process(os.getpid()).children()
    )


def test_a_wrong_algorithm_is_named_at_once() -> None:
    with pytest.raises(WrongInput, match="unknown"), compiling.ready_at_once("unknown"):
        pass
