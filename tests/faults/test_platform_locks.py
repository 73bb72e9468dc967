# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each lock of a whole machine blocks writes by itself, and a machine whose lock lies is refused. The rest of the table.

Rows, machines and the desk are those of :mod:`tests.faults.test_card_locks`, which has the locks of cards. Each mechanism that
is installed has its row in one of the two. A job is a deploy here: evidence is of its own flow and nothing but verified
passes.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from baremetal_acc import execution
from baremetal_acc.emulator.image import ImageFormat, build_image
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.action import Engage, Release, Reset, ResetPurpose
from baremetal_acc.model.job import Done, Failed, Flow, Outcome, Wait
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.waiver import Waiver
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.policy.baseline_rules import Baseline, Match, OnMissing, Rule
from tests.faults import test_card_locks as cards
from tests.faults.rig import EROT, MACHINE, NEW, START, TICKS, TIMEOUT, Rig
from tests.faults.test_card_locks import Desk, Row, Way
from tests.mechanisms.switch import Switch, switches

BY_BMC = frozenset({WritePath.HOST_BMC_IPMI, WritePath.HOST_BMC_REDFISH})
_WAYS = {path: tuple(('GPU_0', component, path) for component in ('gpu', 'erot')) for path in ('pcie', 'kcs', 'redfish')}
_VNIC = tuple(('GPU_0', component, 'vnic') for component in ('gpu', 'erot'))
_CHIF = tuple(('GPU_0', component, 'chif') for component in ('gpu', 'erot'))


def _server(*features: str, closes: tuple[Way, ...], more: tuple[Way, ...] = ()) -> Row:
    """A server of a vendor; what its lock does not close stays open."""
    every = (*_WAYS['pcie'], *_WAYS['kcs'], *_WAYS['redfish'], *more)
    leaves = tuple(way for way in every if way not in closes)
    return Row(product='lock-server', features=frozenset(features), model='h100', closes=closes, leaves=leaves)


def _of(one: Switch) -> Row:
    """A row of what stands in tests/mechanisms."""
    ways = _WAYS.get(one.way) or tuple(('GPU_0', component, one.way) for component in ('gpu', 'erot'))
    features = (one.kind.name,) if one.feature is None else filter(None, (one.feature,))
    return _server(*features, closes=ways, more=() if one.way in _WAYS else ways)


_LOCKDOWN = (*_WAYS['kcs'], *_WAYS['redfish'])

ROWS: dict[str, Row] = {
    'dell_system_lockdown': _server('dell-system-lockdown', closes=_LOCKDOWN),
    'supermicro_sys_lockdown': _server('supermicro-sys-lockdown', closes=_LOCKDOWN),
    'hpe_virtual_nic': _server('hpe-virtual-nic', closes=_VNIC, more=_VNIC),
    'ami_kcs': _server('ami-kcs', closes=_WAYS['kcs']),
    'ipmi_host_interface': _server('ipmi-host-interface', closes=_WAYS['kcs']),
    'write_protected': Row(
        product='lock-server',
        model='h100',
        closes=tuple(('GPU_0', 'gpu', path) for path in ('pcie', 'kcs', 'redfish')),
        leaves=tuple(('GPU_0', 'erot', path) for path in ('pcie', 'kcs', 'redfish')),
    ),
    'fpga_programmable_from_host': Row(
        product='fpga-server', model='d5005', closes=(('FPGA1', 'fpga', 'pcie'), ('FPGA1', '0', 'pcie'), ('FPGA1', '1', 'pcie'))
    ),
    'bluefield_host_privilege': Row(
        product='dpu',
        model='bluefield3',
        closes=(('DPU', 'nic', 'pcie'), ('DPU', 'nic', 'rshim'), ('DPU', 'bsp', 'rshim')),
        power_cycle=True,
        not_seen=('lock-never-in-force',),
    ),
    **{name: _of(switch) for name, switch in switches().items()},
}

ELSEWHERE = ('ipmi_firmware_firewall',)
"""Of BMCs that are spoken to by IPMI: tests/cli/test_ipmi_lock.py asks their host."""

LIES = ('lock-ignored', 'lock-unread', 'lock-lost-on-reset', 'lock-never-in-force', 'licence-missing')

