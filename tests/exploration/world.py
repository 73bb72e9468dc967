# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One machine under Ironic's real API and conductor, and everybody who does something to it; and what must never come of it.

Whoever asks has the headers of one of :data:`ROLES`. Time passes on the machine's own clock, also for the product, and the
periodics of Ironic and ours run as often as they would. The truth is the machine's (:mod:`tests.exploration.machine`): the
product is asked for nothing but what it does. :meth:`World.judge_hand_over` and :meth:`World.judge_start` are the oracle.
"""

import contextlib
import hashlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
from ironic.common import driver_factory, exception, states
from ironic.conductor import task_manager
from ironic.drivers.modules.redfish import power as redfish_power
from oslo_utils import timeutils

from baremetal_acc import wait
from baremetal_acc.bmc import registry as find_driver
from baremetal_acc.emulator.parts import Power
from baremetal_acc.errors import AccError
from baremetal_acc.model.custody import Origin
from baremetal_acc_ironic.host_power import host_start, left_off
from baremetal_acc_ironic.opts import REDFISH_ACC
from baremetal_acc_ironic.periodics import availability, unused_nodes, watch, watch_states
from baremetal_acc_ironic.state import certificate, node_store, provision_state
from baremetal_acc_ironic.steps import runner, wall_clock
from tests.exploration.machine import EROT, GPU, MODEL, WANTED, SiteTime, TrueSite, file_of
from tests.ironic.api import LESSEE, OWNER
from tests.ironic.crashing import Mortal, Reborn
from tests.ironic.test_api import who
from tests.ironic.test_honest import HonestCase

ROLES: Mapping[str, dict[str, str]] = {
    'system admin': who('admin,member,reader'),
    'system member': who('member,reader'),
    'system reader': who('reader'),
    'nova': who('admin,member,reader,service'),
    'owner admin': who('admin,manager,member,reader', project=OWNER),
    'owner manager': who('manager,member,reader', project=OWNER),
    'owner member': who('member,reader', project=OWNER),
    'owner reader': who('reader', project=OWNER),
    'lessee admin': who('admin,manager,member,reader', project=LESSEE),
    'lessee manager': who('manager,member,reader', project=LESSEE),
    'lessee member': who('member,reader', project=LESSEE),
    'lessee reader': who('reader', project=LESSEE),
    'stranger': who('admin,manager,member,reader', project='c' * 32),
}
"""Who asks: the headers that keystonemiddleware would set."""

POLL = 5.0
WATCH = 300.0
SYNC = 60.0
"""Seconds between two rounds of our jobs, of the watch over one node, and of Ironic's power synchronisation."""

SEEN_WITHIN = timedelta(seconds=2 * WATCH + 2 * SYNC).total_seconds()
"""How long the watch may take to see that a BMC has lost a lock: a start before that is by nobody's fault."""

WAITS = (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT)

FLOWS_TO_TENANT = (states.DEPLOYING, states.DEPLOYWAIT, states.DEPLOYHOLD, states.ADOPTING)
"""A node that becomes active from one of these is handed over; others have been before."""


class Violation(AssertionError):
    """What must never be."""


@dataclass
class Given:
    """A hand-over.

    :ivar wrong: why nobody should have got it, at that moment; without the bytes of a machine that never was ours to offer.
    :ivar certified: with a certificate that holds.
    :ivar how: by which state of Ironic.
    """

    at: float
    wrong: list[str]
    certified: bool
    how: str


@cache
def site(gpus: int = 1) -> TrueSite:
    """Made once: each sequence begins with the machine as it was."""
    found = TrueSite.of('gpu-server', gpus=gpus)
    assert isinstance(found, TrueSite)
    return found


