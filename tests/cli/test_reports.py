# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""BMC behaviours from public bug reports, met by the command line.

Each docstring ends with the report. The assertions use the emulated machine's true state, not the command's output: what runs,
what was sent, whether the host is on, which locks are closed, whether a session is left. The page ``habits`` lists the tests.
"""

import hashlib
import json
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import requests

from baremetal_acc.emulator.image import build_image
from tests.cli.desk import Desk, Done, target_of
from tests.cli.front import Answer, Front, Request, refusal

ROOT = '/redfish/v1'
SERVICE = f'{ROOT}/UpdateService'
SESSIONS = f'{ROOT}/SessionService/Sessions'
UPLOAD = f'{SERVICE}/update-multipart'
PROCESSORS = f'{ROOT}/Systems/HGX_Baseboard_0/Processors'
PASSWORD_CHANGE = 'The password provided for this account must be changed before access is granted.'

EROT, GPU = 'erot', 'gpu'
OLD = {EROT: '01.02.0060.0000_n00', GPU: '96.00.30.00.01'}
NEW = {EROT: '01.03.0000.0000_n00', GPU: '96.00.74.00.0D'}
ITEM = {EROT: 'HGX_FW_ERoT_GPU', GPU: 'HGX_FW_GPU'}

CONF = """
[baremetal_acc]
poll_interval = 0.1
settle_timeout = 1
stall_timeout = 1.5
reset_timeout = 5
job_timeout = 20
bmc_timeout = 5
publish = false
"""


SINGLY: dict[str, Any] = {'options': {'host': {'expand': False}}}
"""A machine each of whose resources is asked for by its own path, so that a front knows it by that."""


class Site:
    """A machine with GPUs behind roots of trust, what its operator has on the desk, and what is really so."""

    def __init__(self, desk: Desk, machine: Any) -> None:
        self.desk = desk
        self.machine = machine
        self.bmc = machine.bmcs['host']

    def prepare(self, what: str = EROT, *, reset: str = 'none', exposure: str = 'tenant', conf: str = '', **bmc: Any) -> None:
        """Write all files: an image, the one that it is restored with, and a rule that wants the first.

        :param what: the firmware. That of a root of trust is in force at once, that of a GPU after a restart of the host.
        :param reset: what the image needs by the catalogue.
        :param exposure: a tenant's machine has its host path closed, and is held off meanwhile.
        :param bmc: keys of bmcs.yaml.
        """
        entries = ['format = 1']
        for name, version, restore in (('new', NEW[what], 'old'), ('old', OLD[what], 'none')):
            data = build_image(model='h100', component=what, version=version, security_version=2, size_bytes=30_000)
            self.desk.folder.joinpath(f'{name}.img').write_bytes(data)
            entries += [
                f'[[image]]\nname = "{name}"\nkind = "firmware"\nfits = [{{ pci = "0x10de:0x2330" }}]',
                f'component = "{ITEM[what]}_*"\nversion = "{version}"\nsecurity_version = 2\nsource = "{name}.img"',
                f'size = {len(data)}\ndigest = "sha256:{hashlib.sha256(data).hexdigest()}"',
                f'apply = {{ reset = "{reset}" }}\nrestore = "{restore}"',
            ]
        self.desk.write('catalogue.toml', '\n'.join(entries) + '\n')
        block = '["host-device"]' if exposure == 'tenant' else '[]'
        rule = f'match = {{ kind = "GPU" }}\nfirmware = {{ "{ITEM[what]}_*" = "{NEW[what]}" }}\nblock = {block}'
        self.desk.write('baseline.toml', f'format = 1\n[[rule]]\nname = "gpus"\ncustody = "reported"\n{rule}\n')
        self.desk.write('acc.conf', CONF + conf)
        self.desk.bmcs({'node-1': target_of(self.machine, **bmc) | {'exposure': exposure}})

    def run(self, *arguments: str) -> Done:
        """Run a verb with the documents of the desk."""
        options = self.desk.options[:2] if arguments[0] == 'inventory' else self.desk.options
        return self.desk.run(*arguments, *options, timeout=60)

    def apply(self, *arguments: str) -> Done:
        """Bring the machine to its baseline."""
        return self.run('apply', '--execute', *arguments)

    def runs(self, what: str = EROT) -> str:
        """The version that the first card runs."""
        return str(self.machine.truth()['components'][f'host/{ITEM[what]}_0']['active']['version'])

    @property
    def is_on(self) -> bool:
        """Whether the host is on."""
        return bool(self.machine.truth()['systems']['host']['power'] == 'On')

    @property
    def is_locked(self) -> bool:
        """Whether no way of the host to its cards is open."""
        return not [way for way in self.machine.truth()['ways'] if way['open'] and way['device'].startswith('GPU')]

    @property
    def images(self) -> list[dict[str, Any]]:
        """The requests by which the BMC was sent an image, or told to fetch one."""
        return [e for e in self.machine.log() if e['path'].startswith((UPLOAD, f'{SERVICE}/Actions')) and e['status'] != 308]

    @property
    def resets(self) -> list[str]:
        """What the host was told to do with its power."""
        resets = [e for e in self.machine.log() if e['path'].endswith('ComputerSystem.Reset') and e['status'] < 300]
        return [e['body']['ResetType'] for e in resets]

    def check(self, *, cuts: bool = False) -> None:
        """Assert what holds of every case: no image beside a write, no power cut under one, no session left.

        :param cuts: power is cut in this case.
        """
        assert [] == [e for e in self.images if e['overlaps']]
        assert cuts is bool(self.machine.truth()['cut_writes'])
        told = requests.get(self.bmc.address + SESSIONS, auth=(self.bmc.username, self.bmc.password), timeout=5)
        assert 0 == told.json()['Members@odata.count']

    def check_done(self, done: Done, what: str = EROT, *, locked: bool = True) -> None:
        """Assert that the new version runs, that one image was sent for it, and that the host is on at closed locks."""
        assert 0 == done.code, done.err
        assert (NEW[what], 1, True, locked) == (self.runs(what), len(self.images), self.is_on, self.is_locked)
        self.check()

    def check_untouched(self, done: Done, code: int, *says: str) -> None:
        """Assert that the command ended with that code and these words, and that the BMC was told nothing."""
        assert code == done.code, done.err
        assert [] == [words for words in says if words not in done.err], done.err
        assert [] == self.machine.log()
        self.check()


@pytest.fixture
def make(desk: Desk, emulated_machine: Any) -> Callable[..., Site]:
    """Makes the site of a test, by habits and the other parameters of the emulated machine."""

    def site(*habits: str, **machine: Any) -> Site:
        given = {'gpus': 1, 'tls': False, 'flash_seconds': 0.2, 'reset_seconds': 0.1} | machine
        return Site(desk, emulated_machine('gpu-server', habits=habits, **given))

    return site


@pytest.fixture
def front() -> Iterator[Callable[..., str]]:
    """Puts a front before the BMC of a site; gives its address."""
    made: list[Front] = []

    def address(site: Site, rule: Any, **given: Any) -> str:
        made.append(Front(site.bmc, rule, **given))
        return made[-1].address

    yield address
    for one in made:
        one.close()


def showing(edit: Callable[[str, Any], object]) -> Callable[[Request, Callable[[], Answer]], Answer]:
    """A rule: resources are shown as ``edit`` leaves them, which gets the path and the document."""

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        return ask().edited(lambda document: edit(request.path, document)) if request.method == 'GET' else ask()

    return rule


def flashes(done: Done) -> int:
    """How many images are written by a plan that was printed as JSON."""
    return len([a for a in done.document['targets'][0].get('actions', ()) if a['action'] == 'flash'])


# -- how an update is told


def test_an_update_without_a_task_is_waited_for(make):
    """An update that is answered 200 without a task is done once the card shows it (canonical/testflinger#255)."""
    site = make('no-task-updating')
    site.prepare()
    site.check_done(site.apply())


def test_a_monitor_of_any_name_is_followed(make):
    """A monitor is what Location names, by whatever path (DSP0266, asynchronous operations)."""
    site = make('monitor-only')
    site.prepare()
    site.check_done(site.apply())


def test_a_monitor_that_tells_of_a_failure_is_believed(make):
    """A monitor that answers 400 in the end says why; the old image is restored once (DSP0266, asynchronous operations)."""
    site = make('monitor-only')
    site.prepare()
    site.machine.fault('task-fails', count=1, message='The image is damaged.')
    done = site.apply()
    assert (6, True, True) == (done.code, 'The image is damaged.' in done.err, 'is restored to' in done.err), done.err
    assert (OLD[EROT], 2, True, True) == (site.runs(), len(site.images), site.is_on, site.is_locked)
    site.check()


def test_a_card_that_proves_its_version_is_not_quarantined_though_each_monitor_tells_of_a_failure(make):
    """A monitor answers 400 for what is restored, too, and the card runs what it ran (DSP0266, status of a monitor).

    Its host stays off; it is written by the next job.
    """
    site = make('monitor-only')
    site.prepare()
    site.machine.fault('task-fails', message='The image is damaged.')
    done = site.apply()
    held = f'is held: {ITEM[EROT]}_0 ran {OLD[EROT]}, as before, and nothing shows that anything was written'
    assert (6, True) == (done.code, held in done.err), done.err
    assert 'quarantine' not in done.err
    assert (OLD[EROT], 2, False, True) == (site.runs(), len(site.images), site.is_on, site.is_locked)
    site.check()
    site.machine.clear_faults()
    assert 0 == site.apply().code
    assert (NEW[EROT], 3) == (site.runs(), len(site.images))


def test_a_location_with_another_address_is_asked_of_this_bmc(make):
    """Location names an address that nobody reaches; each session is closed, and there are eight (DMTF/libredfish#156)."""
    site = make('location-elsewhere')
    site.machine.fault('session-limit', most=8)
    site.prepare()
    site.check_done(site.apply())


@pytest.mark.parametrize(('state', 'exposure'), [('waits', 'tenant'), ('scheduled', 'service')])
def test_an_update_that_waits_for_a_restart_gets_it(make, state, exposure):
    """Its task is Pending, or Scheduled, until the host was restarted (dell/iDRAC-Redfish-Scripting#166, #266)."""
    site = make(f'update-{state}-for-restart')
    site.prepare(reset='power-cycle', exposure=exposure)
    site.check_done(site.apply(), locked=exposure == 'tenant')


def test_an_update_that_waits_for_a_restart_that_nobody_planned_is_cancelled(make):
    """An update that needs a restart which the catalogue does not ask for writes nothing (dell/iDRAC-Redfish-Scripting#166)."""
    site = make('update-waits-for-restart')
    site.prepare(conf='settle_timeout = 1\nstall_timeout = 1\n')
    done = site.apply()
    assert 4 == done.code, done.err
    assert 'waits for a restart of the host' in done.errors[0]
    assert 'the BMC has cancelled it, and nothing was written' in done.errors[0]
    assert (OLD[EROT], 1, True, True) == (site.runs(), len(site.images), site.is_on, site.is_locked)
    site.check()


@pytest.mark.parametrize('missing', [False, True])
def test_an_item_that_comes_late_is_waited_for(make, missing):
    """An item is missing after an update, or has no version; nothing is restored meanwhile (bb-Ricardo/check_redfish#69)."""
    site = make()
    site.prepare(conf='settle_timeout = 0.3\n')
    site.machine.fault('item-late', seconds=1.0, missing=missing)
    site.check_done(site.apply())


def test_an_item_that_never_comes_holds_its_card(make):
    """An item that is not shown any more tells nothing, so nothing more is sent to its card (bb-Ricardo/check_redfish#69)."""
    site = make()
    site.prepare(conf='stall_timeout = 1.5\n')
    site.machine.fault('item-late', seconds=600.0, missing=True)
    done = site.apply()
    assert 6 == done.code, done.err
    assert 'the BMC says that the update succeeded, but shows no version' in done.errors[0]
    assert 'is held: whether the write of image new' in done.errors[0]
    assert (1, False, True) == (len(site.images), site.is_on, site.is_locked)
    site.check()


@pytest.mark.parametrize(('what', 'reset'), [(EROT, 'none'), (GPU, 'power-cycle')])
def test_an_item_that_has_its_version_in_its_uri_is_found_again(make, what, reset):
    """An update gives the item of a component another Id, at once or by the restart (captures of iDRACs: Installed-...)."""
    site = make('item-renamed-by-version')
    site.prepare(what, reset=reset)
    site.check_done(site.apply(), what)


def test_an_item_that_has_its_version_in_its_uri_is_restored(make):
    """An update fails after it has changed the version, and so the URI (captures of iDRACs: Installed-...)."""
    site = make('item-renamed-by-version')
    site.prepare()
    site.machine.fault('task-fails', completes=True, count=1)
    done = site.apply()
    assert (6, True) == (done.code, 'is restored to' in done.err), done.err
    assert 'quarantine' not in done.err
    assert (OLD[EROT], 2, True, True) == (site.runs(), len(site.images), site.is_on, site.is_locked)
    site.check()


def test_no_power_is_cut_while_a_root_of_trust_copies(make):
    """A root of trust copies the image to its second flash after the update (sonic-net/sonic-mgmt#26697)."""
    site = make()
    site.prepare(reset='power-cycle')
    site.machine.fault('background-copy', seconds=2.0)
    site.check_done(site.apply())
    (sent,) = (datetime.fromisoformat(e['time']) for e in site.images)
    on = datetime.fromisoformat([e['time'] for e in site.machine.log() if e['path'].endswith('Reset')][-1])
    assert 2 <= (on - sent).total_seconds()


# -- what is sent


def only(document: dict[str, Any], **others: Any) -> None:
    """An UpdateService that takes no image by MultipartHttpPushUri."""
    document.pop('MultipartHttpPushUri')
    document.pop('Actions')
    document.update(others)


def fetching_by(protocol: str) -> dict[str, Any]:
    """An UpdateService that fetches images by this protocol."""
    action = {'target': f'{SERVICE}/Actions/UpdateService.SimpleUpdate'}
    return {'Actions': {'#UpdateService.SimpleUpdate': action | {'TransferProtocol@Redfish.AllowableValues': [protocol]}}}


SERVED = 'image_server_host = 127.0.0.1\n'
START = {'MultipartHttpPushUri@Redfish.OperationApplyTimeSupport': {'SupportedValues': ['OnStartUpdateRequest']}}
WAYS = {
    'HttpPushUri': (lambda d: only(d, HttpPushUri=SERVICE), SERVED, 'without HttpPushUriTargets'),
    'OnStartUpdateRequest': (
        lambda d: d.update(START),
        SERVED,
        'images are applied only at OnStartUpdateRequest (OperationApplyTime)',
    ),
    'HTTPS': (
        lambda d: only(d, **fetching_by('HTTPS')),
        SERVED,
        'the BMC fetches images over HTTPS, but they are served over HTTP',
    ),
    'TFTP': (
        lambda d: only(d, **fetching_by('TFTP')),
        SERVED,
        'the BMC fetches images over TFTP, but they are served over HTTP',
    ),
    'not-served': (lambda d: only(d, **fetching_by('HTTP')), '', 'set option [baremetal_acc] image_server_host'),
}
"""What an UpdateService offers alone, and why nothing can be sent to it."""


@pytest.mark.parametrize('way', WAYS)
def test_a_way_to_send_images_that_is_not_ours_is_refused(make, front, way):
    """A BMC that takes images in another way only is refused (DMTF/Redfish-Tacklebox#99, fwupd/fwupd#4836)."""
    site = make()
    edit, conf, says = WAYS[way]
    site.prepare(conf=conf, address=front(site, showing(lambda path, found: edit(found) if path == SERVICE else None)))
    site.check_untouched(site.apply(), 4, says)


def test_an_image_is_fetched_by_http(make, front):
    """A BMC that has SimpleUpdate by HTTP alone fetches the image (ironcore-dev/metal-operator#766)."""
    site = make()
    offers = fetching_by('HTTP')
    site.prepare(
        conf=SERVED, address=front(site, showing(lambda path, found: only(found, **offers) if path == SERVICE else None))
    )
    site.check_done(site.apply())


REFUSED = {
    'targets': (rb'"Targets": *\[ *"', True, "The object at 'Target' is invalid."),
    'oem': (b'OemParameters', False, 'The action requires the parameter OemParameters.'),
}
"""What an upload has to have for being refused, or must not lack, and the words of the BMC."""


@pytest.mark.parametrize('what', REFUSED)
def test_an_upload_that_is_refused_changes_nothing(make, front, what):
    """A BMC takes an empty Targets only, or wants OemParameters (dsx-ai-factory/libredfish#39, community.general#8825)."""
    pattern, has, says = REFUSED[what]

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        is_refused = request.path == UPLOAD and has is bool(re.search(pattern, request.body))
        return refusal(400, 'Base.1.13.PropertyValueNotInList', says) if is_refused else ask()

    site = make()
    site.prepare(address=front(site, rule))
    done = site.apply()
    assert (4, True) == (done.code, f'HTTP 400 Bad Request: {says}' in done.errors[0]), done.err
    assert (OLD[EROT], [], True, True) == (site.runs(), site.images, site.is_on, site.is_locked)
    site.check()


GATEWAY = {
    502: '<html><body><h1>502 Bad Gateway</h1></body></html>',
    503: '<html><body><h1>503</h1>upstream timed out</body></html>',
    504: '',
}


@pytest.mark.parametrize('status', GATEWAY)
def test_an_upload_that_has_arrived_is_not_sent_again_whatever_the_web_server_in_front_says(make, front, status):
    """The web server of a BMC answers before the service behind it does (RFC 9110, sections 15.6.3 to 15.6.5)."""

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        answer = ask()
        if request.path != UPLOAD:
            return answer
        return Answer(status=status, body=GATEWAY[status].encode(), headers={'Retry-After': '1', 'Content-Type': 'text/html'})

    site = make()
    site.prepare(address=front(site, rule))
    site.check_done(site.apply())


def success_that_fails(message: str, place: str = '@Message.ExtendedInfo') -> Answer:
    """An answer of success that says that what was asked for has failed."""
    told = {'MessageId': 'Base.1.13.GeneralError', 'Message': message, 'MessageSeverity': 'Critical'}
    return Answer(status=200, body=json.dumps({place: [told]}).encode())


@pytest.mark.parametrize('place', ['@Message.ExtendedInfo', 'Messages'])
def test_an_upload_that_is_answered_as_a_success_and_has_failed_changes_nothing(make, front, place):
    """A success is told by its status, and a failure by the messages beside it (DSP0266, extended error handling)."""

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        return success_that_fails('The image is for another model.', place) if request.path == UPLOAD else ask()

    site = make()
    site.prepare(address=front(site, rule))
    done = site.apply()
    assert (4, True) == (done.code, 'with: The image is for another model.' in done.errors[0]), done.err
    assert (OLD[EROT], [], True, True) == (site.runs(), site.images, site.is_on, site.is_locked)
    assert 'quarantine' not in done.err
    site.check()


def test_a_lock_that_stays_open_though_its_write_was_answered_as_a_success_has_a_reason(make, front):
    """A property is not written, the answer is 200, and says so beside the property (DSP0266, responses of PATCH)."""

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        if request.method != 'PATCH':
            return ask()
        return success_that_fails('The jumper forbids it.', f'{next(iter(json.loads(request.body)))}@Message.ExtendedInfo')

    site = make()
    site.prepare(address=front(site, rule))
    done = site.run('lock', '--execute')
    assert (3, True) == (done.code, 'the BMC accepted it with the message: The jumper forbids it.' in done.err), done.err
    assert not site.is_locked
    site.check()


def test_a_lock_that_is_closed_though_its_write_was_answered_500_is_not_written_again(make, front):
    """A PATCH is done, and answered with an error of the server (DSP0266, status codes).

    A lock of which each write is answered so is closed, and proven.
    """

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        answer = ask()
        failed = refusal(500, 'Base.1.13.InternalError', 'The request failed due to an internal service error.')
        return failed if request.method == 'PATCH' else answer

    site = make()
    site.prepare(address=front(site, rule))
    done = site.run('lock', '--execute')
    assert (0, True) == (done.code, site.is_locked), done.err
    patched = [e['path'] for e in site.machine.log() if e['method'] == 'PATCH']
    assert len(patched) == len(set(patched))
    site.check()


@pytest.mark.parametrize('habit', ['weak-etags', 'needs-if-match-hides-etag'])
def test_a_lock_is_written_whatever_the_etags_are(make, habit):
    """ETags are weak and match nothing, or If-Match is demanded (community.general#6434, #11270, ansible/ansible#56050)."""
    site = make(habit)
    site.prepare()
    done = site.run('lock', '--execute')
    assert 0 == done.code, done.err
    assert 'done (written without If-Match' in done.err
    assert site.is_locked
    site.check()


def test_no_host_runs_before_a_lock_that_comes_later_is_closed(make):
    """A PATCH is answered 202 and done later; other ones are refused until then (lenovo/powershell-redfish-lenovo#75)."""
    site = make()
    site.prepare()
    site.machine.fault('patch-later', seconds=0.6)
    site.check_done(site.apply())
    assert [] == [e for e in site.machine.log() if e['method'] == 'PATCH' and e['status'] != 202]


def test_a_lock_that_comes_later_is_read_until_it_is_closed(make):
    """A PATCH is answered 202, and nothing is where its Location leads (DMTF/Redfish-Protocol-Validator#55)."""
    site = make()
    site.prepare()
    site.machine.fault('patch-later', seconds=0.6, monitor=False)
    done = site.run('lock', '--execute')
    assert (0, True) == (done.code, site.is_locked), done.err
    site.check()


def test_a_write_follows_a_redirect_to_the_slash(make):
    """A URI without a slash at its end is answered 308 (ansible/ansible#48296, PegaProx/project-pegaprox#609)."""
    site = make('trailing-slash')
    site.prepare()
    site.check_done(site.apply())
    assert 308 in {e['status'] for e in site.machine.log()}


# -- power


def test_a_host_without_a_power_cycle_is_powered_off_and_on(make):
    """ResetType has no PowerCycle (DMTF/Redfish-Tacklebox#82, ansible-collections/community.general#7083)."""
    site = make('no-power-cycle')
    site.prepare(GPU, reset='power-cycle', exposure='service')
    site.check_done(site.apply(), GPU, locked=False)
    assert ['ForceOff', 'On'] == site.resets


@pytest.mark.parametrize('how', ['gone', 'absent'])
def test_a_card_that_is_hidden_while_its_host_is_off_is_not_written(make, front, how):
    """A card that is shown only while its host is on is not written, and why is said (dsx-ai-factory/infra-controller#4903)."""

    def absent(path: str, found: Any) -> None:
        if 'GPU_0' in path and not site.is_on:
            found.pop('Version', None)
            found['Status'] = {'State': 'Absent'}

    site = make(*(['cards-hidden-while-off'] if how == 'gone' else []), **SINGLY)
    address = site.bmc.address if how == 'gone' else front(site, showing(absent))
    site.prepare(conf='settle_timeout = 0.5\n', address=address)
    done = site.apply()
    assert (6, True) == (done.code, 'the BMC no longer shows the card now that its host is off' in done.errors[0]), done.err
    assert (OLD[EROT], [], ['ForceOff']) == (site.runs(), site.images, site.resets)
    again = site.apply()
    assert (4, True) == (again.code, 'the host is off' in again.errors[0]), again.err
    assert (OLD[EROT], [], False) == (site.runs(), site.images, site.is_on)
    site.check()


def test_a_card_that_is_hidden_while_its_host_is_off_is_written_while_it_runs(make):
    """A hidden card is written where the operator lets the host run (dsx-ai-factory/infra-controller#4903)."""
    site = make('cards-hidden-while-off')
    site.prepare()
    site.check_done(site.apply('--keep-host-running'))
    assert [] == site.resets


@pytest.mark.parametrize('by', ['the BMC', 'somebody'])
def test_a_host_that_was_powered_on_in_the_hold_is_powered_off_and_its_card_is_not_believed(make, by):
    """A host that is held off is powered on by the BMC, or by somebody (fwupd/fwupd#8661, dell/iDRAC-Redfish-Scripting#136).

    It is powered off at once, even under a write: the code of a tenant is about to meet an open card.
    """
    site = make(*(['powers-host-on'] if by == 'the BMC' else []), flash_seconds=1.0)
    site.prepare()
    process = site.desk.start('apply', '--execute', *site.desk.options)
    site.desk.until_told(process)
    if by == 'somebody':
        site.machine.power('On')
    _, err = process.communicate(timeout=60)
    assert 6 == process.returncode, err
    assert 'somebody else may have written' in err
    assert 'has to stay off while NVIDIA H100 80GB HBM3 GPU_0 is quarantined' in err
    assert (1, False, True) == (len(site.images), site.is_on, site.is_locked)
    site.check(cuts=by == 'somebody')


# -- sessions and logins


@pytest.mark.parametrize('most', [1, 2])
def test_few_sessions_are_enough(make, most):
    """A BMC has one session, or two, as many as we ever want (stmcginnis/gofish#75, bb-Ricardo/check_redfish#89, #198)."""
    site = make()
    site.machine.fault('session-limit', most=most)
    site.prepare()
    site.check_done(site.apply())
    logins = [e for e in site.machine.log(sessions=True) if e['session']]
    assert most == 1 or {201, 204} == {e['status'] for e in logins}


def test_a_bmc_without_a_free_session_says_so(make):
    """A BMC that has no session free is named with its reason, and the option that helps (theforeman/smart-proxy#895)."""
    site = make('no-session')
    site.prepare()
    site.check_untouched(site.run('inventory'), 5, 'no session is free (HTTP 503)', 'bmc_basic_auth')


def test_a_bmc_without_a_free_session_is_used_with_basic_authentication(make):
    """Basic authentication works without a free session, where the operator allows it (theforeman/smart-proxy#895)."""
    site = make('no-session')
    site.prepare(conf='bmc_basic_auth = true\n')
    site.check_done(site.apply())


def test_a_password_that_has_to_be_changed_is_named(make, front):
    """A BMC gives a session and refuses everything else (openbmc/bmcweb#103, DMTF/Redfish-Protocol-Validator#18)."""

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        is_free = request.path == ROOT or request.path.startswith(SESSIONS)
        return ask() if is_free else refusal(403, 'Base.1.10.PasswordChangeRequired', PASSWORD_CHANGE)

    site = make()
    site.prepare(address=front(site, rule))
    site.check_untouched(site.apply(), 5, 'not allowed (HTTP 403)', PASSWORD_CHANGE)


@pytest.mark.parametrize(
    'subject',
    [('/CN=idrac-1234', '-addext', 'subjectAltName=DNS:idrac-1234'), ('/CN=127.0.0.1',)],
    ids=['other-name', 'no-name'],
)
def test_a_certificate_for_another_name_is_refused(make, front, subject):
    """A certificate names another host, or has a common name only (openconfig/gnmic#172, metal3-io/metal3-dev-env#1595)."""
    site = make()
    key, certificate = (site.desk.folder / name for name in ('key.pem', 'certificate.pem'))
    command = ('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2')
    subprocess.run(
        (*command, '-keyout', key, '-out', certificate, '-subj', *subject), check=True, capture_output=True, timeout=60
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    address = front(site, lambda request, ask: ask(), tls=tls)
    site.prepare(address=address, verify_ca=str(certificate))
    told = (
        'the certificate is not trusted',
        "not valid for '127.0.0.1'",
        '(use a host name that is a subjectAltName of the certificate',
    )
    site.check_untouched(site.run('inventory'), 5, *told)
    site.prepare(address=address, verify_ca=False)
    assert 0 == site.run('inventory').code


# -- what is shown


def one_member_alone(path: str, found: Any) -> None:
    """Members is the link itself."""
    if path == f'{ROOT}/Systems':
        found['Members'] = found['Members'][0]


def count_of_none(path: str, found: Any) -> None:
    """All collections say that they are empty."""
    if 'Members@odata.count' in found:
        found['Members@odata.count'] = 0


def members_of_null(path: str, found: Any) -> None:
    """A collection is null."""
    if path == PROCESSORS:
        found['Members'] = None


def cisco(path: str, found: Any) -> None:
    """A card without a status, a maker and a name that anybody knows."""
    if re.search('/(Processors|PCIeDevices)/GPU_[01]$', path):
        found.pop('Status')
        found.update(Model='UCSC-GPU-T4-16', Name='NVIDIA T4 PCIe 16GB 70W', Manufacturer=None)


SHOWN = {
    'DMTF/libredfish#27': (one_member_alone, 4, 'Members is missing, or not an array'),
    'Nuvoton-Israel/openbmc#202': (count_of_none, 3, ''),
    'bb-Ricardo/check_redfish#162': (members_of_null, 3, ''),
    'bb-Ricardo/check_redfish#157': (cisco, 3, ''),
}
"""How a BMC shows itself, the code of a plan (3: there is something to do, as with any other), and its words."""


@pytest.mark.parametrize('report', SHOWN)
def test_an_odd_inventory_hides_no_card(make, front, report):
    """Each card is found, or the plan refused (DMTF/libredfish#27, Nuvoton-Israel/openbmc#202, check_redfish#157, #162)."""
    edit, code, says = SHOWN[report]
    site = make(gpus=2, **SINGLY)
    site.prepare(address=front(site, showing(edit)))
    done = site.run('plan', '-f', 'json')
    site.check_untouched(done, code, says)
    assert code == 4 or flashes(done) == 2


def test_a_card_that_is_dropped_is_missed(make, front):
    """One of two cards is in no collection, while its firmware item is (dsx-ai-factory/infra-controller#2197)."""

    def drop(path: str, found: Any) -> None:
        if 'Members' in found and not path.endswith('FirmwareInventory'):
            found['Members'] = [m for m in found['Members'] if not re.search('(Processors|PCIeDevices)/GPU_1', m['@odata.id'])]

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        is_gone = re.search('/(Processors|PCIeDevices)/GPU_1', request.path)
        return refusal(404, 'Base.1.13.ResourceMissingAtURI', 'It is not there.') if is_gone else showing(drop)(request, ask)

    site = make(gpus=2, **SINGLY)
    site.prepare(address=front(site, rule))
    path = site.desk.folder / 'baseline.toml'
    path.write_text(path.read_text().replace('match =', 'count = 2\nmatch ='))
    seen = site.run('inventory')
    assert (0, True) == (seen.code, f'points to {PROCESSORS}/GPU_1, where no device was found' in seen.err), seen.err
    site.check_untouched(site.apply(), 4, 'rule gpus: expected 2 matching devices, found 1')


def test_a_denied_version_is_seen_though_its_link_is_in_another_case(make, front):
    """An item names its card in lower case (HPE; no public report of just this)."""

    def lower(path: str, found: Any) -> None:
        if path.startswith(f'{SERVICE}/FirmwareInventory/') and 'RelatedItem' in found:
            found['RelatedItem'] = [{'@odata.id': link['@odata.id'].lower()} for link in found['RelatedItem']]

    site = make(**SINGLY)
    site.prepare(address=front(site, showing(lower)))
    deny = f'[[deny]]\nreason = "a leaked key"\ncomponent = "{ITEM[EROT]}_*"\nversion = "{OLD[EROT]}"\n'
    path = site.desk.folder / 'catalogue.toml'
    path.write_text(path.read_text().replace('format = 1\n', f'format = 1\n{deny}fits = [{{ pci = "0x10de:0x2330" }}]\n', 1))
    path = site.desk.folder / 'baseline.toml'
    path.write_text(re.sub('firmware = .*', '', path.read_text()))
    site.check_untouched(site.apply(), 4, f'version {OLD[EROT]} is denied (a leaked key)')


def test_a_control_character_in_a_text_costs_no_card(make, front):
    """A text of JSON holds a bare control character, in a network adapter or a card (mrlhansen/idrac_exporter#192)."""
    odd = {'/PCIeDevices/NIC_0': b'Switch\r', '/PCIeDevices/GPU_0': b'a\x00b', '/Processors/GPU_0': b'tab\there'}

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        found = [text for end, text in odd.items() if request.path.endswith(end)]
        if not found:
            return ask()
        answer = ask().edited(lambda document: document.update(AssetTag='TAG'))
        return replace(answer, body=answer.body.replace(b'TAG', found[0]))

    site = make(**SINGLY)
    site.prepare(address=front(site, rule))
    done = site.run('plan', '-f', 'json')
    site.check_untouched(done, 3)
    assert 1 == flashes(done)


@pytest.mark.parametrize(('mark', 'protocol'), [(b'\xef\xbb\xbf', 'HTTP/1.1'), (b'', 'HTTP/1.0')], ids=['bom', 'http-1.0'])
def test_a_byte_order_mark_and_an_old_http_are_taken(make, front, mark, protocol):
    """Answers begin with a byte order mark, or the BMC speaks HTTP/1.0 (RFC 8259, section 8.1; no public report)."""

    def rule(request: Request, ask: Callable[[], Answer]) -> Answer:
        answer = ask()
        return replace(answer, body=mark + answer.body) if answer.body else answer

    site = make()
    site.prepare(address=front(site, rule, protocol=protocol))
    site.check_done(site.apply())


# -- services beside the BMC


def test_a_service_that_never_answers_ends_the_command(desk):
    """Ironic takes the connection and never answers (bigstack-oss/cubecos#1101, sapcc/helm-charts#11491)."""
    with socket.socket() as hole:
        hole.bind(('127.0.0.1', 0))
        hole.listen(16)
        there = f'http://127.0.0.1:{hole.getsockname()[1]}'
        reach = f'auth_type = none\nendpoint_override = {there}\ntimeout = 1\n'
        desk.write('acc.conf', f'[ironic]\n{reach}[placement]\n{reach}')
        desk.write('pools.toml', 'format = 1\n[[pool]]\nname = "g"\nfunction = "gzip"\nfree = 1\n')
        done = desk.run('pool', 'plan', '--config-file', 'acc.conf', '--pools', 'pools.toml', timeout=30)
    assert (5, True) == (done.code, there in done.errors[0]), done.err


@pytest.mark.parametrize('arguments', [['publish'], ['publish', '--execute'], ['apply', '--execute']])
@pytest.mark.parametrize('keystone', [False, True])
def test_a_placement_that_never_answers_is_waited_for_as_long_as_the_operator_says(make, arguments, keystone):
    """Connections stay open and nothing ever comes, from placement or the Keystone before it (sapcc/helm-charts#11491).

    A question is not asked again after its timeout; nothing was done to the machine.
    """
    site = make()
    with socket.socket() as hole:
        hole.bind(('127.0.0.1', 0))
        hole.listen(64)
        there = f'http://127.0.0.1:{hole.getsockname()[1]}'
        who = 'username = u\npassword = p\nproject_name = p\nuser_domain_id = d\nproject_domain_id = d\n'
        reach = f'auth_type = password\nauth_url = {there}\n{who}' if keystone else 'auth_type = none\n'
        reach += f'endpoint_override = {there}\ntimeout = 1\n'
        site.prepare(conf=f'publish = true\n[placement]\n{reach}')
        node = '4c58619f-249f-4aba-8b50-b56e013c721e'
        site.desk.bmcs({'node-1': target_of(site.machine) | {'exposure': 'tenant', 'node': node}})
        began = time.monotonic()
        done = site.run(*arguments)
        took = time.monotonic() - began
    refused = arguments[0] == 'apply'  # and waited for as long as a reset may take, as by any job
    assert (4 if refused else 5, True) == (done.code, there in done.errors[0]), done.err
    assert took < 20  # of which four are for the command itself
    assert [] == site.machine.log()
    site.check()


def words(text):
    """A text with single spaces."""
    return ' '.join(text.split())


def test_the_page_lists_every_test_of_a_report(tree):
    """With the reports that its docstring names."""
    page = (tree / 'doc' / 'source' / 'reference' / 'habits.rst').read_text(encoding='utf-8').partition('\nReports\n')[2]
    rows = re.findall(r'\* - ([^\n]+)\n +- [^\n]+\n +- ``(test_\w+)``\n', page)
    tests = {name: test.__doc__ for name, test in globals().items() if name.startswith('test_') and 'page' not in name}
    assert [(words(re.search(r'\(([^()]+)\)\.', told)[1]), name) for name, told in tests.items()] == [
        (words(report), name) for report, name in rows
    ]
