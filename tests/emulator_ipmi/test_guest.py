# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What can be tested of the soak with a guest without one: its archive, how it reads what a guest says, and how it judges."""

import stat

import pytest

from tests.emulator_ipmi import initramfs
from tests.emulator_ipmi.attacks import (
    ATTACKS,
    Attack,
    Found,
    Round,
    answered,
    completion_code,
    files,
    judge,
    listed,
    mask,
    masked,
)
from tests.emulator_ipmi.guest import COMMANDS
from tests.emulator_ipmi.initramfs import Entry, Missing, archive, libraries
from tests.emulator_ipmi.programs import Said
from tests.emulator_ipmi.tenant import accelerator, answer

ATTACK = Attack(name='Write FRU Data', command='0A/12', act=None, seen=None, makes=None)
LDD = """\
\tlinux-vdso.so.1 (0x00007f2c9559d000)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f2c95334000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2c9461e000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f2c9559f000)
"""


def unpacked(data):
    """What stands in an archive, by path: mode, device and content. Written from the kernel's description of the format."""
    found, place = {}, 0
    while True:
        assert b'070701' == data[place : place + 6]
        assert 0 == place % 4
        fields = [int(data[place + 6 + 8 * n : place + 14 + 8 * n], 16) for n in range(13)]
        size, name_size = fields[6], fields[11]
        name = data[place + 110 : place + 110 + name_size - 1].decode()
        place += (110 + name_size + 3) // 4 * 4
        if name == 'TRAILER!!!':
            assert place == len(data)
            return found
        assert name not in found
        found[name] = (fields[1], tuple(fields[9:11]), data[place : place + size])
        place += (size + 3) // 4 * 4


def test_an_archive_has_each_folder_before_what_is_in_it():
    """Files, a device and folders; one that is needed twice is there once."""
    entries = [
        Entry(path='init', mode=stat.S_IFREG | 0o755, content=b'#!/bin/sh'),
        Entry(path='lib/one/a', mode=stat.S_IFREG | 0o644, content=b'abcd'),
        Entry(path='lib/one/b', mode=stat.S_IFREG | 0o644),
        Entry(path='dev/console', mode=stat.S_IFCHR | 0o600, device=(5, 1)),
    ]
    found = unpacked(archive(entries))
    assert ['init', 'lib', 'lib/one', 'lib/one/a', 'lib/one/b', 'dev', 'dev/console'] == list(found)
    assert (stat.S_IFREG | 0o755, (0, 0), b'#!/bin/sh') == found['init']
    assert (stat.S_IFDIR | 0o755, (0, 0), b'') == found['lib']
    assert (stat.S_IFCHR | 0o600, (5, 1), b'') == found['dev/console']
    assert (b'abcd', b'') == (found['lib/one/a'][2], found['lib/one/b'][2])


def test_a_kernel_counts_with_all_of_its_modules_only(tmp_path):
    """The newest one that is whole; without one it is said how to get it."""
    for version, modules in (('6.1.0-1', initramfs.MODULES), ('6.1.0-2', initramfs.MODULES[:2])):
        drivers = tmp_path / 'lib/modules' / version / 'kernel/drivers/char/ipmi'
        drivers.mkdir(parents=True)
        for name in modules:
            (drivers / f'{name}.ko').touch()
        (tmp_path / 'boot').mkdir(exist_ok=True)
        (tmp_path / f'boot/vmlinuz-{version}').touch()
    found = initramfs.kernel(tmp_path)
    assert ('vmlinuz-6.1.0-1', list(initramfs.MODULES)) == (found.image.name, [one.stem for one in found.modules])
    with pytest.raises(Missing, match='run tests/tools/programs'):
        initramfs.kernel(tmp_path / 'boot')


def test_libraries_are_read_from_what_ldd_says():
    """Not the one that the kernel brings; a static program has none."""
    wanted = (*(f'/lib/x86_64-linux-gnu/{name}.so.6' for name in ('libm', 'libc')), '/lib64/ld-linux-x86-64.so.2')
    assert wanted == libraries(LDD)
    assert () == libraries('\tnot a dynamic executable\n')


