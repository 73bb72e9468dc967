# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the command says of a write path that is open by a waiver, before, while and after the waiver holds."""

import json
from datetime import UTC, datetime, timedelta

import jsonschema

RULES = """format = 1
[[rule]]
name = "boards"
block = ["host-device", "host-bmc-ipmi"]
on_missing = "waive"
waiver = {{ role = "hardware security", reason = "no mechanism here", expires = {expires}, paths = ["host-bmc-ipmi"] }}
"""


def rules(desk, expires: datetime) -> None:
    desk.write('baseline.toml', RULES.format(expires=f'{expires:%Y-%m-%dT%H:%M:%SZ}'))


def test_a_waiver_is_told_wherever_it_is_used_and_ends(desk, emulated_machine, tree):
    """By apply, verify and plan, in words and as data; from its end on both refuse and say whose it was."""
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    now = datetime.now(UTC)
    until = now + timedelta(days=300)
    rules(desk, until)
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    said = f'until {until:%Y-%m-%d %H:%M:%S} UTC by a waiver of hardware security (rule boards): no mechanism here'
    warnings = [line for line in done.err.splitlines() if 'warning' in line and said in line]
    assert ['host-bmc-ipmi'] == [line.partition('node-1: ')[2].split()[0] for line in warnings], done.err
    assert {'host-bmc-ipmi'} == {w['path'] for w in done.document['targets'][0]['verdict']['waived']}

    verified = desk.run('verify', '-f', 'json', *desk.options)
    (found,) = verified.document['targets']
    schema = json.loads((tree / 'doc/source/schemas/verify.json').read_text())
    jsonschema.validate(verified.document, schema)
    assert (0, True) == (verified.code, found['met'])
    (waived,) = found['waived']
    expected = ('host-bmc-ipmi', 'boards', 'hardware security', 'no mechanism here')
    assert expected == (waived['path'], waived['rule'], waived['role'], waived['reason'])
    assert datetime.fromisoformat(waived['expires']) == until.replace(microsecond=0)
    assert [('paths', 'boards')] == [(r['kind'], r['rule']) for r in found['relaxed']]
    assert said in verified.err

    planned = desk.run('plan', '-f', 'json', *desk.options)
    notes = [n['text'] for n in planned.document['targets'][0]['notes']]
    assert 0 == planned.code, planned.err
    assert 'nothing to do' in notes
    assert 'less than the default: rule boards: host-bmc-redfish need not be blocked' in notes
    assert any('host-bmc-ipmi of ' in text and 'by hardware security (rule boards)' in text for text in notes)

    rules(desk, now - timedelta(seconds=1))
    ended = desk.run('verify', '--unmet', *desk.options)
    assert 3 == ended.code
    assert 'the waiver of rule boards by hardware security expired' in ended.out
    assert 'waived until' not in ended.out + ended.err
    rules(desk, now + timedelta(days=400))
    endless = desk.run('plan', *desk.options)
    assert (2, True) == (endless.code, 'baseline.toml, line 6: rule[0].waiver.expires: ' in endless.err)


def test_what_was_shown_when_all_held_is_missed_until_it_is_forgotten(desk, emulated_machine):
    """A waiver covers no mechanism that has vanished, and no way to a BMC is closed that has: as in Ironic."""
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    rules(desk, datetime.now(UTC) + timedelta(days=300))
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    state = desk.stored()
    (gpu,) = state['known']
    assert state['ways'], 'the host interface'
    state['blockable'].append([gpu, 'host-bmc-ipmi', 'HGX_FW_ERoT_GPU_0'])
    state['ways'].append({**state['ways'][0], 'field': 'AnotherInterface'})
    desk.store(state)

    for verb, code in (('verify', 3), ('plan', 4), ('apply', 4)):
        refused = desk.run(verb, *desk.options)
        assert code == refused.code, refused.err
        assert 'a lock mechanism for it was shown before, so no waiver covers it' in refused.out + refused.err
    assert 'apply --forget-vanished' in refused.err
    strict = desk.write('strict.toml', 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-bmc-redfish"]\n')
    missed = desk.run(
        'verify', '--baseline', str(strict), *[o for o in desk.options if o not in ('--baseline', 'baseline.toml')]
    )
    assert (3, True) == (missed.code, 'AnotherInterface' in missed.out), missed.out

    forgotten = desk.run('apply', '--execute', '--forget-vanished', *desk.options)
    assert 0 == forgotten.code, forgotten.err
    assert 0 == desk.run('verify', *desk.options).code
    assert 'AnotherInterface' not in json.dumps(desk.stored()['ways'])
