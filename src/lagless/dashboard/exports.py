"""The snapshot as JSON, for scripts and for those who read no pages. Pure."""

from dataclasses import asdict
from typing import Any

from lagless.dashboard.snapshot import Block, Snapshot


def document(seen: Snapshot) -> dict[str, Any]:
    """Write what the page shows, without the lines over time."""
    return {
        "version": 1,
        "at": seen.now,
        "group": seen.group,
        "capacity": seen.capacity,
        "max_rate": seen.max_rate,
        "algorithm": seen.algorithm,
        "kafka": {"heard": seen.link.heard, "trouble": seen.link.trouble},
        "speeds_age": seen.speeds_age,
        "phase": seen.phase,
        "controller_age": seen.controller_age,
        "consumers": {
            str(one.consumer): {
                "state": one.condition,
                "load": one.load,
                "lag_seconds": one.lag_seconds,
                "lag_bytes": one.lag_bytes,
                "silence": one.silence,
                "partitions": [_block(block) for block in one.blocks],
            }
            for one in seen.bins
        },
        "unassigned": [_block(block) for block in seen.unassigned],
        "plain_kafka": seen.plain_kafka,
        "reassignments": [asdict(one) for one in seen.reassignments],
        "timings": {one.name: {"last": one.last, "median": one.median} for one in seen.timings},
        "notices": [{"level": notice.level, "text": notice.text} for notice in seen.notices],
    }


def _block(block: Block) -> dict[str, Any]:
    return {
        "topic": block.partition.topic,
        "partition": block.partition.partition,
        "speed": block.speed,
        "target": block.target,
    }
