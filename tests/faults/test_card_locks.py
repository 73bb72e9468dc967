# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each lock of a card blocks writes by itself, and a card whose lock lies is refused. A table, with cards that have the locks.

Each row is one mechanism, the only one that is known in its test, and a card that has it. It is engaged, read back, kept over
a reboot, tried from the host on every way, released, and engaged again; then the BMC lies about it in each way that there is.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc import execution
from baremetal_acc.bmc import device_ids
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.retry import ReadRetry as ReadPatience
from baremetal_acc.emulator.image import build_image
from baremetal_acc.images.store import FileStore
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.action import Engage, Release
from baremetal_acc.model.job import Done, Failed, Flow, Job, Outcome, Wait
from baremetal_acc.model.lock import Engagement, LockReading, LockState, WritePath
from baremetal_acc.model.ref import BmcName
from baremetal_acc.model.waiver import Waiver
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.lock_evidence import judge
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, Match, NodeFacts, OnMissing, Rule
from baremetal_acc.render import refusals
from tests.faults.rig import GPU, MACHINE, NEW, PATIENCE, START, TICKS, TIMEOUT, Rig

RESET = {'uri': '*ComputerSystem.Reset', 'method': 'POST'}
HOST = frozenset({WritePath.HOST_DEVICE})

Way = tuple[str, str, str]
"""Device, component and path."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One mechanism, and a machine whose cards have it.

    :ivar model: that images for the card are for.
    :ivar closes: ways of the host that it declares to block; ``leaves`` those to the same cards that it does not.
    :ivar power_cycle: it holds after a power cycle of the card.
    :ivar seen: further lies that a second source gives away.
    :ivar not_seen: lies that nothing out of band tells from the truth; the pages on locks say so.
    """

    product: str
    features: frozenset[str] = frozenset()
    model: str
    closes: tuple[Way, ...]
    leaves: tuple[Way, ...] = ()
    power_cycle: bool = False
    seen: tuple[str, ...] = ()
    not_seen: tuple[str, ...] = ()


_GPUS = tuple((f'GPU_{n}', c, 'pcie') for n in (0, 1) for c in ('gpu', 'erot'))
_OF_A_DPU = (*(('DPU', 'nic', path) for path in ('pcie', 'flash', 'rshim')), ('DPU', 'bsp', 'rshim'))

ROWS: dict[str, Row] = {
    'nvidia_inband_update_policy': Row(
        product='gpu-server',
        features=frozenset({'rot-protected-components'}),
        model='h100',
        closes=_GPUS,
        seen=('lock-reports-locked', 'lock-read-error'),
    ),
    'nvidia_write_protect_domain': Row(
        product='gpu-server',
        features=frozenset({'write-protect-domains'}),
        model='h100',
        closes=tuple(way for way in _GPUS if way[1] == 'gpu'),
        leaves=tuple(way for way in _GPUS if way[1] == 'erot'),
        not_seen=('lock-reports-locked',),
    ),
    'drive_configuration_lock': Row(
        product='csd-server',
        model='csd100',
        closes=(('CSD_0', 'drive', 'nvme'),),
        leaves=(('CSD_0', 'fpga', 'pcie'),),
        seen=('lock-reports-locked',),
    ),
    'bluefield_external_host_privilege': Row(
        product='dpu',
        features=frozenset({'external-host-privileges', 'no-host-privilege-level'}),
        model='bluefield3',
        closes=_OF_A_DPU,
        power_cycle=True,
        not_seen=('lock-reports-locked', 'lock-never-in-force'),
    ),
    'bluefield_host_privilege_config': Row(
        product='dpu',
        features=frozenset({'host-privilege-config', 'no-host-privilege-level'}),
        model='bluefield3',
        closes=_OF_A_DPU,
        power_cycle=True,
        seen=('lock-reports-locked',),
    ),
}
"""The mechanisms of cards that have two sources, or that several may be of on one card."""

