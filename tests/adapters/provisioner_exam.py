"""The exam that every provisioner takes: one abstract class, an adapter fills in how to look."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from lagless.model import Consumer
from lagless.ports import Instance, Provisioner


class ProvisionerExam(ABC):
    """What a controller relies on, whoever starts its consumers.

    A subclass gives a fresh `provisioner` fixture and says how to wait and to look.
    """

    patience = 20.0
    """Seconds within which a start or an end must be seen."""

    @abstractmethod
    def running(self, provisioner: Provisioner) -> set[Consumer]:
        """Return the numbers whose process really runs, found without the provisioner."""

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition; an adapter with virtual time lets it go by."""
        until = time.monotonic() + self.patience
        while not condition():
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def listed(self, provisioner: Provisioner) -> dict[Consumer, Instance]:
        """Return what the provisioner sees, by number."""
        return {instance.consumer: instance for instance in provisioner.instances()}

    def test_nothing_is_there_at_first(self, provisioner: Provisioner) -> None:
        assert self.listed(provisioner) == {}

    def test_what_is_created_runs_and_is_listed(self, provisioner: Provisioner) -> None:
        assert provisioner.create([1, 2, 3]) == {}
        assert self.wait(lambda: self.running(provisioner) == {1, 2, 3})
        assert self.listed(provisioner).keys() == {1, 2, 3}

    def test_to_create_what_exists_is_a_success_and_changes_nothing(
        self, provisioner: Provisioner
    ) -> None:
        provisioner.create([1])
        birth = self.listed(provisioner)[1].birth
        assert provisioner.create([1]) == {}
        assert self.listed(provisioner)[1].birth == birth

    def test_every_start_has_a_birth_of_its_own(self, provisioner: Provisioner) -> None:
        provisioner.create([1, 2])
        first = self.listed(provisioner)
        assert first[1].birth
        assert first[1].birth != first[2].birth
        provisioner.delete({1: ""})
        assert self.wait(lambda: 1 not in self.listed(provisioner))
        provisioner.create([1])
        assert self.listed(provisioner)[1].birth not in (first[1].birth, first[2].birth)

    def test_what_is_deleted_ends_and_is_not_listed(self, provisioner: Provisioner) -> None:
        provisioner.create([1, 2])
        provisioner.delete({1: ""})
        assert self.wait(lambda: self.listed(provisioner).keys() == {2})
        assert self.wait(lambda: self.running(provisioner) == {2})

    def test_to_delete_what_is_gone_is_a_success(self, provisioner: Provisioner) -> None:
        provisioner.delete({7: "", 8: "some.incarnation"})
        assert self.listed(provisioner) == {}

    def test_a_deletion_that_means_another_start_does_nothing(
        self, provisioner: Provisioner
    ) -> None:
        provisioner.create([1])
        provisioner.delete({1: "another.incarnation"})
        assert self.listed(provisioner)[1].phase in ("starting", "running")
        birth = self.listed(provisioner)[1].birth
        provisioner.delete({1: f"{birth}.whatever"})
        assert self.wait(lambda: 1 not in self.listed(provisioner))

    def test_what_is_being_deleted_cannot_be_created_yet(self, provisioner: Provisioner) -> None:
        provisioner.create([1])
        birth = self.listed(provisioner)[1].birth
        provisioner.delete({1: ""})
        troubles = provisioner.create([1])
        again = self.listed(provisioner).get(1)
        # Either it was gone at once and a new one runs, or it says that it cannot be yet.
        if again is not None and again.birth == birth:
            assert troubles.get(1)
            assert again.phase == "deleting"
        assert self.wait(lambda: not provisioner.create([1]))
        assert self.listed(provisioner)[1].birth != birth
