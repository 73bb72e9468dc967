# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of a BMC are restored where a rule says so: over HTTP, against BMCs that comply, that lie, and that are in use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from baremetal_acc import execution
from baremetal_acc.bmc import device_ids
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.execution.lifecycle import Remembered, propose
from baremetal_acc.images.store import FileStore
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.action import Engage, Release, RestoreSetting
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import NO_CUSTODY
from baremetal_acc.model.job import Done, Failed, Flow, Job, Outcome, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import BmcName
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.policy import baseline
from baremetal_acc.policy.baseline_rules import Exposure, NodeFacts
from baremetal_acc.render.refusals import sentence
from tests.faults.rig import PATIENCE, START, TICKS, TIMEOUT

ROOT = '/redfish/v1'
HOST, MANAGER = f'{ROOT}/Systems/System_0', f'{ROOT}/Managers/BMC_0'
PROTOCOL, INTERFACE = f'{MANAGER}/NetworkProtocol', f'{MANAGER}/HostInterfaces/hostusb0'
MEDIUM, SUBSCRIPTIONS = f'{MANAGER}/VirtualMedia/Cd', f'{ROOT}/EventService/Subscriptions'
ACCOUNTS = f'{ROOT}/AccountService/Accounts'
BOOTS = {'BootSourceOverrideEnabled': 'Continuous', 'BootSourceOverrideTarget': 'Cd'}

DEMANDS = {
    'accounts': ('["admin=Administrator"]', 'POST', ACCOUNTS, {'UserName': 'm', 'Password': 'mallory-9', 'RoleId': 'ReadOnly'}),
    'bootstrap_accounts': ('"disabled"', 'PATCH', INTERFACE, {'CredentialBootstrapping': {'Enabled': True}}),
    'host_interfaces': ('"disabled"', 'PATCH', INTERFACE, {'InterfaceEnabled': True}),
    'ipmi_over_lan': ('"disabled"', 'PATCH', PROTOCOL, {'IPMI': {'ProtocolEnabled': True}}),
    'virtual_media': ('"ejected"', 'POST', f'{MEDIUM}/Actions/VirtualMedia.InsertMedia', {'Image': 'https://i.test/x.iso'}),
    'event_subscriptions': ('[]', 'POST', SUBSCRIPTIONS, {'Destination': 'https://u:p@hook.test/x', 'Protocol': 'Redfish'}),
    'boot_override': ('"None"', 'PATCH', HOST, {'Boot': BOOTS}),
    'serial_over_lan': ('"disabled"', 'PATCH', HOST, {'SerialConsole': {'SSH': {'ServiceEnabled': True}}}),
}
"""What a rule demands of each setting that can be restored, and how somebody changes it."""

RESTORES = {
    'accounts': ('PATCH', f'{ACCOUNTS}/m', {'Enabled': False}),
    'bootstrap_accounts': ('PATCH', INTERFACE, {'CredentialBootstrapping': {'Enabled': False}}),
    'host_interfaces': ('PATCH', INTERFACE, {'InterfaceEnabled': False}),
    'ipmi_over_lan': ('PATCH', PROTOCOL, {'IPMI': {'ProtocolEnabled': False}}),
    'virtual_media': ('POST', f'{MEDIUM}/Actions/VirtualMedia.EjectMedia', {}),
    'event_subscriptions': ('DELETE', f'{SUBSCRIPTIONS}/1', None),
    'boot_override': ('PATCH', HOST, {'Boot': {'BootSourceOverrideEnabled': 'Disabled'}}),
    'serial_over_lan': ('PATCH', HOST, {'SerialConsole': {'SSH': {'ServiceEnabled': False}}}),
}
"""The one request that restores each."""


class Dies(BaseException):
    """The process that turns a job is killed."""


