# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Functions available in placement when a tenant leaves: they stay, or are withdrawn until they are programmed again."""

from collections.abc import Mapping
from typing import Any
from unittest import mock

from ironic.common import states

from baremetal_acc_ironic import placement as told_by
from baremetal_acc_ironic.state import node_state, node_store
from baremetal_acc_ironic.steps import job_context
from tests.ironic.placement_case import PlacementCase

RULES = """\
format = 1
[[rule]]
name = "functions"
match = { kind = "FPGA" }
on_leave = "remove"
[[rule]]
name = "all"
block = ["host-device"]
"""

DEMANDING = RULES.replace('on_leave', 'functions = { "Slot0" = "gzip", "Slot1" = "aes" }\non_leave')

GZIP, AES = 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES'


class LeavingCase(PlacementCase):
    """A card with two slots."""

    product = 'fpga-server'
    parameters: Mapping[str, Any] = {}
    baseline = RULES

    def clean_up(self, *steps: Any) -> None:
        """Cleaning that ends well."""
        self.clean(*steps)
        good = states.MANAGEABLE if steps else states.AVAILABLE
        assert good == self.settle(), self.node.last_error

    def program(self, **slots: str) -> None:
        """An operator has functions put into slots."""
        self.clean_up({'step': 'program_accelerators', 'args': {'functions': slots}})

    def one_tenant(self) -> None:
        """Has the node and leaves it; it is cleaned."""
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.clean_up()

    def writes(self) -> int:
        """Images that were sent to the machine."""
        return sum(1 for e in self.machine.log() if isinstance(e['body'], dict) and 'Targets' in e['body'])

    def on_node(self) -> set[str]:
        """Functions that the node shows by its traits."""
        self.node.refresh()
        return {t for t in self.node.traits.get_trait_names() if t.startswith('CUSTOM_ACC_FN_')}


class TestRemoved(LeavingCase):
    """The rule says so."""

    def test_what_a_tenant_had_is_offered_again_when_it_is_programmed_again_and_not_before(self) -> None:
        """Whoever programs it: each slot by itself, by whichever conductor, and however often the node is cleaned meanwhile."""
        self.program(Slot0='gzip', Slot1='aes')
        self.clean_up()
        assert [AES, GZIP] == self.offers()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert {AES, GZIP} == self.on_node()  # else Ironic would refuse to rebuild it
        sent = self.writes()
        self.clean_up()
        assert ([], set()) == (self.offers(), self.on_node())
        told_by._publisher.cache_clear()
        self.clean_up()
        self.clean_up({'step': 'publish_accelerators'})
        assert ([], sent) == (self.offers(), self.writes())
        self.program(Slot0='gzip')
        self.clean_up()
        assert ([GZIP], {GZIP}, sent + 1) == (self.offers(), self.on_node(), self.writes())
        self.program(Slot1='aes')
        self.clean_up()
        assert [AES, GZIP] == self.offers()
        # The next tenant uses them up again.
        self.one_tenant()
        assert [] == self.offers()

    def test_a_node_that_nobody_handed_over_is_not_taken_for_an_unused_one(self) -> None:
        """It was adopted: whoever had it had all that is in it when it comes back."""
        self.program(Slot0='gzip')
        self.clean_up()
        assert [GZIP] == self.offers()
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.serve('inventory_accelerators')
        self.settle()
        with_it = self.node_state
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert with_it.shelf.used == frozenset()
        self.clean_up()
        assert [] == self.offers()

    def test_what_an_older_version_remembers_is_read(self) -> None:
        """It knows of no slots that were used: what they hold stays on offer."""
        self.program(Slot0='gzip')
        stored = self.node.driver_internal_info[node_store.KEY]
        assert 'shelf' not in stored['state']  # of which an older version refuses a key that it does not know
        self.node.set_driver_internal_info(node_store.KEY, {k: v for k, v in stored.items() if k != 'shelf'})
        self.node.save()
        assert node_state.Withdrawals() == self.node_state.shelf
        self.clean_up()
        assert [GZIP] == self.offers()


class TestDemanded(LeavingCase):
    """The baseline itself asks for functions."""

    baseline = DEMANDING

    def test_cleaning_programs_what_is_demanded_anew_and_offers_it(self) -> None:
        """Though the slots seem to hold it; and only once for each tenant."""
        self.clean_up()
        assert [AES, GZIP] == self.offers()
        sent = self.writes()
        self.clean_up()
        assert sent == self.writes()
        self.one_tenant()
        assert ([AES, GZIP], sent + 2) == (self.offers(), self.writes())
        self.clean_up()
        assert sent + 2 == self.writes()


class TestKept(LeavingCase):
    """No rule says anything."""

    baseline = RULES.replace('on_leave = "remove"\n', '')

    def test_what_slots_verifiably_hold_stays_on_offer(self) -> None:
        """As long as nothing else is demanded, whoever had them."""
        self.program(Slot0='gzip')
        self.clean_up()
        self.one_tenant()
        assert [GZIP] == self.offers()


class TestMisspelt(LeavingCase):
    """A rule lets slots be given a function that the catalogue does not know."""

    baseline = RULES + '[[rule]]\nname = "shelf"\ntakes = ["zgip"]\n'

    def test_the_log_of_the_conductor_says_so_once(self) -> None:
        """With rule, file and name; the step goes on."""
        with mock.patch.object(job_context, 'LOG') as log:
            self.clean_up()
        path = self._folder / 'baseline.toml'
        told = [str(call.args) for call in log.warning.call_args_list]
        assert 1 == sum(f"{path}: rule shelf: takes names 'zgip'" in text for text in told)
