# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A target is its own System's resources: no request that changes anything leaves them, however a BMC links them."""

import io
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnsupported
from baremetal_acc.execution.observation import sessions
from baremetal_acc.model.image import Upload
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.lock import ResetKind, WritePath
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.model.refusal import SharedResource
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.policy.baseline_rules import Baseline, Match, NodeFacts, Rule
from baremetal_acc.render import refusals
from tests.wire.recorded import ADDRESS, NOW, bodies, inventory_of, target_of, tools_of

ROOT = '/redfish/v1'
ITEMS = f'{ROOT}/UpdateService/FirmwareInventory'
PUSH = f'{ROOT}/UpdateService/upload'
RESETS = ['On', 'ForceOff', 'ForceRestart', 'PowerCycle']

LOCK_ALL = Baseline(rules=(Rule(name='all', match=Match(), block=frozenset({WritePath.HOST_DEVICE})),))


def links(*uris: str) -> list[dict[str, str]]:
    """An array of links."""
    return [{'@odata.id': uri} for uri in uris]


class Machines:
    """A BMC that serves several machines, made at random; ``truth`` says whose each resource is: empty is nobody's for sure."""

    WAYS = ('below', 'chassis', 'nested', 'listed', 'shelf', 'loose', 'both')

    def __init__(self, bmc: Any, seed: int) -> None:
        self.random = random.Random(seed)
        self.bmc = bmc
        self.truth: dict[str, frozenset[str]] = {}
        self.systems = [f'{ROOT}/Systems/Node{n}' for n in range(self.random.randint(2, 3))]
        everybody = frozenset(self.systems)
        bmc.tree[ROOT]['UpdateService'] = {'@odata.id': f'{ROOT}/UpdateService'}
        bmc.put(f'{ROOT}/UpdateService', MultipartHttpPushUri=PUSH, FirmwareInventory={'@odata.id': ITEMS})
        bmc.collection(f'{ROOT}/Systems', *(s.rpartition('/')[2] for s in self.systems))
        bmc.collection(f'{ROOT}/Managers', 'BMC')
        bmc.put(f'{ROOT}/Managers/BMC')
        self.truth[f'{ROOT}/Managers/BMC'] = self.truth[f'{ROOT}/UpdateService'] = everybody
        self.chassis = {'Shelf': links(*self.systems), 'Nowhere': []}
        self.inside: dict[str, list[str]] = {}
        for system in self.systems:
            name = system.rpartition('/')[2]
            self.chassis[name] = links(system) if self.random.random() < 0.5 else []
            self.chassis[f'{name}Tray'] = []
            self.inside[name] = [f'{ROOT}/Chassis/{name}Tray']
            self.truth[f'{ROOT}/Chassis/{name}'] = self.truth[f'{ROOT}/Chassis/{name}Tray'] = self.truth[system] = frozenset(
                {system}
            )
        self.truth[f'{ROOT}/Chassis/Shelf'] = everybody
        self.cards: dict[str, list[str]] = {}
        self.listed: dict[str, list[str]] = {system: [] for system in self.systems}
        for n in range(self.random.randint(2, 7)):
            self._card(n)
        self._finish()

    def _card(self, n: int) -> None:
        way, system = self.random.choice(self.WAYS), self.random.choice(self.systems)
        name = system.rpartition('/')[2]
        of = frozenset({system})
        place, chassis = f'{system}/Processors', None
        match way:
            case 'chassis' | 'listed':
                chassis = name if way == 'chassis' else 'Nowhere'
            case 'nested':
                chassis = f'{name}Tray'
            case 'shelf' | 'both':
                chassis, of = 'Shelf', frozenset(self.systems)
            case 'loose':
                chassis, of = 'Nowhere', frozenset()
        if chassis is not None:
            place = f'{ROOT}/Chassis/{chassis}/PCIeDevices'
        uri = f'{place}/GPU{n}'
        if way == 'listed':
            self.listed[system].append(uri)
        if way == 'both':
            of = frozenset(self.systems[:2])
            for one in self.systems[:2]:
                self.listed[one].append(uri)
        if chassis is None:
            self.bmc.put(uri, ProcessorType='GPU', Model='H100', SerialNumber=f'SN{n}')
        else:
            functions = f'{uri}/PCIeFunctions'
            self.bmc.put(uri, SerialNumber=f'SN{n}', PCIeFunctions={'@odata.id': functions})
            self.bmc.collection(functions, '0')
            self.bmc.put(f'{functions}/0', VendorId='0x10de', DeviceId='0x2330', ClassCode='0x030200')
            self.truth[f'{functions}/0'] = of
        self.cards.setdefault(place, []).append(f'GPU{n}')
        self.bmc.put(f'{ITEMS}/FW{n}', Version='1', Updateable=True, WriteProtected=False, RelatedItem=links(uri))
        self.truth[uri] = self.truth[f'{ITEMS}/FW{n}'] = of

    def _finish(self) -> None:
        for place, names in self.cards.items():
            self.bmc.collection(place, *names)
        self.bmc.collection(ITEMS, *sorted(u.rpartition('/')[2] for u in self.truth if u.startswith(f'{ITEMS}/')))
        self.bmc.collection(f'{ROOT}/Chassis', *self.chassis)
        for name, systems in self.chassis.items():
            uri = f'{ROOT}/Chassis/{name}'
            more = {'PCIeDevices': {'@odata.id': f'{uri}/PCIeDevices'}} if f'{uri}/PCIeDevices' in self.cards else {}
            inner = links(*self.inside.get(name, ()))
            self.bmc.put(uri, ChassisType='RackMount', Links={'ComputerSystems': systems, 'Contains': inner}, **more)
        for system in self.systems:
            reset = {'target': f'{system}/Actions/ComputerSystem.Reset', 'ResetType@Redfish.AllowableValues': RESETS}
            more = {'Processors': {'@odata.id': f'{system}/Processors'}} if f'{system}/Processors' in self.cards else {}
            chassis = links(f'{ROOT}/Chassis/{system.rpartition("/")[2]}')
            self.bmc.put(
                system,
                SystemType='Physical',
                PowerState='Off',
                Boot={'BootSourceOverrideTarget': 'None'},
                Actions={'#ComputerSystem.Reset': reset},
                Links={'Chassis': chassis, 'ManagedBy': links(f'{ROOT}/Managers/BMC')},
                PCIeDevices=links(*self.listed[system]),
                **more,
            )

    @property
    def devices(self) -> dict[str, frozenset[str]]:
        """The cards and whose they are."""
        return {f'{place}/{name}': self.truth[f'{place}/{name}'] for place, names in self.cards.items() for name in names}