@dataclass(kw_only=True)
class Desk:
    """One emulated machine, a rule for its BMCs, and a clock that moves both.

    :ivar die: called with each job that is stored, after it was stored.
    """

    machine: Any
    node: NodeFacts = field(default_factory=lambda: NodeFacts(name='node-1', exposure=Exposure.NONE))
    seconds: float = 0.0
    die: Callable[[Job], None] = lambda job: None
    stored: Any = None

    def __post_init__(self) -> None:
        self.bmc = self.machine.bmcs['host']
        self.target = execution.Target(name='node-1', node=self.node, bmcs=(self.address(),))
        self.driver = RedfishDriver(devices=device_ids.shipped(), remembered=RememberedBmc())
        self.rule(*DEMANDS)

    def address(self, name: str = 'host', **other: Any) -> BmcAddress:
        values = {'username': self.bmc.username, 'password': self.bmc.password, 'system': self.bmc.system} | other
        return BmcAddress(name=BmcName(name), address=self.bmc.address, verify_ca=self.bmc.verify_ca, **values)

    def rule(self, *settings: str, restore: Iterable[str] | None = None, **other: str) -> None:
        """Demand these settings, and restore them, or those that are given."""
        lines = [f'{one} = {other.get(one) or DEMANDS[one][0].replace("admin", self.bmc.username)}' for one in settings]
        named = ', '.join(f'"{one}"' for one in (settings if restore is None else restore))
        text = '\n'.join(('format = 1', '[bmc]', 'name = "b"', f'restore = [{named}]', *lines))
        self.tools = execution.Tools(
            connect=self.driver.connect,
            mechanisms=(),
            baseline=baseline.parse(f'{text}\n[[rule]]\nblock = []\nmeasure = "off"\ncustody = "reported"\n', 'baseline.toml'),
            catalogue=(),
            images=FileStore(folders=(Path('/nowhere'),)),
            save=self.save,
            patience=PATIENCE,
        )

    def save(self, job: Job) -> None:
        self.stored = encode(job)
        self.die(job)

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def write(self, method: str, place: str, body: Any = None) -> None:
        """A request of somebody else."""
        answer = requests.request(
            method,
            f'{self.bmc.address}{place}',
            json=body,
            auth=(self.bmc.username, self.bmc.password),
            verify=self.bmc.verify_ca,
            timeout=10,
        )
        assert answer.ok, answer.text

    def change(self, *settings: str) -> None:
        """Somebody changes these settings. What follows is in the log of writes."""
        for one in settings:
            self.write(*DEMANDS[one][1:])
        self.machine.remote.reset_log()

    def written(self) -> list[tuple[str, str]]:
        """The writes since then, without logins and logouts."""
        log = ((one['method'], one['path']) for one in self.machine.remote.log())
        return [(method, path) for method, path in log if '/SessionService/' not in path]

    def plan(self, **options: Any) -> Plan:
        inventory = execution.observe(self.target, self.tools, self.now, settings=True)
        proposal = propose(
            Remembered(),
            NO_CUSTODY,
            inventory,
            self.target,
            self.tools,
            (),
            parts=frozenset({Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK, Part.SETTINGS}),
            hold=False,
            only=None,
            **options,
        )
        return proposal.made

    def begin(self) -> None:
        made = self.plan()
        assert () == made.refusals
        job = begin(
            made, identity='job-1', node='node-1', flow=Flow.CLI, step='apply', lifecycle=1, now=self.now, timeout=TIMEOUT
        )
        self.stored = encode(job)

    def go_on(self) -> tuple[Job, Outcome]:
        """Turn the stored job until it ends."""
        for _ in range(TICKS):
            job, outcome = execution.tick(decode(Job, self.stored), self.target, self.tools, self.now)
            if not isinstance(outcome, Wait):
                return job, outcome
            seconds = max(outcome.delay.total_seconds(), 1.0)
            self.seconds += seconds
            self.machine.advance(seconds)
        raise AssertionError(f'a job without an end: {self.stored}')

    def do(self) -> tuple[Job, Outcome]:
        self.begin()
        return self.go_on()


@pytest.fixture
def desk(emulated_machine: Callable[..., Any]) -> Desk:
    return Desk(machine=emulated_machine('gpu-server', gpus=1, virtual_clock=True, tls=False))


def restores(made: Plan) -> dict[str, RestoreSetting]:
    return {a.setting.value: a for a in made.actions if isinstance(a, RestoreSetting)}


def test_each_setting_that_a_rule_says_to_restore_is_restored_by_one_request_and_read_back(desk: Desk) -> None:
    """The plan writes nothing. The job writes each setting once, and ends well, since its final inspection finds them all."""
    desk.write('PATCH', INTERFACE, {'InterfaceEnabled': False})
    desk.write('PATCH', HOST, {'SerialConsole': {'SSH': {'ServiceEnabled': False}}})
    assert {} == restores(desk.plan())
    desk.change(*DEMANDS)
    made = desk.plan()
    assert ([], set(DEMANDS), ()) == (desk.written(), set(restores(made)), made.refusals)
    job, outcome = desk.do()
    assert isinstance(outcome, Done), outcome
    assert {(method, path) for method, path, _ in RESTORES.values()} == set(desk.written())
    assert len(RESTORES) == len(desk.written())
    assert {ItemState.DONE} == {i.state for i in job.items if isinstance(i.action, RestoreSetting)}
    assert {} == restores(desk.plan())


