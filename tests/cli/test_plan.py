# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The plan that is printed is the plan that is executed: images, times and resets, compared with what the BMCs got."""

import hashlib
import http.client
import re
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from baremetal_acc.bmc import registry as find_driver
from baremetal_acc.cli import plan_builder
from baremetal_acc.execution import Target, Tools
from baremetal_acc.images.store import FileStore
from baremetal_acc.model.action import CheckImage
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.refusal import NoSlot, Refusal
from baremetal_acc.model.subject import Subject
from baremetal_acc.policy.baseline_rules import Baseline
from tests.cli.desk import BASELINE, CONF, NEW_GPU
from tests.unit.images import web
from tests.unit.planning import values as v

APPLY_TIME = '@Redfish.OperationApplyTime'

PULLING = """
image_server_host = 127.0.0.1
image_server_listen = 127.0.0.1
"""


def digest(desk, image: str) -> str:
    return f'sha256:{hashlib.sha256((desk.folder / f"{image}.img").read_bytes()).hexdigest()}'


def sent_by_plan(desk, actions, way: str) -> list[tuple[str, ...]]:
    """BMC, target, time and bytes of each image, by what the plan says."""
    writes = [a for a in actions if a['action'] in ('flash', 'program')]
    assert {way} == {a['way'] for a in writes}
    return [(a['bmc'], a['uri'], a['apply_time'], digest(desk, a['image'])) for a in writes]


def resets_by_plan(actions) -> list[tuple[str, str, str]]:
    return [(a['bmc'], a['uri'], a['to']) for a in actions if a['action'] == 'reset']


def resets_of(machine) -> list[tuple[str, str, str]]:
    """What the journal of the emulator says of power."""
    types = {'ForceOff': 'off', 'On': 'on'}
    end = '/Actions/ComputerSystem.Reset'
    found = [e for e in machine.log() if e['path'].endswith(end)]
    return [(e['bmc'], e['path'].removesuffix(end), types.get(e['body']['ResetType'], 'reset')) for e in found]


def stages(machine) -> list[str]:
    """Kinds of writes in the order in which they reached the BMCs, each run of one kind once."""
    kinds = []
    for entry in machine.log():
        if entry['path'].endswith('ComputerSystem.Reset'):
            kind = 'reset'
        elif 'UpdateService' in entry['path'] and entry['method'] == 'POST':
            kind = 'image'
        else:
            kind = 'lock'
        if kinds[-1:] != [kind]:
            kinds.append(kind)
    return kinds


def test_the_plan_that_is_printed_is_the_plan_that_is_executed(desk, emulated_machine):
    """The same images, at the same targets, with the same times; the same resets; in the order that was printed."""
    machine = emulated_machine('acc-server', flash_seconds=0.1)
    desk.prepare(machine)
    printed = desk.run('plan', '-f', 'json', *desk.options)
    assert 3 == printed.code, printed.err
    actions = printed.document['targets'][0]['actions']
    assert printed.document == desk.run('plan', '-f', 'json', *desk.options).document
    assert [] == machine.log()

    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    pushed = [e for e in machine.log() if e['path'].endswith('update-multipart')]
    reached = [(e['bmc'], *e['body']['Targets'], e['body'][APPLY_TIME], e['digest']) for e in pushed]
    expected = sent_by_plan(desk, actions, 'multipart-push')
    assert 5 == len(expected)
    assert expected == reached
    assert resets_by_plan(actions) == resets_of(machine)
    assert ['reset', 'image', 'lock', 'reset'] == stages(machine)
    told = done.document['targets'][0]['actions']
    changing = ('state', 'message', 'restoring')
    assert [{k: v for k, v in a.items() if k not in changing} for a in actions] == [
        {k: v for k, v in a.items() if k not in changing} for a in told
    ]


