# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The baseline or the catalogue cannot be read, or every turn of a job fails, while cards are being flashed."""

import pytest
from ironic.common import states
from ironic.conductor import task_manager

from baremetal_acc import execution
from tests.ironic.case import GPU_NEW, IronicCase

TYPO = '\nx'


class FilesCase(IronicCase):
    """Two cards are in the middle of a write."""

    parameters = {'gpus': 2, 'flash_seconds': 2}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        while not self.uploads():
            self.poll()
        assert states.CLEANWAIT == self.node.provision_state
        assert not all(self.closed().values())

    def uploads(self) -> int:
        """Images that were sent."""
        return sum(isinstance(e['body'], dict) and 'Targets' in e['body'] for e in self.machine.log())

    def closed(self) -> dict[str, bool]:
        """The locks of the cards."""
        return {name: closed for name, closed in self.locks().items() if 'GPU' in name}

    def spoil(self, name: str, text: str) -> str:
        """A file is something else now; what it was."""
        path = self._folder / name
        before = path.read_text()
        path.write_text(text)
        return before


class TestForAMoment(FilesCase):
    """An editor saves, a file is copied and not renamed."""

    def test_half_a_catalogue_for_one_turn_costs_nothing(self) -> None:
        """The job waits, and goes on to its end."""
        before = self.spoil('catalogue.toml', 'format = 1\n[[image]]\nname = "gpu')
        self.poll()
        assert states.CLEANWAIT == self.node.provision_state
        self.spoil('catalogue.toml', before)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (GPU_NEW, 2) == (self.version('host/HGX_FW_GPU_0'), self.uploads())
        assert all(self.closed().values())

    def test_a_baseline_with_a_typo_for_one_turn_costs_nothing(self) -> None:
        """Likewise."""
        before = self.spoil('baseline.toml', self.baseline + TYPO)
        self.poll()
        self.spoil('baseline.toml', before)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert all(self.closed().values())


class TestForGood(FilesCase):
    """Nothing works until the job's deadline, or ever again."""

    def test_at_the_deadline_the_node_fails_and_its_locks_come_back_with_the_file(self) -> None:
        """Failed with the reason; no card is condemned that nobody has looked at; recovery closes what is open."""
        before = self.spoil('baseline.toml', self.baseline + TYPO)
        job = self.node_state.job
        assert job is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr('baremetal_acc_ironic.steps.wall_clock.now', lambda: job.deadline.replace(year=job.deadline.year + 1))
            self.poll()
        assert states.CLEANFAIL == self.node.provision_state
        assert 'baseline.toml' in self.node.last_error
        assert () == self.node_state.quarantined
        self.spoil('baseline.toml', before)
        self.until_closed()

    def test_a_defect_of_ours_leaves_nothing_open(self) -> None:
        """Whatever a turn raises: the node fails, and recovery, which looks anew, closes what is open."""

        def breaks(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(execution, 'tick', breaks)
            self.poll_jobs()
        assert states.CLEANFAIL == self.node.provision_state
        assert 'ZeroDivisionError' in self.node.last_error
        self.until_closed()

    def poll_jobs(self) -> None:
        """One round of the periodic that turns jobs."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            interface = task.driver.firmware
        interface.turn_jobs(self.service, self.context)
        self.node.refresh()

    def until_closed(self) -> None:
        """Recovery does it; the node stays in maintenance with the reason."""
        for _ in range(200):
            self.poll()
            if self.node_state.job is None:
                break
        assert all(self.closed().values()), self.node.maintenance_reason
        assert self.node.maintenance
        assert 'was interrupted' in self.node.maintenance_reason
