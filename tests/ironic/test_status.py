# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The upgrade check names nodes that this version does not support, and the commands that correct them."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ironic.common import states
from oslo_upgradecheck.upgradecheck import Code

from baremetal_acc_ironic import status
from baremetal_acc_ironic.state import node_store
from tests.ironic.case import TYPE, IronicCase


class TestStatus(IronicCase):
    """A node of our hardware type, as the database has it."""

    def be(self, **values: Any) -> str:
        """Change the node; its UUID."""
        self.node.refresh()
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()
        return str(self.node.uuid)

    def found(self) -> dict[str, tuple[Code, str | None]]:
        """Each check's result."""
        checks = status.Checks()
        results = {name: check(checks) for name, check in status.Checks._upgrade_checks}
        return {name: (result.code, result.details) for name, result in results.items()}

    def test_a_node_that_goes_with_it_is_not_named(self) -> None:
        """Nor is one of another hardware type."""
        assert {(Code.SUCCESS, None)} == set(self.found().values())
        self.be(driver='redfish', firmware_interface='no-firmware', instance_info={'boot_interface': 'x'})
        assert {(Code.SUCCESS, None)} == set(self.found().values())

    def test_interfaces_that_are_not_supported_any_more_are_named_with_their_commands(self) -> None:
        """In maintenance where Ironic asks for it."""
        uuid = self.be(firmware_interface='no-firmware')
        code, text = self.found()['Interfaces of nodes']
        command = f'baremetal node set {uuid} --firmware-interface {TYPE}'
        assert (Code.FAILURE, command) == (code, str(text).splitlines()[1])
        self.be(power_interface='redfish', provision_state=states.ACTIVE)
        _, text = self.found()['Interfaces of nodes']
        assert (
            f'baremetal node maintenance set {uuid} && {command} --power-interface {TYPE} && '
            f'baremetal node maintenance unset {uuid}'
        ) == str(text).splitlines()[1]

    def test_the_command_mends_the_node(self) -> None:
        """Ironic takes the change though the node cannot be loaded before."""
        self.be(firmware_interface='no-firmware', provision_state=states.AVAILABLE)
        self.node.firmware_interface = TYPE
        self.service.update_node(self.context, self.node)
        assert (Code.SUCCESS, None) == self.found()['Interfaces of nodes']
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error

    def test_what_replaces_interfaces_is_named(self) -> None:
        """By every key."""
        uuid = self.be(instance_info={'power_interface': 'fake', 'boot_interface': 'pxe', 'image_source': 'x'})
        code, text = self.found()['Interfaces in instance_info']
        assert Code.FAILURE == code
        command = f'baremetal node unset {uuid} --instance-info boot_interface --instance-info power_interface'
        assert command == str(text).splitlines()[1]

    def test_active_nodes_of_which_nothing_is_proven_are_named(self) -> None:
        """An adopted one is; one that a verification has handed over is not, also by a version that did not keep when."""
        uuid = self.be(provision_state=states.ACTIVE)
        code, text = self.found()['Proofs of active nodes']
        assert Code.WARNING == code
        assert f'baremetal node service {uuid} --service-steps' in str(text)
        self.be(provision_state=states.AVAILABLE)
        self.to_active()
        assert (Code.SUCCESS, None) == self.found()['Proofs of active nodes']
        proven = self.node_state.proven
        stored = self.node.driver_internal_info[node_store.KEY]
        del stored['proven']
        self.be(driver_internal_info={node_store.KEY: stored})
        assert (Code.SUCCESS, None) == self.found()['Proofs of active nodes']
        assert proven is not None
        assert self.node_state.proven is not None
        node_store.store(self.node, replace(self.node_state, proven=None))
        assert Code.WARNING == self.found()['Proofs of active nodes'][0]

    def test_what_an_earlier_version_handed_over_without_a_certificate_counts(self) -> None:
        """As proven, whenever that was."""
        stored = {'format': 1, 'handed': 'x'}
        assert node_store.proven({node_store.KEY: stored})
        assert datetime.fromtimestamp(0, UTC) == node_store._proven(stored)
        assert not node_store.proven({node_store.KEY: stored | {'proven': None}})
        assert not node_store.proven({node_store.KEY: {'format': 1}})

    def test_many_are_counted(self) -> None:
        """Not all of them are printed."""
        commands = [f'c{n}' for n in range(status.MOST + 7)]
        lines = str(status._result(Code.FAILURE, [*commands, None], 'nodes').details).splitlines()
        assert ('nodes (57):', 'c0', 'and 7 more', status.MOST + 2) == (lines[0], lines[1], lines[-1], len(lines))


def test_a_database_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Not by a traceback: what it is, and where its address comes from."""
    config = tmp_path / 'ironic.conf'
    config.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/none.db\n')
    command = [sys.executable, '-m', 'baremetal_acc_ironic.status', '--config-file', str(config), 'upgrade', 'check']
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    text = ' '.join(ran.stdout.replace('|', ' ').split())
    assert 2 == ran.returncode
    for words in ("Ironic's database cannot be read: ", 'no such table: nodes', '[database] connection', '--config-file'):
        assert words in text
    assert 'Traceback' not in text + ran.stderr
