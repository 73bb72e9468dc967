# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A card whose locks were open under a tenant is available in placement only after it was flashed again."""

from dataclasses import replace
from typing import Any

from ironic.common import states

from baremetal_acc_ironic.state import node_store
from tests.ironic.case import BASELINE, GPU_NEW, GPU_OLD
from tests.ironic.placement_case import PlacementCase

GPU = 'PGPU'


class TestDoubted(PlacementCase):
    """A machine with two GPUs that has come back, and of which the first was exposed; automated cleaning was off."""

    baseline = BASELINE.replace(GPU_NEW, GPU_OLD)

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert [GPU, GPU] == self.offers()
        # As handed.back leaves it.
        doubted = frozenset({self.gpu(0)})
        node_store.store(self.node, replace(self.node_state, exposed=doubted, anew=doubted))
        self.node.save()

    def step(self, name: str, **arguments: Any) -> list[str]:
        """What is on offer after one step of manual cleaning."""
        self.clean({'step': name, 'args': arguments})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        return self.offers()

    def test_no_step_offers_it_that_does_not_write_it(self) -> None:
        """The other one is, and pools and traits count that one alone; after the whole path both are."""
        assert [GPU] == self.step('publish_accelerators')
        assert [GPU] == self.step('update_accelerator_firmware', devices=[self.gpu(1)])
        assert [GPU] == self.step('inventory_accelerators')
        assert {self.gpu(0)} == self.node_state.exposed
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (frozenset(), [GPU, GPU]) == (self.node_state.exposed, self.offers())

    def test_a_tenant_keeps_what_the_node_shows(self) -> None:
        """Ironic would refuse to rebuild a node that has no more what its instance requires."""
        traits = set(self.node.traits.get_trait_names())
        node_store.store(self.node, replace(self.node_state, handed_over=True))
        self.node.save()
        self.step('inventory_accelerators')
        self.node.refresh()
        assert traits == set(self.node.traits.get_trait_names())
