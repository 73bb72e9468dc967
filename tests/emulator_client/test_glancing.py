# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a round of the integrity watch costs when nothing has changed, and what it notices: emulated machines over HTTPS."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from baremetal_acc.bmc.driver import BmcAddress, Look
from baremetal_acc.bmc.registry import for_address
from baremetal_acc.bmc.resource_digest import digest
from baremetal_acc.errors import AccError
from baremetal_acc.execution import Target, Tools, integrity_watch, observe
from baremetal_acc.execution.integrity_watch import WatchSessions
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import BmcName
from baremetal_acc.model.watched_resource import WatchedResource
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts

WITHIN = timedelta(seconds=60)


class NoImages:
    """Nothing is written here."""

    def open(self, image: Image) -> Any:
        """None."""
        raise AccError(image.name)


class Watched:
    """A machine that was looked at once, and the sessions that are kept with it."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.opened: list[Any] = []
        bmcs = [
            BmcAddress(
                name=BmcName(name),
                address=b.address,
                username=b.username,
                password=b.password,
                verify_ca=str(b.verify_ca),
                system=b.system,
            )
            for name, b in machine.bmcs.items()
        ]
        self.target = Target(name='node', node=NodeFacts(name='node'), bmcs=tuple(bmcs))
        self.tools = Tools(
            connect=self.connect, mechanisms=mechanisms(), baseline=Baseline(rules=()), catalogue=(), images=NoImages()
        )
        self.sessions = WatchSessions()
        self.kept = self.sessions.for_target('node', self.connect)
        self.witnesses: tuple[WatchedResource, ...] = ()
        now = datetime.now(UTC)

        def looked(looks: tuple[Look, ...], inventory: Inventory) -> None:
            self.witnesses = integrity_watch.witnesses(looks, inventory, mechanisms(), now)

        self.inventory = observe(self.target, self.tools, now, looked=looked)

    def connect(self, where: BmcAddress) -> Any:
        connection = for_address(where).connect(where)
        self.opened.append(connection)
        return connection

    def glance(self) -> integrity_watch.IntegrityReading:
        return integrity_watch.glance(self.target, self.kept, self.witnesses, WITHIN)

    def requests(self) -> int:
        """That came to the BMCs, counted there; the look may still be logging out meanwhile."""
        counted = [bmc['requests'] for bmc in self.machine.counters().values()]
        return sum(times for bmc in counted for what, times in bmc.items() if not what.startswith('DELETE '))

    def close(self) -> None:
        """Log out while the machine still answers."""
        for connection in self.opened:
            connection.close()


@pytest.mark.parametrize(
    ('product', 'parameters'),
    [
        ('gpu-server', {'gpus': 1}),
        ('gpu-server', {'gpus': 2}),
        ('gpu-server', {'gpus': 8}),
        ('fpga-server', {}),
        ('acc-server', {}),
    ],
)
def test_a_quiet_round_costs_at_most_three_requests_more_than_there_are_lock_resources(
    emulated_machine: Any, product: str, parameters: dict[str, Any]
) -> None:
    """And it reads every resource that a lock, a version or an identity rests on."""
    watched = Watched(emulated_machine(product, **parameters))
    try:
        locks = {w.ref for w in watched.witnesses if w.lock}
        assert {r.ref for a in watched.inventory.accelerators for r in a.locks} <= locks
        every = {w.ref for w in watched.witnesses}
        for a in watched.inventory.accelerators:
            assert {a.primary, *(c.ref for c in a.firmware), *(s.item.ref for s in a.slots if s.item)} <= every
        first = watched.glance()
        assert first.quiet, (first.changed, first.unread)
        before = watched.requests()
        again = watched.glance()
        assert again.quiet, (again.changed, again.unread)
        assert 0 < watched.requests() - before <= len(locks) + 3
        assert {'node'} == watched.sessions.owners()
    finally:
        watched.close()


def test_a_glance_notices_an_open_lock_other_firmware_and_a_card_that_is_gone_and_is_not_quiet_when_blind(
    emulated_machine: Any,
) -> None:
    """Each names the resource that says something else; a BMC that does not answer leaves nothing quiet."""
    watched = Watched(emulated_machine('gpu-server', gpus=2))
    try:
        assert watched.glance().quiet
        root = '/redfish/v1/Chassis/HGX_ERoT_GPU_0'
        with watched.kept.of(watched.target.bmcs[0]) as connection:
            writer = connection.writer()
            document = writer.fresh(root)
            was = document.body['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
            writer.patch(document, {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': not was}}})
        seen = watched.glance()
        assert [root] == [ref.uri for ref in seen.changed]
        assert not seen.quiet
        assert root in {ref.uri for ref in seen.heard}
        said = {ref: digest(document.body) for ref, document in seen.heard.items()}
        watched.witnesses = tuple(replace(w, said=said[w.ref]) for w in watched.witnesses if w.ref in said)
        assert watched.glance().quiet
        gone = watched.machine.fault('device-absent', device='GPU_1')
        seen = watched.glance()
        assert any('GPU_1' in ref.uri for ref, _ in seen.unread), seen
        assert not seen.quiet
        watched.machine.clear_faults(gone)
        watched.machine.fault('http-status', uri='*/FirmwareInventory*', status=400)
        seen = watched.glance()
        assert {'FirmwareInventory'} == {ref.uri.split('/')[4] for ref, _ in seen.unread}
        assert not seen.quiet
    finally:
        watched.machine.clear_faults()
        watched.close()


def test_a_session_that_has_ended_is_begun_anew(emulated_machine: Any) -> None:
    """The BMC forgets sessions when it restarts, or after a while: a login and the same answers."""
    watched = Watched(emulated_machine('gpu-server', gpus=1))
    try:
        assert watched.glance().quiet
        _forget_sessions(watched)
        assert watched.glance().quiet
    finally:
        watched.close()


def _forget_sessions(watched: Watched) -> None:
    """Somebody else deletes all sessions."""
    where = watched.target.bmcs[0]
    with for_address(where).connect(where) as other:
        writer = other.writer()
        mine = writer.fresh('/redfish/v1/SessionService/Sessions').body['Members']
        for member in mine[:-1]:
            other._connector.send('DELETE', member['@odata.id'])
