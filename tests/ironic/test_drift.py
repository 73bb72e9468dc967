# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Drift of accelerators is reported by the next inventory: in the log, by notification, in the node's history and its state.

The inventories are read from an emulated machine; the notifications go through oslo.messaging's notifier to its test driver.
"""

import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from ironic import objects
from ironic.common import rpc, states
from ironic.conductor import task_manager
from oslo_messaging.notify import _impl_test

from baremetal_acc.emulator.image import build_image
from baremetal_acc_ironic.state import node_store
from tests.ironic.case import GPU_NEW, GPU_OLD, IronicCase

FORGED = '96.00.99.00.99'
COLLECTIONS = ('*/HGX_Baseboard_0/Processors*', '*/Chassis*')


def shape(value: Any) -> Any:
    """A message with the kinds of its values in place of them; names and versions of objects stay, and the kind of a change."""
    if isinstance(value, dict):
        return {
            name: item
            if (name.startswith('ironic_object.') and isinstance(item, str)) or name in ('kind', 'event_type')
            else shape(item)
            for name, item in value.items()
            if name != 'ironic_object.changes'
        }
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(record)


class DriftCase(IronicCase):
    """A node whose accelerators were looked at once, and listeners on every channel."""

    def setUp(self) -> None:
        super().setUp()
        # Ironic's database migrations configure logging anew: they drop pytest's handler and silence loggers that are there.
        self._lines = Lines()
        for name in ('drift', 'notification'):
            logger = logging.getLogger(f'baremetal_acc_ironic.reporting.{name}')
            logger.disabled = False
            logger.setLevel(logging.INFO)
            self.addCleanup(logger.setLevel, logging.NOTSET)
            logger.addHandler(self._lines)
            self.addCleanup(logger.removeHandler, self._lines)
        self.listen()
        self.take_stock()
        self.forget()

    def take_stock(self) -> str:
        """The step by itself; what it leaves behind for people to read."""
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        return '\n'.join(self.history())

    def inspect(self, by: str = 'redfish-acc') -> None:
        """Inspection by the conductor."""
        self.node.refresh()
        self.node.inspect_interface, self.node.provision_state = by, states.MANAGEABLE
        self.node.save()
        self.service.inspect_hardware(self.context, self.node.uuid)
        self.node.refresh()
        assert states.MANAGEABLE == self.node.provision_state, self.node.last_error

    def forget(self) -> None:
        """Listen for what comes from now on."""
        self._lines.records.clear()
        _impl_test.reset()

    def notified(self) -> list[dict[str, Any]]:
        """Payloads of our notifications, each with its level."""
        sent = []
        for _, message, level, _ in _impl_test.NOTIFICATIONS:
            if message['event_type'] == 'baremetal.accelerator.drift.success':
                assert 'ironic-conductor.test-host' == message['publisher_id']
                sent.append({'level': level, **message['payload']['ironic_object.data']})
        return sent

    def logged(self) -> list[tuple[str, str]]:
        """Level and text of our lines on drift."""
        return [(r.levelname, r.getMessage()) for r in self._lines.records if ' found by ' in r.getMessage()]

    def told(self) -> list[str]:
        """The kinds of change that all channels agree on."""
        changes = [c['ironic_object.data'] for payload in self.notified() for c in payload['changes']]
        assert [c['text'] for c in changes] == [text.split(': ', 2)[2] for _, text in self.logged()]
        if changes:
            drift = self.node_state.drift
            assert drift is not None
            assert changes[-1]['text'] == drift.changes[-1]
            assert any(changes[-1]['text'] in event for event in self.history())
        return [c['kind'] for c in changes]

    def capabilities(self) -> dict[str, str]:
        """Of the node."""
        self.node.refresh()
        return dict(c.split(':') for c in self.node.properties.get('capabilities', '').split(',') if c)

    def rows(self) -> set[str]:
        """Names of the node's firmware components."""
        return {c.component for c in objects.FirmwareComponentList.get_by_node_id(self.context, self.node.id)}