def test_without_the_key_a_setting_remains_a_finding(desk: Desk) -> None:
    """It is compared, and not written."""
    desk.rule('ipmi_over_lan', 'boot_override', restore=['boot_override'])
    desk.change('ipmi_over_lan', 'boot_override')
    job, outcome = desk.do()
    assert isinstance(outcome, Failed)
    assert [('PATCH', HOST)] == desk.written()
    [why] = job.reasons
    assert 'BMC setting ipmi_over_lan of host: expected disabled, found enabled' in why


@pytest.mark.parametrize('setting', sorted(DEMANDS))
def test_a_bmc_that_claims_success_and_changes_nothing_is_found_out(desk: Desk, setting: str) -> None:
    """It is given some time, the request is not repeated, and the job fails with what the BMC still shows."""
    method, place, _ = RESTORES[setting]
    desk.rule(setting)
    desk.change(setting)
    desk.machine.remote.fault('http-status', uri=place, method=method, status=204)
    job, outcome = desk.do()
    assert isinstance(outcome, Failed)
    assert [(method, place)] == [one for one in desk.written() if one[0] == method]
    [item] = [i for i in job.items if isinstance(i.action, RestoreSetting)]
    assert ItemState.FAILED is item.state
    assert 'the BMC accepted the change to' in str(item.message)
    assert job.reasons[0].startswith(f'restore {setting} of BMC host at '), job.reasons


def test_a_bmc_that_refuses_is_asked_once_and_the_rest_is_restored(desk: Desk) -> None:
    """No other action rests on a setting: the job does what it can, and fails at the end."""
    desk.rule('ipmi_over_lan', 'virtual_media')
    desk.change('ipmi_over_lan', 'virtual_media')
    desk.machine.remote.fault('http-status', uri=PROTOCOL, method='PATCH', status=405)
    job, outcome = desk.do()
    assert isinstance(outcome, Failed)
    assert [('PATCH', PROTOCOL), RESTORES['virtual_media'][:2]] == desk.written()
    assert {'ipmi_over_lan': ItemState.FAILED, 'virtual_media': ItemState.DONE} == {
        i.action.setting.value: i.state for i in job.items if isinstance(i.action, RestoreSetting)
    }


@pytest.mark.parametrize('setting', sorted(DEMANDS))
def test_a_process_that_dies_after_the_write_is_followed_by_one_that_reads(desk: Desk, setting: str) -> None:
    """What was written is found restored, and is not written again."""
    desk.rule(setting)
    desk.change(setting)
    desk.begin()

    kept: list[Any] = []

    def keep(job: Job) -> None:
        # The store of a process that dies between the write and the answer never learns of the write.
        if desk.written():
            raise Dies
        kept.append(encode(job))

    desk.die = keep
    with pytest.raises(Dies):
        desk.go_on()
    desk.die, desk.stored = (lambda job: None), kept[-1]
    assert [ItemState.SENT] == [i.state for i in decode(Job, desk.stored).items if isinstance(i.action, RestoreSetting)]
    _, outcome = desk.go_on()
    assert isinstance(outcome, Done), outcome
    assert [RESTORES[setting][:2]] == desk.written()


def test_what_was_changed_again_since_the_plan_is_left_alone(desk: Desk) -> None:
    """The place of an account may hold another one by now."""
    desk.rule('event_subscriptions')
    desk.change('event_subscriptions')
    desk.begin()
    desk.write('DELETE', f'{SUBSCRIPTIONS}/1')
    desk.write('POST', SUBSCRIPTIONS, {'Destination': 'https://events.example.org/', 'Protocol': 'Redfish'})
    desk.machine.remote.reset_log()
    job, outcome = desk.go_on()
    assert isinstance(outcome, Failed)
    assert [] == desk.written()
    assert "the plan was made with 'https://hook.test', but now it shows 'https://events.example.org'" in job.reasons[0]


# ------------------------------------------------------------------------------------------------- what the target rests on


