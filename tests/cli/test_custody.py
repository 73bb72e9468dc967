# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Chains of custody that the rules require: ``custody show``, ``custody accept``, verify and apply on the command line."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from baremetal_acc.emulator.image import build_image
from tests.cli.desk import BASELINE, NEW_GPU, Done

REQUIRED = BASELINE.replace('name = "gpus"', 'name = "gpus"\ncustody = "required"')
EVIL = build_image(model='h100', component='gpu', version=NEW_GPU, seed='evil')
"""Other firmware under the very version that the baseline wants."""


def flashed(target: dict[str, Any]) -> list[str]:
    """The devices that a plan writes firmware to."""
    return [a['accelerator'] for a in target['actions'] if a['action'] == 'flash' and a['image'] == 'gpu-new']


def custody_of(target: dict[str, Any]) -> set[str]:
    """What a verdict has found of custody."""
    return {f['found'] for f in target['findings'] if f['subject'] == 'custody'}


def write_genuine(machine: Any) -> None:
    """As the cards are delivered."""
    write(machine, build_image(model='h100', component='gpu', version=NEW_GPU))


def write_evil(machine: Any) -> None:
    """What somebody else's code does to both cards."""
    write(machine, EVIL)


def wait_for_power(machine: Any, power: str) -> None:
    """Until the host is so."""
    for _ in range(300):
        if machine.truth()['systems']['host']['power'] == power:
            return
        time.sleep(0.02)
    raise AssertionError(power)


