# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Cards that were unlocked under a tenant are flashed by the next cleaning, even if another tenant had the node in between."""

from ironic.common import states

from tests.ironic.case import BASELINE, GPU_NEW, GPU_OLD, IronicCase

CLOSED = BASELINE.replace(GPU_NEW, GPU_OLD)
OPEN = CLOSED.replace('block = ["host-device"]', 'block = []')


class TestAnew(IronicCase):
    """Rules let the cards be open to the first tenant, and there are images of all that they have to run."""

    baseline = OPEN

    def rules(self, text: str) -> None:
        """Another baseline from now on."""
        (self._folder / 'baseline.toml').write_text(text)

    def back(self) -> None:
        """The tenant is gone."""
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error

    def test_the_next_cleaning_knows_it_still(self) -> None:
        """Cleaning was off, and the second tenant found the cards locked: what the first one did to them is still there."""
        self.to_active()
        cards = {self.gpu(0), self.gpu(1)}
        self.rules(CLOSED)
        self.config(automated_clean=False, group='conductor')
        self.back()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert cards == self.node_state.anew
        (told,) = [e for e in self.history() if e.startswith('handed over without having been written again')]
        assert all(card in told for card in cards)
        self.serve('reconcile_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert cards == self.node_state.anew, 'nothing is written under a tenant for it'
        self.config(automated_clean=True, group='conductor')
        self.back()
        done = [e for e in self.history() if 'reconcile_accelerators is done' in e][-1]
        assert all(f'of {card} from {GPU_OLD} to {GPU_OLD}' in done for card in cards)
        assert frozenset() == self.node_state.anew
        self.to_active()
        assert 1 == len([e for e in self.history() if e.startswith('handed over without')])
