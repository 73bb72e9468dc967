# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The state of a node fits into its database row and is restored from it, and ``driver_info`` says how its BMCs are reached."""

import json
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ironic import objects
from ironic.common import exception
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.drivers.modules.redfish import utils as redfish_utils
from ironic.tests.unit.objects import utils as obj_utils

from baremetal_acc.errors import AccError, StaleJob
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Scope
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from baremetal_acc_ironic import opts
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import target
from tests.ironic.case import TYPE, IronicCase
from tests.unit.planning import values as v

ROW_BYTES = 65535
"""Of a TEXT column of MySQL (ironic/db/sqlalchemy/models.py)."""


def machine(gpus: int) -> NodeState:
    """A memory with a job over many cards, every lock engaged."""
    cards = [
        v.gpu(
            id=f'uuid:0000{n:04}-aaaa-bbbb-cccc-dddddddddddd',
            primary=v.ref(f'Systems/HGX_Baseboard_0/Processors/GPU_{n}'),
            firmware=tuple(v.component(f'GPU_{n}_{m}') for m in range(4)),
            locks=tuple(
                v.reading(
                    mechanism='nvidia_inband_update_policy',
                    accelerator=f'uuid:0000{n:04}-aaaa-bbbb-cccc-dddddddddddd',
                    place=f'UpdateService/FirmwareInventory/HGX_FW_GPU_{n}_{m}',
                )
                for m in range(4)
            ),
        )
        for n in range(gpus)
    ]
    made = plan(v.inventory(*cards), v.baseline(), v.NODE, (v.image(),), hold=True)
    job = begin(
        made, identity='i', node='n', flow=Flow.CLEAN, step='s', lifecycle=1, now=v.NOW, timeout=timedelta(hours=2)
    )  # fmt: skip
    return NodeState(job=job, evidence=tuple(v.engagement(r) for c in cards for r in c.locks))


class TestMemory(IronicCase):
    """In a real node's row."""

    def test_what_is_stored_comes_back(self) -> None:
        """Small ones stay readable for people."""
        node_store.store(self.node, machine(1))
        assert machine(1) == self.node_state
        assert {'format', 'lifecycle', 'busy', 'state', 'proven'} == self.node.driver_internal_info[node_store.KEY].keys()
        assert node_store.busy(self.node.driver_internal_info)

    def test_a_job_over_sixteen_cards_fits(self) -> None:
        """Large ones are compressed: with Ironic's own keys they stay below what MySQL takes."""
        node_store.store(self.node, machine(16))
        assert machine(16) == self.node_state
        assert ROW_BYTES / 2 > len(json.dumps(self.node.driver_internal_info))

    def test_what_does_not_fit_is_refused_before_anything_is_written(self) -> None:
        """The error names the bound and the argument that helps."""
        huge = NodeState(digest=random.Random(1).randbytes(60000).hex())
        with pytest.raises(AccError, match=r'49152 are allowed .*devices'):
            node_store.store(self.node, huge)
        assert node_store.KEY not in self.node.driver_internal_info

    def test_what_was_tampered_with_is_refused(self) -> None:
        """Nothing is guessed, and nothing that unpacks without end is unpacked."""
        for state in ({'format': 1, 'packed': 'AAAA'}, {'format': 1, 'state': {'lifecycle': 'x'}}, {'format': 2}, []):
            self.node.driver_internal_info = {node_store.KEY: state}
            with pytest.raises(StaleJob):
                node_store.load(self.node)

    def test_a_lifecycle_ends_when_the_node_goes_and_when_it_comes(self) -> None:
        """What was proven stays for the comparison with what was handed over, and is gone when the node is back."""
        mine = machine(1)
        given = mine.given_away(datetime.now(UTC))
        assert (2, True, mine.evidence) == (given.lifecycle, given.handed_over, given.evidence)
        back = given.came_back()
        assert (3, False, (), ()) == (back.lifecycle, back.handed_over, back.evidence, back.overrides)