LIES = ('lock-ignored', 'lock-unread', 'lock-lost-on-reset', 'lock-never-in-force', 'licence-missing')
"""Every BMC may tell them; each is seen where a row does not say otherwise."""


class Desk:
    """A machine, an operator with one mechanism, and one clock for both."""

    def __init__(self, machine: Any, name: str) -> None:
        self.machine = machine
        self.seconds = 0.0
        self.engagements: tuple[Engagement, ...] = ()
        driver = RedfishDriver(
            devices=device_ids.shipped(), patience=ReadPatience(sleep=self.advance), remembered=RememberedBmc()
        )
        self.target = execution.Target(
            name='node-1',
            node=NodeFacts(name='node-1', exposure=Exposure.TENANT),
            bmcs=tuple(_address(bmc, where) for bmc, where in machine.bmcs.items()),
        )
        waiver = Waiver(role='tester', reason='this row is of one lock', expires=START + timedelta(days=1), paths=HOST)
        lenient = Rule(name='lenient', match=Match(), block=HOST, on_missing=OnMissing.WAIVE, waiver=waiver)
        self.tools = execution.Tools(
            connect=driver.connect,
            mechanisms=tuple(m for m in mechanisms() if m.name == name),
            baseline=Baseline(rules=(lenient,)),
            catalogue=(),
            images=FileStore(folders=(Path('/nowhere'),)),
            save=lambda job: None,
            patience=PATIENCE,
        )

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.machine.advance(seconds)

    def do(self, part: Part, *, whatever_is_refused: bool = False) -> Outcome:
        """Plan, and turn the job until it ends."""
        inventory = execution.observe(self.target, self.tools, self.now)
        made = plan(inventory, self.tools.baseline, self.target.node, (), parts=frozenset({part}))
        assert whatever_is_refused or () == made.refusals
        job: Job = begin(
            made, identity='job-1', node='node-1', flow=Flow.CLI, step='lock', lifecycle=1, now=self.now, timeout=TIMEOUT
        )
        for _ in range(TICKS):
            job, outcome = execution.tick(job, self.target, self.tools, self.now)
            if not isinstance(outcome, Wait):
                self.engagements = job.engagements
                self.advance(5)
                return outcome
            self.advance(max(outcome.delay.total_seconds(), 1.0))
        raise AssertionError(f'a job without an end: {job}')

    def readings(self) -> list[LockReading]:
        """What a fresh look makes of the lock, by our own records."""
        inventory = execution.observe(self.target, self.tools, self.now)
        found = [r for a in inventory.accelerators for r in a.locks]
        assert found
        return [judge(r, self.engagements, lifecycle=1) for r in found]

    def states(self) -> set[LockState]:
        return {r.state for r in self.readings()}

    def holds(self) -> bool:
        """Whether a deploy would go on, as far as this lock is concerned."""
        return execution.check(self.target, self.tools, self.engagements, self.now, lifecycle=1)[1].met

    def refusals(self) -> str:
        """Why the rules that hold without any baseline of a tenant's node refuse it."""
        inventory = execution.observe(self.target, self.tools, self.now)
        made = plan(inventory, Baseline(rules=()), self.target.node, (), parts=frozenset({Part.LOCK}))
        return '\n'.join(map(refusals.sentence, made.refusals))

    def reboot(self) -> None:
        """Of the host; a cold one is also one of the cards."""
        self.machine.power('PowerCycle')
        self.advance(60)

    def written(self, ways: tuple[Way, ...], model: str) -> set[bool]:
        """Whether the tenant gets an image in by each of these ways."""
        return {
            self.machine.tenant_write(
                device,
                build_image(model=model, component=component, version='6.6', size_bytes=64),
                path=path,
                component=component,
            )['written']
            for device, component, path in ways
        }