def test_the_own_account_is_never_disabled(desk: Desk) -> None:
    """A rule that does not list it is refused; one that is named like it is kept, and so is one that the rule lists."""
    own = desk.bmc.username
    desk.rule('accounts', accounts='["other"]')
    desk.change('accounts')
    [refusal] = desk.plan().refusals
    assert 'the BMC is used with this account' in sentence(refusal)
    assert 'list the account in the rule' in sentence(refusal)
    desk.rule('accounts', accounts=f'["{own}"]')
    account = {'UserName': own.upper(), 'Password': 'mallory-9876', 'RoleId': 'Administrator'}
    desk.write('POST', ACCOUNTS, account)
    desk.machine.remote.reset_log()
    assert {f'{ACCOUNTS}/m'} == {a.ref.uri for a in desk.plan().actions if isinstance(a, RestoreSetting)}
    job, outcome = desk.do()
    assert isinstance(outcome, Failed)
    assert [('PATCH', f'{ACCOUNTS}/m')] == desk.written()
    [why] = job.reasons
    assert 'not restored: an account cannot be told apart' in why


def test_an_account_that_became_ours_since_the_plan_is_not_disabled(desk: Desk) -> None:
    """Somebody may have changed the credentials of the node meanwhile."""
    desk.rule('accounts')
    desk.change('accounts')
    desk.begin()
    desk.target = replace(desk.target, bmcs=(*desk.target.bmcs, desk.address('again', username='m', password='mallory-9')))
    job, outcome = desk.go_on()
    assert isinstance(outcome, Failed)
    assert [] == desk.written()
    assert any('nothing was written: a BMC of the target is used with this account' in why for why in job.reasons)


@pytest.mark.parametrize('how', ['interface', 'bmc'])
def test_ipmi_over_lan_is_never_disabled_where_the_target_uses_it(desk: Desk, how: str) -> None:
    """Neither where Ironic uses it for the node, nor where a BMC of the target is used by it: the plan is refused."""
    desk.rule('ipmi_over_lan')
    desk.change('ipmi_over_lan')
    inventory = execution.observe(desk.target, desk.tools, desk.now, settings=True)
    if how == 'interface':
        desk.target = replace(desk.target, node=replace(desk.node, over_ipmi=True))
        made = desk.plan()
    else:
        other = replace(inventory.bmcs[0], name=BmcName('other'), address='ipmi://192.0.2.9', state=None)
        made = plan(replace(inventory, bmcs=(*inventory.bmcs, other)), desk.tools.baseline, desk.node, ())
    [refusal] = made.refusals
    assert 'a BMC of the target is used over IPMI' in sentence(refusal)
    assert {} == restores(made)


def test_what_may_have_started_a_ramdisk_is_left_alone(desk: Desk) -> None:
    """Ironic needs it for the next start of the ramdisk."""
    desk.rule('virtual_media', 'boot_override', 'ipmi_over_lan')
    desk.change('virtual_media', 'boot_override', 'ipmi_over_lan')
    assert {'ipmi_over_lan'} == set(restores(desk.plan(ramdisk=True)))
    assert {'virtual_media', 'boot_override', 'ipmi_over_lan'} == set(restores(desk.plan()))


def test_a_lockdown_is_released_before_and_engaged_after(emulated_machine: Callable[..., Any]) -> None:
    """Under it a BMC changes no setting."""
    machine = emulated_machine(
        'lock-server', features=frozenset({'dell-system-lockdown'}), gpus=1, virtual_clock=True, tls=False
    )
    desk = Desk(machine=machine)
    desk.rule('ipmi_over_lan')
    manager = _managers(desk)[0]
    desk.write('PATCH', f'{manager}/NetworkProtocol', {'IPMI': {'ProtocolEnabled': True}})
    (lockdown,) = (m for m in mechanisms() if m.name == 'dell_system_lockdown')
    desk.tools = replace(desk.tools, mechanisms=(lockdown,))
    [reading] = execution.observe(desk.target, desk.tools, desk.now).platform_locks
    with desk.driver.connect(desk.target.bmcs[0]) as connection:
        lockdown.engage(connection.writer(), reading)
    job, outcome = desk.do()
    assert isinstance(outcome, Done), outcome
    assert [Release, RestoreSetting, Engage] == [
        type(i.action) for i in job.items if isinstance(i.action, Release | RestoreSetting | Engage)
    ]
    [reading] = execution.observe(desk.target, desk.tools, desk.now).platform_locks
    assert LockState.LOCKED_REPORTED is reading.state


def _managers(desk: Desk) -> list[str]:
    answer = requests.get(
        f'{desk.bmc.address}{ROOT}/Managers', auth=(desk.bmc.username, desk.bmc.password), verify=desk.bmc.verify_ca, timeout=10
    )
    return [one['@odata.id'] for one in answer.json()['Members']]
