# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``inventory --measure`` shows the SPDM measurements that devices sign, and ``verify`` counts them."""

import json

import jsonschema

from tests.cli.desk import CONF, Desk

CATALOGUE = """
format = 1
[[image]]
name = "gpu-shipped"
kind = "firmware"
fits = [{{ pci = "0x10de:0x2330" }}]
component = "HGX_FW_GPU_*"
version = "{version}"
security_version = 1
source = "gpu.img"
size = 1
digest = "sha256:{digest}"
restore = "none"
[image.measurements]
{measured}
"""


def test_what_devices_signed_is_shown_on_demand_and_counts_for_verify(desk: Desk, emulated_machine, tree):
    """Without a pinned root nothing is proven; with one the inventory has values for a catalogue, and verify compares them."""
    machine = emulated_machine('gpu-server', gpus=1, features=frozenset({'spdm'}))
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nblock = []\n')
    done = desk.run('verify', *desk.options, '-f', 'json')
    (finding,) = (f for f in done.document['targets'][0]['findings'] if f['subject'].startswith('measurement'))
    assert (3, False, True) == (done.code, finding['met'], 'spdm_trust_roots' in finding['found'])

    roots = desk.write('maker.pem', machine.spdm_root)
    desk.write('acc.conf', CONF.replace('[baremetal_acc]', f'[baremetal_acc]\nspdm_trust_roots = {roots}'))
    shown = desk.run('inventory', '--config-file', 'acc.conf', '--measure', '-f', 'json').document
    schema = json.loads((tree / 'doc/source/schemas/inventory.json').read_text())
    jsonschema.Draft202012Validator(schema).validate(shown)
    (card,) = shown['targets'][0]['accelerators']
    (reading,) = card['measurements']
    assert ('proven', None, 'HGX_ERoT_GPU_0', '1.2') == tuple(reading[k] for k in ('state', 'reason', 'integrity', 'spdm'))
    assert [1, 2, 3, 4, 254] == [m['index'] for m in reading['measurements']]
    quick = desk.run('inventory', '--config-file', 'acc.conf', '-f', 'json').document
    assert 'measurements' not in quick['targets'][0]['accelerators'][0]

    value = reading['measurements'][1]
    running = next(c['version'] for c in card['firmware'] if c['id'] == 'HGX_FW_GPU_0')
    measured = f'"HGX_ERoT_GPU_*/2" = "{value["algorithm"]}:{value["value"]}"'
    desk.write('catalogue.toml', CATALOGUE.format(version=running, digest='0' * 64, measured=measured))
    done = desk.run('verify', *desk.options, '-f', 'json')
    (finding,) = (f for f in done.document['targets'][0]['findings'] if f['subject'].startswith('measurement'))
    assert (0, True) == (done.code, finding['met']), (done.out, done.err)
    assert f'HGX_FW_GPU_0 is {running}' in finding['found']


def test_apply_does_not_say_that_all_holds_where_verify_says_it_does_not(desk: Desk, emulated_machine):
    """With nothing left to do it ends as verify does, as a dry run and executed; where a rule asks for less that is told."""
    machine = emulated_machine('gpu-server', gpus=1, features=frozenset({'spdm'}))
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\n')
    assert 3 == desk.run('apply', '--execute', *desk.options).code
    machine.reset_log()
    for arguments in (('apply', '--execute'), ('apply',), ('plan',), ('verify',)):
        done = desk.run(*arguments, *desk.options, '-f', 'json')
        assert (3, True) == (done.code, 'measurement HGX_ERoT_GPU_0' in done.err), arguments
        (target,) = done.document['targets']
        if 'verify' not in arguments:
            assert ('not-met', [], False) == (target['outcome'], target['actions'], target['verdict']['met'])
    assert [] == machine.log()

    desk.write('baseline.toml', 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\nmeasure = "off"\n')
    told = 'relaxed: rule all: its devices are not asked to sign measurements (measure = "off")'
    done = desk.run('verify', *desk.options)
    assert (0, True) == (done.code, told in done.out)
    done = desk.run('apply', '--execute', *desk.options, '-f', 'json')
    assert (0, 'holds') == (done.code, done.document['targets'][0]['outcome'])
