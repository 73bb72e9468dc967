# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What anybody can do, as data: requests to Ironic's API, which any role may try, and what happens to machine and conductor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ironic.common import states

from tests.exploration.world import World
from tests.ironic.api import LESSEE, OWNER


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A request to the API.

    :ivar do: sends it in the name of a role; the status of the answer.
    :ivar target: of a provision request, in the words of the API; None: it is none.
    :ivar power: of a power request.
    :ivar states: in which it is worth asking; empty: in any.
    """

    name: str
    do: Callable[[World, str], int]
    target: str | None = None
    power: str | None = None
    states: tuple[str, ...] = ()


FREE = (states.MANAGEABLE, states.AVAILABLE)
GIVEN = (states.ACTIVE, states.RESCUE, states.SERVICEFAIL, states.RESCUEFAIL, states.UNRESCUEFAIL)


def _until(world: World, **ahead: int) -> str:
    return (world.site.now + timedelta(**ahead)).isoformat()


def _steps(*names: str, **args: Any) -> list[dict[str, Any]]:
    return [{'interface': 'firmware', 'step': name} | ({'args': args} if args else {}) for name in names]


def _clean(name: str, *steps: str) -> Verb:
    def do(world: World, role: str) -> int:
        return world.provision(role, 'clean', clean_steps=_steps(*steps), disable_ramdisk=True)

    return Verb(name=name, do=do, target='clean', states=(states.MANAGEABLE,))


def _service(name: str, *steps: str) -> Verb:
    def do(world: World, role: str) -> int:
        return world.provision(role, 'service', service_steps=_steps(*steps))

    return Verb(name=name, do=do, target='service', states=(states.ACTIVE, states.SERVICEFAIL))


def _allow(*, vouched: bool) -> Callable[[World, str], int]:
    def do(world: World, role: str) -> int:
        args = {'reason': 'to look', 'expires': _until(world, hours=2), 'vouched': vouched}
        return world.provision(role, 'clean', clean_steps=_steps('allow_host_start', **args), disable_ramdisk=True)

    return do


def _accept(world: World, role: str) -> int:
    args = {'reason': 'as delivered', 'until': _until(world, days=30)}
    code = world.provision(role, 'clean', clean_steps=_steps('accept_accelerator_custody', **args), disable_ramdisk=True)
    if code == 202:
        world.settle_down(120)
        world.accepted()
    return code


def _provision(name: str, target: str, *where: str, **body: Any) -> Verb:
    return Verb(name=name, do=lambda world, role: world.provision(role, target, **body), target=target, states=where)


def _power(target: str, **body: Any) -> Verb:
    return Verb(name=target, do=lambda world, role: world.power(role, target, **body), power=target)


INSTANCE: Mapping[str, str] = {
    'image_source': 'http://127.0.0.1/image',
    'root_gb': '10',
    'project_id': LESSEE,
    'capabilities': '{"boot_option": "local"}',
    'kernel': 'http://127.0.0.1/kernel',
    'ramdisk': 'http://127.0.0.1/ramdisk',
}


def prepare(world: World, role: str) -> int:
    """Nova's patches before a deploy."""
    number = world.random.randrange(10**11, 10**12)
    if world.node.instance_uuid is None:
        world.edit(role, ('add', '/instance_uuid', f'00000000-0000-4000-8000-{number}'))
    return world.edit(role, *(('add', f'/instance_info/{key}', value) for key, value in INSTANCE.items()))


def _deploy(**body: Any) -> Callable[[World, str], int]:
    def do(world: World, role: str) -> int:
        if world.node.provision_state == states.AVAILABLE:
            prepare(world, 'nova')
        return world.provision(role, 'active', **body)

    return do


def _adopt(world: World, role: str) -> int:
    world.edit('system admin', *(('add', f'/instance_info/{key}', value) for key, value in INSTANCE.items()))
    return world.provision(role, 'adopt')


def _rebuild(world: World, role: str) -> int:
    # Ironic fails a rebuild with an image of the same type as before.
    if 'kernel' in world.node.instance_info:
        world.edit('nova', *(('remove', f'/instance_info/{key}', None) for key in ('kernel', 'ramdisk')))
    else:
        world.edit('nova', *(('add', f'/instance_info/{key}', f'http://127.0.0.1/{key}') for key in ('kernel', 'ramdisk')))
    return world.provision(role, 'rebuild')


def _patch(name: str, path: str, value: Any) -> Verb:
    return Verb(name=name, do=lambda world, role: world.edit(role, ('add', path, value)))


def _unmaintain(world: World, role: str) -> int:
    return world.request(role, 'delete', 'maintenance')


UNVERIFIED = [{'interface': 'firmware', 'step': 'verify_accelerators', 'priority': 0, 'args': {}}]
UNLOCKING = [{'interface': 'firmware', 'step': 'unlock_accelerators', 'priority': 90, 'args': {}}]

