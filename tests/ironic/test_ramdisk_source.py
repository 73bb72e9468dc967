# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A ramdisk that somebody other than an operator may have chosen does not count as the operator's: the host is powered off."""

import ast
import inspect
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from ironic.common import pxe_utils, states
from ironic.conductor import task_manager
from ironic.drivers import utils as driver_utils
from ironic.drivers.modules import agent_client, deploy_utils, image_utils, pxe_base
from ironic.drivers.modules.redfish import boot as redfish_boot

from baremetal_acc.model.job import Flow
from baremetal_acc_ironic.authorization import ramdisk_source
from baremetal_acc_ironic.hardware import IpmiAccHardware, RedfishAccHardware
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.steps import host_hold, runner
from tests.ironic.test_api import LESSEE_ADMIN, OWNER_MEMBER, ApiCase

RECONCILE = 'reconcile_accelerators'
OTHERS = 'http://192.0.2.66/other'

NO_MATTER = {
    'force_persistent_boot_device': 'how long a boot device lasts, not what it holds',
    'force_boot_device': 'the older name of that',
    'deploy_forces_oob_reboot': 'how the host is restarted after imaging',
    'image_download_source': "where the instance's image comes from",
    'image_http_proxy': "where the instance's image comes from",
    'image_https_proxy': "where the instance's image comes from",
    'image_no_proxy': "where the instance's image comes from",
}
"""What boot and deploy interfaces take from driver_info and what chooses no ramdisk."""

MODULES = (pxe_utils, driver_utils, agent_client, deploy_utils, image_utils, pxe_base, redfish_boot)


def chooses(key: str) -> bool:
    """It is part of the digest."""
    return key in ramdisk_source.KEYS or key.startswith(ramdisk_source.PREFIX)


def properties() -> set[str]:
    """Every key that a boot, deploy or rescue interface of our hardware types says it takes."""
    found: set[str] = set(redfish_boot.COMMON_PROPERTIES)
    with (
        mock.patch('ironic.common.pxe_utils.place_loaders_for_boot'),
        mock.patch('ironic.common.pxe_utils.create_ipxe_boot_script'),
    ):
        for hardware in (RedfishAccHardware(), IpmiAccHardware()):
            for kind in ('boot', 'deploy', 'rescue'):
                for interface in getattr(hardware, f'supported_{kind}_interfaces'):
                    found |= set(interface().get_properties())
    return found


def read_by(module: ModuleType) -> set[str]:
    """The keys that a module of Ironic reads of driver_info by name."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        of: Any = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == 'get' and node.args:
            of, key = node.func.value, node.args[0]
        elif isinstance(node, ast.Subscript):
            of, key = node.value, node.slice
        if of is not None and ast.unparse(of).endswith(('driver_info', 'd_info')) and isinstance(key, ast.Constant):
            found.add(str(key.value))
    return found


def test_every_key_that_chooses_a_ramdisk_is_known() -> None:
    """What the interfaces of our hardware types say they take either is part of the digest, or has a reason not to be."""
    found = properties()
    assert {'deploy_kernel', 'deploy_iso', 'bootloader', 'rescue_ramdisk', 'ansible_clean_playbook'} <= found
    assert set() == {key for key in found if not chooses(key) and key not in NO_MATTER}
    assert set() == {key for key in NO_MATTER if chooses(key)}


def test_nor_is_one_missed_that_ironics_code_reads_and_does_not_name() -> None:
    """Deprecated names, and the template for PXE."""
    found = set().union(*(read_by(module) for module in MODULES))
    assert {'pxe_template', 'config_via_floppy', 'external_http_url', 'agent_verify_ca'} <= found
    # What parse_driver_info has made of it, and what no ramdisk depends on.
    made = {'can_provide_config', 'image_source'}
    assert set() == {key for key in found if not chooses(key) and key not in NO_MATTER} - made


@pytest.mark.parametrize('key', sorted(ramdisk_source.KEYS))
def test_each_key_alone_makes_another_ramdisk(key: str) -> None:
    """Even one that is empty: some of Ironic's code takes that for a value."""
    node = mock.Mock(driver_info={'redfish_address': 'https://192.0.2.1'}, instance_info={}, network_data={})
    none = ramdisk_source.digest(node)
    assert ramdisk_source.trusted(node, NodeState())
    for value in ('', OTHERS):
        node.driver_info[key] = value
        assert not ramdisk_source.trusted(node, NodeState())
        assert not ramdisk_source.trusted(node, NodeState(ramdisk=none))
        assert ramdisk_source.trusted(node, NodeState(ramdisk=ramdisk_source.digest(node)))


