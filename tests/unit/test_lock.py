# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The lock files of make and .ci/run match setup.cfg and constraints.txt, and pip verifies their hashes."""

import hashlib
import re
import subprocess
import sys
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tools import bounds, lock

ENVIRONMENT = {'python_version': '3.11', 'python_full_version': '3.11.2'}

FILES = [*(lock.FOLDER / f'{name}.txt' for name in lock.SETS), lock.LOWEST]


def entries(path):
    """The requirement and the hashes of each project that a lock file names, with those of the file that it includes."""
    text = path.read_text(encoding='utf-8')
    found = {}
    for included in re.findall(r'^-r (\S+)$', text, re.MULTILINE):
        found |= entries(path.parent / included)
    for entry in re.findall(r'^[a-z0-9].*(?:\n .*)*', text, re.MULTILINE):
        line, *hashes = [part.strip() for part in entry.split('\\\n')]
        need = Requirement(line)
        found[canonicalize_name(need.name)] = need, hashes
    return found


def versions(path):
    """The version of each project that a lock file installs on the oldest Python."""
    of = {name: need for name, (need, _) in entries(path).items() if need.marker is None or need.marker.evaluate(ENVIRONMENT)}
    return {name: str(need.specifier).removeprefix('==') for name, need in of.items()}


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_every_project_has_one_version_and_hashes(path):
    """pip refuses a file whose SHA-256 is not there."""
    found = entries(path)
    assert len(found) > 40
    for need, hashes in found.values():
        assert ['=='] == [one.operator for one in need.specifier], need
        assert hashes, need
        assert [] == [one for one in hashes if not re.fullmatch(r'--hash=sha256:[0-9a-f]{64}', one)], need


@pytest.mark.parametrize('name', lock.SETS)
def test_a_lock_file_has_what_setup_cfg_requires(name):
    """In a version that the bounds allow, so that our own package can be installed without its dependencies."""
    locked = versions(lock.FOLDER / f'{name}.txt')
    needs = [need for need in bounds.required(lock.SETS[name]) if need.marker is None or need.marker.evaluate(ENVIRONMENT)]
    wrong = [str(n) for n in needs if not n.specifier.contains(locked.get(canonicalize_name(n.name), '0'))]
    assert len(needs) > 10
    assert [] == wrong, 'nox -s constraints -- --keep'
    assert {*lock.BUILD} <= {*locked}


@pytest.mark.parametrize('name', lock.SETS)
def test_a_lock_file_has_the_versions_of_constraints_txt(name):
    """One file says which versions there are; the lock files add the hashes."""
    lines = [line for line in lock.CONSTRAINTS.read_text(encoding='utf-8').splitlines() if '==' in line]
    pins = {canonicalize_name(project): version for project, _, version in (line.partition('==') for line in lines)}
    assert {} == {n: v for n, v in versions(lock.FOLDER / f'{name}.txt').items() if pins.get(n) != v}


def test_the_lowest_versions_are_the_declared_bounds():
    """Each lower bound is a version with which the unit tests of the core run in .ci/run."""
    declared = bounds.lowest(lock.LOWEST_SET)
    assert len(declared) == len(bounds.required(lock.LOWEST_SET)), 'a requirement has no lower bound'
    locked = versions(lock.LOWEST)
    same = {n: v for n, v in declared.items() if Requirement(f'{n}=={v}').specifier.contains(locked.get(n, '0'))}
    assert declared == same, 'nox -s constraints -- --keep'
    assert {canonicalize_name(tool) for tool in lock.TOOLS} <= {*locked}


def test_the_core_is_locked_without_ironic():
    """It is installed alone, and its command line has to work."""
    for path in (lock.FOLDER / 'core.txt', lock.LOWEST):
        assert set() == {'ironic', 'openstack-placement', 'nova'} & {*entries(path)}


def commands(text):
    """The arguments of each ``pip install`` of a Makefile or a script, with its variables replaced."""
    text = text.replace('\\\n', ' ')
    values = dict(re.findall(r'^(PIP|INSTALL|OURS) := (.*)$', text, re.MULTILINE))
    lines = [line for line in text.splitlines() if not re.match(r'\s*#|(?:PIP|INSTALL|OURS) :=', line)]
    for _ in values:
        lines = [re.sub(r'\$\((PIP|INSTALL|OURS)\)', lambda found: values[found[1]], line) for line in lines]
    lines = [line.replace('"${pip[@]}"', 'pip install') for line in lines if 'pip=(' not in line]
    return [found[1] for line in lines for found in [re.search(r'\bpip\b[^|&;]*? install (.*)', line)] if found]


@pytest.mark.parametrize('name', ['Makefile', '.ci/run'])
def test_pip_installs_locked_files_and_our_own_tree(tree, name):
    """All but our own tree with hashes; a virtual environment without pip gets Debian's pip first, from where Python came."""
    installs = [words for words in commands((tree / name).read_text(encoding='utf-8')) if words.strip() != '--quiet pip; }']
    assert len(installs) >= 3
    locked = re.compile(r'--require-hashes --requirement (requirements/\w+\.txt|tests/constraints/lowest\.txt)')
    ours = re.compile(r'--no-deps --no-build-isolation (--editable )?\.')
    assert [] == [words for words in installs if not locked.fullmatch(words.strip()) and not ours.fullmatch(words.strip())]
    for words in installs:
        for path in re.findall(r'\S+\.txt', words):
            assert (tree / path).is_file()


def test_an_unlocked_install_is_found():
    """The check itself."""
    text = 'PIP := python -m pip --quiet\nINSTALL := $(PIP) install --constraint c.txt\nx:\n\t@$(INSTALL) six\n'
    assert ['--constraint c.txt six'] == commands(text)
    assert ['--require-hashes --requirement a.txt'] == commands('"${pip[@]}" --require-hashes --requirement a.txt\n')


@pytest.mark.parametrize(('right', 'code'), [(True, 0), (False, 1)])
def test_a_file_with_another_hash_is_not_installed(tree, tmp_path, right, code):
    """With the options of the Makefile: what an index serves under a locked version is not what was locked."""
    wheel = tmp_path / 'locked_thing-1.0-py3-none-any.whl'
    with zipfile.ZipFile(wheel, 'w') as archive:
        archive.writestr('locked_thing.py', '')
        info = 'locked_thing-1.0.dist-info'
        archive.writestr(f'{info}/METADATA', 'Metadata-Version: 2.1\nName: locked-thing\nVersion: 1.0\n')
        archive.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        archive.writestr(f'{info}/RECORD', '')
    told = hashlib.sha256(wheel.read_bytes() if right else b'another file').hexdigest()
    (tmp_path / 'lock.txt').write_text(f'locked-thing==1.0 --hash=sha256:{told}\n')
    options = re.search(r'^INSTALL := \$\(PIP\) install (.*)$', (tree / 'Makefile').read_text(), re.MULTILINE)[1].split()
    command = [sys.executable, '-m', 'pip', '--disable-pip-version-check', 'install', *options, 'lock.txt']
    where = ['--no-index', '--find-links', '.', '--target', 'there', '--no-compile']
    done = subprocess.run([*command, *where], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert code == done.returncode, done.stderr
    assert right == (tmp_path / 'there' / 'locked_thing.py').exists()
    assert right != ('DO NOT MATCH THE HASHES' in done.stderr)
