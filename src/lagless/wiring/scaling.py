"""What decides how many members of a group run that lagless did not write."""

from collections.abc import Collection

from lagless import extras
from lagless.group_ports import GroupMember, Scaler
from lagless.settings import Settings


class ScaledElsewhere:
    """A scaler that asks for nothing: KEDA counts by itself, with `lagless scaler`."""

    ordered = False

    def scale(self, size: int, idle: Collection[GroupMember]) -> None:
        """Leave the number as it is."""


def scaler(settings: Settings) -> Scaler | None:
    """Return what scales the user's members; None if lagless only places them."""
    chosen = settings.provisioner
    if chosen.kind == "keda" and chosen.workload is None:
        return ScaledElsewhere()
    if chosen.kind in ("deployment", "statefulset", "keda"):
        with extras.needed("kubernetes"):
            from lagless.adapters.kubernetes.workload_scaler import WorkloadScaler
        return WorkloadScaler(settings)
    return None