def test_an_answer_of_the_guest_ends_with_its_exit_code():
    """A line that only looks like it is a part of the answer; what comes after it belongs to the next one."""
    lines = iter(['the first\r\n', ' === 1\n', '=== 3\r\n', 'another\n', '=== 0\n', 'cut'])
    assert Said(3, 'the first\n === 1', '') == answer(lines)
    assert Said(0, 'another', '') == answer(lines)
    assert answer(lines) is None


def test_a_processor_that_cannot_does_not_run_a_guest(tmp_path):
    """Whatever there is in /dev: such a guest would never come up."""
    cpus = tmp_path / 'cpuinfo'
    cpus.write_text('model name\t: AMD EPYC\nflags\t\t: fpu vme topoext vmmcall\nvmx\t\t: no\n')
    assert 'tcg' == accelerator(cpus)


@pytest.mark.parametrize(
    ('out', 'code'),
    [
        ('Unable to send RAW command (channel=0x0 netfn=0x6 lun=0x0 cmd=0x47 rsp=0xd4): Insufficient privilege level', 0xD4),
        ('Could not open device at /dev/ipmi0', None),
    ],
)
def test_a_completion_code_is_what_ipmitool_says(out, code):
    """None where it did not come to one, and 0 where it succeeded, whatever it printed."""
    assert code == completion_code(Said(1, out, ''))
    assert 0 == completion_code(Said(0, out, ''))


def test_bytes_are_found_beside_what_else_is_printed():
    """Warnings of ipmitool and of the kernel."""
    said = Said(0, 'IANA PEN registry open failed: No such file or directory\n 07 00\n 0f\n[ 3.1] be ad\n', '')
    assert '07 00 0f' == answered(said)
    assert ({0, 1, 2, 8}, '00 01 02 08') == (mask('07 01'), listed(mask('07 01')))
    assert {0x46, 0x60} == mask(masked({0x46, 0x60}).hex(' '))


@pytest.mark.parametrize(
    ('when', 'code', 'after', 'wrong'),
    [
        (Round.OPEN, 0, 'new', ()),
        (Round.OPEN, 0, 'old', ('to see',)),
        (Round.OPEN, 0xD4, 'old', ('expected 00h', 'to see')),
        (Round.UNLOCKED, None, 'old', ('expected 00h, and it was failed, nothing', 'to see')),
        (Round.LOCKED, 0xD4, 'old', ()),
        (Round.LOCKED, 0xD4, 'new', ("to see 'old' then, and he sees 'new'",)),
        (Round.LOCKED, 0xC1, 'old', ('expected D4h, and it was C1h, nothing',)),
        (Round.LOCKED, 0, 'new', ('expected D4h, and it was 00h, done', 'to see')),
    ],
)
def test_both_the_code_and_what_is_seen_have_to_be_right(when, code, after, wrong):
    """A refusal that changed something is none, and neither is a success that changed nothing."""
    told = judge(ATTACK, when, Found(code=code, before='old', after=after, wanted='new'))
    assert len(wrong) == len(told)
    assert all(part in text for part, text in zip(wrong, told, strict=True)), told


def test_an_attack_that_can_show_nothing_is_told():
    """What it leads to was there before."""
    (told,) = judge(ATTACK, Round.OPEN, Found(code=0, before='new', after='new', wanted='new'))
    assert 'it shows nothing' in told


def test_every_attack_that_the_issue_names_is_tried_in_each_round():
    """Upgrade, rollback, Master Write-Read, Write FRU, Set Command Enables, Set User Password; and images for all rounds."""
    assert {'2C/31', '2C/38', '06/52', '0A/12', '06/60', '06/47'} <= {one.command for one in ATTACKS}
    assert set(Round) == set(COMMANDS)
    assert 2 * len(Round) == len(files())
    assert all(len(content) > 64 * 1024 for content in files().values())
