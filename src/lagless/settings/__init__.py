"""The knobs: one typed tree, filled from TOML, the environment and the command line.

Every field has a unit, a default and the reason for it; the reference in the docs is made from
them. Nothing here reads a clock or talks to Kafka.
"""

from lagless.settings.loading import load, parse
from lagless.settings.security import Security
from lagless.settings.tree import (
    ConsumerSettings,
    ControllerSettings,
    DashboardSettings,
    KafkaSettings,
    LakeSettings,
    MonitorSettings,
    ProvisionerSettings,
    Settings,
    SparkSettings,
    TopicSettings,
)

__all__ = [
    "ConsumerSettings",
    "ControllerSettings",
    "DashboardSettings",
    "KafkaSettings",
    "LakeSettings",
    "MonitorSettings",
    "ProvisionerSettings",
    "Security",
    "Settings",
    "SparkSettings",
    "TopicSettings",
    "load",
    "parse",
]
