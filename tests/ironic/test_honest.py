# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences of requests of honest operators, tenants and Nova end as they would without the gate for host starts.

Ironic's real conductor and API run, with the middleware, and each request has the token of its role. The machine is the
emulator's, which answers without a network and on a clock of its own, so that thousands of sequences can run: ``make
soak-honest`` runs 2,000, ``make test`` some. Each verb says how it has to end, and whether the host is on then.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from ironic.common import states
from ironic.conductor import manager as conductor_manager
from ironic.conductor import task_manager
from ironic.drivers.modules import fake
from ironic.drivers.modules.redfish import firmware as redfish_firmware
from ironic.drivers.modules.redfish import inspect as redfish_inspect
from ironic.drivers.modules.redfish import power as redfish_power

from baremetal_acc.bmc import registry as find_driver
from baremetal_acc.emulator.parts import Power
from baremetal_acc_ironic.periodics import watch
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.steps import wall_clock
from tests.ironic.api import LESSEE
from tests.ironic.test_api import LESSEE_ADMIN, LESSEE_MEMBER, SYSTEM_ADMIN, ApiCase, who
from tests.lifecycles.site import Site

SEQUENCES = int(os.environ.get('HONEST', '8'))
AT_ONCE = 10 if SEQUENCES > 50 else 4
VERBS = 10
"""Of a sequence, besides those that a verb needs before it."""

NOVA = who('admin,member,reader,service')
"""Nova's own user, whose token is of the whole system."""

FREE = (states.MANAGEABLE, states.AVAILABLE)


@cache
def site() -> Site:
    """Made once: each sequence begins with the machine as it was."""
    return Site.of('gpu-server', gpus=1)


class OnSite:
    """What Ironic's Redfish interfaces would do over the network, done to the machine."""

    @staticmethod
    def host() -> Any:
        return site().machine.systems['host']

    @classmethod
    def get_power_state(cls, _self: Any, _task: Any) -> str:
        site().go_on(timedelta(minutes=2))
        return str(states.POWER_ON if cls.host().power is Power.ON else states.POWER_OFF)

    @classmethod
    def set_power_state(cls, _self: Any, _task: Any, power_state: str, timeout: int | None = None) -> None:
        words = {states.POWER_ON: 'On', states.POWER_OFF: 'ForceOff', states.SOFT_POWER_OFF: 'ForceOff'}
        word = words.get(power_state, 'ForceRestart' if cls.host().power is Power.ON else 'On')
        if not (word == 'On' and cls.host().power is Power.ON) and not (word == 'ForceOff' and cls.host().power is Power.OFF):
            site().machine.reset_system('host', word)
        site().go_on(timedelta(minutes=2))

    @classmethod
    def reboot(cls, _self: Any, task: Any, timeout: int | None = None) -> None:
        cls.set_power_state(_self, task, states.REBOOT)