def test_a_plan_says_what_is_put_back_in_which_turn_and_why_a_host_is_reset(desk, emulated_machine):
    """In the document, and in the table for people."""
    machine = emulated_machine('acc-server')
    desk.prepare(machine)
    catalogue = (desk.folder / 'catalogue.toml').read_text()
    old = (desk.folder / 'gpu-new.img').read_bytes()
    entry = desk._entry('gpu-old', 'firmware', old, 'HGX_FW_GPU_*', '95.0', 'fits = [{ pci = "0x10de:0x2330" }]')
    catalogue = catalogue.replace('restore = "none"', 'restore = "gpu-old"', 1).replace(
        '"power-cycle" }', '"power-cycle", order = 3 }', 1
    )
    desk.write('catalogue.toml', '\n'.join((catalogue, *entry, 'restore = "none"', '')))
    target = desk.run('plan', '-f', 'json', *desk.options).document['targets'][0]
    flashes = {a['subject']: (a['order'], a['restore']) for a in target['actions'] if a['action'] == 'flash'}
    assert {'FPGA1_FW': (0, None), 'HGX_FW_GPU_0': (3, 'gpu-old'), 'HGX_FW_GPU_1': (3, 'gpu-old')} == flashes
    hold, resume = (next(a for a in target['actions'] if a['subject'] == purpose) for purpose in ('hold', 'resume'))
    assert ['the host must not run while locks are open'] == hold['why']
    assert 'return the host to service' == resume['why'][0]
    assert 3 == len([why for why in resume['why'] if ' firmware ' in why])
    assert 'power-cycle' == resume['reset']
    table = desk.run('plan', '--long', *desk.options).out
    for text in (
        'by multipart-push, Immediate',
        'order 3',
        'restore image gpu-old',
        'no restore image',
        'why: return the host to service',
    ):
        assert text in table


def test_a_bmc_that_only_fetches_is_served_and_the_address_is_gone_afterwards(desk, emulated_machine):
    """The plan says that it is fetched, and when it is applied; the BMC gets those bytes; then nobody listens there."""
    from baremetal_acc.emulator.redfish.view import Options

    machine = emulated_machine('acc-server', flash_seconds=0.1, options={'*': Options(push=False)})
    desk.prepare(machine)
    desk.write('acc.conf', CONF + PULLING)
    actions = desk.run('plan', '-f', 'json', *desk.options).document['targets'][0]['actions']
    expected = sent_by_plan(desk, actions, 'pull')
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    truth = machine.truth()
    assert NEW_GPU == truth['components']['host/HGX_FW_GPU_0']['active']['version'].strip()
    told = [e for e in machine.log() if e['path'].endswith('UpdateService.SimpleUpdate')]
    fetched = {f['uri']: f['digest'] for f in truth['fetches']}
    assert expected == [(e['bmc'], *e['body']['Targets'], e['body'][APPLY_TIME], fetched[e['body']['ImageURI']]) for e in told]
    assert 5 == len(fetched)
    for address in fetched:
        parts = urlsplit(address)
        assert '127.0.0.1' == parts.hostname
        assert parts.path not in done.err + done.out
        connection = http.client.HTTPConnection('127.0.0.1', parts.port, timeout=5)
        with pytest.raises(ConnectionRefusedError):
            connection.request('GET', parts.path)


@pytest.mark.parametrize(
    ('option', 'says'),
    [
        (
            'image_server_ports = 99999',
            'image_server_ports: no port from 99999 to 99999 of 127.0.0.1 is available to listen on',
        ),
        ('image_server_ports = 9-8', 'the last port is lower than the first'),
        ('image_server_certificate = /nope.pem', 'image_server_certificate: /nope.pem cannot be used'),
    ],
)
def test_images_that_cannot_be_served_are_told_before_a_host_is_powered_off(desk, emulated_machine, option, says):
    """An option that cannot be right is a wrong configuration: nothing is begun."""
    from baremetal_acc.emulator.redfish.view import Options

    machine = emulated_machine('fpga-server', options={'*': Options(push=False)})
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nmatch = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n')
    desk.write('acc.conf', f'{CONF}{PULLING}{option}\n')
    done = desk.run('apply', '--execute', *desk.options)
    assert 2 == done.code, done.err
    assert says in done.errors[0]
    assert [] == machine.log()


def test_no_image_of_a_plan_that_is_refused_is_opened(desk, emulated_machine):
    """A wrong image is told when all else is right: nobody waits for what is not sent."""
    machine = emulated_machine('acc-server')
    desk.prepare(machine)
    (desk.folder / 'gpu-new.img').write_bytes(b'evil')
    alone = desk.run('plan', *desk.options)
    assert 4 == alone.code
    assert 'image gpu-new: ' in alone.errors[0]
    desk.write('baseline.toml', BASELINE.replace('count = 2', 'count = 3'))
    both = desk.run('plan', *desk.options)
    assert 4 == both.code
    assert re.search('expected 3 matching devices, found 2', both.errors[0])
    assert 'image gpu-new: ' not in both.errors[0]