def test_what_the_instance_says_is_nobodys_to_take() -> None:
    """Neither the parameters of the ramdisk's kernel, nor those of a ramdisk that is the instance."""
    for key in ramdisk_source.INSTANCE_KEYS:
        node = mock.Mock(driver_info={}, instance_info={key: ''}, network_data={})
        assert not ramdisk_source.trusted(node, NodeState(ramdisk=ramdisk_source.digest(node)))


def test_network_data_is_part_of_it() -> None:
    """By it the ramdisk finds Ironic."""
    node = mock.Mock(driver_info={}, instance_info={}, network_data={'links': []})
    assert not ramdisk_source.trusted(node, NodeState())
    assert ramdisk_source.trusted(node, NodeState(ramdisk=ramdisk_source.digest(node)))


class TestSource(ApiCase):
    """A node that was enrolled with a ramdisk of its own."""

    parameters = {'gpus': 1}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.node.driver_info = self.node.driver_info | {
            'deploy_kernel': 'http://192.0.2.1/k',
            'deploy_ramdisk': 'http://192.0.2.1/r',
        }
        self.node.save()

    def trusted(self) -> bool:
        """As it stands now."""
        return ramdisk_source.trusted(self.node, self.node_state)

    def on_beside_open_locks(self) -> bool:
        """The host may stay on in cleaning, with something that calls itself the ramdisk."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.node.driver_internal_info = task.node.driver_internal_info | {'agent_url': 'https://192.0.2.1:9999'}
            return not host_hold.must_hold_host(task, Flow.CLEAN)

    def write(self, headers: dict[str, str], path: str, value: Any) -> None:
        """Change one field through the API."""
        change = [{'op': 'add', 'path': path, 'value': value}]
        self.app.patch_json(f'/v1/nodes/{self.node.uuid}', change, headers=headers, status=200)
        self.node.refresh()

    def test_a_node_without_an_owner_has_the_operators(self) -> None:
        """It is taken when the flow begins, and again when the operator has changed it."""
        assert not self.trusted()
        self.cleaned_first()
        assert (True, True) == (self.trusted(), self.on_beside_open_locks())
        self.node.owner = self.node.lessee = None
        self.node.driver_info = self.node.driver_info | {'deploy_iso': 'http://192.0.2.1/new'}
        self.node.save()
        assert (False, False) == (self.trusted(), self.on_beside_open_locks())
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        assert (True, True) == (self.trusted(), self.on_beside_open_locks())

    def test_a_member_of_the_owner_chooses_none(self) -> None:
        """Not even by a cleaning that the operator begins and that knows nothing of it."""
        self.cleaned_first()
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        self.write(OWNER_MEMBER, '/driver_info/deploy_ramdisk', OTHERS)
        for steps in ((), ('verify_accelerators',), ('lock_accelerators',)):
            self.cleaned(*steps)
            assert (False, False) == (self.trusted(), self.on_beside_open_locks()), steps

    def test_an_operators_reconciling_by_hand_takes_it(self) -> None:
        """Before the first step, for Ironic boots the ramdisk before that."""
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        assert states.CLEANFAIL == self.cleaned('verify_accelerators')
        assert not self.trusted()
        self.clear()
        begun = []
        with mock.patch.object(runner, 'start', side_effect=lambda *_: begun.append(self.trusted())):
            self.clean(RECONCILE)
        assert [True] == begun

    def test_an_owner_who_has_gone_has_left_what_it_wrote(self) -> None:
        """A flow has met the owner; afterwards the node is nobody's."""
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        self.cleaned()
        self.node.owner = self.node.lessee = None
        self.node.save()
        self.cleaned()
        assert (True, False) == (self.node_state.owned, self.trusted())

    def test_an_admin_of_the_lessee_has_a_word_in_none(self) -> None:
        """Ironic hands it to the kernel of every ramdisk."""
        self.cleaned_first()
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        self.write(LESSEE_ADMIN, '/instance_info/kernel_append_params', 'ipa-api-url=https://192.0.2.66')
        assert (False, False) == (self.trusted(), self.on_beside_open_locks())
        self.cleaned(RECONCILE)
        assert (False, False) == (self.trusted(), self.on_beside_open_locks())

    def test_a_node_that_is_validated_has_nothing_taken(self) -> None:
        """No flow begins by that."""
        self.node.owner = self.node.lessee = None
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.validate(task)
        self.node.refresh()
        assert None is node_store.load(self.node).ramdisk
