# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""All accelerators that an instance claims are prepared together, and restored when it goes or when one of them fails."""

import json
from dataclasses import replace
from unittest import mock

from ironic.common import states

from baremetal_acc.attach.find import FoundDriver, drivers
from baremetal_acc.attach.region import RegionAttachDriver
from baremetal_acc.model.attach import AttachState
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.steps import attach
from tests.ironic.attach_case import BASELINE, BEFORE, AttachCase


class Acme(RegionAttachDriver):
    """Somebody else's driver of slots, which cannot say how they are brought back while it is out of order.

    :cvar calls: its methods, in the order in which they were called, with the number of what they were called for.
    """

    name = 'acme'
    out_of_order = False
    calls: list[tuple[str, int]] = []  # noqa: RUF012

    def get_devices(self, claims, around):
        self.calls.append(('get_devices', len(claims)))
        return super().get_devices(claims, around)

    def prepare(self, attachments, around):
        self.calls.append(('prepare', len(attachments)))
        return super().prepare(attachments, around)

    def post_plug(self, attachments, around):
        self.calls.append(('post_plug', len(attachments)))
        return super().post_plug(attachments, around)

    def unprepare(self, attachments, around):
        self.calls.append(('unprepare', len(attachments)))
        if self.out_of_order:
            raise RuntimeError('out of order')
        return super().unprepare(attachments, around)


class TestRollBack(AttachCase):
    """The second region fails."""

    def setUp(self) -> None:
        super().setUp()
        self.ready()
        self.instance = self.rent('gzip', 'aes')

    def test_a_first_attempt_that_failed_is_no_burden_for_the_second(self) -> None:
        """What it held before is what it held before the first one, and nothing is written twice."""
        self.machine.fault('task-fails', uri='*_Slot1', count=1)
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert (BEFORE, {'Slot0': 'gone', 'Slot1': 'gone'}) == (self.holds(), self.attached())
        assert ((), (), False) == (self.node_state.quarantined, self.node_state.overrides, self.node.maintenance)
        assert [] == [w for w in ('quarantined', 'stays powered off') if w in self.node.last_error], self.node.last_error
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert {'Slot0': 'plugged', 'Slot1': 'plugged'} == self.attached()
        assert set(BEFORE) == {a.previous for a in self.node_state.attached.items}

    def test_a_deployment_that_fails_later_keeps_what_is_prepared_for_the_next_attempt(self) -> None:
        """It is not written a second time, and what was there before is not forgotten over it."""
        with mock.patch('baremetal_acc_ironic.state.certificate.issue', side_effect=attach.UsageError(argument='x', what='y')):
            self.deploy()
            assert states.DEPLOYFAIL == self.settle()
        assert {'Slot0': 'prepared', 'Slot1': 'prepared'} == self.attached()
        self.machine.fault('image-refused')
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert set(BEFORE) == {a.previous for a in self.node_state.attached.items}
        assert all(a.written for a in self.node_state.attached.items)

    def test_an_image_that_cannot_be_had_changes_nothing(self) -> None:
        """There is nothing to bring back then, and no job for it."""
        (self._folder / 'aes').write_bytes(b'somebody has spoilt it')
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert (BEFORE, {'Slot0': 'gone', 'Slot1': 'gone'}) == (self.holds(), self.attached())
        assert 'rolled back' not in self.node.last_error
        assert not any('is restored' in event for event in self.history())

    def test_whose_image_is_gone_is_named_and_the_other_one_is_brought_back(self) -> None:
        """What was in the first slot is in the catalogue no more: that slot is left with a function that is well known."""
        catalogue = self._folder / 'catalogue.toml'
        self.machine.fault('task-fails', uri='*_Slot1', count=1)
        self.deploy()
        text = catalogue.read_text()
        while not any('is restored' in event for event in self.history()):
            self.poll()
        catalogue.write_text('\n\n'.join(part for part in text.split('\n\n') if 'name = "zstd"' not in part))
        assert states.DEPLOYFAIL == self.settle()
        first, second = self.holds()
        assert (BEFORE[1], True) == (second, first in ('gzip', 'aes'))
        assert (
            f'Slot1 of FPGA PAC D5005 FPGA1 ({self.card("FPGA1")}) was rolled back: it holds ipsec again'
            in self.node.last_error
        )
        assert 'was left as it is: its previous function zstd is not available' in self.node.last_error

    def test_a_card_that_is_away_is_not_taken_for_brought_back(self) -> None:
        """It comes back with what it holds, and cleaning sees to that."""
        self.machine.fault('task-fails', uri='*_Slot1', count=1)
        self.deploy()
        while not any('is restored' in event for event in self.history()):
            self.poll()
        self.machine.fault('device-absent', device='FPGA1')
        assert states.DEPLOYFAIL == self.settle()
        assert 'was not rolled back: its BMC does not show the card any more' in self.node.last_error
        assert {'Slot0': 'not-rolled-back', 'Slot1': 'not-rolled-back'} == self.attached()
        assert (1, True) == (len(self.node_state.quarantined), self.node.maintenance)
        self.machine.clear_faults()
        assert states.AVAILABLE == self.undeploy(self.instance), self.node.last_error
        assert (BEFORE, {}, ()) == (self.holds(), self.attached(), self.node_state.quarantined)

    def test_a_driver_that_cannot_bring_back_is_named_and_nobody_gets_the_card(self) -> None:
        """Until its package is repaired: then cleaning brings it back."""
        acme = Acme()
        Acme.calls = []
        with mock.patch.object(attach, 'drivers', return_value=FoundDriver(drivers=(acme, *drivers().drivers))):
            acme.out_of_order = True
            self.machine.fault('task-fails', uri='*_Slot1', count=1)
            self.deploy()
            assert states.DEPLOYFAIL == self.settle()
            words = ['attach driver acme', 'out of order', 'was not rolled back', 'repair or uninstall the package']
            assert [] == [w for w in words if w not in self.node.last_error], self.node.last_error
            assert {'Slot0': 'not-rolled-back', 'Slot1': 'not-rolled-back'} == self.attached()
            assert self.node.maintenance
            (mark,) = self.node_state.quarantined
            slots = ['FPGA1_Slot0', 'FPGA1_Slot1']
            assert (False, mark.refs, slots) == (mark.firmware, mark.anew, [r.uri.rpartition('/')[2] for r in mark.refs])
            assert [('get_devices', 2), ('prepare', 2), ('unprepare', 2)] == Acme.calls, 'once for all of an instance'
            assert states.CLEANFAIL == self.undeploy(self.instance)
            assert 'attach driver acme' in self.node.last_error
            assert [] == self.offers()
            acme.out_of_order = False
            self.clear()
            self.clean()
            assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (BEFORE, {}) == (self.holds(), self.attached())
        assert ['FPGA', 'FPGA'] == self.offers()