WAITS = {
    'hpe_virtual_nic': ResetKind.BMC_RESET,
    'ami_kcs': ResetKind.SYSTEM_RESET,
    'bluefield_host_privilege': ResetKind.POWER_CYCLE,
}
"""What a mechanism needs before it holds, as it says itself."""


class Deploy(Desk):
    """A desk whose jobs are steps of a deploy."""

    def __init__(self, machine: Any, name: str) -> None:
        super().__init__(machine, name)
        (mechanism,) = self.tools.mechanisms
        paths = mechanism.about.blocks - {WritePath.BMC_NETWORK}
        ends = START + timedelta(days=1)
        waiver = Waiver(role='tester', reason='this row is of one lock', expires=ends, paths=paths)
        rule = Rule(name='its paths', match=Match(), block=paths, on_missing=OnMissing.WAIVE, waiver=waiver)
        self.tools = replace(self.tools, baseline=Baseline(rules=(rule,)))
        self.done: list[str] = []
        self.resets: list[tuple[ResetPurpose, ResetKind]] = []

    def do(self, part: Part, *, hold: bool = False) -> Outcome:
        """Plan, and turn the job until it ends."""
        inventory = execution.observe(self.target, self.tools, self.now)
        made = plan(inventory, self.tools.baseline, self.target.node, (), parts=frozenset({part}), hold=hold)
        assert () == made.refusals
        self.resets = [(a.purpose, a.kind) for a in made.actions if isinstance(a, Reset)]
        self.done = [type(a).__name__ for a in made.actions if isinstance(a, Engage | Release)]
        job = begin(
            made, identity='job-1', node='node-1', flow=Flow.DEPLOY, step='lock', lifecycle=1, now=self.now, timeout=TIMEOUT,
            demands_met=part is Part.LOCK,
        )  # fmt: skip
        for _ in range(TICKS):
            job, outcome = execution.tick(job, self.target, self.tools, self.now)
            if not isinstance(outcome, Wait):
                self.engagements = job.engagements
                self.advance(5)
                return outcome
            self.advance(max(outcome.delay.total_seconds(), 1.0))
        raise AssertionError(f'a job without an end: {job}')

    def holds(self) -> bool:
        """Whether the deploy would go on, as far as this lock is concerned."""
        return execution.check(self.target, self.tools, self.engagements, self.now, lifecycle=1, flow=Flow.DEPLOY)[1].met

    def written(self, ways: tuple[Way, ...], model: str) -> set[bool]:
        """Whether the tenant gets an image in by each of these ways; what is numbered is a slot."""
        slots = tuple(way for way in ways if way[1].isdigit())
        function = build_image(kind=ImageFormat.FUNCTION, model=model, component='slot', version='6.6', function='evil')
        found = {self.machine.tenant_program(device, int(slot), function)['written'] for device, slot, _ in slots}
        return found | super().written(tuple(way for way in ways if way not in slots), model)


@pytest.fixture
def desk(emulated_machine: Callable[..., Any]) -> Callable[..., Deploy]:
    """Makes desks for a row."""

    def make(name: str, **other: Any) -> Deploy:
        row = ROWS[name]
        gpus = {'gpus': 1} if row.product == 'lock-server' else {}
        machine = {k: v for k, v in MACHINE.items() if k != 'gpus'}
        extensions = {name: (one.way, one.emulate) for name, one in switches().items() if one.feature is None}
        made = emulated_machine(row.product, features=row.features, extensions=extensions, **machine, **gpus, **other)
        return Deploy(made, name)

    return make


def test_every_mechanism_has_its_row() -> None:
    """A lock that nobody tried is none."""
    known, tried = {m.name for m in mechanisms()}, {*ROWS, *cards.ROWS, *ELSEWHERE}
    assert [] == [f'mechanism {name}: nobody has tried it; add tests/mechanisms/{name}.py, or a row' for name in known - tried]
    assert set() == tried - known
    assert set() == set(ROWS) & set(cards.ROWS)
    assert {m.name: m.about.needs for m in mechanisms() if m.name in ROWS} == {n: WAITS.get(n, ResetKind.NONE) for n in ROWS}