def test_images_are_opened_where_nothing_else_is_refused(tmp_path):
    """A file that is not there is a refusal of a plan that has none, and no matter of one that has some."""
    image = v.image(source=str(tmp_path / 'absent'))
    tools = Tools(
        connect=find_driver.connecting(tmp_path),
        mechanisms=(),
        baseline=Baseline(rules=()),
        catalogue=(image,),
        images=FileStore(folders=(tmp_path,)),
    )
    target = Target(name='node-1', node=v.NODE, bmcs=())
    made = Plan(target='node-1', actions=(CheckImage(image=image.name),))
    assert 1 == len(plan_builder._with_images_checked(made, target, tools).refusals)
    refused = replace(
        made, refusals=(Refusal(accelerator=None, label='node-1', subject=Subject.from_text('x'), reason=NoSlot()),)
    )
    assert refused == plan_builder._with_images_checked(refused, target, tools)


def test_cards_that_get_an_image_in_one_turn_get_one_copy_of_it(desk, emulated_machine):
    """Asked for at a server when the plan is made, when the job checks it, and once for two cards; never kept in between."""
    server = web.Server()
    try:
        machine = emulated_machine('acc-server', flash_seconds=0.1)
        desk.prepare(machine, parallel_updates=8)
        server.answers['/gpu-new.img'] = web.body((desk.folder / 'gpu-new.img').read_bytes())
        catalogue = (desk.folder / 'catalogue.toml').read_text()
        desk.write('catalogue.toml', catalogue.replace('"gpu-new.img"', f'"{server.origin}/gpu-new.img"'))
        desk.write('acc.conf', f'{CONF}image_hosts = {server.origin}\n')
        done = desk.run('apply', '--execute', *desk.options)
        assert 0 == done.code, done.err
        got = digest(desk, 'gpu-new')
        assert 2 == len([e for e in machine.log() if e['digest'] == got])
        assert 3 == len(server.requests)
    finally:
        server.stop()


def test_a_missing_lock_is_refused_with_what_a_rule_may_say_of_it(desk, emulated_machine):
    """The default rules demand more than many machines have: who reads that learns what there is, and nothing is relaxed."""
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n')
    done = desk.run('plan', *desk.options)
    assert 4 == done.code
    assert 'no mechanism blocks this path for HGX_FW_ERoT_GPU_0 (rule default requires it)' in done.err
    hint = '(lock host-bmc-ipmi: a rule can leave the path out of block, or waive it with on_missing and waiver)'
    assert hint in done.err
    assert 'match by' not in done.err


def test_nothing_of_a_refused_plan_looks_as_if_it_were_to_come(desk, emulated_machine):
    """Its lines say that they are not done, and no warning speaks of what will be open; what else there is is told."""
    machine = emulated_machine('dpu')
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\n')
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    done = desk.run('unlock', *desk.options, '-f', 'value', '-c', 'Action', '-c', 'State')
    assert 4 == done.code
    assert ('release not done', 'refuse refused') == (done.out.splitlines()[0], done.out.splitlines()[-1])
    assert 'planned' not in done.out
    assert ('will be released' in done.err, 'dry run' in done.err) == (False, False)
    assert '(use --keep-host-running if the host runs nothing but' in done.err
    opened = desk.run('unlock', '--keep-host-running', *desk.options, '-f', 'value', '-c', 'Action', '-c', 'State')
    assert (3, 'release planned') == (opened.code, opened.out.splitlines()[0])
    assert 'will be released' in opened.err


@pytest.mark.parametrize('verb', ['plan', 'verify'])
def test_a_function_that_a_rule_lets_slots_be_given_and_that_no_image_is_is_told(desk, emulated_machine, verb):
    """A misspelt name promises nothing: rule, file and name are said, and nothing fails for it."""
    desk.prepare(emulated_machine('gpu-server', gpus=1))
    before = desk.run(verb, *desk.options).code
    desk.write('baseline.toml', BASELINE + '\n[[rule]]\nname = "shelf"\ntakes = ["gzip", "zgip"]\n')
    found = desk.run(verb, *desk.options)
    assert "baseline.toml: rule shelf: takes names 'zgip', but" in found.err
    assert "takes names 'gzip'" not in found.err
    assert before == found.code