def _address(name: str, bmc: Any) -> BmcAddress:
    return BmcAddress(
        name=BmcName(name),
        address=bmc.address,
        username=bmc.username,
        password=bmc.password,
        verify_ca=bmc.verify_ca,
        timeout=timedelta(seconds=5),
        concurrency=1,
        system=bmc.system,
    )


@pytest.fixture
def desk(emulated_machine: Callable[..., Any]) -> Callable[..., Desk]:
    """Makes desks for a row."""

    def make(name: str, *, features: frozenset[str] | None = None) -> Desk:
        row = ROWS[name]
        wanted = row.features if features is None else features
        return Desk(emulated_machine(row.product, features=wanted, **MACHINE), name)

    return make


@pytest.mark.shows(
    'lock host path',
    hardware=('hgx-gpu', 'bluefield', 'drive'),
    how='core',
    mechanisms=(
        'bluefield_external_host_privilege',
        'bluefield_host_privilege_config',
        'drive_configuration_lock',
        'nvidia_inband_update_policy',
        'nvidia_write_protect_domain',
    ),
)
@pytest.mark.parametrize('name', ROWS)
def test_a_lock_locks_what_it_declares_and_nothing_else(desk: Callable[..., Desk], name: str) -> None:
    """Engaged, read back, kept over a reboot, tried, released, engaged again; alone it is not enough for a tenant's node."""
    row, found = ROWS[name], desk(name)
    assert {True} == found.written((*row.closes, *row.leaves), row.model)

    assert isinstance(found.do(Part.LOCK), Done)
    assert {LockState.LOCKED_VERIFIED} == found.states()
    readings = found.readings()
    assert all((r.mechanism, r.accelerator, r.ref.uri, r.value, r.session) for r in readings)
    assert all(e.lifecycle == 1 and (e.reset_at is not None) is row.power_cycle for e in found.engagements)
    assert {r.place for r in readings} == {e.place for e in found.engagements}
    found.reboot()
    assert {LockState.LOCKED_VERIFIED} == found.states()

    assert {False} == found.written(row.closes, row.model)
    assert ({True} if row.leaves else set()) == found.written(row.leaves, row.model)
    assert 'host-bmc-ipmi' in found.refusals()
    assert ('host-device' in found.refusals()) is bool(row.leaves)

    found.do(Part.UNLOCK)
    assert LockState.LOCKED_VERIFIED not in found.states()
    assert {True} == found.written((*row.closes, *row.leaves), row.model)
    assert isinstance(found.do(Part.LOCK), Done)
    assert {False} == found.written(row.closes, row.model)


@pytest.mark.parametrize(
    ('name', 'lie'),
    [(name, lie) for name, row in ROWS.items() for lie in (*LIES, *row.seen) if lie not in row.not_seen],
)
def test_a_lock_that_lies_is_not_taken_for_one(desk: Callable[..., Desk], name: str, lie: str) -> None:
    """Accepts and ignores; reads closed unread; is lost with a reset; has no licence; or is shown and not there."""
    found = desk(name)
    found.machine.fault(lie)
    if lie == 'lock-read-error':
        found.machine.fault('lock-ignored')
    outcome = found.do(Part.LOCK)
    found.reboot()
    assert not found.holds(), lie
    assert LockState.LOCKED_VERIFIED not in found.states()
    assert isinstance(outcome, Failed) or lie == 'lock-lost-on-reset'
    assert sum(rule['hits'] for rule in found.machine.faults()) or lie in (
        'lock-reports-locked',
        'lock-unread',
        'lock-read-error',
    )


@pytest.mark.parametrize('name', [name for name, row in ROWS.items() if row.power_cycle])
def test_a_reset_that_never_comes_leaves_a_lock_pending(desk: Callable[..., Desk], name: str) -> None:
    """The request for it is lost; what was set is not in force, and nobody says that it is."""
    found = desk(name)
    found.machine.fault('refuse', **RESET)
    assert isinstance(found.do(Part.LOCK), Failed)
    assert LockState.LOCKED_VERIFIED not in found.states()
    assert not found.holds()
    assert {True} == found.written(ROWS[name].closes, ROWS[name].model)


