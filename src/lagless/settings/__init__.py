"""One typed tree of settings, filled from TOML, the environment and the command line.

Every field has a unit, a default and a description, from which the reference page is generated.
No clock is read and no client library is imported here.
"""

from lagless.settings.data import CompactionSettings, KafkaSettings, LakeSettings, TopicSettings
from lagless.settings.loading import load, parse
from lagless.settings.partitioning import PartitionColumn
from lagless.settings.registry_access import RegistrySettings
from lagless.settings.roles import ConsumerSettings
from lagless.settings.security import Security
from lagless.settings.storage import Bucket, StorageSettings
from lagless.settings.tree import Settings

__all__ = [
    "Bucket",
    "CompactionSettings",
    "ConsumerSettings",
    "KafkaSettings",
    "LakeSettings",
    "PartitionColumn",
    "RegistrySettings",
    "Security",
    "Settings",
    "StorageSettings",
    "TopicSettings",
    "load",
    "parse",
]