class HonestCase(ApiCase):
    """One node that an operator has enrolled; nobody owns it, and nobody leases it."""

    baseline = 'format = 1\n\n[[rule]]\nname = "closed"\nblock = ["host-device"]\n'

    @pytest.fixture(autouse=True)
    def _on_site(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(find_driver, 'connecting', lambda *_a, **_k: site().connect)
        for name in ('get_power_state', 'set_power_state', 'reboot'):
            function = getattr(OnSite, name)
            monkeypatch.setattr(redfish_power.RedfishPower, name, lambda *a, _f=function, **k: _f(*a, **k))
        monkeypatch.setattr(redfish_firmware.RedfishFirmware, 'cache_firmware_components', lambda *_: None)
        monkeypatch.setattr(fake.FakeBoot, 'validate_rescue', lambda *_: None)
        monkeypatch.setattr(redfish_inspect.RedfishInspect, 'inspect_hardware', lambda *_: states.MANAGEABLE)

    def _configure(self) -> None:
        super()._configure()
        self.config(enabled_rescue_interfaces=['no-rescue', 'agent'], default_rescue_interface='no-rescue')
        self.config(group='service_catalog', endpoint_override='http://127.0.0.1:6385')
        self.config(group='nova', send_power_notifications=False)

    def begin(self, seed: int) -> None:
        """A new node on a machine as it was."""
        site().begin()
        self.node.refresh()
        for name in ('owner', 'lessee', 'instance_uuid', 'last_error', 'fault'):
            setattr(self.node, name, None)
        self.node.rescue_interface = 'agent'
        self.node.maintenance = False
        self.node.instance_info, self.node.driver_internal_info = {}, {}
        self.node.provision_state, self.node.power_state = states.MANAGEABLE, states.POWER_OFF
        self.node.save()
        OnSite.set_power_state(None, None, states.POWER_OFF)
        self.random, self.story = random.Random(seed), [f'seed {seed}']

    # ------------------------------------------------------------------------------------------------------------- asking

    def ask(self, headers: dict[str, str], what: str, wanted: int = 202, **body: Any) -> None:
        """A request has to be taken."""
        self.story.append(f'{what} {body}')
        url = f'/v1/nodes/{self.node.uuid}/{what}'
        answer = self.app.put_json(url, body, headers=headers, expect_errors=True)
        assert wanted == answer.status_int, answer.text
        self.node.refresh()

    def edit(self, headers: dict[str, str], *operations: tuple[str, str, Any]) -> None:
        """A node is edited."""
        body = [{'op': op, 'path': path} | ({} if op == 'remove' else {'value': value}) for op, path, value in operations]
        self.story.append(f'patch {[o[1] for o in operations]}')
        answer = self.app.patch_json(f'/v1/nodes/{self.node.uuid}', body, headers=headers, expect_errors=True)
        assert 200 == answer.status_int, answer.text
        self.node.refresh()

    def came(self, state: str) -> None:
        """The flow has to end in a state, without an error, and the node is nowhere held."""
        deadline = time.monotonic() + 60
        while self.settling():
            assert time.monotonic() < deadline, self.node.provision_state
        assert (state, None, False) == (self.node.provision_state, self.node.last_error, self.node.maintenance)

    def settling(self) -> bool:
        """A round of our periodics, while a step waits."""
        self.node.refresh()
        state = node_store.load(self.node)
        waits = self.node.provision_state in (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT)
        if waits or (state.job is not None and not state.job.ended):
            site().go_on(timedelta(minutes=2))
            self.poll()
            return True
        return False

    def host_is(self, wanted: Power) -> None:
        """The machine's truth, and what Ironic has of it."""
        site().go_on(timedelta(minutes=2))
        self.node.refresh()
        ironics = states.POWER_ON if wanted is Power.ON else states.POWER_OFF
        assert (wanted, ironics, None) == (OnSite.host().power, self.node.power_state, self.node.last_error)

    # ---------------------------------------------------------------------------------------------------------- the verbs

    def provide(self) -> None:
        """Operator or Nova: automated cleaning."""
        self.ask(self.random.choice((SYSTEM_ADMIN, NOVA)), 'states/provision', target='provide')
        self.came(states.AVAILABLE)

    def manage(self) -> None:
        """Operator: back to manageable."""
        self.ask(SYSTEM_ADMIN, 'states/provision', target='manage')
        self.came(states.MANAGEABLE)

    def inspect(self) -> None:
        """Operator: out of band."""
        self.ask(SYSTEM_ADMIN, 'states/provision', target='inspect')
        self.came(states.MANAGEABLE)

    def clean_by_hand(self) -> None:
        """Operator: some steps of ours."""
        names = self.random.sample(['lock_accelerators', 'inventory_accelerators', 'reconcile_accelerators'], 2)
        steps = [{'interface': 'firmware', 'step': name} for name in names]
        self.ask(SYSTEM_ADMIN, 'states/provision', target='clean', clean_steps=steps, disable_ramdisk=True)
        self.came(states.MANAGEABLE)

    def look_at_it(self) -> None:
        """Operator: allows a start, starts the host, and powers it off."""
        until = (wall_clock.now() + timedelta(hours=1)).isoformat()
        step = {
            'interface': 'firmware',
            'step': 'allow_host_start',
            'args': {'reason': 'to look', 'expires': until, 'vouched': True},
        }
        self.ask(SYSTEM_ADMIN, 'states/provision', target='clean', clean_steps=[step], disable_ramdisk=True)
        self.came(states.MANAGEABLE)
        self.switch(SYSTEM_ADMIN, states.POWER_ON, Power.ON)
        self.periodics()
        self.switch(SYSTEM_ADMIN, states.REBOOT, Power.ON)
        self.switch(SYSTEM_ADMIN, states.POWER_OFF, Power.OFF)

    def spawn(self) -> None:
        """Nova: its patches, and a deploy."""
        number = self.random.randrange(10**11, 10**12)
        self.edit(NOVA, ('add', '/instance_uuid', f'00000000-0000-4000-8000-{number}'))
        info = {
            'image_source': 'http://127.0.0.1/image',
            'root_gb': '10',
            'swap_mb': '0',
            'display_name': 'web',
            'vcpus': '8',
            'memory_mb': '1024',
            'local_gb': '100',
            'project_id': LESSEE,
            'capabilities': '{"boot_option": "local"}',
            'kernel': 'http://127.0.0.1/kernel',
            'ramdisk': 'http://127.0.0.1/ramdisk',
        }
        self.edit(NOVA, *(('add', f'/instance_info/{key}', value) for key, value in info.items()))
        self.ask(NOVA, 'states/provision', target='active')
        self.came(states.ACTIVE)
        assert LESSEE == self.node.lessee

    def rebuild(self) -> None:
        """Tenant: another image. One of another type, for Ironic fails with one of the same type."""
        if 'kernel' in self.node.instance_info:
            gone = [('remove', f'/instance_info/{key}', None) for key in ('kernel', 'ramdisk')]
            self.edit(NOVA, *gone)
        else:
            self.edit(NOVA, *(('add', f'/instance_info/{key}', f'http://127.0.0.1/{key}') for key in ('kernel', 'ramdisk')))
        self.ask(self.random.choice((LESSEE_ADMIN, NOVA)), 'states/provision', target='rebuild')
        self.came(states.ACTIVE)

    def switch(self, headers: dict[str, str], target: str, wanted: Power) -> None:
        """A power request that has to be carried out."""
        timeout = {'timeout': 60} if self.random.random() < 0.3 else {}
        self.ask(headers, 'states/power', target=target, **timeout)
        self.host_is(wanted)

    def use(self) -> None:
        """Tenant or Nova: on, off, reboot, softly or not."""
        for _ in range(self.random.randint(1, 4)):
            target = self.random.choice(
                (states.POWER_ON, states.POWER_OFF, states.REBOOT, states.SOFT_REBOOT, states.SOFT_POWER_OFF)
            )
            off = target in (states.POWER_OFF, states.SOFT_POWER_OFF)
            self.switch(self.random.choice((LESSEE_MEMBER, NOVA)), target, Power.OFF if off else Power.ON)

    def crash(self) -> None:
        """The host goes off by itself; Ironic's power synchronisation starts it again."""
        self.switch(NOVA, states.POWER_ON, Power.ON)
        self.story.append('the host goes off')
        site().machine.reset_system('host', 'ForceOff')
        site().go_on(timedelta(minutes=2))
        self.sync()
        self.host_is(Power.ON)

    def rescue(self) -> None:
        """Tenant: rescued and unrescued."""
        self.switch(NOVA, states.POWER_ON, Power.ON)
        self.ask(LESSEE_ADMIN, 'states/provision', target='rescue', rescue_password='x' * 12)
        assert (states.RESCUEWAIT, None) == (self.node.provision_state, self.node.last_error)
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.process_event('resume')
            task.process_event('done')  # as the ramdisk's last heartbeat has it
        self.node.refresh()
        assert states.RESCUE == self.node.provision_state
        self.switch(LESSEE_MEMBER, states.REBOOT, Power.ON)
        self.ask(LESSEE_ADMIN, 'states/provision', target='unrescue')
        self.came(states.ACTIVE)
        self.host_is(Power.ON)

    def service_it(self) -> None:
        """Operator: a service, after which the tenant has its host as before."""
        names = self.random.sample(['lock_accelerators', 'verify_accelerators', 'inventory_accelerators'], 2)
        steps = [{'interface': 'firmware', 'step': name} for name in names]
        self.ask(SYSTEM_ADMIN, 'states/provision', target='service', service_steps=steps)
        self.came(states.ACTIVE)

    def unlock_and_lock(self) -> None:
        """Operator: a service that opens locks and closes them again; then the tenant goes on."""
        for name in ('unlock_accelerators', 'lock_accelerators'):
            self.ask(
                SYSTEM_ADMIN, 'states/provision', target='service', service_steps=[{'interface': 'firmware', 'step': name}]
            )
            self.came(states.ACTIVE)
        self.switch(LESSEE_MEMBER, states.POWER_ON, Power.ON)

    def delete(self) -> None:
        """Nova or the tenant: undeployed and cleaned."""
        self.ask(self.random.choice((LESSEE_ADMIN, NOVA)), 'states/provision', target='deleted')
        self.came(states.AVAILABLE)
        assert (None, None, {}) == (self.node.lessee, self.node.instance_uuid, self.node.instance_info)

    def maintain(self) -> None:
        """Operator: maintenance, and out of it."""
        self.ask(SYSTEM_ADMIN, 'maintenance', reason='a fan')
        self.app.delete(f'/v1/nodes/{self.node.uuid}/maintenance', headers=SYSTEM_ADMIN, status=202)

    def sync(self) -> None:
        """Ironic: the power synchronisation."""
        self.story.append('power sync')
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            conductor_manager.do_sync_power_state(task, 0)
        self.node.refresh()
        assert (None, False) == (self.node.last_error, self.node.maintenance)

    def periodics(self) -> None:
        """Ours: all that looks after nodes."""
        self.story.append('periodics')
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            interface = task.driver.firmware
        interface.turn_jobs(self.service, self.context)
        interface.recover_jobs(self.service, self.context)
        interface.end_proofs(self.service, self.context)
        interface.remove_interface_overrides(self.service, self.context)
        before = OnSite.host().power
        watch.hand_out(self.service, self.context, wall_clock.now() + timedelta(hours=self.random.randint(0, 3)))
        self.node.refresh()
        assert (before, ()) == (OnSite.host().power, node_store.load(self.node).untended)
        assert (None, False) == (self.node.last_error, self.node.maintenance)

    def verbs(self) -> Iterator[Callable[[], None]]:
        """Those that are possible now."""
        yield from (self.maintain, self.sync, self.periodics)
        match self.node.provision_state:
            case states.MANAGEABLE:
                yield from (self.provide, self.provide, self.inspect, self.clean_by_hand, self.look_at_it)
            case states.AVAILABLE:
                yield from (self.spawn, self.spawn, self.spawn, self.manage)
            case states.ACTIVE:
                yield from (self.use, self.use, self.crash, self.rescue, self.service_it, self.unlock_and_lock, self.rebuild)
                yield from (self.delete, self.delete)

    def play(self, seed: int) -> Counter[str]:
        """One sequence, to its end: the node is free again."""
        self.begin(seed)
        played: Counter[str] = Counter()
        try:
            for _ in range(VERBS):
                verb = self.random.choice(list(self.verbs()))
                self.story.append(f'-- {verb.__name__}')
                verb()
                played[verb.__name__] += 1
            if self.node.provision_state == states.ACTIVE:
                self.delete()
            assert self.node.provision_state in FREE
        except Exception as exc:
            raise AssertionError('\n'.join([*self.story, f'{type(exc).__name__}: {exc}'])) from exc
        return played


class TestSequences(HonestCase):
    """Some sequences each, which have to end as their verbs say."""

    played: Counter[str] = Counter()  # noqa: RUF012

    def sequences(self, first: int) -> None:
        """Those of some seeds."""
        for seed in range(first, min(first + AT_ONCE, SEQUENCES)):
            self.played.update(self.play(seed))


def _test(first: int) -> Callable[[TestSequences], None]:
    def test(self: TestSequences) -> None:
        self.sequences(first)

    test.__doc__ = 'Nothing that an honest one asks for is refused, and each sequence ends with the node free and whole.'
    return test


for _first in range(0, SEQUENCES, AT_ONCE):
    setattr(TestSequences, f'test_sequences_from_{_first:05}', _test(_first))
