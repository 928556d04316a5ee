"""`lagless rejects --retry` in processes that are killed between its steps: Avro, in a bucket."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lagless.adapters.lake import store
from tests.adapters.wrong_registry import WrongRegistry

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker
    from lagless.lab.parts.connect import ConnectServer
    from lagless.lab.parts.object_store import ObjectStore
    from tests.lake.conftest import Send

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.s3, pytest.mark.slow]
ORDER_ID = {"name": "id", "type": "int"}
ORDER = {"type": "record", "name": "Order", "fields": [ORDER_ID]}


def framed(number: int, value: int) -> bytes:
    return b"\0" + number.to_bytes(4) + bytes([2 * value])


def test_a_schema_that_was_missing_and_retries_that_are_killed_leave_each_record_once(
    broker: "Broker",
    connect: "ConnectServer",
    s3: "ObjectStore",
    bucket: str,
    send: "Send",
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    from tests.lake.bench import Bench

    name, group = topic(partitions=2), f"group-{bucket}"
    lake, storage = f"s3://{bucket}/lake", {"endpoint": s3.url}
    with WrongRegistry() as registry:
        registry.schemas[1] = {"schema": json.dumps(ORDER)}
        for partition in (0, 1):
            send(name, [framed(1, 1), framed(2, 2), b"broken", framed(2, 3)], partition)
        settings = {"format": "avro", "evolve": True}
        one = Bench(
            broker.bootstrap, connect.url, lake, group, name, settings, registry.url, storage
        )
        one.drain()
        place = store.of(one.settings.lake).inside(name)
        rejects = store.of(one.settings.lake).inside(f"{name}_rejected")

        def offsets(table: store.Store) -> list[tuple[int, int]]:
            rows = table.table().to_pyarrow_table(columns=["_partition", "_offset"]).to_pylist()
            return sorted((row["_partition"], row["_offset"]) for row in rows)

        def every(*some: int) -> list[tuple[int, int]]:
            return [(partition, offset) for partition in (0, 1) for offset in some]

        assert (offsets(place), offsets(rejects)) == (every(0), every(1, 2, 3))
        config = tmp_path / "lagless.toml"
        config.write_text(
            f'group = "{group}"\ntopics = ["{name}"]\n'
            f'[kafka]\nbootstrap = "{broker.bootstrap}"\n[spark]\nurl = "{connect.url}"\n'
            f'[lake]\npath = "{lake}"\n[lake.storage]\nendpoint = "{s3.url}"\n'
            f'[registry]\nurl = "{registry.url}"\n'
            f'[topic."{name}"]\nformat = "avro"\nevolve = true\n'
        )

        def retry(point: str = "none", times: int = 1) -> dict[str, Any]:
            command = [sys.executable, "-m", "tests.chaos.victim", point, str(times), "rejects"]
            command += [name, "--retry", "--json", "--config", str(config)]
            root = Path(__file__).parents[2]
            ended = subprocess.run(command, capture_output=True, cwd=root, check=False, timeout=300)
            assert ended.returncode == (0 if point == "none" else -signal.SIGKILL), ended.stderr
            told: dict[str, Any] = json.loads(ended.stdout or "{}")
            return told

        # The registry has it now.
        wider = {**ORDER, "fields": [ORDER_ID, {"name": "n", "type": ["null", "int"]}]}
        registry.schemas[2] = {"schema": json.dumps(ORDER)}
        registry.schemas[3] = {"schema": json.dumps(wider)}
        retry("retry-planned")
        assert (offsets(place), offsets(rejects)) == (every(0), every(1, 2, 3))
        retry("retry-landed")
        assert offsets(place) == [(0, 0), (0, 1), (0, 3), (1, 0)]
        assert offsets(rejects) == every(1, 2, 3)
        # First those of partition 0 are deleted, then those of partition 1.
        retry("retry-deleted", 2)
        assert (offsets(place), offsets(rejects)) == (every(0, 1, 3), every(2))
        told = retry()
        assert (told["read"], told["landed"], told["rows"]) == (2, 0, 0)
        assert told["still"] == {"no schema id before the value": 2}
        assert (offsets(place), offsets(rejects)) == (every(0, 1, 3), every(2))
        rows = place.table().to_pyarrow_table(columns=["_offset", "id"]).to_pylist()
        assert {(row["_offset"], row["id"]) for row in rows} == {(0, 1), (1, 2), (3, 3)}
        # The consumer goes on where it was.
        send(name, [framed(3, 4) + b"\2\x0a"])
        one.drain()
        assert offsets(place) == sorted([*every(0, 1, 3), (0, 4)])
        assert (
            sorted(place.table().to_pyarrow_table(columns=["n"])["n"].to_pylist(), key=str)[0] == 5
        )
