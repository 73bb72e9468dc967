# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""With both hardware types in one conductor the periodics work on each node once, and do conductor-wide work once."""

from collections import Counter
from typing import Any
from unittest import mock

from ironic.common import states

from baremetal_acc_ironic import placement_setup
from baremetal_acc_ironic.firmware import AccFirmware, IpmiAccFirmware, RedfishAccFirmware
from baremetal_acc_ironic.periodics import availability, recovery, watch
from baremetal_acc_ironic.periodics.workers import workers
from baremetal_acc_ironic.state import node_state, node_store
from baremetal_acc_ironic.steps import runner, wall_clock
from tests.ironic.case import TYPE
from tests.ironic.ipmi_case import IPMI, IpmiCase

PERIODICS = ('turn_jobs', 'recover_jobs', 'watch_nodes', 'keep_vocabulary', 'tell_fitness')


class TestBothTypes(IpmiCase):
    """Two nodes of each, whose jobs are not of this test."""

    def _configure(self) -> None:
        """With a hardware type of Ironic's own, too: a node may be moved to it while our key is in it."""
        super()._configure()
        self.config(enabled_hardware_types=[TYPE, IPMI, 'fake-hardware'])
        self.config(
            enabled_power_interfaces=[TYPE, IPMI, 'fake'], enabled_management_interfaces=['redfish', 'ipmitool', 'noop', 'fake']
        )

    def setUp(self) -> None:
        super().setUp()
        self.nodes = [self.waiting(n, driver) for n, driver in enumerate((TYPE, IPMI, TYPE, IPMI))]

    def waiting(self, number: int, driver: str) -> Any:
        """A node that waits with a job in its key; what the job is does not matter."""
        values: dict[str, Any] = {f'{name}_interface': driver for name in ('firmware', 'inspect', 'power')}
        return self.make_node(
            name=f'{driver}-{number}',
            uuid=f'{number:08d}-0000-4000-8000-000000000000',
            driver=driver,
            provision_state=states.CLEANWAIT,
            driver_internal_info={node_store.KEY: {'format': node_state.FORMAT, 'busy': True}},
            **values,
        )

    def periodics(self) -> list[Any]:
        """Those of ours that Ironic's conductor has collected."""
        found = [call for call, _, _ in self.service._periodic_task_callables]
        return [c for c in found if isinstance(getattr(c, '__self__', None), AccFirmware) and c.__name__ in PERIODICS]

    def rounds(self, name: str) -> None:
        """Each of them once, as they come: of either interface first."""
        for call in self.periodics():
            if call.__name__ == name:
                call(self.service, self.context)

    def test_ironic_collects_the_periodics_of_both(self) -> None:
        """Five of each: it goes by classes, and inherited ones count."""
        owners = Counter((type(call.__self__), call.__name__) for call in self.periodics())
        assert dict.fromkeys(((c, n) for c in (RedfishAccFirmware, IpmiAccFirmware) for n in PERIODICS), 1) == owners

    def test_each_node_is_turned_and_looked_after_once_in_a_round(self) -> None:
        """Whichever interface's periodic comes first. One that was given another interface is none of ours any more."""
        other = self.waiting(4, IPMI)
        other.driver, other.power_interface = 'fake-hardware', 'fake'
        other.firmware_interface, other.inspect_interface, other.management_interface = 'no-firmware', 'no-inspect', 'fake'
        other.save()
        names = sorted(node.name for node in self.nodes)
        turned: list[str] = []
        with (
            mock.patch.object(runner, 'turn', lambda task: turned.append(task.node.name)),
            mock.patch.object(recovery, 'recover', lambda task: turned.append(task.node.name)),
        ):
            self.rounds('turn_jobs')
            assert names == sorted(turned)
            turned.clear()
            for node in (*self.nodes, other):
                node.refresh()
                node.provision_state = states.AVAILABLE
                node.save()
            self.rounds('recover_jobs')
            assert names == sorted(turned)

    def test_each_node_is_watched_once_in_a_round(self) -> None:
        """Neither type's round forgets what is known of the other's nodes."""
        seen: list[str] = []
        for node in self.nodes:
            node.provision_state = states.ACTIVE
            node.driver_internal_info = {}
            node.save()

        def look(task: Any, rounds: watch.WatchRounds, due: Any) -> None:
            seen.append(task.node.name)
            rounds.last[task.node.uuid] = rounds.first[task.node.uuid] = due

        with mock.patch.object(watch, 'look_after', look):
            self.rounds('watch_nodes')
        assert sorted(node.name for node in self.nodes) == sorted(seen)
        assert {node.uuid for node in self.nodes} <= watch.rounds_of(self.service).last.keys()

    def test_what_is_for_the_whole_conductor_is_done_once(self) -> None:
        """The names that placement has to know, and what it has of nodes that are gone or have another interface."""
        with (
            mock.patch.object(placement_setup, 'keep') as kept,
            mock.patch.object(availability, 'hand_out') as told,
        ):
            self.rounds('keep_vocabulary')
            self.rounds('tell_fitness')
        assert (1, 1) == (kept.call_count, told.call_count)

    def test_a_node_of_either_type_is_none_that_has_another_interface(self) -> None:
        """What such a node offers is withdrawn; of ours only what is not fit is."""
        self.config(group='baremetal_acc', publish=True)
        other = self.nodes[0]
        other.firmware_interface = 'no-firmware'
        other.save()
        with mock.patch.object(availability, '_begin_burial'):
            availability.hand_out(self.service, self.context, wall_clock.now())
        rounds = availability.rounds_of(self.service)
        assert ({node.uuid for node in self.nodes[1:]}, {other.uuid}) == (rounds.mine, rounds.others.keys())

    def test_where_one_type_is_enabled_its_periodics_do_it(self) -> None:
        """Whoever comes first leads, for as long as the conductor runs."""
        one, other = IpmiAccFirmware(), RedfishAccFirmware()
        ours = workers(mock.Mock())
        assert [True, False, True, False] == [ours.led_by(i) for i in (one, other, one, other)]

    def test_metrics_bear_the_name_of_the_interface(self) -> None:
        """As before for the one that was there before."""
        sent: list[str] = []
        with mock.patch('baremetal_acc_ironic.firmware.METRICS.send_timer', lambda name, _: sent.append(name)):
            for interface in (RedfishAccFirmware(), IpmiAccFirmware()):
                interface.keep_vocabulary(self.service, self.context)
        assert ['RedfishAccFirmware.keep_vocabulary', 'IpmiAccFirmware.keep_vocabulary'] == [
            '.'.join(n.split('.')[-2:]) for n in sent
        ]