@pytest.mark.shows(
    'lock BMC path',
    hardware=('hgx-gpu',),
    how='core',
    mechanisms=(
        'ami_kcs',
        'dell_system_lockdown',
        'host_interface',
        'hpe_host_authentication',
        'hpe_kcs',
        'hpe_virtual_nic',
        'ipmi_host_interface',
        'lenovo_kcs',
        'supermicro_kcs',
        'supermicro_sys_lockdown',
        'write_protected',
    ),
)
@pytest.mark.shows(
    'lock host path',
    hardware=('fpga', 'bluefield'),
    how='core',
    mechanisms=('bluefield_host_privilege', 'fpga_programmable_from_host'),
)
@pytest.mark.parametrize('name', ROWS)
def test_a_lock_locks_what_it_declares_and_nothing_else(desk: Callable[..., Deploy], name: str) -> None:
    """Engaged, read back, kept over a reboot, tried, released, engaged again; and alone it is no more than it declares."""
    row, found = ROWS[name], desk(name)
    assert {True} == found.written((*row.closes, *row.leaves), row.model)
    assert not found.holds()

    assert isinstance(found.do(Part.LOCK), Done)
    readings = found.readings()
    assert {LockState.LOCKED_VERIFIED} == {r.state for r in readings}
    assert {r.place for r in readings} == {e.place for e in found.engagements}
    assert all((r.mechanism, r.ref.uri, r.value, r.session) for r in readings)
    if {Scope.BMC} == {r.scope for r in readings}:
        assert len(found.engagements) == len({r.place for r in readings})
        seen = execution.observe(found.target, found.tools, found.now)
        assert sorted({r.place for r in readings}) == [r.place for r in seen.platform_locks]
    found.reboot()
    assert {LockState.LOCKED_VERIFIED} == found.states()
    assert found.holds()

    assert {False} == found.written(row.closes, row.model)
    assert ({True} if row.leaves else set()) == found.written(row.leaves, row.model)
    (mechanism,) = found.tools.mechanisms
    refused = found.refusals()
    left = {WritePath.HOST_DEVICE, *BY_BMC} - mechanism.about.blocks
    assert left or row.leaves, 'the rules of a tenant have nothing to refuse'
    assert [] == [path for path in left if f'lock {path}' not in refused]

    assert isinstance(found.do(Part.UNLOCK), Done)
    assert LockState.LOCKED_VERIFIED not in found.states()
    assert not found.holds()
    assert {True} == found.written((*row.closes, *row.leaves), row.model)
    assert isinstance(found.do(Part.LOCK), Done)
    assert {False} == found.written(row.closes, row.model)


@pytest.mark.parametrize(
    ('name', 'lie'), [(name, lie) for name, row in ROWS.items() for lie in LIES if lie not in row.not_seen]
)
def test_a_lock_that_lies_is_refused_at_deploy(desk: Callable[..., Deploy], name: str, lie: str) -> None:
    """Accepts and ignores; reads closed unread; is lost with a reset; waits for one that never comes; has no licence."""
    found = desk(name)
    found.machine.fault(lie)
    outcome = found.do(Part.LOCK)
    if lie == 'lock-lost-on-reset':
        found.reboot()
    else:
        assert isinstance(outcome, Failed)
        assert any(path in ' '.join(outcome.reasons) for path in WritePath), 'it says which path is open'
    assert not found.holds(), lie
    assert LockState.LOCKED_VERIFIED not in found.states()
    assert sum(rule['hits'] for rule in found.machine.faults()) or lie == 'lock-unread'


