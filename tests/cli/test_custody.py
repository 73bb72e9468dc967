# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A chain of custody that the rules require, from the command line."""

import time
from typing import Any

from baremetal_acc.emulator.image import build_image
from tests.cli.desk import BASELINE, NEW_GPU

REQUIRED = BASELINE.replace('name = "gpus"', 'name = "gpus"\ncustody = "required"')
EVIL = build_image(model='h100', component='gpu', version=NEW_GPU, seed='evil')
"""Other firmware under the very version that the baseline wants."""


def flashed(target: dict[str, Any]) -> list[str]:
    """The devices that a plan writes firmware to."""
    return [a['accelerator'] for a in target['actions'] if a['action'] == 'flash' and a['image'] == 'gpu-new']


def custody_of(target: dict[str, Any]) -> set[str]:
    """What a verdict has found of custody."""
    return {f['found'] for f in target['findings'] if f['subject'] == 'custody'}


def write_evil(machine: Any) -> None:
    """What somebody else's code does to both cards."""
    for card in ('GPU_0', 'GPU_1'):
        for _ in range(200):
            if machine.tenant_write(card, EVIL, component='gpu').get('written'):
                break
            time.sleep(0.02)
        else:
            raise AssertionError(card)


def test_a_card_is_written_at_the_version_that_it_shows_until_its_chain_holds(desk, emulated_machine):
    """The plan says so, a second run writes nothing, and a lock that was open to the host breaks the chain."""
    machine = emulated_machine('gpu-server', gpus=2, flash_seconds=0.3)
    desk.prepare(machine)
    desk.write('baseline.toml', REQUIRED)
    write_evil(machine)

    before = desk.run('verify', '-f', 'json', *desk.options)
    assert 3 == before.code
    assert {'no chain has begun: nobody knows who has written what it runs'} == custody_of(before.document['targets'][0])
    planned = desk.run('plan', '-f', 'json', *desk.options)
    assert 2 == len(flashed(planned.document['targets'][0]))
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err

    after = desk.run('verify', '-f', 'json', *desk.options)
    assert 0 == after.code, after.err
    (found,) = {text.partition(', unbroken')[0].partition(' at ')[0] for text in custody_of(after.document['targets'][0])}
    assert 'written' == found
    machine.reset_log()
    again = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == again.code, again.err
    assert [] == flashed(again.document['targets'][0])
    assert [] == machine.log()

    opened = desk.run('unlock', '--execute', *desk.options)
    assert 0 == opened.code, opened.err
    machine.power('On')
    write_evil(machine)
    locked = desk.run('lock', '--execute', *desk.options)
    assert 0 == locked.code, locked.err
    found = desk.run('verify', '-f', 'json', *desk.options)
    assert 3 == found.code
    assert all('broken between' in text for text in custody_of(found.document['targets'][0]))
    mended = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == mended.code, mended.err
    assert 2 == len(flashed(mended.document['targets'][0]))