class TestTarget(IronicCase):
    """How a node's BMCs are reached."""

    def bmcs(self, **info: object) -> dict[str, object]:
        """The target's BMCs, after driver_info was changed."""
        self.node.driver_info = {k: w for k, w in (self.node.driver_info | info).items() if w is not None}
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            return {b.name: b for b in target(task).bmcs}

    def test_a_place_of_several_cards_has_a_record_of_each_and_one_of_a_machine_has_one(self) -> None:
        """A root of trust that is shared: a newer record replaces that of the same card only."""
        cards = (v.GPU, v.FPGA)
        state = NodeState().proven_by([v.engagement(accelerator=a) for a in cards])
        newer = v.engagement(accelerator=v.GPU, at=v.NOW)
        state = state.proven_by([newer])
        assert {(v.GPU, v.NOW), (v.FPGA, v.EARLIER)} == {(e.accelerator, e.at) for e in state.evidence}
        whole = [v.engagement(accelerator=a, scope=Scope.BMC) for a in cards]
        assert [v.FPGA] == [e.accelerator for e in NodeState().proven_by(whole[:1]).proven_by(whole[1:]).evidence]

    def test_every_kind_of_verify_ca_gets_through(self) -> None:
        """Not set, a path, false, and the group's own default: the hardware type has a group of its name."""
        ca = self.node.driver_info['redfish_verify_ca']
        assert True is self.bmcs(redfish_verify_ca=None)['host'].verify_ca
        assert ca == self.bmcs(redfish_verify_ca=ca)['host'].verify_ca
        assert False is self.bmcs(redfish_verify_ca=False)['host'].verify_ca
        self.config(verify_ca=ca, group=TYPE)
        assert ca == self.bmcs(redfish_verify_ca=None)['host'].verify_ca
        assert TYPE == self.node.driver
        assert 'verify_ca' in CONF[TYPE]
        # Ironic's own code speaks to the same BMC with it: a TLS call goes through.
        assert redfish_utils.get_system(self.node).uuid

    def test_a_child_node_may_hold_a_bmc(self) -> None:
        """A DPU that is a node of its own keeps its credentials to itself."""
        child = obj_utils.create_test_node(
            self.context,
            uuid='7c7a1b52-2b8e-4f6d-8a5e-0a1b2c3d4e5f',
            driver=TYPE,
            parent_node=self.node.uuid,
            driver_info=dict(self.node.driver_info) | {'redfish_username': 'dpu-user'},
        )
        found = self.bmcs(acc_bmcs={'dpu': {'node': child.uuid}})
        assert 'dpu-user' == found['dpu'].username
        child.parent_node = None
        child.save()
        with pytest.raises(exception.InvalidParameterValue, match='is not a child of this node'):
            self.bmcs()

    def test_the_id_of_a_system_is_for_further_bmcs(self) -> None:
        """Ironic itself asks for redfish_system_id as for a path; an Id is refused before anything was done."""
        found = self.bmcs(acc_bmcs={'dpu': {'address': '192.0.2.7', 'system': 'Bluefield'}})
        assert 'Bluefield' == found['dpu'].system
        with pytest.raises(
            exception.InvalidParameterValue, match=r"redfish_system_id.*is 'Node0': Ironic itself accepts no Id"
        ):
            self.bmcs(redfish_system_id='Node0')

    def test_what_is_wrong_in_acc_bmcs_is_named(self) -> None:
        """Key and node, and no password."""
        for wrong, why in (
            ('text', 'is not a dictionary'),
            ({'dpu': 'x'}, 'is not a dictionary'),
            ({'host': {'address': 'x'}}, 'choose another name'),
            ({'dpu': {'adress': 'x', 'password': 'hunter2'}}, 'unknown keys: adress'),
            ({'dpu': {'username': 'x'}}, 'has no address'),
            ({'dpu': {'address': 'x', 'verify_ca': 7}}, 'verify_ca'),
            ({'dpu': {'node': 'no-uuid'}}, 'node is not a UUID'),
        ):
            with pytest.raises(exception.InvalidParameterValue, match=why) as caught:
                self.bmcs(acc_bmcs=wrong)
            assert 'hunter2' not in str(caught.value)
        assert 'https://192.0.2.7' == self.bmcs(acc_bmcs={'dpu': {'address': '192.0.2.7'}})['dpu'].address

    def test_exposure_is_one_of_three(self) -> None:
        """What is misspelt does not count as harmless."""
        with pytest.raises(exception.InvalidParameterValue, match='it can be: tenant, service, none'):
            self.bmcs(acc_exposure='nobody')


class TestRecord(IronicCase):
    """What Ironic shows of the accelerators."""

    def test_rows_of_gone_cards_go_and_rows_of_others_stay(self) -> None:
        """A card that may only be hidden keeps its row."""
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.driver.firmware.cache_firmware_components(task)
            before = self.names()
            assert {'bios', 'bmc', 'gpu:HGX_FW_GPU_0', 'gpu:HGX_FW_GPU_1'} <= before
            self.machine.fault('device-absent', device='GPU_1')
            task.driver.firmware.cache_firmware_components(task)
        assert {'bios', 'bmc', 'gpu:HGX_FW_GPU_0'} <= self.names()
        assert not any('GPU_1' in name for name in self.names())

    def names(self) -> set[str]:
        """Names of the node's firmware components."""
        return {c.component for c in objects.FirmwareComponentList.get_by_node_id(self.context, self.node.id)}

    def test_traits_of_others_stay(self) -> None:
        """Only what we set is taken away, whatever its name."""
        objects.TraitList.create(self.context, self.node.id, ['CUSTOM_GOLD', 'CUSTOM_ACC_OPERATORS', 'CUSTOM_ACC_GPU'])
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            ours = record.sync_traits(task, {'CUSTOM_ACC_GPU', 'CUSTOM_ACC_FPGA'}, ())
            assert frozenset({'CUSTOM_ACC_FPGA'}) == ours
            assert frozenset() == record.sync_traits(task, (), ours)
            kept = set(task.node.traits.get_trait_names())
            task.node.save()
        assert {'CUSTOM_GOLD', 'CUSTOM_ACC_OPERATORS', 'CUSTOM_ACC_GPU'} == kept

    def test_the_digest_tells_inventories_apart_and_not_their_times(self) -> None:
        """It says whether what stands in the inspection store is what we put there."""
        before, later = v.inventory(v.gpu(), v.fpga()), v.inventory(v.gpu(), v.fpga(), at=datetime.now(UTC))
        assert record.digest(before) == record.digest(later)
        assert record.digest(before) != record.digest(v.inventory(v.gpu(), v.fpga(serial='S9')))


def test_the_options_can_be_registered_twice() -> None:
    """Every module that needs them registers them."""
    opts.register(CONF)
    opts.register(CONF)
    assert 'publish' in CONF.baremetal_acc


def test_only_one_module_touches_the_key(tree: Path) -> None:
    """The shape of what is stored is one module's business; a key of Ironic's own is none of it."""
    touches = r'(set|del)_driver_internal_info\((?!_STEPS_VALIDATED\b)|memory\.KEY'
    guilty = [
        path.name
        for path in (tree / 'interfaces/baremetal_acc_ironic').glob('*.py')
        if path.name != 'node.py' and re.search(touches, path.read_text())
    ]
    assert [] == guilty
