# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The checks of ``baremetal-acc-status upgrade check``: nodes that need a change for this version, and the commands for it.

Two more checks say which service checks the policy rules of steps, and whether the API of the installed Ironic can be guarded.
They read Ironic's database as ``ironic-status`` does, and ask no BMC and no API. Exit codes are those of oslo.upgradecheck: 0
all is well, 1 a warning, 2 a failure, 255 an error.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ironic.common import states
from ironic.db.sqlalchemy import models
from oslo_db.sqlalchemy import enginefacade
from oslo_upgradecheck import upgradecheck
from sqlalchemy import select

from baremetal_acc_ironic import opts, settings
from baremetal_acc_ironic.authorization import interface_overrides, policy, step_rules
from baremetal_acc_ironic.state import node_store

MOST = 50
"""Nodes that one check names."""

_CHANGEABLE = frozenset({states.ENROLL, states.INSPECTING, states.INSPECTWAIT, states.MANAGEABLE, states.AVAILABLE})
"""States in which Ironic changes interfaces without maintenance. Source: ironic 39.0.0, conductor/manager.py, update_node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRow:
    """The columns of a node that the checks read."""

    uuid: str
    driver: str
    state: str | None
    maintenance: bool
    firmware: str | None
    power: str | None
    instance_info: dict[str, Any]
    driver_internal_info: dict[str, Any]


def rows() -> Iterator[StatusRow]:
    """Yield the nodes of our hardware types from Ironic's database."""
    node = models.Node
    query = select(
        node.uuid,
        node.driver,
        node.provision_state,
        node.maintenance,
        node.firmware_interface,
        node.power_interface,
        node.instance_info,
        node.driver_internal_info,
    ).where(node.driver.in_(opts.HARDWARE_TYPES))
    with enginefacade.reader.using(interface_overrides.CONTEXT) as session:
        for uuid, driver, state, maintenance, firmware, power, instance_info, internal in session.execute(query):
            yield StatusRow(
                uuid=uuid,
                driver=driver,
                state=state,
                maintenance=bool(maintenance),
                firmware=firmware,
                power=power,
                instance_info=instance_info or {},
                driver_internal_info=internal or {},
            )


def unsupported(row: StatusRow) -> str | None:
    """Return the commands that give a node the interfaces of its hardware type; None if it has them."""
    wrong = [n for n, value in (('firmware', row.firmware), ('power', row.power)) if value not in (None, row.driver)]
    if not wrong:
        return None
    options = ' '.join(f'--{name}-interface {row.driver}' for name in wrong)
    command = f'baremetal node set {row.uuid} {options}'
    if row.state in _CHANGEABLE or row.maintenance:
        return command
    return f'baremetal node maintenance set {row.uuid} && {command} && baremetal node maintenance unset {row.uuid}'


def overridden(row: StatusRow) -> str | None:
    """Return the command that removes the keys that replace interfaces of a node; None if there are none."""
    keys = interface_overrides.standing(row.instance_info)
    return f'baremetal node unset {row.uuid} {" ".join(f"--instance-info {key}" for key in keys)}' if keys else None


def unproven(row: StatusRow) -> str | None:
    """Return the command that lets the host of an active node be started; None if nothing stops it."""
    info = row.driver_internal_info
    if row.state != states.ACTIVE or (node_store.proven(info) and not node_store.ending(info)):
        return None
    steps = '[{"interface": "firmware", "step": "lock_accelerators"}]'
    return f"baremetal node service {row.uuid} --service-steps '{steps}'"


class Checks(upgradecheck.UpgradeCommands):
    """The checks, in the order in which they are printed."""

    def _check_interfaces(self) -> Any:
        return _result(
            upgradecheck.Code.FAILURE,
            (unsupported(row) for row in rows()),
            'nodes with a firmware or power interface that their hardware type does not support any more; Ironic cannot use '
            'them',
        )

    def _check_overrides(self) -> Any:
        return _result(
            upgradecheck.Code.FAILURE,
            (overridden(row) for row in rows()),
            'nodes with interfaces in instance_info, which is refused; clean them before they are deployed again',
        )

    def _check_proofs(self) -> Any:
        return _result(
            upgradecheck.Code.WARNING,
            (unproven(row) for row in rows()),
            'active nodes that verify_accelerators has not handed over; once powered off, their hosts are not started again '
            'before their locks are proven closed',
        )

    def _check_rules(self) -> Any:
        return upgradecheck.Result(upgradecheck.Code.SUCCESS, step_rules.who_checks() if step_rules.checked_here() else None)

    def _check_guard(self) -> Any:
        missing = dict(policy.shortcomings()).get(policy.NO_API_GUARD)
        if missing is None:
            return upgradecheck.Result(upgradecheck.Code.SUCCESS)
        accepted = policy.is_accepted(policy.NO_API_GUARD)
        return upgradecheck.Result(upgradecheck.Code.WARNING if accepted else upgradecheck.Code.FAILURE, missing)

    _upgrade_checks = (
        ('Interfaces of nodes', _check_interfaces),
        ('Interfaces in instance_info', _check_overrides),
        ('Proofs of active nodes', _check_proofs),
        ('Policy rules of steps', _check_rules),
        ("Guard of Ironic's API", _check_guard),
    )


def _result(code: Any, commands: Iterable[str | None], what: str) -> Any:
    try:
        found = [command for command in commands if command is not None]
    except Exception as exc:  # noqa: BLE001 - SQLAlchemy and the drivers of databases have errors of many classes
        said = (str(exc).splitlines() or [''])[0] or type(exc).__name__
        where = 'set [database] connection in ironic.conf, and name that file by --config-file before "upgrade check"'
        return upgradecheck.Result(upgradecheck.Code.FAILURE, f"Ironic's database cannot be read: {said} ({where})")
    if not found:
        return upgradecheck.Result(upgradecheck.Code.SUCCESS)
    more = [f'and {len(found) - MOST} more'] if len(found) > MOST else []
    return upgradecheck.Result(code, '\n'.join([f'{what} ({len(found)}):', *found[:MOST], *more]))


def main() -> int:
    """Run the command line."""
    return int(upgradecheck.main(settings.ironic_conf(), project='ironic', upgrade_command=Checks()))


if __name__ == '__main__':
    sys.exit(main())