def changes(connection: Any, ref: Ref) -> tuple[Callable[[], object], ...]:
    """All that a connection can change of a resource."""
    return (
        lambda: connection.writer().patch(Document(ref=ref, body={}), {'A': 1}),
        lambda: connection.writer().post(f'{ref.uri}/Actions/A', {}),
        lambda: connection.push(ref, Upload(file='a', size_bytes=1, open=lambda: io.BytesIO(b'x'))),
        lambda: connection.reset(ref, ResetKind.SYSTEM_RESET),
        lambda: connection.set_power(ref, PowerState.OFF),
    )


def was_sent(change: Callable[[], object]) -> bool:
    """It was not refused as being somebody else's; what the BMC makes of it is its own business."""
    try:
        change()
    except BmcError as exc:
        return 'nothing was written' not in exc.what
    return True


@pytest.mark.parametrize('seed', range(60))
def test_no_request_that_changes_anything_leaves_the_target(bmc: Any, seed: int) -> None:
    """Whatever is written to whatever resource: only what is the named System's alone reaches the BMC, and is not refused."""
    machines = Machines(bmc, seed)
    for system in machines.systems:
        own = {uri for uri, of in machines.truth.items() if of == {system}}
        named = machines.random.choice((system, f'{system}/', system.rpartition('/')[2]))
        target, tools = target_of(system=named), tools_of(bmc, system=named)
        bmc.seen.clear()
        bmc.requests.clear()
        done = set()
        pushed: list[bytes] = []

        def take(request: Any, context: Any, pushed: list[bytes] = pushed) -> str:
            pushed.append(request.body)
            return ''

        bmc.replies['POST', PUSH] = take
        with sessions(target, tools) as bmcs:
            connection = bmcs[HOST]
            for uri in machines.truth:
                for change in changes(connection, Ref(bmc=HOST, uri=uri)):
                    if was_sent(change):
                        done.add(uri)
        assert own == done
        assert all(any(f'"{uri}"'.encode() in sent for uri in own) for sent in pushed)
        for method, path in bmc.seen:
            if method != 'GET' and path != PUSH:
                assert any(path == uri or path.startswith(f'{uri}/') for uri in own), (method, path)


@pytest.mark.parametrize('seed', range(20))
def test_an_image_goes_to_what_is_the_targets_alone_whatever_the_bmc_is_told(bmc: Any, seed: int) -> None:
    """In place of an own component: nothing, an empty list or another machine's resource are refused, its own is told."""
    machines = Machines(bmc, seed)
    pushed: list[bytes] = []

    def take(request: Any, context: Any) -> str:
        pushed.append(request.body)
        return ''

    bmc.replies['POST', PUSH] = take
    for system in machines.systems:
        with sessions(target_of(system=system), tools_of(bmc, system=system)) as bmcs:
            # At random: a System that has nothing else is a component like any other to the gate.
            own = machines.random.choice([uri for uri, of in machines.truth.items() if of == {system}])
            foreign = machines.random.choice([uri for uri, of in machines.truth.items() if of != {system}])
            upload = Upload(file='a', size_bytes=1, open=lambda: io.BytesIO(b'x'))
            for told in ({'untargeted': True}, {'targets': ()}, {'targets': (foreign,)}, {'targets': (own, foreign)}):
                with pytest.raises(BmcUnsupported, match='nothing was written'):
                    bmcs[HOST].push(Ref(bmc=HOST, uri=own), replace(upload, **told))
            assert not pushed
            bmcs[HOST].push(Ref(bmc=HOST, uri=own), replace(upload, targets=(own,)))
            assert [True] == [f'"{own}"'.encode() in sent for sent in pushed]
            pushed.clear()