@pytest.mark.parametrize(('name', 'lie'), [(name, lie) for name, row in ROWS.items() for lie in row.not_seen])
def test_where_reading_out_of_band_ends(desk: Callable[..., Desk], name: str, lie: str) -> None:
    """These are believed: nothing that the BMC shows tells them from the truth. What each lock cannot prove says so."""
    found = desk(name)
    found.machine.fault(lie)
    assert isinstance(found.do(Part.LOCK), Done)
    assert {LockState.LOCKED_VERIFIED} == found.states()
    assert True in found.written(ROWS[name].closes, ROWS[name].model)


def test_a_root_of_trust_that_shows_nothing_else_is_not_believed(desk: Callable[..., Desk]) -> None:
    """Without a second source the sign that it answers is asked for; it reads closed, and stands open."""
    found = desk('nvidia_inband_update_policy', features=frozenset())
    found.machine.fault('lock-read-error')
    found.machine.fault('lock-ignored')
    assert isinstance(found.do(Part.LOCK), Failed)
    assert {LockState.UNKNOWN} == found.states()
    assert {True} == found.written(_GPUS, 'h100')


def test_a_drive_whose_host_may_lift_the_lock_is_partial(desk: Callable[..., Desk]) -> None:
    """The lock is engaged and shown, and the tenant writes all the same. The drive says so before: the plan refuses."""
    found = desk('drive_configuration_lock', features=frozenset({'open-lockdown'}))
    assert 'cannot be locked by drive_configuration_lock' in found.refusals()
    assert isinstance(found.do(Part.LOCK, whatever_is_refused=True), Failed)
    assert {LockState.PARTIAL} == found.states()
    assert {True} == found.written(ROWS['drive_configuration_lock'].closes, 'csd100')


def test_a_drive_with_an_fpga_without_a_lock_is_refused(desk: Callable[..., Desk]) -> None:
    """Whatever locks are known: that of the drive is none of the FPGA."""
    found = desk('drive_configuration_lock', features=frozenset({'unlocked-fpga'}))
    found.tools = replace(found.tools, mechanisms=mechanisms())
    assert isinstance(found.do(Part.LOCK), Done)
    strict = Baseline(rules=(Rule(name='strict', match=Match(), block=HOST),))
    found.tools = replace(found.tools, baseline=strict)
    assert not found.holds()
    assert {True} == found.written((('CSD_0', 'fpga', 'pcie'),), 'csd100')


def test_a_domain_is_opened_for_the_update_of_one_card_and_closed_again_for_both(rig: Callable[..., Rig]) -> None:
    """It blocks our own way, too. The other card runs what it should and gets nothing, but its lock was open meanwhile."""
    settings = {'HGX_Domain_0/WriteProtected': True}
    versions = {'host/HGX_FW_GPU_1': NEW[GPU]}
    features = frozenset({'write-protect-domains', 'rot-protected-components'})
    found = rig(what=GPU, machine={'features': features, 'settings': settings, 'versions': versions})
    assert () == found.begin()
    assert found.made is not None
    mine = [a for a in found.made.actions if isinstance(a, Release | Engage) and a.mechanism == 'nvidia_write_protect_domain']
    assert ['Release', 'Engage', 'Engage'] == [type(a).__name__ for a in mine]
    assert isinstance(found.turn(), Done)
    found.judge()
    assert (1, 0) == (len(found.pushes(0)), len(found.pushes(1)))
    written = [e['body'] for e in found.machine.log() if '/WriteProtectDomains/' in e['path']]
    assert [{'WriteProtected': False}, {'WriteProtected': True}, {'WriteProtected': True}] == written
    assert [] == found.open_locks()