class TestLeaving(AttachCase):
    """The instance goes."""

    def setUp(self) -> None:
        super().setUp()
        self.ready()
        self.instance = self.rent('gzip', 'aes')
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error

    def test_what_it_leaves_stays_where_the_rules_keep_it(self) -> None:
        """Nothing is written, and nothing is remembered of it."""
        left = self.holds()
        self.machine.fault('image-refused')
        assert states.AVAILABLE == self.undeploy(self.instance), self.node.last_error
        assert (left, {}, None) == (self.holds(), self.attached(), self.node.instance_uuid)
        assert ['FPGA', 'FPGA'] == self.offers()

    def test_what_was_there_before_comes_back_where_the_rules_say_so(self) -> None:
        """The last one first; and once only, though the cleaning fails in the middle of it."""
        (self._folder / 'baseline.toml').write_text(f'{BASELINE}on_leave = "remove"\n')
        self.machine.fault('task-fails', uri='*_Slot0', count=1)
        assert states.CLEANFAIL == self.undeploy(self.instance)
        assert {'Slot0', 'Slot1'} == set(self.attached())
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (BEFORE, {}, ()) == (self.holds(), self.attached(), self.node_state.quarantined)
        assert any(f'accelerators of instance {self.instance} are restored' in event for event in self.history())

    def test_what_nobody_can_bring_back_is_offered_to_nobody(self) -> None:
        """Its driver does not load any more: the cleaning fails and names it, though all that the rules demand holds."""
        (self._folder / 'baseline.toml').write_text(f'{BASELINE}on_leave = "remove"\n')
        broken = FoundDriver(drivers=(), broken=(('region', 'it cannot be loaded: ImportError: no such thing'),))
        with mock.patch.object(attach, 'drivers', return_value=broken):
            assert states.CLEANFAIL == self.undeploy(self.instance)
        words = ['attach driver region', 'no such thing', 'could not be restored after instance']
        assert [] == [w for w in words if w not in self.node.last_error], self.node.last_error
        assert [] == self.offers()
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (BEFORE, ['FPGA', 'FPGA']) == (self.holds(), self.offers())

    def test_the_rules_of_the_operator_come_before_what_was_there(self) -> None:
        """A slot that has to hold something else by now gets that."""
        (self._folder / 'baseline.toml').write_text(f'{BASELINE}on_leave = "remove"\nfunctions = {{ "Slot0" = "aes" }}\n')
        assert states.AVAILABLE == self.undeploy(self.instance), self.node.last_error
        assert ['aes', BEFORE[1]] == self.holds()


class TestMemory(AttachCase):
    """What is remembered of it."""

    def test_what_an_earlier_version_has_stored_is_read(self) -> None:
        """It knew of no attachments; and it passes over those that are stored now."""
        self.ready()
        key = dict(self.node.driver_internal_info[node_store.KEY])
        assert 'attached' not in key
        assert node_store.load(self.node).attached is None
        self.rent('gzip')
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        key = self.node.driver_internal_info[node_store.KEY]
        assert 'attached' not in key.get('state', {})
        [slot, _] = key['attached']['items']
        assert ('SLOT', True) == (slot['handle']['handle'].upper(), slot['handle']['slot'] in ('Slot0', 'Slot1'))

    def test_a_great_many_are_kept_short(self) -> None:
        """As many as an instance may have, with room for all else."""
        self.ready()
        self.rent('gzip')
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        state = self.node_state
        [one, *_] = state.attached.items
        many = tuple(
            replace(
                one,
                slot=f'Slot{n}',
                provider=f'{n:08d}-aaaa-4bbb-8ccc-222222222222',
                state=AttachState.FAILED,
                why=f'{n} {"x" * 300}',
            )
            for n in range(256)
        )
        node_store.store(self.node, replace(state, attached=replace(state.attached, items=many)))
        key = self.node.driver_internal_info[node_store.KEY]
        assert isinstance(key['attached'], str)
        assert len(json.dumps(key['attached'])) < 16 * 1024
        assert many == self.node_state.attached.items