@pytest.mark.parametrize('seed', range(60))
def test_a_plan_and_an_inventory_hold_what_is_the_targets(bmc: Any, seed: int) -> None:
    """What is another machine's is not shown; what is shared is shown and not written; what is nobody's hides."""
    machines = Machines(bmc, seed)
    for system in machines.systems:
        seen = inventory_of(bmc, system=machines.random.choice((system, system.rpartition('/')[2])))
        shown = {ref.uri for a in seen.accelerators for ref in a.refs}
        hidden = {gap.ref.uri for gap in seen.gaps if gap.hides}
        for uri, of in machines.devices.items():
            assert (system in of) == (uri in shown), (uri, of)
            assert (not of) == (uri in hidden), (uri, of)
        assert {ref.uri for ref in seen.shared} >= {u for u, of in machines.devices.items() if system in of and len(of) > 1}
        assert (HOST,) == seen.several
        shared = {a.primary.uri for a in seen.accelerators if a.id in seen.shared_devices}
        assert {u for u, of in machines.devices.items() if system in of and len(of) > 1} == shared & machines.devices.keys()
        made = plan(seen, LOCK_ALL, NodeFacts(name='node'), (), parts=frozenset({Part.LOCK}))
        written = {a.ref.uri for a in made.actions if hasattr(a, 'ref')}
        refused = ' '.join(refusals.reason(r.reason) for r in made.refusals)
        assert all(machines.truth[uri] == {system} or uri in refused for uri in written)


def test_a_bmc_of_several_machines_of_which_none_is_named_is_read_only(bmc: Any, shared: Any) -> None:
    """All of it is shown, a gap that hides says what to do, and nothing is planned or written."""
    bmc.tree = bodies(shared / 'cases' / 'trees' / 'two-nodes-one-bmc-with-locks')
    seen = inventory_of(bmc)
    assert (2, [True]) == (
        len(seen.accelerators),
        [g.hides for g in seen.gaps if 'set system (Ironic: redfish_system_id)' in g.reason],
    )
    made = plan(seen, LOCK_ALL, NodeFacts(name='node'), (), parts=frozenset({Part.LOCK}))
    assert made.actions
    assert 2 == sum(isinstance(r.reason, SharedResource) for r in made.refusals)
    with sessions(target_of(), tools_of(bmc)) as bmcs, pytest.raises(BmcUnsupported, match='also belongs to'):
        bmcs[HOST].set_power(Ref(bmc=HOST, uri=f'{ROOT}/Systems/Node0'), PowerState.OFF)
    assert not [m for m, _ in bmc.seen if m != 'GET']


def test_an_id_that_several_systems_have_writes_nothing(bmc: Any, shared: Any) -> None:
    """Whoever has been told whose the resources are is told no System by such a name, whatever it asks for first."""
    bmc.tree = {
        uri: json.loads(body) for uri, body in bodies(shared / 'cases' / 'trees' / 'two-nodes-one-bmc-with-locks').items()
    }
    bmc.tree[f'{ROOT}/Systems/Node1']['Id'] = 'Node0'
    with sessions(target_of(system='Node0'), tools_of(bmc, system='Node0')) as bmcs:
        for system in ('Node0', 'Node1'):
            with pytest.raises(BmcAnswerInvalid, match='several Systems match Node0'):
                bmcs[HOST].set_power(Ref(bmc=HOST, uri=f'{ROOT}/Systems/{system}'), PowerState.OFF)
    assert not [m for m, _ in bmc.seen if m != 'GET']


def test_a_bmc_that_is_known_to_serve_one_machine_is_not_looked_at_again_for_its_id(bmc: Any) -> None:
    """What was remembered of it tells what the Id means; another Id is looked for, and is not there."""
    place = f'{ROOT}/Systems/1'
    bmc.put(place, SystemType='Physical', Id='Node0', Actions={'#ComputerSystem.Reset': {'target': f'{place}/Reset'}})
    driver = bmc.driver()
    address = BmcAddress(name=HOST, address=ADDRESS, system='Node0')
    with driver.connect(address) as connection:
        connection.look(NOW)
    bmc.seen.clear()
    with driver.connect(address) as connection:
        assert place == connection.ownership().named('Node0')
    assert 0 == bmc.count('GET', f'{ROOT}/Systems')
    with driver.connect(replace(address, system='Node9')) as connection, pytest.raises(BmcAnswerInvalid, match='no System'):
        connection.ownership()
