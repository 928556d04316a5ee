"""Settings of a group that shares no topic with another test's."""

import uuid

from lagless.settings import Settings, parse


def own_group(bootstrap: str) -> Settings:
    """Return settings of a group of its own, with its own shared topics."""
    name = f"g{uuid.uuid4().hex[:8]}"
    return parse(
        {
            "group": name,
            "topics": ["orders"],
            "lake": {"path": "lake"},
            "kafka": {"bootstrap": bootstrap},
            "monitor": {"topic": f"{name}-speeds"},
            "controller": {"metadata_topic": f"{name}-mail"},
        }
    )
