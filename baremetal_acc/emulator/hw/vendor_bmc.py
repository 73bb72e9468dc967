# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""BMC-wide vendor locks of an emulated server: system lockdowns and switches of host-to-BMC interfaces, each a named feature.

**Hardware:** the BMC of ``board.py`` with vendor extensions. Those of Dell, HPE, Lenovo and Supermicro have the form of the
recordings; there is no recording for those of AMI. **Found by:** the extensions of the Manager, its NetworkProtocol, the Bios.
**Locks:** ``dell-system-lockdown`` and ``supermicro-sys-lockdown`` block every path through the BMC. While one of them is
closed, the BMC changes no other setting and accepts no update. ``supermicro-kcs``, ``hpe-kcs``, ``lenovo-kcs`` and ``ami-kcs``
block the system interface (``kcs``); the last one takes effect with the next start of the host. ``ipmi-host-interface`` is the
standard property of the System for the same. ``hpe-virtual-nic`` and
``hpe-host-authentication`` each add one more path (``vnic``, ``chif``) and its switch; the switch of the virtual NIC takes
effect with a restart of the BMC. InterfaceEnabled of the standard host interface switches ``redfish``. **Update:** an image
that the host sends to the BMC is written as if a user of the BMC had sent it. **Tried on:** no hardware.
"""

from collections.abc import Callable, Mapping

from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.parts import Restart, WriteRoute
from baremetal_acc.emulator.redfish.resource import Body, Resource, ref
from baremetal_acc.emulator.redfish.view import View

KCS, REDFISH, VNIC, CHIF = 'kcs', 'redfish', 'vnic', 'chif'
"""Paths of the host to its BMC: the system interface, the host interface, a vendor's virtual NIC, a vendor's own channel."""

DENY, ALLOW = 'Deny All', 'Allow All'


def add(maker: MachineMaker, view: View) -> None:
    """Add the enabled features, and the paths by which the host reaches the firmware of the cards through this BMC."""
    manager = maker.machine.bmcs[view.name].manager_uri
    ways: dict[str, list[str]] = {KCS: [], REDFISH: _host_interfaces(maker, view)}
    lockdowns = maker.machine.bmcs[view.name].lockdowns
    for name, (way, make) in {**FEATURES, **maker.parameters.extensions}.items():
        if not maker.feature(name):
            continue
        key = make(maker, view, manager)
        if way is None:
            lockdowns.append(key)
        else:
            ways.setdefault(way, []).append(key)
            maker.machine.bmcs[view.name].host_paths.setdefault(way, []).append(key)
    for component in tuple(maker.machine.components.values()):
        if component.bmc != view.name or not component.device or component.kind is not ImageFormat.FIRMWARE:
            continue
        protect = (component.write_protect,) if component.write_protect is not None else ()
        maker.machine.ways += [
            WriteRoute(
                device=component.device,
                component=component.component,
                path=path,
                target=component.key,
                locks=(*locks, *lockdowns, *protect),
            )
            for path, locks in ways.items()
        ]


def _host_interfaces(maker: MachineMaker, view: View) -> list[str]:
    return [key for key, one in maker.machine.settings.items() if one.bmc == view.name and key.endswith('/InterfaceEnabled')]


def _dell_lockdown(maker: MachineMaker, view: View, manager: str) -> str:
    uri = f'{manager}/Oem/Dell/DellAttributes/{manager.rsplit("/", 1)[-1]}'
    name = 'Lockdown.1.SystemLockdown'
    key = _lock(maker, view, f'{uri}/{name}', uri, closed='Enabled', opened='Disabled')
    racadm = f'{uri}/Racadm.1.Enable'
    maker.machine.add_setting(racadm, 'Enabled', bmc=view.name, uri=uri)
    words = ('Enabled', 'Disabled')
    view.tree.add(
        Resource(
            uri=uri,
            type='#DellAttributes.v1_0_0.DellAttributes',
            render=lambda: {
                'Id': manager.rsplit('/', 1)[-1],
                'Name': 'OEMAttributeRegistry',
                'Attributes': {name: maker.machine.shown(key), 'Racadm.1.Enable': maker.machine.shown(racadm)},
            },
            writable=lambda: {
                'Attributes': {
                    name: view.setting(key, (str,), words),
                    'Racadm.1.Enable': view.setting(racadm, (str,), words),
                }
            },
            privilege='ConfigureManager',
        )
    )
    view.tree.extend(manager, lambda: {'Links': {'Oem': {'Dell': {'DellAttributes': [ref(uri)]}}}})
    return key


def _supermicro_kcs(maker: MachineMaker, view: View, manager: str) -> str:
    levels = ('Administrator', 'Operator', 'User', 'Callback')
    key = _supermicro(
        maker, view, manager, 'KCSInterface', 'Privilege', closed='Callback', opened='Administrator', allowed=levels
    )
    maker.machine.bmcs[view.name].host_limits.append(key)
    return key


def _supermicro_lockdown(maker: MachineMaker, view: View, manager: str) -> str:
    return _supermicro(maker, view, manager, 'SysLockdown', 'SysLockdownEnabled', closed=True, opened=False)


def _supermicro(
    maker: MachineMaker,
    view: View,
    manager: str,
    name: str,
    field: str,
    *,
    closed: str | bool,
    opened: str | bool,
    allowed: tuple[str, ...] | None = None,
) -> str:
    uri = f'{manager}/Oem/Supermicro/{name}'
    key = _lock(maker, view, f'{uri}/{field}', uri, closed=closed, opened=opened)
    view.tree.add(
        Resource(
            uri=uri,
            type=f'#{name}.v1_1_0.{name}',
            render=lambda: {'Id': name, 'Name': name, field: maker.machine.shown(key)},
            writable=lambda: {field: view.setting(key, (type(closed),), allowed)},
            privilege='ConfigureManager',
        )
    )
    view.tree.extend(manager, lambda: {'Oem': {'Supermicro': {name: ref(uri)}}})
    return key


def _hpe_kcs(maker: MachineMaker, view: View, manager: str) -> str:
    uri = f'{manager}/NetworkProtocol'
    view.tree.extend(manager, lambda: {'Oem': {'Hpe': {'@odata.type': '#HpeiLO.v2_16_1.HpeiLO'}}})
    return _property(maker, view, uri, 'Hpe', 'KcsEnabled', closed=False)


def _hpe_virtual_nic(maker: MachineMaker, view: View, manager: str) -> str:
    key = _property(maker, view, manager, 'Hpe', 'VirtualNICEnabled', closed=False, with_bmc=True)

    def settings() -> Body:
        told = 'SomePendingReset' if maker.machine.is_pending(key) else 'Current'
        return {'Oem': {'Hpe': {'@odata.type': '#HpeiLO.v2_16_1.HpeiLO', 'ConfigurationSettings': told}}}

    view.tree.extend(manager, settings)
    return key


def _hpe_authentication(maker: MachineMaker, view: View, manager: str) -> str:
    return _property(maker, view, manager, 'Hpe', 'RequireHostAuthentication', closed=True)


def _lenovo_kcs(maker: MachineMaker, view: View, manager: str) -> str:
    return _property(maker, view, manager, 'Lenovo', 'KCSEnabled', closed=False)


def _property(
    maker: MachineMaker, view: View, uri: str, vendor: str, field: str, *, closed: bool, with_bmc: bool = False
) -> str:
    """Add a lock that a vendor adds as a property to an existing resource."""
    key = _lock(maker, view, f'{uri}/Oem/{vendor}/{field}', uri, closed=closed, opened=not closed, with_bmc=with_bmc)
    view.tree.extend(
        uri,
        lambda: {'Oem': {vendor: {field: maker.machine.shown(key)}}},
        lambda: {'Oem': {vendor: {field: view.setting(key, (bool,))}}},
    )
    return key


def _ipmi_host_interface(maker: MachineMaker, view: View, manager: str) -> str:
    system = maker.machine.systems['host'].uri
    key = _lock(maker, view, f'{system}/IPMIHostInterface/ServiceEnabled', system, closed=False, opened=True)
    view.tree.extend(
        system,
        lambda: {'IPMIHostInterface': {'ServiceEnabled': maker.machine.shown(key)}},
        lambda: {'IPMIHostInterface': {'ServiceEnabled': view.setting(key, (bool,))}},
    )
    return key


def _ami_kcs(maker: MachineMaker, view: View, manager: str) -> str:
    machine = maker.machine
    bios = f'{machine.systems["host"].uri}/Bios'
    key = f'{bios}/KCSACP'
    machine.add_lock(key, ALLOW, locked=DENY, open=ALLOW, bmc=view.name, uri=bios, takes_force=Restart.WARM)
    view.tree.extend('/redfish/v1', lambda: {'Oem': {'Ami': {'@odata.type': '#AmiServiceRoot.v1_0_0.AmiServiceRoot'}}})
    view.tree.extend(bios, lambda: {'Attributes': {'KCSACP': machine.shown_in_force(key)}})
    view.tree.extend(
        f'{bios}/Settings',
        lambda: {'Attributes': {'KCSACP': machine.shown(key)} if machine.is_pending(key) else {}},
        lambda: {'Attributes': {'KCSACP': view.setting(key, (str,), (DENY, ALLOW))}},
    )
    return key


def _lock(
    maker: MachineMaker, view: View, key: str, uri: str, *, closed: str | bool, opened: str | bool, with_bmc: bool = False
) -> str:
    maker.machine.add_lock(key, opened, locked=closed, open=opened, bmc=view.name, uri=uri, with_bmc=with_bmc)
    return key


FEATURES: Mapping[str, tuple[str | None, Callable[[MachineMaker, View, str], str]]] = {
    'dell-system-lockdown': (None, _dell_lockdown),
    'supermicro-kcs': (KCS, _supermicro_kcs),
    'supermicro-sys-lockdown': (None, _supermicro_lockdown),
    'hpe-kcs': (KCS, _hpe_kcs),
    'hpe-virtual-nic': (VNIC, _hpe_virtual_nic),
    'hpe-host-authentication': (CHIF, _hpe_authentication),
    'lenovo-kcs': (KCS, _lenovo_kcs),
    'ami-kcs': (KCS, _ami_kcs),
    'ipmi-host-interface': (KCS, _ipmi_host_interface),
}
"""By name: the path that the feature closes (None: a lockdown, which closes all of them), and the function that adds it."""
