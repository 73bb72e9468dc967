# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The driver that speaks an address is found, and a broken plugin is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from baremetal_acc.bmc.device_ids import shipped
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.registry import driver, for_address, known_devices
from baremetal_acc.errors import UsageError
from baremetal_acc.model.ref import HOST


@pytest.mark.parametrize('scheme', ['https', 'http'])
def test_redfish_is_found_by_its_scheme(scheme: str) -> None:
    """Plain HTTP only when the operator writes it."""
    assert 'redfish' == for_address(BmcAddress(name=HOST, address=f'{scheme}://192.0.2.1')).protocol


@pytest.mark.parametrize('address', ['192.0.2.1', 'ftp://192.0.2.1', ''])
def test_an_address_that_nobody_speaks_is_refused(address: str) -> None:
    """The message says how to write it."""
    with pytest.raises(UsageError, match='https://HOST'):
        for_address(BmcAddress(name=HOST, address=address))


def test_a_protocol_that_is_not_installed_is_named() -> None:
    """The entry point group is in the message."""
    with pytest.raises(UsageError, match=r"no driver 'nonsense'.*baremetal_acc\.bmc"):
        driver('nonsense')


def test_the_operators_devices_reach_the_driver(tmp_path: Path) -> None:
    """Every TOML file of the folder, by name, before the shipped rows; a folder that is not there is none."""
    assert shipped() == known_devices(tmp_path / 'nowhere')
    for name, kind in (('2.toml', 'GPU'), ('1.toml', 'ASIC')):
        (tmp_path / name).write_text(f'format = 1\n[[device]]\nkind = "{kind}"\nnames = ["Own*"]\n')
    (tmp_path / 'README').write_text('no table')
    known = known_devices(tmp_path)
    row = known.by_name('Own chip')
    assert 'ASIC' == (row.kind if row else None)
    found = driver('redfish', known)
    assert known is getattr(found, '_devices', None)


@pytest.mark.parametrize(
    ('group', 'call'),
    [
        ('baremetal_acc.bmc', 'bmc.registry import driver; driver("broken")'),
        ('baremetal_acc.locks', 'locks.registry import mechanisms; mechanisms()'),
    ],
)
def test_a_broken_plugin_is_an_error_that_names_it(tmp_path: Path, group: str, call: str) -> None:
    """A lock plugin that does not load must not look like a lock that is not there."""
    info = tmp_path / 'broken-1.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: broken\nVersion: 1\n')
    (info / 'entry_points.txt').write_text(f'[{group}]\nbroken = no_such_module:Thing\n')
    code = f'import sys; sys.path.insert(0, {str(tmp_path)!r}); from baremetal_acc.{call}'
    ran = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False, env={'HOME': str(tmp_path)})
    assert 0 != ran.returncode
    assert f'plugin broken ({group}) cannot be loaded' in ran.stderr
    assert 'no_such_module' in ran.stderr