class TestGpus(DriftCase):
    """Two GPUs."""

    def test_nothing_is_told_of_a_machine_that_is_as_it_was(self) -> None:
        """By step, by inspection, by Ironic's own look: every time and every session is another."""
        self.take_stock()
        self.inspect()
        assert [] == self.told()
        assert not [event for event in self.history() if 'changed' in event]

    def test_a_card_that_is_gone_is_told_everywhere_and_taken_off_the_node(self) -> None:
        """Log, notification, history and key say the same; its capability and rows go, an operator's own stay."""
        self.node.refresh()
        self.node.properties = self.node.properties | {'capabilities': f'boot_mode:uefi,odd,{"accelerators_gpu:2"}'}
        self.node.save()
        objects.TraitList.create(self.context, self.node.id, ['CUSTOM_GOLD'])
        gone = self.gpu(1)
        self.machine.fault('device-absent', device='GPU_1')
        self.take_stock()
        assert ['gone'] == self.told()
        (payload,) = self.notified()
        assert ('WARN', 'node-1', self.node.uuid, 0) == (
            payload['level'],
            payload['node_name'],
            payload['node_uuid'],
            payload['more'],
        )
        ((level, text),) = self.logged()
        assert 'WARNING' == level
        assert re.match(
            rf'Node {self.node.uuid}: drift found by \w+: NVIDIA H100 80GB HBM3 GPU_1 \({gone}\) is gone, was at', text
        )
        assert 'boot_mode:uefi,odd,accelerators:1,accelerators_gpu:1' == self.node.properties['capabilities']
        assert not any('GPU_1' in row for row in self.rows())
        assert ['CUSTOM_GOLD'] == [
            t for t in objects.TraitList.get_by_node_id(self.context, self.node.id).get_trait_names() if 'ACC' not in t
        ]
        everything = str(_impl_test.NOTIFICATIONS) + str(self.logged()) + str(self.history())
        assert self.machine.bmcs['host'].password not in everything
        self.forget()
        self.take_stock()
        assert [] == self.told(), 'told once'

    def test_swapped_cards_are_told_and_do_not_become_known_by_a_look(self) -> None:
        """Taking stock stores the new cards; verification still asks for those that were there."""
        self.inspect()
        known = self.node_state.known
        assert 2 == len(known)
        other = self._start_machine(self.product, **(self.parameters | {'seed': 99}))
        self.node.driver_info = self.driver_info(other)
        self.node.save()
        self.forget()
        self.take_stock()
        assert ['swapped', 'swapped'] == self.told()
        assert known == self.node_state.known
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        assert 'present: expected the card seen before, found absent' in self.node.last_error
        self.clear()
        self.inspect()
        assert known.isdisjoint(self.node_state.known), 'an operator who inspects again accepts what is there'

    def test_firmware_written_behind_our_back_is_told_before_cleaning_overwrites_it(self) -> None:
        """Cleaning tells what it found, once, and not what it flashed itself."""
        forged = build_image(model='h100', component='gpu', version=FORGED)
        self.machine.power('On')
        assert True is self.machine.tenant_write('GPU_0', forged)['written']
        self.machine.power('ForceRestart')
        assert FORGED == self.version('host/HGX_FW_GPU_0')
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert GPU_NEW == self.version('host/HGX_FW_GPU_0')
        assert ['firmware'] == self.told()
        ((_, text),) = self.logged()
        assert f'firmware HGX_FW_GPU_0: {GPU_OLD} before, {FORGED} now' in text
        self.forget()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert [] == self.told(), 'what the steps did themselves is no drift'

    def test_a_collection_that_fails_takes_no_card_away(self) -> None:
        """Not seen is told once; capabilities, rows and what must be there stay, even after an inspection."""
        self.inspect()
        known, rows, capabilities = self.node_state.known, self.rows(), self.capabilities()
        assert '2' == capabilities['accelerators_gpu']
        for uri in COLLECTIONS:
            self.machine.fault('http-status', uri=uri, status=400)
        self.take_stock()
        assert ['not-seen', 'not-seen'] == self.told()
        self.forget()
        self.inspect()
        assert [] == self.told(), 'a gap that stays is told once'
        assert (known, rows, capabilities) == (self.node_state.known, self.rows(), self.capabilities())
        self.machine.clear_faults()
        self.take_stock()
        assert [] == self.told()

    def test_a_card_that_went_behind_a_gap_is_told_when_the_gap_is_gone(self) -> None:
        """What was known is not forgotten meanwhile."""
        for uri in COLLECTIONS:
            self.machine.fault('http-status', uri=uri, status=400)
        self.take_stock()
        assert ['not-seen', 'not-seen'] == self.told()
        self.forget()
        self.machine.clear_faults()
        self.machine.fault('device-absent', device='GPU_1')
        self.take_stock()
        assert ['gone'] == self.told()

    def test_a_failed_verification_tells_what_it_saw(self) -> None:
        """And what has been told is not told again by the next look."""
        self.inspect()
        self.forget()
        self.machine.fault('device-absent', device='GPU_1')
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        assert ['gone'] == self.told()
        self.clear()
        self.forget()
        self.take_stock()
        assert [] == self.told()

    def test_cards_that_come_in_addition_are_good_news(self) -> None:
        """At the level info, in the log as in the notification."""
        fault = self.machine.fault('device-absent', device='GPU_1')
        self.take_stock()
        self.forget()
        self.machine.clear_faults(fault)
        self.take_stock()
        assert ['new'] == self.told()
        assert ('INFO', 'INFO') == (self.notified()[0]['level'], self.logged()[0][0])

    def test_the_documented_notification_is_the_one_that_is_sent(self) -> None:
        """Names, versions, fields and their kinds, down to each change."""
        page = (Path(__file__).parents[2] / 'doc/source/howto/ironic.rst').read_text()
        shown = json.loads(page.split('.. code-block:: json\n', 1)[1].split('\nThe steps\n', 1)[0])
        self.machine.fault('version-lies', device='GPU_0', version=FORGED)
        self.take_stock()
        (sent,) = (message for _, message, _, _ in _impl_test.NOTIFICATIONS if message['event_type'] == shown['event_type'])
        data = sent['payload']['ironic_object.data']
        assert 2 == len(data['changes']), 'both components of the card'
        sent['payload']['ironic_object.data'] = data | {'changes': data['changes'][-1:]}
        assert shape(shown) == shape({name: sent[name] for name in shown})

    def test_it_is_sent_only_at_the_level_that_is_asked_for(self) -> None:
        """As Ironic's own."""
        self.config(notification_level='error')
        self.machine.fault('device-absent', device='GPU_1')
        assert 'is gone, was at' in self.take_stock()
        assert [] == self.notified()

    def test_a_broken_transport_fails_no_step(self) -> None:
        """The drift stands in the history; the log says what went wrong."""
        rpc.VERSIONED_NOTIFIER, kept = None, rpc.VERSIONED_NOTIFIER
        self.addCleanup(setattr, rpc, 'VERSIONED_NOTIFIER', kept)
        self.machine.fault('device-absent', device='GPU_1')
        assert 'is gone, was at' in self.take_stock()
        assert 'the notification baremetal.accelerator.drift could not be sent' in self._lines.records[-1].getMessage()

    def test_a_memory_that_cannot_be_read_costs_one_comparison(self) -> None:
        """Another version wrote it, or somebody changed it: no step fails, and the next look is compared again."""
        self.node.refresh()
        value = dict(self.node.driver_internal_info[node_store.KEY])
        self.node.set_driver_internal_info(node_store.KEY, value | {'seen': 'AAAA'})
        self.node.save()
        self.take_stock()
        assert [] == self.told()
        self.machine.fault('device-absent', device='GPU_1')
        self.take_stock()
        assert ['gone'] == self.told()


class TestSlots(DriftCase):
    """An FPGA with two slots."""

    product = 'fpga-server'
    parameters: ClassVar = {}

    def test_a_function_that_the_tenant_programmed_is_told(self) -> None:
        """By the next look, whoever it is: here Ironic's own at the beginning of a cleaning."""
        image = build_image(kind='function', model='d5005', component='slot', version='6.6.6', function='aes')
        self.machine.power('On')
        assert True is self.machine.tenant_program('FPGA1', 1, image)['written']
        node_store.store(self.node, replace(self.node_state, looked=None))
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.driver.firmware.cache_firmware_components(task)
        assert {'function'} == set(self.told())
        assert 'drift found by cache_firmware_components: FPGA PAC D5005 FPGA1, function Slot1: ' in self.logged()[0][1]
        self.forget()
        self.take_stock()
        assert [] == self.told()
