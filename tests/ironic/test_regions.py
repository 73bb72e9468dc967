# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The verified functions of a node's regions are stored for the pools; requested functions are told from others."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from ironic.common import states

from baremetal_acc.scheduling import regions
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state import node_state, node_store
from tests.ironic.case import IronicCase

BASELINE = """\
format = 1
[[rule]]
name = "all"
block = ["host-device"]
"""


class TestRegions(IronicCase):
    """An FPGA with two slots."""

    product = 'fpga-server'
    parameters: Mapping[str, Any] = {}
    baseline = BASELINE

    def held(self) -> dict[str, str | None]:
        """What the node remembers its slots to hold."""
        return {s.slot_id: s.function for s in self.remembered.slots}

    @property
    def remembered(self) -> regions.Regions:
        """As whoever steers a fleet reads it."""
        self.node.refresh()
        return regions.read(self.node.driver_internal_info[node_store.KEY]['regions'])

    def test_what_was_programmed_is_remembered_with_its_time(self) -> None:
        """By cleaning, whatever it brings back, it is not: only what somebody asked for is to rest."""
        begun = datetime.now(UTC)
        self.clean({'step': 'reconcile_accelerators'})
        self.settle()
        assert {None} == {s.changed for s in self.remembered.slots}
        assert {frozenset({'gzip', 'aes'})} == {s.takes for s in self.remembered.slots}
        before = self.held()
        self.clean({'step': 'program_accelerators', 'args': {'functions': {'Slot1': 'aes'}}})
        self.settle()
        assert states.MANAGEABLE == self.node.provision_state, self.node.last_error
        assert before | {'Slot1': 'aes'} == self.held()
        changed = {s.slot_id: s.changed for s in self.remembered.slots}
        assert changed['Slot0'] is None
        assert begun < changed['Slot1'] < datetime.now(UTC)
        # A look that changes nothing leaves that as it is.
        self.clean({'step': 'inventory_accelerators'})
        self.settle()
        assert changed == {s.slot_id: s.changed for s in self.remembered.slots}

    def test_asking_again_and_again_needs_no_more_room(self) -> None:
        """A region is programmed many times before a tenant takes its machine; what was asked for before is over."""
        for function in ('gzip', 'aes', 'gzip', 'aes'):
            self.clean({'step': 'program_accelerators', 'args': {'functions': {'Slot0': function}}})
            self.settle()
            assert {'Slot0': function} == {s: f for s, f in self.held().items() if f is not None}
        [override] = self.node_state.overrides
        assert (('Slot0', 'aes'),) == override.functions

    def test_they_are_remembered_though_ironic_could_not_show_what_was_seen(self) -> None:
        """Its database is busy for a moment: the pool that had them programmed must learn of it all the same."""
        self.clean({'step': 'reconcile_accelerators'})
        self.settle()
        with mock.patch.object(record, 'sync_traits', side_effect=RuntimeError('database is locked')):
            self.clean({'step': 'program_accelerators', 'args': {'functions': {'Slot1': 'aes'}}})
            assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert 'aes' == self.held()['Slot1']

    def test_what_cannot_be_read_is_forgotten_and_no_job_fails_for_it(self) -> None:
        """Of another version, or tampered with; the next look remembers anew."""
        self.clean({'step': 'reconcile_accelerators'})
        self.settle()
        info = self.node.driver_internal_info[node_store.KEY] | {'regions': {'by': 'a later version'}}
        self.node.set_driver_internal_info(node_store.KEY, info)
        self.node.save()
        assert None is node_store.load(self.node).regions
        self.clean({'step': 'reconcile_accelerators'})
        self.settle()
        assert {'Slot0', 'Slot1'} == set(self.held())

    def test_a_job_that_needs_the_room_comes_first(self) -> None:
        """What pools know of a node is dropped before a job is refused."""
        slots = tuple(
            regions.Slot(accelerator=f'uuid:{n}', slot_id='Slot0', takes=frozenset({f'a{n}', 'b'})) for n in range(40)
        )
        found = regions.Regions(at=datetime.now(UTC), slots=slots)
        node_store.store(self.node, node_state.NodeState(regions=found))
        assert found == node_store.load(self.node).regions
        size = node_store.LIMIT_BYTES - 1500
        node_store.store(
            self.node, node_state.NodeState(regions=found, seen=None, handed=random.Random(1).randbytes(size // 2).hex())
        )
        assert None is node_store.load(self.node).regions
