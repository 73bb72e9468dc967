# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Renaming an option takes four files: its declaration, its setting, the module that reads it, and the generated sample."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from baremetal_acc.config.settings import DemandSettings, Settings
from baremetal_acc_ironic.settings import GuestSettings
from tests.newcomer.apply_patch import MYPY, Copy, files_of, these_tests

PATCH = 'rename_option.patch'
"""``image_server_key`` becomes ``image_server_private_key``."""

SETTINGS = these_tests('tests/unit/config')
SAMPLE = these_tests('tests/ironic/test_samples.py')

MISSED = {
    'baremetal_acc/config/options.py': (SETTINGS, r'Settings.image_server_private_key has no option: rename it, or declare'),
    'baremetal_acc/config/settings.py': (SETTINGS, r'option \[baremetal_acc\] image_server_private_key has no setting: add'),
    'baremetal_acc/bootstrap.py': (MYPY, r'bootstrap.py:\d+: error: "Settings" has no attribute "image_server_key"'),
    'etc/baremetal_acc/baremetal_acc.conf.sample': (SAMPLE, r'conf.sample is not what the options say; run: make samples'),
}
"""What says so when one of the files is left out, and how."""

MOST_FILES = 4

READ_IN_SEVERAL = {
    'baseline': 4,
    'bmc_concurrency': 2,
    'catalogue': 5,
    'catalogue_serial_file': 2,
    'certificate_folder': 2,
    'certificate_key': 3,
    'certificate_trust': 2,
    'default_exposure': 2,
    'job_timeout': 3,
    'poll_interval': 4,
    'publish': 2,
    'settle_timeout': 2,
    'state_dir': 2,
    'tenant_deploy_interfaces': 3,
    'trust_ramdisk': 2,
    'watch_look_interval': 2,
    'watch_patience': 3,
}
"""Options that more than one module reads, and how many do at most: a rename takes as many files more. mypy names each one."""

OLD_NAME = """
import sys
from pathlib import Path
from oslo_config import cfg
from baremetal_acc.config import options
from baremetal_acc.config.settings import Settings
conf = cfg.ConfigOpts()
options.register(conf)
conf(args=[], project='x', default_config_files=[sys.argv[1]], default_config_dirs=[])
options.check(conf)
assert Settings.from_conf(conf).image_server_private_key == Path('/old.pem')
"""


@pytest.fixture(scope='module')
def copy(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The tree, before the patch."""
    return Copy(tree, tmp_path_factory.mktemp('newcomer'))


def test_it_touches_four_files() -> None:
    """And each of them is one that is missed (below)."""
    assert set(MISSED) == set(files_of(PATCH))
    assert MOST_FILES >= len(files_of(PATCH))


def test_all_checks_pass_with_the_whole_patch(copy: Copy, tmp_path: Path) -> None:
    """Files that have the old name are read as before, and the operator is told of the new one."""
    (tmp_path / 'acc.conf').write_text('[baremetal_acc]\nimage_server_key = /old.pem\n')
    with copy.patched(PATCH):
        assert copy.complaint([SETTINGS, SAMPLE, MYPY]) is None
        ran = copy.run(['-c', OLD_NAME, str(tmp_path / 'acc.conf')])
    assert 0 == ran.returncode, ran.stderr
    assert 'Use option "image_server_private_key"' in ran.stderr


@pytest.mark.parametrize('left_out', MISSED, ids=lambda name: Path(name).name)
def test_a_file_that_is_left_out_is_missed(left_out: str, copy: Copy) -> None:
    """The check that fails says what is missing, and where."""
    check, said = MISSED[left_out]
    with copy.patched(PATCH, left_out):
        complaint = copy.complaint([check])
    assert re.search(said, complaint or 'nothing is said'), complaint


def test_few_options_need_more_than_four_files(tree: Path) -> None:
    """An option that one module reads is renamed as the patch does it. Hand on what was read, or name the option above."""
    names = {field.name for kind in (Settings, DemandSettings, GuestSettings) for field in fields(kind)} - {'from_arguments'}
    readers: defaultdict[str, set[str]] = defaultdict(set)
    for path in (*(tree / 'baremetal_acc').rglob('*.py'), *(tree / 'interfaces').rglob('*.py')):
        text = path.read_text()
        for name in names.intersection(_settings_read(ast.parse(text)) if 'settings' in text else ()):
            readers[name].add(str(path.relative_to(tree)))
    assert set() == names - set(readers), 'nobody reads them'
    assert {} == {name: sorted(paths) for name, paths in readers.items() if len(paths) > READ_IN_SEVERAL.get(name, 1)}


def _settings_read(code: ast.Module) -> Iterator[str]:
    """The names that are read of something called ``settings``, of what its functions return, and of variables for that."""
    kept = {
        name.id
        for node in ast.walk(code)
        if isinstance(node, ast.Assign)
        for target, value in _pairs(node)
        if isinstance(target, ast.Name) and _is_settings(value, set())
        for name in (target,)
    }
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute) and _is_settings(node.value, kept):
            yield node.attr


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    target = node.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        yield from zip(target.elts, node.value.elts, strict=True)
    else:
        yield target, node.value


def _is_settings(node: ast.expr, kept: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name == 'settings' or name in kept
        case ast.Attribute(attr='settings'):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id='settings'), attr='core' | 'guest')):
            return True
    return False