@pytest.mark.parametrize('name', ['dell_system_lockdown', 'supermicro_sys_lockdown'])
def test_a_lockdown_is_opened_for_what_is_changed_and_closed_after_it(emulated_machine: Callable[..., Any], name: str) -> None:
    """Under it the BMC refuses the card's own lock and an image; we open it first, close it last, and it holds."""
    features = ROWS[name].features
    machine = emulated_machine('lock-server', features=features, **MACHINE | {'gpus': 1})
    found = Deploy(machine, name)
    assert isinstance(found.do(Part.LOCK), Done)
    assert ['Engage'] == found.done

    every = frozenset({WritePath.HOST_DEVICE, *BY_BMC})
    both = tuple(m for m in mechanisms() if m.name in (name, 'nvidia_inband_update_policy'))
    strict = Baseline(rules=(Rule(name='strict', match=Match(), block=every),))
    found.tools = replace(found.tools, mechanisms=both, baseline=strict)
    bmc = machine.bmcs['host']
    policy = {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}}
    uri = f'{bmc.address}/redfish/v1/Chassis/HGX_ERoT_GPU_0'
    assert 403 == requests.patch(uri, json=policy, auth=(bmc.username, bmc.password), timeout=5).status_code
    assert isinstance(found.do(Part.LOCK), Done)
    assert ['Release', 'Engage', 'Engage'] == found.done
    assert {LockState.LOCKED_VERIFIED} == found.states()
    assert found.holds()
    assert {False} == found.written((*_WAYS['pcie'], *_LOCKDOWN), 'h100')
    writes = [e['path'] for e in machine.log() if e['method'] == 'PATCH' and e['status'] == 204]
    lockdown = writes[0]
    assert [lockdown, lockdown, uri.removeprefix(bmc.address), lockdown] == writes


def test_a_bmc_with_more_ways_than_locks_is_refused(emulated_machine: Callable[..., Any]) -> None:
    """The virtual card is off and the host interface, too; the tools of the host need no password: the path is open."""
    features = frozenset({'hpe-virtual-nic', 'hpe-host-authentication', 'hpe-kcs'})
    machine = emulated_machine('lock-server', features=features, **MACHINE | {'gpus': 1})
    found = Deploy(machine, 'hpe_kcs')
    every = Baseline(rules=(Rule(name='strict', match=Match(), block=BY_BMC),))
    found.tools = replace(found.tools, mechanisms=mechanisms(), baseline=every)
    found.machine.fault('lock-ignored', uri='*/Managers/BMC_0', count=1)
    outcome = found.do(Part.LOCK)
    assert isinstance(outcome, Failed)
    assert 'host-bmc-redfish' in ' '.join(outcome.reasons)
    found.machine.clear_faults()
    assert isinstance(found.do(Part.LOCK), Done)
    assert {False} == found.written((*_WAYS['kcs'], *_WAYS['redfish'], *_VNIC, *_CHIF), 'h100')


@pytest.mark.shows('flash', hardware=('hgx-gpu',), how='core')
def test_an_image_is_written_past_a_lockdown_and_the_host_is_off_meanwhile(
    emulated_machine: Callable[..., Any], tmp_path: Path
) -> None:
    """The BMC takes no update under it: opened with the host off, closed before the host is given back."""
    manager = '/redfish/v1/Managers/BMC_0'
    lockdown = f'{manager}/Oem/Dell/DellAttributes/BMC_0/Lockdown.1.SystemLockdown'
    features = frozenset({'dell-system-lockdown'})
    machine = emulated_machine('lock-server', features=features, settings={lockdown: 'Enabled'}, **MACHINE)
    found = Rig(machine=machine, folder=tmp_path)
    assert () == found.begin()
    assert isinstance(found.turn(), Done)
    assert {NEW[EROT]} == {found.version(card) for card in (0, 1)}
    found.judge()
    assert machine.truth()['locks'][lockdown]['closed']
    assert [] == found.open_ways()


def test_a_setting_of_the_bios_lets_the_host_start_and_is_proven_by_that(emulated_machine: Callable[..., Any]) -> None:
    """It comes with the start and with nothing else: a host that is held waits for no lock that only its start brings."""
    machine = emulated_machine('lock-server', features=ROWS['ami_kcs'].features, **MACHINE | {'gpus': 1})
    found = Deploy(machine, 'ami_kcs')
    machine.power('ForceOff')
    found.advance(30)
    assert isinstance(found.do(Part.LOCK, hold=True), Done)
    assert [(ResetPurpose.HOLD, ResetKind.NONE), (ResetPurpose.RESUME, ResetKind.SYSTEM_RESET)] == found.resets
    assert {LockState.LOCKED_VERIFIED} == found.states()
    assert {False} == found.written(_WAYS['kcs'], 'h100')
    # What is in force already is engaged anew without another start.
    assert isinstance(found.do(Part.LOCK), Done)
    assert [] == found.resets
    assert found.holds()
