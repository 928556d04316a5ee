"""A user's transform: imported, applied, and blamed where it raises."""

import importlib
from collections.abc import Callable

from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from lagless.adapters.lake.session_holder import first_line
from lagless.errors import GiveUp, WrongSettings

Transform = Callable[[DataFrame], DataFrame]
SURE = 2
"""How often a transform must raise, with the records readable in between, to be blamed."""


def load(name: str, topic: str) -> Transform:
    """Import a user's transform, `module:function`."""
    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
        transform: Transform = getattr(module, function)
    except (ImportError, AttributeError) as error:
        raise WrongSettings(
            f"topic.{topic}.transform: {name} cannot be imported: {error}; it should be "
            "module:function of a module in the current folder or on PYTHONPATH"
        ) from error
    # Spark's workers need not have the user's module.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # no types
    return transform


def apply(transform: Transform | None, name: str | None, rows: DataFrame) -> DataFrame:
    """Return the transformed rows; GiveUp where the call itself fails."""
    if transform is None:
        return rows
    try:
        return transform(rows)
    except Exception as error:
        # The call itself failed, so no single record is to blame.
        raise GiveUp(f"{name} raises {type(error).__name__}: {first_line(error)}") from error


def blame(transform: Transform, name: str | None, rows: DataFrame) -> PySparkException | None:
    """Return what the transform raises on these rows; None if it does not, or not each time.

    Raise where the rows themselves cannot be read: then Kafka or Spark is to blame.
    """
    raised: PySparkException | None = None
    for _ in range(SURE):
        _run(rows)
        try:
            _run(apply(transform, name, rows))
            return None
        except AnalysisException:
            raise
        except PySparkException as error:
            raised = error
    if any(word in str(raised) for word in ("ModuleNotFoundError", "ImportError")):
        # A module is missing on Spark's workers: no record is to blame.
        raise GiveUp(
            f"{name}: {first_line(raised or Exception())}; install it where Spark runs"
        ) from raised
    return raised


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
