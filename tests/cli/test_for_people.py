# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What people see on a terminal: a plan fits on it, nothing is said twice, and that there is nothing to do is said."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios

from tests.cli.desk import Desk, target_of

EIGHT = """format = 1
[[rule]]
name = "gpus"
match = { kind = "GPU" }
count = 8
firmware = { "HGX_FW_GPU_*" = "96.00.74.00.0D" }
[[rule]]
name = "all"
block = ["host-device"]
custody = "reported"
"""


def on_terminal(desk: Desk, columns: int, *arguments: str) -> list[str]:
    """The lines that a command shows on a terminal of that width, without colours; its errors are there, too."""
    child, fd = pty.fork()
    if child == 0:  # pragma: no cover
        environ = {k: value for k, value in os.environ.items() if k in ('PATH', 'PYTHONPATH')}
        environ |= {'HOME': str(desk.folder), 'XDG_STATE_HOME': str(desk.folder / 'state'), 'TERM': 'xterm'}
        os.chdir(desk.folder)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 40, columns, 0, 0))
        os.execve(sys.executable, [sys.executable, '-W', 'ignore', '-m', 'baremetal_acc.cli.main', *arguments], environ)
    shown = b''
    while True:
        try:
            more = os.read(fd, 1 << 16)
        except OSError:  # the terminal has no other end any more
            break
        if not more:
            break
        shown += more
    os.waitpid(child, 0)
    os.close(fd)
    return [line.rstrip() for line in re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', shown.decode()).splitlines()]


def test_the_plan_of_eight_gpus_fits_on_a_terminal(desk: Desk, emulated_machine):
    """At most 40 lines of at most 100 characters; the last one sums up; URIs only with ``--long``."""
    desk.prepare(emulated_machine('gpu-server', gpus=8))
    desk.write('baseline.toml', EIGHT)
    lines = on_terminal(desk, 100, 'plan', *desk.options)
    assert len(lines) <= 40, lines
    assert max(map(len, lines)) <= 100
    assert 'node-1: 8 flash, 16 lock; host off, then on; duration unknown' == lines[-1]
    assert not [line for line in lines if '/redfish/' in line]
    assert 1 == sum(line.lstrip().startswith('relaxed: rule all: host-bmc-ipmi') for line in lines)
    long = on_terminal(desk, 100, 'plan', '--long', *desk.options)
    assert [line for line in long if '/redfish/' in line]
    assert lines[-1] == long[-1]
    cards = on_terminal(desk, 80, 'inventory')
    assert ('node-1:', 17) == (cards[0], len(cards))
    assert max(map(len, cards)) <= 80


def test_nothing_is_said_twice_and_nothing_to_do_is_said(desk: Desk, emulated_machine):
    """apply prints a row for each write and a summary; then plan has nothing to do, and a lock that opens is one finding."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\ncustody = "reported"\n')
    before = desk.run('verify', *desk.options)
    assert (3, '') == (before.code, before.err)
    assert 'node-1: not as the baseline wants: 1 finding' == before.out.splitlines()[0]
    done = desk.run('lock', '--execute', *desk.options)
    assert 0 == done.code, done.err
    rows = [line for line in done.out.splitlines() if line.startswith('|')]
    assert 2 == len(rows), 'the header, and the locks of the card'
    assert re.fullmatch(r'node-1: done: \d lock; host on; took \d+ s', done.out.splitlines()[-1])
    planned = desk.run('plan', *desk.options)
    assert 'node-1: nothing to do: as the baseline wants' == planned.out.splitlines()[-1], planned.err
    assert '|' not in planned.out
    long = desk.run('verify', '--long', *desk.options)
    assert 'node-1: as the baseline wants: 1 demand met' == long.out.splitlines()[0]
    assert 1 == long.out.count('locked-verified | yes')


def test_a_waiver_is_marked_in_the_reports_of_all_commands(desk: Desk, emulated_machine):
    """By its words, once, and on standard output alone."""
    from datetime import UTC, datetime, timedelta

    desk.prepare(emulated_machine('gpu-server', gpus=1))
    until = datetime.now(UTC) + timedelta(days=30)
    desk.write(
        'baseline.toml',
        'format = 1\n[[rule]]\nname = "boards"\nblock = ["host-device", "host-bmc-ipmi"]\non_missing = "waive"\n'
        f'waiver = {{ role = "security", reason = "none", expires = {until:%Y-%m-%d}, paths = ["host-bmc-ipmi"] }}\n',
    )
    mark = f'waived until {until:%Y-%m-%d} 00:00:00 UTC by security: host-bmc-ipmi of '
    for verb in (('apply', '--execute'), ('verify',), ('plan',)):
        found = desk.run(*verb, *desk.options)
        assert (1, 0) == (found.out.count(mark), found.err.count('security')), (verb, found)


def test_several_causes_are_a_line_each_and_the_plan_is_not_printed(desk: Desk, emulated_machine):
    """Of a refused plan."""
    desk.prepare(emulated_machine('gpu-server', gpus=2))
    desk.write('baseline.toml', 'format = 1\n')
    done = desk.run('plan', *desk.options)
    first, *below = done.err.splitlines()
    assert 4 == done.code
    assert re.fullmatch(r'baremetal-acc: error: node-1: refused: \d+ causes', first)
    causes = int(first.split()[-2])
    assert [True] * (causes + 1) == [line.startswith('  ') for line in below], 'and the hint'
    assert '|' not in done.out
    assert done.out.splitlines()[-1].startswith('node-1: refused, so nothing is done (')


def test_several_targets_are_summed_up_in_a_last_line(desk: Desk, emulated_machine):
    """Each has its table and its summary; one that cannot be reached is counted, too."""
    machine = emulated_machine('fpga-server')
    desk.prepare(machine)
    desk.bmcs({'dead': target_of(machine, address='https://127.0.0.1:9'), 'node-1': target_of(machine)})
    planned = desk.run('plan', *desk.options).out.splitlines()
    assert ('node-1:', '2 targets: 1 with an error, 1 refused') == (planned[-2][:7], planned[-1])
    verified = desk.run('verify', *desk.options).out.splitlines()
    assert '2 targets: 0 as the baseline wants, 1 not, 1 with an error' == verified[-1]