def set_locks(machine: Any, *, closed: bool) -> None:
    """Somebody with the operator's password, behind our back."""
    bmc = machine.bmcs['host']
    with requests.Session() as http:
        http.trust_env, http.verify, http.auth = False, bmc.verify_ca, (bmc.username, bmc.password)
        for number in (0, 1):
            for path, body in (
                (f'Chassis/HGX_ERoT_GPU_{number}', {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': not closed}}}),
                (f'UpdateService/FirmwareInventory/HGX_FW_GPU_{number}', {'WriteProtected': closed}),
            ):
                url = f'{bmc.address}/redfish/v1/{path}'
                tag = http.get(url, timeout=10).headers.get('ETag')
                answer = http.patch(url, json=body, headers={'If-Match': tag} if tag else {}, timeout=10)
                assert answer.ok, answer.text


def write(machine: Any, image: bytes) -> None:
    """From the host, to both cards."""
    for card in ('GPU_0', 'GPU_1'):
        for _ in range(200):
            if machine.tenant_write(card, image, component='gpu').get('written'):
                break
            time.sleep(0.02)
        else:
            raise AssertionError(card)


def test_a_card_is_written_at_the_version_that_it_shows_until_its_chain_holds(desk, emulated_machine):
    """The plan says so, a second run writes nothing, and a lock that was open to the host breaks the chain."""
    machine = emulated_machine('gpu-server', gpus=2, flash_seconds=2)  # long enough to be seen to progress
    desk.prepare(machine)
    desk.write('baseline.toml', REQUIRED)
    write_evil(machine)

    before = desk.run('verify', '-f', 'json', *desk.options)
    assert 3 == before.code
    assert {'no chain has begun: it is unknown who wrote the firmware that it runs'} == custody_of(
        before.document['targets'][0]
    )
    planned = desk.run('plan', '-f', 'json', *desk.options)
    assert 2 == len(flashed(planned.document['targets'][0]))
    why = (
        'the card is written even if it shows the required versions, since its chain of custody is not valid: no '
        'chain has begun'
    )
    assert 2 == sum(n['text'].startswith(why) for n in planned.document['targets'][0]['notes'])
    assert why in ' '.join(desk.run('plan', *desk.options).out.split())
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
    machine.fault('equal-version-skipped')
    mended = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == mended.code, mended.err
    assert 2 == len(flashed(mended.document['targets'][0]))
    assert 2 == sum(
        'is sent with ForceUpdate: this version is already installed' in n['text']
        for n in mended.document['targets'][0]['notes']
    )


def test_a_card_that_somebody_has_opened_is_written_where_custody_is_only_reported(desk, emulated_machine):
    """Whoever has closed it again, and whatever it shows; once, and not where we have opened it ourselves."""
    machine = emulated_machine('gpu-server', gpus=2, flash_seconds=0.3)
    desk.prepare(machine)
    for verb in ('apply', 'unlock', 'lock'):
        done = desk.run(verb, '--execute', *desk.options)
        assert 0 == done.code, done.err
    machine.power('On')
    wait_for_power(machine, 'On')
    assert [] == flashed(desk.run('plan', '-f', 'json', *desk.options).document['targets'][0]), 'an unlock of ours is none'

    set_locks(machine, closed=False)
    write_evil(machine)
    assert 3 == desk.run('verify', *desk.options).code
    set_locks(machine, closed=True)
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    planned = desk.run('plan', '-f', 'json', *desk.options).document['targets'][0]
    assert 2 == len(flashed(planned))
    why = 'apply writes the card even if it shows the required versions, since a lock that we had engaged was found unlocked'
    assert [why, why] == [n['text'] for n in planned['notes'] if 'even if it shows' in n['text']]
    held = desk.run('verify', *desk.options)
    assert (0, True) == (held.code, f' GPU_* (2): {why}' in held.out), held.out
    machine.fault('equal-version-skipped')
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    assert [] == flashed(desk.run('plan', '-f', 'json', *desk.options).document['targets'][0])
    assert why not in desk.run('verify', *desk.options).out


def chains(found: Done) -> list[dict[str, Any]]:
    """What is told of each card."""
    return found.document['targets'][0]['cards']


def test_somebody_answers_for_what_cards_run_until_a_day(desk, emulated_machine):
    """Before any job, and after one; the certificate names him. What nobody can answer for is refused."""
    machine = emulated_machine('gpu-server', gpus=2, flash_seconds=0.3)
    desk.prepare(machine)
    desk.write('baseline.toml', REQUIRED)
    write_genuine(machine)
    given = ('--reason', 'as delivered', '--until', (datetime.now(UTC) + timedelta(days=30)).isoformat())

    shown = desk.run('custody', 'show', '-f', 'json', *desk.options)
    assert (3, [None, None], [False, False]) == (
        shown.code,
        [c['origin'] for c in chains(shown)],
        [c['holds'] for c in chains(shown)],
    )
    refused = desk.run('custody', 'accept', '-f', 'json', *given, *desk.options)
    assert 4 == refused.code
    assert 'is not proven to be locked against its host, which is not off' in refused.err
    locked = desk.run('lock', '--execute', *desk.options)
    assert 0 == locked.code, locked.err
    accepted = desk.run('custody', 'accept', '-f', 'json', *given, *desk.options)
    assert 0 == accepted.code, accepted.err
    assert [('accepted', 'as delivered', True)] * 2 == [(c['origin'], c['reason'], c['holds']) for c in chains(accepted)]
    machine.reset_log()
    verified = desk.run('verify', '-f', 'json', *desk.options)
    assert 0 == verified.code, verified.err
    again = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == again.code, again.err
    assert [] == machine.log()
    assert [True, True] == [c['holds'] for c in chains(desk.run('custody', 'show', '-f', 'json', *desk.options))]

    set_locks(machine, closed=False)
    assert 3 == desk.run('verify', *desk.options).code
    set_locks(machine, closed=True)
    found = desk.run('custody', 'show', '-f', 'json', *desk.options)
    assert {'path-open'} == {c['broken'] for c in chains(found)}, 'whoever has closed them again, a verification saw them open'
    assert 2 == len(desk.stored()['anew'])
    overruled = desk.run('custody', 'accept', *given, *desk.options)
    assert 0 == overruled.code, overruled.err
    assert 'anew' not in desk.stored(), 'somebody answers for what they run'


def test_custody_before_any_job_is_kept(desk, emulated_machine):
    """With the host off."""
    machine = emulated_machine('gpu-server', gpus=2)
    desk.prepare(machine)
    desk.write('baseline.toml', REQUIRED)
    machine.power('ForceOff')
    wait_for_power(machine, 'Off')
    given = ('--reason', 'as delivered', '--until', (datetime.now(UTC) + timedelta(days=30)).date().isoformat())
    accepted = desk.run('custody', 'accept', '-f', 'json', *given, *desk.options)
    assert 0 == accepted.code, accepted.err
    assert 2 == accepted.err.count(
        'is not proven to be locked against its host, which is off: the acceptance holds only as long as'
    )
    only = desk.run('custody', 'show', '-f', 'json', *desk.options)
    assert [('accepted', None)] * 2 == [(c['origin'], c['broken']) for c in chains(only)]
    machine.power('On')
    wait_for_power(machine, 'On')
    broken = desk.run('custody', 'show', '-f', 'json', *desk.options)
    assert (3, {'host-ran'}) == (broken.code, {c['broken'] for c in chains(broken)})
    machine.power('ForceOff')
    wait_for_power(machine, 'Off')
    overruled = desk.run('custody', 'accept', *given, *desk.options)
    assert 0 == overruled.code, overruled.err
    assert 2 == overruled.err.count('accepted despite a broken chain: accepted at'), 'what an acceptance overrules is said'
    assert 'the host ran while a path that the rules want blocked was open' in overruled.err


def test_an_interrupted_job_has_to_end_before_an_acceptance(desk, emulated_machine):
    """The refusal and ``custody show`` give the command that ends it."""
    machine = emulated_machine('gpu-server', gpus=2)
    desk.prepare(machine)
    done = desk.run('lock', '--execute', *desk.options)
    assert 0 == done.code, done.err
    state = desk.stored()
    state['job']['ended'] = False
    desk.store(state)
    given = ('--reason', 'x', '--until', (datetime.now(UTC) + timedelta(days=30)).date().isoformat())
    for verb, code in ((('show',), 0), (('accept', *given), 4)):
        found = desk.run('custody', *verb, *desk.options)
        assert code == found.code
        assert 'is unfinished' in found.err
        assert 'apply --execute --target node-1 resumes it' in found.err


@pytest.mark.parametrize(
    ('given', 'says'),
    [
        (('--reason', 'x', '--until', 'soon'), "--until: 'soon' is neither a date"),
        (('--reason', 'x', '--until', '2026-01-01'), 'is over'),
        (('--reason', 'x', '--until', '2099-01-01'), 'too far ahead'),
        (('--reason', ' ', '--until', '2027-01-31'), '--reason'),
        (('--reason', 'a\x1b[2J', '--until', '2027-01-31'), '--reason'),
        (('--until', '2027-01-31'), '--reason'),
        (('--reason', 'x', '--until', '2027-01-31', '--device', 'GPU_9'), "has no device 'GPU_9'"),
    ],
)
def test_what_is_no_acceptance_is_refused_and_says_what_and_where(desk, emulated_machine, given, says):
    """Nothing is stored."""
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    found = desk.run('custody', 'accept', '-f', 'json', *given, *desk.options)
    assert 2 == found.code
    assert says in found.err or says in found.out
    assert [None] == [c['origin'] for c in chains(desk.run('custody', 'show', '-f', 'json', *desk.options))]