REQUESTS: tuple[Verb, ...] = (
    _provision('manage', 'manage', states.AVAILABLE, states.CLEANFAIL, states.INSPECTFAIL, states.ADOPTFAIL, states.ENROLL),
    _provision('provide', 'provide', states.MANAGEABLE),
    _provision('inspect', 'inspect', states.MANAGEABLE),
    _provision('delete', 'deleted', *GIVEN, states.DEPLOYFAIL, states.ERROR, states.DEPLOYWAIT),
    _provision('abort', 'abort', states.CLEANWAIT, states.SERVICEWAIT, states.SERVICEFAIL, states.DEPLOYWAIT),
    _provision('rescue', 'rescue', states.ACTIVE, states.RESCUEFAIL, rescue_password='x' * 12),
    _provision('unrescue', 'unrescue', states.RESCUE, states.RESCUEFAIL, states.UNRESCUEFAIL),
    _provision('unhold', 'unhold', states.CLEANHOLD, states.DEPLOYHOLD, states.SERVICEHOLD),
    Verb(name='deploy', do=_deploy(), target='active', states=(states.AVAILABLE, states.DEPLOYFAIL)),
    Verb(
        name='deploy without verification',
        do=_deploy(deploy_steps=UNVERIFIED),
        target='active',
        states=(states.AVAILABLE, states.DEPLOYFAIL),
    ),
    Verb(
        name='deploy and unlock',
        do=_deploy(deploy_steps=UNLOCKING),
        target='active',
        states=(states.AVAILABLE, states.DEPLOYFAIL),
    ),
    Verb(name='rebuild', do=_rebuild, target='rebuild', states=(states.ACTIVE, states.DEPLOYFAIL, states.ERROR)),
    Verb(name='adopt', do=_adopt, target='adopt', states=(states.MANAGEABLE, states.ADOPTFAIL)),
    _clean('clean: lock', 'lock_accelerators'),
    _clean('clean: unlock', 'unlock_accelerators'),
    _clean('clean: reconcile', 'reconcile_accelerators'),
    _clean('clean: verify', 'verify_accelerators'),
    _clean('clean: unlock and lock', 'unlock_accelerators', 'lock_accelerators'),
    _clean('clean: update', 'update_accelerator_firmware'),
    _clean('clean: inventory', 'inventory_accelerators'),
    Verb(name='clean: allow a start', do=_allow(vouched=False), target='clean', states=(states.MANAGEABLE,)),
    Verb(name='clean: vouch for a start', do=_allow(vouched=True), target='clean', states=(states.MANAGEABLE,)),
    Verb(name='clean: accept', do=_accept, target='clean', states=(states.MANAGEABLE,)),
    _service('service: lock', 'lock_accelerators'),
    _service('service: unlock', 'unlock_accelerators'),
    _service('service: reconcile', 'reconcile_accelerators'),
    _service('service: update', 'update_accelerator_firmware'),
    _service('service: verify', 'verify_accelerators'),
    _service('service: unlock and lock', 'unlock_accelerators', 'lock_accelerators'),
    _power(states.POWER_ON),
    _power(states.POWER_OFF),
    _power(states.REBOOT),
    _power(states.SOFT_REBOOT, timeout=60),
    _power(states.SOFT_POWER_OFF, timeout=60),
    Verb(name='maintenance', do=lambda world, role: world.request(role, 'put', 'maintenance', {'reason': 'a fan'})),
    Verb(name='no maintenance', do=_unmaintain),
    _patch('replace the deploy interface', '/instance_info/deploy_interface', 'direct'),
    _patch('replace the firmware interface', '/instance_info/firmware_interface', 'no-firmware'),
    _patch('replace the power interface', '/instance_info/power_interface', 'redfish-acc'),
    _patch('say that nobody is exposed', '/driver_info/acc_exposure', 'none'),
    _patch('become the owner', '/owner', OWNER),
    _patch('lease it', '/lessee', LESSEE),
    _patch('no firmware interface', '/firmware_interface', 'no-firmware'),
    _patch('the firmware interface', '/firmware_interface', 'redfish-acc'),
    _patch('a note', '/extra/note', 'x'),
)
BY_NAME = {verb.name: verb for verb in REQUESTS}

# ---------------------------------------------------------------------------------------------------------- the surroundings


def _unseen_run(world: World) -> None:
    """The BMC restarts; meanwhile the host wakes, does what it can, and goes off again."""
    place = world.site
    place.restart_bmc(loses=world.random.random() < 0.5, seconds=60)
    place.wake()
    place.go_on(timedelta(seconds=20))
    place.press_off()
    place.go_on(timedelta(seconds=15))


def _short_run(world: World) -> None:
    """The host wakes and goes off again before anybody looks."""
    place = world.site
    place.wake()
    place.go_on(timedelta(seconds=11))
    place.press_off()
    place.go_on(timedelta(seconds=11))


def _lose_locks(world: World) -> None:
    world.site.restart_bmc(loses=True, seconds=5)
    world.site.go_on(timedelta(seconds=6))


HAPPENINGS: Mapping[str, Callable[[World], None]] = {
    'the host wakes': lambda world: world.site.wake(),
    'the host wakes and goes off': _short_run,
    'the host goes off': lambda world: world.site.press_off(),
    'the BMC restarts': lambda world: world.site.restart_bmc(loses=False),
    'the BMC restarts and loses the locks': lambda world: world.site.restart_bmc(loses=True),
    'the BMC loses the locks quickly': _lose_locks,
    'the host runs while the BMC restarts': _unseen_run,
    'the mains fail': lambda world: world.site.lose_power(loses=False, returns_on=False),
    'the mains fail, and the host comes back': lambda world: world.site.lose_power(loses=False, returns_on=True),
    'the mains fail, and the locks are lost': lambda world: world.site.lose_power(loses=True, returns_on=True),
    'the ramdisk is up': lambda world: world.heartbeat(),
    'Ironic times out': lambda world: world.time_out(),
}


__all__ = ['BY_NAME', 'HAPPENINGS', 'REQUESTS', 'Verb']
