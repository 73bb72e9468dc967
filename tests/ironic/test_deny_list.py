# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One entry of the deny list withdraws what runs it, from stored inventories and without a BMC; and back.

A real conductor runs its periodics over an emulated machine, with a real placement.
"""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from ironic.common import exception, states
from ironic.conductor import task_manager
from oslo_messaging.notify import _impl_test

from baremetal_acc.errors import PlacementUnreachable
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc_ironic.periodics import availability, deny_list
from baremetal_acc_ironic.state import node_store
from tests.ironic.case import BASELINE, GPU_NEW, GPU_OLD
from tests.ironic.placement_case import ROOT_CLASS, PlacementCase

GPU = 'PGPU'
DENIAL = f"""
[[deny]]
reason = "CVE-2026-0001"
component = "HGX_FW_GPU_*"
version = "{GPU_OLD}"
"""
TOGETHER = """
[[rule]]
name = "together"
match = { kind = "GPU" }
offer = "together"
"""


class DenyListCase(PlacementCase):
    """A machine with two GPUs that was cleaned, and is available."""

    baseline = BASELINE.replace(GPU_NEW, GPU_OLD)

    def setUp(self) -> None:
        super().setUp()
        self.catalogue = Path(self._folder / 'catalogue.toml')
        self.text = self.catalogue.read_text()

    def cleaned(self) -> None:
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert [GPU, GPU] == self.offers()

    def deny(self, entry: str = DENIAL) -> None:
        self.write(self.text + entry)

    def allow(self) -> None:
        self.write(self.text)

    def write(self, text: str) -> None:
        """As an operator replaces the file."""
        new = self.catalogue.with_suffix('.new')
        new.write_text(text)
        os.replace(new, self.catalogue)

    def round(self, *, rescan: bool = False) -> None:
        """Two rounds of the periodic: one scans, the next settles."""
        rounds = deny_list.rounds_of(self.service)
        if rescan:
            rounds.due = 0.0
        deny_list.hand_out(self.service, self.context)
        deny_list.hand_out(self.service, self.context)
        self.node.refresh()

    def requests(self) -> int:
        """That reached the BMC."""
        return sum(sum(bmc['requests'].values()) for bmc in self.machine.counters().values())

    def change(self, **values: Any) -> None:
        self.node.refresh()
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()

    def root(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask('GET', f'/resource_providers/{self.node.uuid}/inventories')
        return found


class TestDenyList(DenyListCase):
    """An available node."""

    def test_what_is_denied_is_withdrawn_without_a_bmc_and_comes_back(self) -> None:
        """The log, the node's history, its fields and notifications say why; the root provider is not written."""
        self.cleaned()
        self.listen()
        self.round()
        assert [GPU, GPU] == self.offers()
        before, root = self.requests(), self.root()
        self.deny()
        self.round()
        assert ([], before, root) == (self.offers(), self.requests(), self.root())
        assert {self.gpu(0), self.gpu(1)} == {d.accelerator for d in self.node_state.denied}
        [event] = [e for e in self.history() if 'withdrawn from placement by the deny list' in e]
        assert 'CVE-2026-0001' in event
        assert GPU_OLD in event
        self.allow()
        self.round()
        assert ([GPU, GPU], before, root) == (self.offers(), self.requests(), self.root())
        assert () == self.node_state.denied
        assert any('what is verified is published again' in e for e in self.history())
        sent = [n[1]['event_type'] for n in _impl_test.NOTIFICATIONS]
        assert ['baremetal.accelerator.denial.start', 'baremetal.accelerator.denial.end'] == [s for s in sent if 'denial' in s]

    def test_rounds_that_change_nothing_ask_nobody(self) -> None:
        """Neither placement nor a BMC, and the history stays as it is, denied or not."""
        self.cleaned()
        for change in (self.allow, self.deny):
            change()
            self.round()
            before, history = self.requests(), self.history()
            with mock.patch.object(PlacementClient, '_send', side_effect=AssertionError('placement was asked')):
                for rescan in (False, True, True):
                    self.round(rescan=rescan)
            assert (before, history) == (self.requests(), self.history())

    def test_no_later_publication_offers_what_is_denied(self) -> None:
        """Neither a step that publishes, nor the read of a node that is available again."""
        self.cleaned()
        self.deny()
        self.round()
        self.change(maintenance=True)
        availability.hand_out(self.service, self.context, datetime.now(UTC))
        self.change(maintenance=False)
        availability.hand_out(self.service, self.context, datetime.now(UTC))
        assert [] == self.offers()
        self.clean('publish_accelerators')
        self.settle()
        assert [] == self.offers()
        self.round(rescan=True)
        assert [] == self.offers()

    def test_only_the_devices_that_run_it_are_withdrawn(self) -> None:
        """One GPU runs another version; what is counted together is counted without the denied one."""
        self.cleaned()
        self.deny(DENIAL.replace('HGX_FW_GPU_*', 'HGX_FW_GPU_0'))
        self.write(self.text.replace('component = "HGX_FW_GPU_*"', 'component = "HGX_FW_GPU_0"', 1) + DENIAL)
        self.round()
        assert [self.gpu(0)] == [d.accelerator for d in self.node_state.denied]
        assert [GPU] == self.offers()

    def test_a_new_version_in_the_stored_inventory_brings_it_back(self) -> None:
        """Cleaning writes the firmware that the changed baseline demands."""
        self.text = self.text.replace(f'restore = "gpu-{GPU_OLD}"', 'restore = "none"')
        self.cleaned()
        self.deny()
        self.round()
        assert [] == self.offers()
        (self._folder / 'baseline.toml').write_text(BASELINE)
        self.cleaned()
        self.round(rescan=True)
        assert ([GPU, GPU], ()) == (self.offers(), self.node_state.denied)

    def test_a_stored_inventory_that_newly_shows_a_denied_version_is_withdrawn(self) -> None:
        """An inspection has found it: the catalogue has not changed since."""
        self.text = self.text.replace(f'restore = "gpu-{GPU_OLD}"', 'restore = "none"')
        self.baseline_of(GPU_NEW)
        self.deny()
        self.cleaned()
        self.round()
        assert [GPU, GPU] == self.offers()
        look = node_store.last_look(self.node, self.node_state)
        assert look is not None
        found = tuple(
            replace(a, firmware=tuple(replace(c, version=GPU_OLD if 'GPU' in str(c.id) else c.version) for c in a.firmware))
            for a in look.accelerators
        )
        packed = node_store.packed_look(self.node, replace(look, at=datetime.now(UTC), accelerators=found))
        node_store.store(self.node, replace(self.node_state, seen=packed))
        self.round(rescan=True)
        assert [] == self.offers()

    def baseline_of(self, version: str) -> None:
        (self._folder / 'baseline.toml').write_text(self.baseline.replace(GPU_OLD, version))

    def test_what_the_stored_inventory_does_not_verify_is_read_again_before_it_comes_back(self) -> None:
        """The record of a lock is gone: the availability periodic reads the node, and offers what it verifies."""
        self.cleaned()
        self.deny()
        self.round()
        state, card = self.node_state, self.gpu(0)
        node_store.store(self.node, replace(state, evidence=tuple(e for e in state.evidence if e.accelerator != card)))
        before = self.requests()
        self.allow()
        self.round()
        assert ([], before) == (self.offers(), self.requests())
        availability.hand_out(self.service, self.context, datetime.now(UTC))
        assert [GPU] == self.offers()
        assert before < self.requests()

    def test_a_catalogue_that_cannot_be_read_leaves_the_last_deny_list_in_force(self) -> None:
        """An alarm is logged once, and the next good catalogue counts."""
        self.cleaned()
        self.deny()
        self.round()
        for text in ('format = 1\n[[image', None):
            if text is None:
                self.catalogue.unlink()
            else:
                self.write(text)
            with mock.patch.object(deny_list.LOG, 'error') as alarm:
                for _ in range(3):
                    self.round(rescan=True)
            assert 1 == alarm.call_count
            assert 'the last deny list stays in force' in alarm.call_args.args[0] % alarm.call_args.args[1:]
            assert [] == self.offers()
        self.allow()
        self.round()
        assert [GPU, GPU] == self.offers()

    def test_a_conductor_that_starts_without_a_readable_catalogue_releases_nothing(self) -> None:
        """It knows no deny list yet; what another one has withdrawn stays withdrawn."""
        self.cleaned()
        self.deny()
        self.round()
        self.write('format = 1\n[[image')
        deny_list._CONDUCTORS.pop(self.service)
        self.round(rescan=True)
        assert ([], 2) == (self.offers(), len(self.node_state.denied))

    def test_placement_that_is_down_is_asked_again_in_the_next_round(self) -> None:
        """Nothing is stored as withdrawn before it is."""
        self.cleaned()
        self.deny()
        with mock.patch.object(PlacementClient, '_send', side_effect=PlacementUnreachable('down')):
            self.round()
        assert ([GPU, GPU], ()) == (self.offers(), self.node_state.denied)
        self.round()
        assert ([], 2) == (self.offers(), len(self.node_state.denied))

    def test_one_bad_node_does_not_keep_the_others(self) -> None:
        """Its stored inventory cannot be read, or it is locked by another task."""
        self.cleaned()
        bad = self.make_node(name='bad', driver_internal_info={node_store.KEY: {'format': 1, 'seen': 'x', 'state': {}}})
        locked = self.make_node(name='locked', driver_internal_info=dict(self.node.driver_internal_info))
        self.deny()
        with task_manager.acquire(self.context, locked.uuid, shared=False):
            self.round()
        assert [] == self.offers()
        assert {locked.uuid, bad.uuid} >= deny_list.rounds_of(self.service).waiting.keys() >= {locked.uuid}
        self.round()
        locked.refresh()
        assert node_store.denied(locked.driver_internal_info)

    def test_a_job_ends_before_the_node_is_settled_and_its_publication_is_withdrawn(self) -> None:
        """It has read the catalogue before the change. The sweep withdraws at once, whatever runs."""
        self.cleaned()
        self.clean('reconcile_accelerators')
        self.node.refresh()
        busy = dict(self.node.driver_internal_info[node_store.KEY], busy=True)
        self.change(driver_internal_info={node_store.KEY: busy})
        self.deny()
        self.round()
        assert ([], frozenset()) == (self.offers(), node_store.denied(self.node.driver_internal_info))
        assert {} == deny_list.rounds_of(self.service).closed

    def test_a_worker_that_is_not_free_is_asked_for_again(self) -> None:
        """Nothing stays locked."""
        self.cleaned()
        self.deny()
        with mock.patch.object(self.service, '_spawn_worker', side_effect=exception.NoFreeConductorWorker):
            self.round()
        assert [GPU, GPU] == self.offers()
        self.round()
        assert [] == self.offers()

    def test_without_an_interval_nothing_is_done(self) -> None:
        """An operator has disabled it."""
        self.cleaned()
        self.config(deny_list_interval=0, group='baremetal_acc')
        self.deny()
        self.round()
        assert [GPU, GPU] == self.offers()


