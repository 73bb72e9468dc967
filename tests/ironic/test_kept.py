# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Stored accelerator inventory survives Ironic's own inspections, out of band and in band, which run for real.

For in-band inspection the test passes the data of a ramdisk to the conductor; everything after that is Ironic's code.
"""

from typing import Any
from unittest import mock

from ironic import objects
from ironic.common import states
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.drivers.modules import fake, inspect_utils
from ironic.drivers.modules.network import noop as network_noop
from stevedore.extension import Extension

from baremetal_acc_ironic import hook
from baremetal_acc_ironic.reporting import record
from tests.ironic import releases
from tests.ironic.case import TYPE, IronicCase

RAMDISK = {
    'inventory': {
        'interfaces': [{'name': 'eth0', 'mac_address': '52:54:00:12:34:56', 'ipv4_address': '192.0.2.5'}],
        'cpu': {'count': 8, 'architecture': 'x86_64'},
        'memory': {'physical_mb': 1024},
        'disks': [],
        'boot': {'current_boot_mode': 'uefi', 'pxe_interface': '52:54:00:12:34:56'},
        'bmc_address': '192.0.2.9',
    },
    'plugin_data': {'root_disk': None, 'boot_interface': None, 'lldp_raw': {}},
}


class InspectionCase(IronicCase):
    """Two GPUs, inspected by us."""

    def setUp(self) -> None:
        super().setUp()
        # On a real conductor a boot interface would start the ramdisk; here one says that it does.
        self.config(group='inspector', power_off=False)
        if 'pre_create_ports' in CONF.inspector:  # since Ironic 39
            self.config(group='inspector', pre_create_ports=False)
        self.config(group='service_catalog', endpoint_override='http://127.0.0.1:6385')
        for interface in (fake.FakeBoot, network_noop.NoopNetwork):
            patcher = mock.patch.object(interface, 'validate_inspection', return_value=None)
            patcher.start()
            self.addCleanup(patcher.stop)
        self.inspect(TYPE)
        self.node.provision_state = states.MANAGEABLE
        self.node.save()

    def inspect(self, by: str) -> None:
        """Inspection by the conductor, with an interface of ours or of Ironic's own."""
        self.node.refresh()
        self.node.inspect_interface, self.node.provision_state = by, states.MANAGEABLE
        self.node.save()
        self.service.inspect_hardware(self.context, self.node.uuid)
        self.node.refresh()
        if by == 'agent':
            assert states.INSPECTWAIT == self.node.provision_state, self.node.last_error
        else:
            assert states.MANAGEABLE == self.node.provision_state, self.node.last_error

    def ramdisk_calls(self, **plugin_data: Any) -> None:
        """A ramdisk sends what it found, and what else it likes."""
        sent = RAMDISK['plugin_data'] | plugin_data
        self.service.continue_inspection(self.context, self.node.uuid, RAMDISK['inventory'], sent)
        self.node.refresh()
        assert states.MANAGEABLE == self.node.provision_state, self.node.last_error

    def with_hook(self, interface: str) -> None:
        """As if the operator had named our hook among those of an interface."""
        self.node.refresh()
        self.node.inspect_interface = interface
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            hooks = task.driver.inspect.hooks
        ours = Extension(hook.NAME, None, hook.AcceleratorsKept, hook.AcceleratorsKept())
        hooks.append(ours)
        self.addCleanup(hooks.remove, ours)

    def stored(self) -> dict[str, Any]:
        """The plugin data of the node, as the API hands it out."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found: dict[str, Any] = inspect_utils.get_inspection_data(task.node, task.context)['plugin_data']
        return found

    def kept(self) -> list[str] | None:
        """Identities of the devices that are in the store; None if nothing of ours is."""
        ours = self.stored().get(record.PLUGIN_KEY)
        return None if ours is None else [a['id'] for a in ours['inventory']['accelerators']]


class TestKept(InspectionCase):
    """What is stored outlives other inspections."""

    def test_ironics_own_inspection_takes_away_what_is_stored(self) -> None:
        """Out of band, without our hook: that is why there is one. The next look brings it back; capabilities stay."""
        before = self.kept()
        assert before is not None
        assert 2 == len(before)
        self.inspect('redfish')
        assert self.kept() is None
        assert 'accelerators_gpu:2' in self.node.properties['capabilities']
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert before == self.kept()

    def test_the_hook_keeps_it_through_an_inspection_out_of_band(self) -> None:
        """Beside what Ironic found."""
        before = self.stored()[record.PLUGIN_KEY]
        self.with_hook('redfish')
        self.inspect('redfish')
        assert before == self.stored()[record.PLUGIN_KEY]

    def test_an_inspection_in_band_takes_nothing_away(self) -> None:
        """Ironic asks for firmware versions right after it, and that look notices that our part is gone."""
        before = self.kept()
        self.inspect('agent')
        self.ramdisk_calls()
        assert before == self.kept()
        assert 'lldp_raw' in self.stored(), 'and what the ramdisk sent is there, too'

    def test_the_hook_keeps_it_through_an_inspection_in_band(self) -> None:
        """At once, with what had been seen then."""
        before = self.stored()[record.PLUGIN_KEY]
        self.with_hook('agent')
        self.inspect('agent')
        self.machine.reset_log()
        self.ramdisk_calls()
        assert before == self.stored()[record.PLUGIN_KEY]

    def test_a_ramdisk_cannot_speak_in_our_name(self) -> None:
        """Whatever runs on the host may send plugin data: what it sends as ours is replaced, with the hook and without."""
        before = self.kept()
        forged = {'format': 1, 'inventory': self.stored()[record.PLUGIN_KEY]['inventory'] | {'accelerators': []}}
        if releases.READS_VERSIONS_AFTER_INSPECTION:
            self.inspect('agent')
            self.ramdisk_calls(baremetal_acc=forged)
            assert before == self.kept()
        self.with_hook('agent')
        for hostile in (forged, 'text', {'inventory': 7}, []):
            self.inspect('agent')
            self.ramdisk_calls(baremetal_acc=hostile)
            assert before == self.kept()

    def test_the_hook_does_nothing_to_a_node_without_accelerators(self) -> None:
        """It runs for every node of a conductor, whatever its hardware type."""
        node = self.make_node(uuid='7c7a1b52-2b8e-4f6d-8a5e-0a1b2c3d4e5f', name='other')
        with task_manager.acquire(self.context, node.uuid, shared=True) as task:
            data = {'mine': 1}
            hook.AcceleratorsKept().preprocess(task, {}, data)
        assert {'mine': 1} == data

    def test_the_hook_fails_no_inspection(self) -> None:
        """A key of ours that cannot be read is no reason."""
        self.node.driver_internal_info = {'baremetal_acc': {'format': 99}}
        self.node.save()
        self.with_hook('redfish')
        self.inspect('redfish')
        assert self.kept() is None

    def test_without_a_store_drift_is_told_nevertheless(self) -> None:
        """``[inventory] data_backend = none`` keeps no inventory; what the next look needs lies in our own key."""
        self.config(group='inventory', data_backend='none')
        self.inspect(TYPE)
        self.machine.fault('device-absent', device='GPU_1')
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert any('GPU_1' in event and 'is gone' in event for event in self.history())

    def test_ironics_own_inspection_hides_no_drift(self) -> None:
        """What the next look is compared with is not where Ironic writes."""
        self.machine.fault('device-absent', device='GPU_1')
        self.inspect('redfish')
        self.inspect(TYPE)
        assert 1 == sum('is gone' in event for event in self.history())
        drift = self.node_state.drift
        assert drift is not None
        assert 'inspection' == drift.by

    def test_capabilities_and_traits_of_others_outlive_all_of_it(self) -> None:
        """Ours follow the cards, what operators set stays."""
        path = self._folder / 'baseline.toml'
        path.write_text('format = 1\n[[rule]]\nname = "all"\nblock = []\n')
        self.node.properties = self.node.properties | {'capabilities': 'profile:gold,accelerators_fpga:7,accelerators:9'}
        self.node.save()
        objects.TraitList.create(self.context, self.node.id, ['CUSTOM_GOLD', 'CUSTOM_ACC_RACK_7'])
        self.inspect(TYPE)
        with_cards = self.traits()
        assert {'CUSTOM_GOLD', 'CUSTOM_ACC_RACK_7'} < with_cards
        assert 'profile:gold,boot_mode:uefi,accelerators:2,accelerators_gpu:2' == self.node.properties['capabilities']
        for device in ('GPU_0', 'GPU_1'):
            self.machine.fault('device-absent', device=device)
        self.inspect('redfish')
        assert with_cards == self.traits()
        self.inspect(TYPE)
        assert {'CUSTOM_GOLD', 'CUSTOM_ACC_RACK_7'} == self.traits()
        assert 'profile:gold,boot_mode:uefi,accelerators:0' == self.node.properties['capabilities']

    def traits(self) -> set[str]:
        """Of the node."""
        return set(objects.TraitList.get_by_node_id(self.context, self.node.id).get_trait_names())