class World(HonestCase, Reborn):
    """The node, whoever asks for something, and the oracle."""

    baseline = (
        'format = 1\n\n[[rule]]\nname = "all"\nmatch = { kind = "GPU" }\n'
        f'firmware = {{ "HGX_FW_GPU_*" = "{WANTED[GPU]}", "HGX_FW_ERoT_GPU_*" = "{WANTED[EROT]}" }}\n'
        'block = ["host-device"]\ncustody = "required"\n'
    )
    gpus: ClassVar[int] = 1

    @pytest.fixture(autouse=True)
    def _on_site(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super_fixture = HonestCase._on_site
        getattr(super_fixture, '__wrapped__', super_fixture)(self, monkeypatch)
        monkeypatch.setattr(find_driver, 'connecting', lambda *_a, **_k: self.site.connect)
        monkeypatch.setattr(redfish_power.RedfishPower, 'get_power_state', lambda _s, _t: self._power_state())
        monkeypatch.setattr(
            redfish_power.RedfishPower,
            'set_power_state',
            lambda _s, task, state, timeout=None: self._set_power(task, state),
        )
        monkeypatch.setattr(
            redfish_power.RedfishPower, 'reboot', lambda _s, task, timeout=None: self._set_power(task, states.REBOOT)
        )
        monkeypatch.setattr(wait, 'together', lambda do, items: [do(item) for item in items])
        clock = type('Clock', (SiteTime,), {'source': staticmethod(lambda: self.site.read_clock())})
        for module in (certificate, availability, host_start, left_off, node_store, wall_clock):
            monkeypatch.setattr(module, 'datetime', clock)
        decode = node_store.decode
        monkeypatch.setattr(node_store, 'decode', lambda kind, data: decode(datetime if kind is clock else kind, data))
        process = task_manager.TaskManager.process_event

        def processed(task: Any, event: str, *args: Any, **named: Any) -> Any:
            before = task.node.provision_state
            found = process(task, event, *args, **named)
            try:
                self._moved(task, before)
            except Exception as exc:  # noqa: BLE001  Ironic would swallow it
                self.wrong(f'the oracle itself fails: {type(exc).__name__}: {exc}')
            return found

        monkeypatch.setattr(task_manager.TaskManager, 'process_event', processed)
        self._tell_unexpected(monkeypatch)
        for name in ('ironic', 'baremetal_acc', 'baremetal_acc_ironic'):
            monkeypatch.setattr(logging.getLogger(name), 'disabled', True)
        logging.disable(logging.CRITICAL)

    def _tell_unexpected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The product logs errors that it does not expect, and goes on. Here they are told."""
        abandon = runner._abandon

        def abandoned(task: Any, why: str) -> None:
            if why.startswith('unexpected '):
                self.wrong(f'a job ends by an {why}')
            abandon(task, why)

        def watching(run: Callable[[Any], None]) -> Callable[[Any], None]:
            def watched(one: Any) -> None:
                power = self.site.host.power
                self.figures['rounds of the watch'] += 1
                try:
                    run(one)
                    self.figures['hosts that the watch powers off'] += power is Power.ON and self.site.host.power is Power.OFF
                except (AccError, exception.IronicException):
                    raise
                except Exception as exc:
                    self.wrong(f'a round of the watch ends by an unexpected {type(exc).__name__}: {exc}')
                    raise

            return watched

        monkeypatch.setattr(runner, '_abandon', abandoned)
        for kind in (watch._Round, unused_nodes.UnusedNodeRound):
            monkeypatch.setattr(kind, 'run', watching(kind.run))

    @property
    def site(self) -> TrueSite:
        """The machine."""
        return site(self.gpus)

    def tearDown(self) -> None:
        logging.disable(logging.NOTSET)
        super().tearDown()

    def _configure(self) -> None:
        super()._configure()
        (self._folder / 'catalogue.toml').write_text(_catalogue(self._folder, self.site))
        self.config(
            group='baremetal_acc',
            poll_interval=POLL,
            settle_timeout=120,
            reset_timeout=300,
            watch_interval=WATCH,
            accepted_misconfigurations=['middleware'],
        )

    # ------------------------------------------------------------------------------------------------------------ beginning

    def begin(self, seed: int) -> None:
        """A new node on a machine as it was, enrolled and manageable, its host off."""
        self.random = random.Random(seed)
        self.story: list[str] = [f'seed {seed}']
        self.figures: Counter[str] = Counter()
        self.given: Given | None = None
        self._due: dict[str, float] = {}
        self._firmware: Any = None
        self.violations: list[str] = []
        self._moves: list[tuple[str, str]] = []
        self.dead = False
        self.refused: str | None = None
        self.starts = 0
        self.offered = False
        place = self.site
        place.begin()
        place.told = self.tell
        host = place.host
        host.power, host.on_since = Power.OFF, None
        number = self.node.id
        with contextlib.suppress(exception.NodeNotFound, exception.NodeNotLocked, exception.NodeLocked):
            self.dbapi.release_node(self.hostname, number)
        self.dbapi.destroy_node(number)
        self.node = self.make_node(
            uuid=f'00000000-0000-4000-8000-{seed % 10**12:012}',
            name=f'node-{seed}',
            provision_state=states.MANAGEABLE,
            power_state=states.POWER_OFF,
            rescue_interface='agent',
        )

    def make_node(self, **values: Any) -> Any:
        """As an operator enrols it."""
        return super().make_node(**values)

    # --------------------------------------------------------------------------------------------------------- telling

    def tell(self, text: str) -> None:
        """A line of the story."""
        self.story.append(f'{self.site.machine.clock.now():8.0f}  {text}')

    def wrong(self, text: str) -> None:
        """What must never be. Ironic would swallow an error in the middle of its work, so :meth:`check` raises it."""
        self.tell(f'WRONG: {text}')
        self.violations.append(text)

    def check(self) -> None:
        """See that nothing was wrong.

        :raises Violation: something was; tells the story.
        """
        if self.violations:
            raise Violation('\n'.join([self.violations[0], *self.story]))

    # ------------------------------------------------------------------------------------------------------ Ironic's hardware

    def _reach(self) -> None:
        self.site.machine.settle()
        if self.site.machine.is_bmc_down('host'):
            raise exception.RedfishConnectionError(node=self.node.uuid, error='the BMC does not answer')

    def _power_state(self) -> str:
        self._reach()
        return str(states.POWER_ON if self.site.host.power in (Power.ON, Power.POWERING_ON) else states.POWER_OFF)

    def _set_power(self, task: Any, wanted: str) -> None:
        self._reach()
        host, machine = self.site.host, self.site.machine
        for _ in range(10):
            if host.power in (Power.ON, Power.OFF) and not host.booting:
                break
            self.site.go_on(timedelta(seconds=10))
        self._reach()
        if wanted in (states.POWER_OFF, states.SOFT_POWER_OFF):
            if host.power is Power.ON:
                cut = len(machine.cut_writes)
                machine.reset_system('host', 'ForceOff')
                if len(machine.cut_writes) > cut:
                    self.wrong(f'Ironic cuts a write: {machine.cut_writes[-1]}')
        elif not (wanted == states.POWER_ON and host.power is Power.ON):
            self.judge_start(task, wanted)
            self.starts += 1
            self.site.hostile = not self._vouched(task)
            machine.reset_system('host', 'ForceRestart' if host.power is Power.ON else 'On')
        self.site.go_on(timedelta(seconds=30))

    def _vouched(self, task: Any) -> bool:
        word = node_store.load(task.node).start_allowed
        free = task.node.provision_state in (states.ENROLL, states.MANAGEABLE, states.AVAILABLE)
        return free and word is not None and word.vouched and self.site.now < word.until

    # ------------------------------------------------------------------------------------------------------------ the oracle

    def _moved(self, task: Any, before: str) -> None:
        """A node has come from one provision state to another."""
        now = task.node.provision_state
        self._moves.append((before, now))
        self.offered |= now == states.AVAILABLE
        self.tell(f'  {before} -> {now}')
        if now == states.ACTIVE and before in FLOWS_TO_TENANT:
            self.judge_hand_over(task, before)
        elif now not in provision_state.TENANT_STATES and now not in (states.ACTIVE, states.UNRESCUING, states.RESCUING):
            self.given = None

    def judge_hand_over(self, task: Any, how: str) -> None:
        """A node becomes active: with a certificate nothing may be wrong; without one that is for the first start."""
        self.site.look_around()
        wrong = self.site.objections()
        try:
            certificate.of(task.node, node_store.load(task.node))
        except AccError:
            certified = False
        else:
            certified = True
        known = wrong
        if how == states.ADOPTING and not self.offered:
            # Whoever has it had it before us, and the operator says so: its paths are ours to answer for, its bytes are not.
            known = [w for w in wrong if 'bytes' not in w]
        self.given = Given(self.site.machine.clock.now(), known, certified, how)
        self.figures['hand-overs'] += 1
        self.figures['certified hand-overs'] += certified
        self.tell(f'hand-over from {how}, certified: {certified}, {wrong}')
        if certified and wrong:
            self.wrong(f'handed over with a certificate, and {"; ".join(wrong)}')

    def judge_start(self, task: Any, wanted: str) -> None:
        """The host is about to be started by our leave."""
        state = task.node.provision_state
        place = self.site
        place.look_around()
        now = place.machine.clock.now()
        self.figures['starts by our leave'] += 1
        self.tell(f'{wanted} by our leave in {state}')
        if state in (states.DEPLOYING, states.DEPLOYWAIT, states.DEPLOYHOLD) and place.objections():
            self.wrong(f'{wanted} in {state}, and {"; ".join(place.objections())}')
        if state not in provision_state.TENANT_STATES and state not in (states.DELETING, states.ERROR):
            return
        for way, (at, by_us) in place.open_since.items():
            if by_us or now - at > SEEN_WITHIN:
                self.wrong(f'{wanted} in {state} by our leave, and the way to {way} stands open since {at:.0f} by_us={by_us}')
            self.figures['starts before the watch has seen an open path'] += 1
        if self.given is not None and self.given.wrong:
            # What was written again since, and spoilt again by whoever has the machine, is not what was handed over.
            foul = sorted({w for w in self.given.wrong if 'bytes' in w} & set(place.objections()))
            if foul:
                self.wrong(f'{wanted} in {state} by our leave of what was handed over though {"; ".join(foul)}')
        elif self.given is None and place.foul and state in provision_state.TENANT_STATES:
            self.wrong(
                f'{wanted} in {state} by our leave, of a node that nobody was given, and {"; ".join(place.objections())}'
            )

    # -------------------------------------------------------------------------------------------------------------- asking

    def request(self, role: str, method: str, what: str, body: Any = None) -> int:
        """A request to the API; the status of its answer."""
        url = f'/v1/nodes/{self.node.uuid}' + (f'/{what}' if what else '')
        call = getattr(self.app, f'{method}_json') if body is not None else getattr(self.app, method)
        more = {} if body is None else {'params': body}
        answer = call(url, headers=ROLES[role], expect_errors=True, **more)
        self.said = answer.text
        code = int(answer.status_int)
        self.node.refresh()
        self.tell(f'{role}: {method} {what} {_short(body)} -> {code}; {self.stands()}')
        if code >= 400:
            self.figures[f'answers {code}'] += code >= 500
            self.tell(f'  {answer.text[:400]}')
        return code

    def provision(self, role: str, target: str, **body: Any) -> int:
        """Ask for a provision state."""
        return self.request(role, 'put', 'states/provision', {'target': target} | body)

    def power(self, role: str, target: str, **body: Any) -> int:
        """Ask for a power state."""
        return self.request(role, 'put', 'states/power', {'target': target} | body)

    def edit(self, role: Any, *operations: tuple[str, str, Any]) -> int:  # type: ignore[override]
        """Ask for a change of the node's fields."""
        body = [{'op': op, 'path': path} | ({} if op == 'remove' else {'value': value}) for op, path, value in operations]
        return self.request(role, 'patch', '', body)

    def stands(self) -> str:
        """How things stand, in a few words."""
        node, place = self.node, self.site
        open_ones = len(place.open_since)
        return (
            f'{node.provision_state}{" M" if node.maintenance else ""}, host {place.host.power}, {open_ones} open, '
            f'{len(place.foul)} foul' + (f', error {node.last_error[:700]}' if node.last_error else '')
        )

    # -------------------------------------------------------------------------------------------------------------- time

    @property
    def job(self) -> Any:
        """Our job, if one is under way."""
        if not node_store.busy(self.node.driver_internal_info):
            return None
        try:
            found = node_store.load(self.node).job
        except AccError:
            return None
        return None if found is None or found.ended else found

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with all periodics."""
        clock = self.site.machine.clock
        end = clock.now() + seconds
        while clock.now() < end and not self.dead:
            busy = self.node.provision_state in WAITS or self.job is not None
            self.site.go_on(timedelta(seconds=min(POLL if busy else 15.0 if self._soon else 60.0, max(0.1, end - clock.now()))))
            self.periodics()

    @property
    def _soon(self) -> bool:
        return node_store.unwatched(self.node.driver_internal_info) and self.node.provision_state == states.ACTIVE

    def settle_down(self, most: float = 3600.0) -> None:
        """Let time pass until no step waits and no job works."""
        clock = self.site.machine.clock
        end = clock.now() + most
        while clock.now() < end and not self.dead:
            if self.node.provision_state not in WAITS and self.job is None:
                return
            self.site.go_on(timedelta(seconds=POLL))
            self.periodics()

    def _is_due(self, name: str, spacing: float) -> bool:
        now = self.site.machine.clock.now()
        if self._due.get(name, -1.0) > now:
            return False
        self._due[name] = now + spacing
        return True

    def periodics(self) -> None:
        """A round of those that are due."""
        self.node.refresh()
        firmware = self._interface()
        info = self.node.driver_internal_info
        if node_store.busy(info) or self.node.provision_state in WAITS:
            self._run(lambda: firmware.turn_jobs(self.service, self.context))
            self._run(lambda: firmware.recover_jobs(self.service, self.context))
        if node_store.proven(info) or node_store.certified(info):
            self._run(lambda: firmware.end_proofs(self.service, self.context))
        if self._is_due('watch', 15.0) and self.node.provision_state in watch_states.WATCHED:
            self._run(lambda: watch.hand_out(self.service, self.context, wall_clock.now()))
        projects = {what for what, who in (('owned', self.node.owner), ('leased', self.node.lessee)) if who is not None}
        if not projects <= node_store.projects_met(info):
            self._run(lambda: firmware.keep_projects(self.service, self.context))
        if self._is_due('overrides', 60.0) and any('_interface' in key for key in self.node.instance_info):
            self._run(lambda: firmware.remove_interface_overrides(self.service, self.context))
        if self._is_due('sync', SYNC) and not self._is_in_sync():
            self._run(lambda: self.service._sync_power_states(self.context))
        self.node.refresh()

    def _is_in_sync(self) -> bool:
        """Ironic's power synchronisation would find what it has, and do nothing."""
        machine, host = self.site.machine, self.site.host
        quiet = host.power in (Power.ON, Power.OFF) and not machine.is_bmc_down('host')
        on = self.node.power_state == states.POWER_ON
        return quiet and self.node.last_error is None and self.node.power_state is not None and on is (host.power is Power.ON)

    def _run(self, periodic: Callable[[], None]) -> None:
        if self.dead:
            return
        try:
            periodic()
        except exception.IronicException as exc:
            self.figures[f'periodic: {type(exc).__name__}'] += 1

    def _interface(self) -> Any:
        """Our firmware interface, whose periodics run in a conductor whatever node it has."""
        if self._firmware is None:
            # Not by way of the node: what stands in its instance_info may keep Ironic from loading it.
            kind = driver_factory.get_hardware_type(self.node.driver)
            self._firmware = driver_factory.get_interface(kind, 'firmware', REDFISH_ACC)
        return self._firmware

    # ------------------------------------------------------------------------------------------------------------- crashes

    def crashing(self, number: int, verb: Callable[[], Any], *, after: bool) -> bool:
        """Do something with a conductor that dies as it saves the node for the n-th time; then a new one starts."""
        mortal = Mortal(number, after=after)
        with mortal.alive():
            verb()
        self.dead = mortal.dead
        if mortal.dead:
            self.tell(f'the conductor has died {"after" if after else "before"} save {number}')
            self.dead = False
            with mock.patch.object(self.service, 'del_host'):
                self.restart()
            self.node.refresh()
            self.tell(f'a new conductor; {self.stands()}')
        return mortal.dead

    def heartbeat(self) -> None:
        """The ramdisk of a rescue is up, as its last heartbeat has it."""
        if self.node.provision_state != states.RESCUEWAIT:
            return
        with (
            contextlib.suppress(exception.NodeLocked),
            task_manager.acquire(self.context, self.node.uuid, shared=False) as task,
        ):
            task.process_event('resume')
            task.process_event('done')
        self.node.refresh()
        self.tell(f'the ramdisk is up; {self.stands()}')

    def time_out(self) -> None:
        """Ironic's own time-outs strike."""
        if self.node.provision_state not in WAITS:
            return
        self.node.refresh()
        self.node.provision_updated_at = timeutils.utcnow() - timedelta(days=1)
        self.node.save()
        for check in ('_check_cleanwait_timeouts', '_check_servicewait_timeouts', '_check_deploy_timeouts'):
            self._run(lambda check=check: getattr(self.service, check)(self.context))
        self.node.refresh()
        self.tell(f'Ironic has waited for too long; {self.stands()}')

    def accepted(self) -> None:
        """What an operator answers for is noted, if the step was done."""
        self.node.refresh()
        chains = [c.chain for c in node_store.load(self.node).custody.cards if c.chain is not None]
        if self.node.last_error is None and any(c.origin is Origin.ACCEPTED and c.broken is None for c in chains):
            self.site.accept()
            self.tell('an operator answers for what the cards run')


def _short(body: Any) -> str:
    return str(body)[:240]


def _catalogue(folder: Path, place: TrueSite) -> str:
    """Images of both components, of what the baseline wants and of what the machine came with."""
    text = ['format = 1']
    for component, item, reset in ((GPU, 'HGX_FW_GPU_*', 'power-cycle'), (EROT, 'HGX_FW_ERoT_GPU_*', None)):
        first = place.first[component]
        for version in (first, WANTED[component]):
            data = file_of(component, version)
            name, other = f'{component}-{version}', f'{component}-{first if version != first else WANTED[component]}'
            (folder / name).write_bytes(data)
            text.append(
                f'[[image]]\nname = "{name}"\nkind = "firmware"\nfits = [{{ pci = "0x10de:0x2330" }}]\ncomponent = "{item}"\n'
                f'version = "{version}"\nsecurity_version = 1\nsource = "{name}"\nsize = {len(data)}\n'
                f'digest = "sha256:{hashlib.sha256(data).hexdigest()}"\nrestore = "{other}"\n'
                + (f'apply = {{ reset = "{reset}" }}\n' if reset else '')
            )
    return '\n\n'.join(text)


__all__ = ['MODEL', 'ROLES', 'Given', 'Violation', 'World', 'site']