class TestReserved(DenyListCase):
    """An operator keeps a card from being claimed, and nothing was published since."""

    def test_what_an_operator_has_reserved_comes_back_reserved(self) -> None:
        """The withdrawal notes it first. No BMC is asked."""
        self.cleaned()
        before = self.requests()
        self.reserve(self.card_provider('0'))
        assert [f'({GPU})', GPU] == self.offers()
        self.deny()
        self.round()
        assert ([], 2) == (self.offers(), len(self.node_state.denied))
        self.allow()
        self.round()
        assert ([f'({GPU})', GPU], before, ()) == (self.offers(), self.requests(), self.node_state.denied)

    def reserve(self, provider: str) -> None:
        """As by ``openstack resource provider inventory set``."""
        path = f'/resource_providers/{provider}/inventories'
        found = self.ask('GET', path)
        found['inventories'][GPU]['reserved'] = 1
        self.ask('PUT', path, found)


class TestInUse(DenyListCase):
    """Somebody holds some of it."""

    def test_what_is_in_use_is_reserved_and_nothing_of_it_is_deleted(self) -> None:
        """By an instance of the node, or by a consumer that has claimed a card alone, whatever state the node is in."""
        self.config(availability_interval=0, group='baremetal_acc')
        self.cleaned()
        consumer = self.claim((self.node.uuid, ROOT_CLASS), (self.card_provider('0'), GPU))
        for state in (states.AVAILABLE, states.ACTIVE, states.RESCUE, states.MANAGEABLE, states.CLEANFAIL):
            instance = consumer if state in (states.ACTIVE, states.RESCUE) else None
            self.change(provision_state=state, instance_uuid=instance)
            self.deny()
            self.round()
            assert [f'({GPU})'] == self.offers(), state
            claimed = self.ask('GET', f'/allocations/{consumer}')['allocations']
            assert {GPU: 1} == claimed[self.card_provider('0')]['resources']
            assert 2 == len(self.node_state.denied)
            self.change(provision_state=states.AVAILABLE, instance_uuid=None)
            self.allow()
            self.round()
            assert () == self.node_state.denied
            if [GPU, GPU] != self.offers():  # nothing of a node that cannot be deployed is published
                self.clean('publish_accelerators')
                self.settle()
            self.change(provision_state=states.AVAILABLE)
            assert [GPU, GPU] == self.offers(), state
        self.deny()
        self.round()
        self.free(consumer)
        assert [f'({GPU})'] == self.offers()

    def test_a_deployed_node_is_marked_and_its_cards_are_reserved(self) -> None:
        """The deploy has withdrawn it before; the mark tells the operator, and cleaning decides."""
        self.cleaned()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.deny()
        self.round()
        assert ([], 2) == (self.offers(), len(self.node_state.denied))


class TestTogether(DenyListCase):
    """All GPUs of the node are one provider."""

    baseline = BASELINE.replace(GPU_NEW, GPU_OLD) + TOGETHER

    def test_the_others_stay_available(self) -> None:
        """One of two is denied: one is left."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        before = self.requests()
        self.write(self.text.replace('component = "HGX_FW_GPU_*"', 'component = "HGX_FW_GPU_0"', 1) + DENIAL)
        self.round()
        [provider] = self.providers()
        inventories = self.ask('GET', f'/resource_providers/{provider}/inventories')['inventories']
        assert ({GPU: 1}, before) == ({name: i['total'] for name, i in inventories.items()}, self.requests())
        self.allow()
        self.round()
        inventories = self.ask('GET', f'/resource_providers/{provider}/inventories')['inventories']
        assert ({GPU: 2}, before) == ({name: i['total'] for name, i in inventories.items()}, self.requests())
