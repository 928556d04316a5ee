"""lagless keeps a Kafka consumer group as small as it can be without falling behind."""

from lagless.packing import algorithms, pack
from lagless.packing.scores import rscore

__all__ = ["__version__", "algorithms", "pack", "rscore"]
__version__ = "0.1.0"
