# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ten BMCs are worked on side by side over IPMI, and something is wrong with one: it is told, in time, and harms no other.

Each is an emulated server with cards of its own, over RMCP+ on loopback. Three kinds of work are done at once: looks, firmware,
and locks. What the other nine are asked is counted where they are: as much as if nothing were wrong, with as many logins.
"""

import contextlib
import io
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from baremetal_acc.bmc import device_ids
from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.ipmi import session as sessions
from baremetal_acc.bmc.ipmi.driver import IpmiDriver, place_of
from baremetal_acc.bmc.ipmi.session import RmcpSession
from baremetal_acc.emulator.access import CurrentUser
from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.ipmi.hpm_ability import Times
from baremetal_acc.emulator.ipmi.lan import LanThread
from baremetal_acc.emulator.ipmi.session import SESSIONS
from baremetal_acc.emulator.ipmi.site import IpmiOptions, IpmiSite
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction as Part
from baremetal_acc.emulator.ipmi.upgrade_image import build_upgrade_image
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcUnreachable
from baremetal_acc.model.image import Upload
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.ref import HOST, Ref
from tests.cli.desk import Desk

NOW = datetime(2026, 11, 23, 7, 0, tzinfo=UTC)
USER, PASSWORD = 'admin', 'Sixteen is it 16'
DEVICES = 'format = 1\n[[device]]\nkind = "FPGA"\nnames = ["FPGA PAC *"]\nvendor = "Intel"\n'
VERBS = ('look', 'write', 'lock')
BOXES, ILL = 10, 4
OPENED, IN_SESSION = 0x10, 0xC0
CARD, BMC, FIREWALL = '/ipmi/0-72/hpm/0', '/ipmi/hpm/0', '/ipmi/firewall/f'
HELD, STAGED = 'host/FW_BMC_0', 'host/FPGA1_FW'
SECONDS = 60
"""More than any row takes; a hang would take it all."""


def upgrade(component):
    """An image of the version 2.9.0 for the card, or 1.9.0 for the BMC."""
    model, name, version, device = {
        CARD: ('d5005', 'fpga', '2.9.0', 0x31),
        BMC: ('es2000', 'bmc', '1.9.0', 0x20),
    }[component]
    data = build_image(model=model, component=name, version=version, size_bytes=400)
    part = Part(component=0, version=version, data=data, description=name)
    content = build_upgrade_image([part], device_id=device, manufacturer=0, product=0)
    return Upload(file=f'{name}.hpm', size_bytes=len(content), open=lambda: io.BytesIO(content))


class Box:
    """A server with one to three cards, on a port of its own.

    :ivar asked: what its BMC was asked: commands by their numbers, ``logins``, and ``packets`` of sessions.
    :ivar since: what goes wrong once the command is asked that is named.
    """

    def __init__(self, lan, number):
        product = build('fpga-server', Parameters(seed=f'box {number}', flash_seconds=0, bmc_reset_seconds=0.5))
        self.machine = product.machine
        boards = dict(product.boards['host'])
        for more in range(number % 3):
            boards[f'FPGA{2 + more}'] = replace(boards['FPGA1'], serial=f'N{number}-C{more}')
        self.cards = sorted(board.serial for device, board in boards.items() if device)
        accounts = [CurrentUser(name=USER, password=PASSWORD)]
        options = IpmiOptions(times=Times())
        self.site = IpmiSite(self.machine, 'host', users=accounts, boards=boards, options=options)
        self.asked, self.since = Counter(), {}
        self._around = self.site.controller.around
        self.site.controller.around = self._noting
        self.port = lan.add(self)

    def receive(self, datagram):
        self.asked['logins'] += datagram[5:6] == bytes((OPENED,))
        self.asked['packets'] += datagram[5:6] == bytes((IN_SESSION,))
        return self.site.wire.receive(datagram)

    def _noting(self, request, execute):
        name = f'{request.netfn:02X}/{request.command:02X}'
        self.asked[name] += 1
        for rule in self.since.pop(name, ()):
            self.machine.add_fault(rule)
        return self._around(request, execute)

    def version(self, key, bank='active'):
        """Of a component, as the machine knows it."""
        found = getattr(self.machine.components[key], bank)
        return found and found.version

    @property
    def disabled(self):
        """What the host may not say to the BMC."""
        return {f'{place.netfn:02X}/{place.command:02X}' for place in self.site.firewalls[''].disabled[0xF]}

    def address(self, **more):
        """With an hour for everything, unless it says otherwise."""
        given = {'timeout': timedelta(hours=1), 'budget': timedelta(hours=1), 'username': USER, 'password': PASSWORD} | more
        return BmcAddress(name=HOST, **({'address': f'ipmi://127.0.0.1:{self.port}'} | given))


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of the work on one BMC.

    :ivar wrote: the state of the task, and the version that runs and the one that is staged afterwards.
    :ivar unread: why it is not known who may log in.
    """

    cards: list[str]
    gaps: tuple[str, ...] = ()
    wrote: tuple[object, ...] = ()
    lock: str | None = None
    unread: str | None = None


def worked(driver, address, verb, component=CARD):
    """Look, and then write firmware or close the firewall, as the product does."""
    with driver.connect(address) as connection:
        look = connection.look(NOW)
        done = Done(
            cards=sorted(a.serial for a in look.accelerators),
            gaps=tuple(gap.reason for gap in look.gaps),
            unread=look.facts.accounts.unread,
            lock=look.reader.peek(FIREWALL).body['State'] if look.reader.peek(FIREWALL) else None,
        )
        if verb == 'write':
            ref = Ref(bmc=HOST, uri=component)
            upload = upgrade(component)
            turn = connection.push(ref, upload)
            while not isinstance(turn, TaskReading):
                turn = connection.go_on(ref, upload, turn)
            state = ended(connection, turn.ref)
            read = connection.component(ref)
            return replace(done, wrote=(state, read.version, read.staged))
        if verb == 'lock':
            connection.writer().patch(Document(ref=Ref(bmc=HOST, uri=FIREWALL), body={}), {'Closed': True})
            return replace(done, lock=connection.look(NOW).reader.peek(FIREWALL).body['State'])
        return done


def ended(connection, ref):
    """The state of a task when it is over; a BMC that restarts is waited for."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(BmcUnreachable):
            state = connection.task(ref).state
            if state is not TaskState.ACTIVE:
                return state
        time.sleep(0.05)
    raise AssertionError(f'{ref} does not end')


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is wrong with one of ten, and what comes of the work on it.

    :ivar faults: rules for its machine, from the beginning, or by ``since`` once a command is asked.
    :ivar address: what of its address is different; ``ill``: what else is done to it before.
    :ivar error: and words of it; None: the work is done.
    :ivar told: words of the one gap that there is.
    :ivar asks: further things that hold then.
    :ivar sure: False: the error may come, or the work be done.
    :ivar again: it is ridden out by sending again, as soon as usual: not the packets of others are counted, but the commands.
    :ivar pause: seconds after which something is sent again, where that is not to depend on how busy this machine is.
    """

    verb: str = 'look'
    component: str = CARD
    faults: tuple[dict, ...] = ()
    since: str | None = None
    address: dict = field(default_factory=dict)
    ill: object = lambda box: contextlib.nullcontext()
    error: type[BmcError] | tuple[type[BmcError], ...] | None = None
    words: str = ''
    told: str | None = None
    asks: object = lambda box, done: True
    again: bool = False
    pause: float | None = None
    sure: bool = True


SHORT = {'timeout': timedelta(seconds=0.4)}
LONG = {'timeout': timedelta(seconds=3)}


@contextlib.contextmanager
def full(box):
    """All sessions that it has are held by others."""
    with contextlib.ExitStack() as held:
        for _ in range(SESSIONS):
            held.enter_context(RmcpSession(place_of(box.address())))
        yield


@contextlib.contextmanager
def keyed(box):
    """It has a K_G."""
    box.site.endpoint.channel.kg = b'key of the BMC'
    yield


def fault(name, **more):
    """A rule of the emulator."""
    return {'name': name, **more}


def restarts(command, **more):
    """It restarts instead of answering, and is away for longer than it is waited for."""
    return fault('bmc-restart-on-request', method=command, count=1, **({'seconds': 3600} | more))


def untouched(box, _):
    """Nothing of an upload was activated."""
    return ('1.04.2', '2.0.0', 0) == (box.version(HELD), box.version(STAGED), box.site.upgrades[''].activations)


def once(version):
    """The BMC was activated once, and runs this."""
    return lambda box, done: (version, 1) == (box.version(HELD), box.site.upgrades[''].activations)


USUAL = {name: getattr(BmcAddress(name=HOST, address='ipmi://usual'), name) for name in ('timeout', 'budget')}
"""What a BMC is given whose address says nothing of it."""


def lost(verb, seed, asks=lambda box, done: True, **more):
    """Two of a hundred datagrams, each way; the same ones each time, since nothing is sent again before it has to be."""

    def some(box, done):
        (rule,) = box.machine.faults.describe()
        return rule['hits'] > 2 and asks(box, done)

    rule = fault('ipmi-lost', share=0.02, seed=seed)
    return Row(verb=verb, faults=(rule,), address=USUAL, again=True, pause=0.4, asks=some, **more)


def malformed(how, words='no answer', *, method='session', error=BmcUnreachable, **more):
    """From the first command of a session on, or from the login on."""
    rules = (fault('ipmi-malformed', how=how, method=method),)
    return Row(**({'faults': rules, 'address': SHORT, 'error': error, 'words': words} | more))


NO_ANSWER = 'command {}: no answer in 0.4 s'
NO_LOGIN = 'invalid answer to the login'
FLOOD = 'more than 1000 datagrams received that'
ROWS = {
    'the port is closed': Row(
        address={'address': 'ipmi://127.0.0.1:9'}, error=BmcUnreachable, words='Connection refused', again=True
    ),
    'the BMC does not answer': Row(
        faults=(fault('ipmi-lost', share=1.0),), address=SHORT, error=BmcUnreachable, words='no answer to the login in 0.4 s'
    ),
    'the password is wrong': Row(
        address={'password': 'another'}, error=BmcNotAuthorised, words='the password is wrong (RAKP 2) (check username and'
    ),
    'the password was changed': Row(faults=(fault('password-rotated'),), error=BmcNotAuthorised, words='the password is wrong'),
    'the password is changed in the middle': Row(
        faults=(fault('password-rotated'),), since='0A/23', address=SHORT, error=BmcNotAuthorised, words='the password is wrong'
    ),
    'it demands a K_G, and none is given': Row(ill=keyed, error=BmcNotAuthorised, words='the BMC has a key (K_G)'),
    'it demands another K_G than the one given': Row(
        ill=keyed, address={'key': b'another'}, error=BmcNotAuthorised, words='check the K_G of the BMC'
    ),
    'it has no free session': Row(ill=full, error=BmcBusy, words='no session is free'),
    'it stops answering during an inspection': Row(
        faults=(restarts('0A/11'),), address=SHORT, error=BmcUnreachable, words='no answer'
    ),
    'it stops answering while it is locked': Row(
        verb='lock', faults=(restarts('06/60'),), address=SHORT, error=BmcUnreachable, words='; the change could not be'
    ),
    'one command is never answered': Row(
        faults=(fault('hang', method='0A/10', device='*', uri='00', count=1),), address=SHORT, told=NO_ANSWER.format('0Ah/10h')
    ),
    'every answer is late': Row(faults=(fault('slow', seconds=0.05),), again=True),
    'one answer comes too late': Row(
        faults=(fault('slow', method='0A/10', device='*', uri='00', count=1, seconds=1.0),),
        address=SHORT,
        told=NO_ANSWER.format('0Ah/10h'),
        again=True,
    ),
    'the login is answered too late': Row(
        faults=(fault('slow', method='login', seconds=1.0),),
        address=SHORT,
        error=BmcUnreachable,
        words='no answer to the login',
    ),
    'the list of accounts is never answered': Row(
        faults=(fault('hang', method='06/44'),), address=SHORT, asks=lambda _, done: NO_ANSWER.format('06h/44h') in done.unread
    ),
    'the masks of the firewall are never answered': Row(
        faults=(fault('hang', method='06/61'),), address=SHORT, asks=lambda _, done: 'unknown' == done.lock
    ),
    'its session ends during an inspection': Row(
        faults=(fault('ipmi-session-lost', method='0A/11', count=1),), address=SHORT, told=NO_ANSWER.format('0Ah/11h')
    ),
    'a restart in the middle of an upload': Row(
        verb='write',
        component=BMC,
        faults=(restarts('2C/32', seconds=0.5),),
        address=SHORT,
        error=BmcAnswerInvalid,
        words='nothing was activated',
        asks=untouched,
    ),
    'a restart during the activation': Row(
        verb='write',
        component=BMC,
        faults=(fault('bmc-restart', method='2C/35', seconds=0.5, completes=True),),
        address=SHORT,
        asks=once('1.9.0'),
    ),
    'a restart that cuts the activation short': Row(
        verb='write',
        component=BMC,
        faults=(fault('bmc-restart', method='2C/35', seconds=0.5, completes=False),),
        address=SHORT,
        asks=lambda box, done: once('1.04.2')(box, done) and '1.04' in done.wrote[1],
    ),
    'a restart instead of the activation': Row(
        verb='write',
        component=BMC,
        faults=(restarts('2C/35', seconds=0.5),),
        address=SHORT,
        asks=lambda box, done: untouched(box, done) and TaskState.GONE is done.wrote[0],
    ),
    'two per cent of the datagrams of an inspection are lost': lost('look', 5),
    # The activation is sent once: where it got lost, nobody says that it was done.
    'two per cent of the datagrams of an upload are lost': lost(
        'write',
        5,
        lambda box, done: (TaskState.SUCCEEDED is done.wrote[0]) == ('2.9.0' == box.version(STAGED, 'staged')),
    ),
    # So is each write of the firewall, and no other command: where another is not answered, this fails.
    'two per cent of the datagrams of a lock are lost': lost(
        'lock',
        2,
        lambda box, done: isinstance(done, BmcError) or 'locked-reported' == done.lock,
        sure=False,
        error=BmcUnreachable,
        words='the command was sent once',
    ),
    'three answers are malformed': Row(
        faults=tuple(fault('ipmi-malformed', how=how, count=1) for how in ('integrity', 'truncated', 'sequence')),
        since='0A/23',
        address=LONG,
        again=True,
    ),
    'wrong integrity': malformed('integrity', since='0A/23'),
    'answers cut off': malformed('truncated'),
    'wrong lengths': malformed('lengths'),
    'answers to another sequence number': malformed('sequence'),
    'answers of another session': malformed('session'),
    'answers that are not encrypted': malformed('plain'),
    'answers as long as UDP can carry': malformed('huge'),
    'floods of invalid datagrams': malformed('garbage', FLOOD, error=BmcUnreachable, address=LONG, again=True, since='0A/23'),
    'SHA-1 lengths with suite 17': malformed(
        'sha1', 'length 20, minimum 32 bytes for cipher suite 17', method='login', error=BmcAnswerInvalid
    ),
    'a login cut off': malformed('truncated', NO_LOGIN, method='login', error=BmcAnswerInvalid),
    'wrong lengths in the login': malformed('lengths', NO_LOGIN, method='login', error=BmcAnswerInvalid),
    'a flood of invalid datagrams during the login': malformed(
        'garbage', FLOOD, method='login', error=BmcUnreachable, address=LONG, again=True
    ),
}


@pytest.fixture
def lan():
    """What serves the BMCs."""
    with LanThread() as thread:
        yield thread


@pytest.fixture(scope='module')
def driver(tmp_path_factory):
    """One that knows the cards."""
    path = tmp_path_factory.mktemp('devices') / 'ours.toml'
    path.write_text(DEVICES)
    return IpmiDriver(device_ids.load([path]))


def side_by_side(driver, boxes, row=None):
    """All of them, each in a thread of its own: what came of each, and the seconds that the ill one took."""
    jobs = [(box.address(), VERBS[number % len(VERBS)], CARD) for number, box in enumerate(boxes)]
    if row is not None:
        jobs[ILL] = (boxes[ILL].address(**row.address), row.verb, row.component)
    took = {}

    def work(number):
        began = time.monotonic()
        try:
            return worked(driver, *jobs[number])
        except BmcError as exc:
            return exc
        finally:
            took[number] = time.monotonic() - began

    with ThreadPoolExecutor(len(boxes)) as pool:
        return list(pool.map(work, range(len(boxes)))), took.get(ILL)


def patient(monkeypatch, seconds=30.0):
    """Nothing is sent again for long: an answer that somebody else had taken would be missed."""
    for name in ('_FIRST_PAUSE', '_SHORTEST_PAUSE'):
        monkeypatch.setattr(sessions, name, seconds)


@pytest.fixture(scope='module')
def healthy(driver):
    """What comes of the work where nothing is wrong, and what is asked then."""
    with LanThread() as lan:
        boxes = [Box(lan, number) for number in range(BOXES)]
        with pytest.MonkeyPatch.context() as patch:
            patient(patch)
            found, _ = side_by_side(driver, boxes)
        yield found, [box.asked for box in boxes], boxes


def test_where_nothing_is_wrong_each_has_its_own_cards(driver, healthy):
    """What the rows below are compared with: looks, firmware that waits for a restart of the host, and closed firewalls."""
    found, asked, boxes = healthy
    assert [1, 2, 3, 1, 2, 3, 1, 2, 3, 1] == [len(done.cards) for done in found]
    assert sum(len(done.cards) for done in found) == len({card for done in found for card in done.cards})
    assert {()} == {done.gaps for done in found}
    for number, done in enumerate(found):
        verb = VERBS[number % len(VERBS)]
        assert (verb == 'lock') == (done.lock == 'locked-reported')
        assert (verb == 'write') == (done.wrote == (TaskState.SUCCEEDED, '2.00', None))
        assert (verb == 'write') == ('2.9.0' == boxes[number].version(STAGED, 'staged'))
    assert all(count['packets'] > 50 for count in asked)


@pytest.mark.parametrize('name', ROWS)
def test_what_is_wrong_with_one_is_told_and_harms_no_other(lan, driver, healthy, monkeypatch, name):
    """The error is that of the BMC, which it names, or there is none and the work is done; nobody waits for ever."""
    row, (expected, asked, _) = ROWS[name], healthy
    if not row.again:
        patient(monkeypatch)
    elif row.pause is not None:
        patient(monkeypatch, row.pause)
    boxes = [Box(lan, number) for number in range(BOXES)]
    ill = boxes[ILL]
    with row.ill(ill):
        if row.since is None:
            for rule in row.faults:
                ill.machine.add_fault(rule)
        else:
            ill.since[row.since] = row.faults
        found, took = side_by_side(driver, boxes, row)
    assert took < SECONDS
    done = found.pop(ILL)
    if row.error is None or (isinstance(done, Done) and not row.sure):
        assert isinstance(done, Done), done
        assert ill.cards == done.cards
        assert ([] if row.told is None else [True]) == [row.told in gap for gap in done.gaps], done.gaps
    else:
        assert isinstance(done, row.error), done
        assert row.words in str(done)
        assert str(done).startswith(f'BMC host ({ill.address(**row.address).address})')
    assert row.asks(ill, done)

    assert [done for number, done in enumerate(expected) if number != ILL] == found
    for number, box in enumerate(boxes):
        if number != ILL:
            ignored = {'packets'} if row.again else set()
            assert {k: v for k, v in asked[number].items() if k not in ignored} == {
                k: v for k, v in box.asked.items() if k not in ignored
            }, number
            assert 0 == box.site.endpoint.sessions


def test_the_inventory_of_ten_has_nine_and_says_what_is_wrong_with_one(lan, tmp_path):
    """The command line, which reads them all in one thread: its exit code, one line of error, and the cards of each other."""
    boxes = [Box(lan, number) for number in range(BOXES)]
    boxes[ILL].since['0A/23'] = (fault('ipmi-malformed', how='garbage', method='session'),)
    desk = Desk(folder=tmp_path)
    targets = {}
    for number, box in enumerate(boxes):
        keys = {'address': f'ipmi://127.0.0.1:{box.port}', 'username': USER, 'password': PASSWORD}
        targets[f'n{number}'] = {'bmcs': {'host': keys}}
    desk.bmcs(targets)
    (tmp_path / 'devices.d').mkdir()
    desk.write('devices.d/10-ours.toml', DEVICES)
    desk.write('acc.conf', f'[baremetal_acc]\ndevices = {tmp_path}/devices.d\n')
    done = desk.run('inventory', '-f', 'json', '--config-file', 'acc.conf')
    assert 5 == done.code, done
    assert 'baremetal-acc: 9 read, 0 with gaps, 1 failed' == done.err.splitlines()[-1]
    (error,) = done.errors
    assert f'n{ILL}: BMC host (ipmi://127.0.0.1:{boxes[ILL].port}): ' in error
    assert FLOOD in error
    found = {target['target']: target for target in done.document['targets']}
    ill = found.pop(f'n{ILL}')
    assert ('BmcUnreachable', []) == (ill['error']['type'], ill['accelerators'])
    expected = {f'n{number}': box.cards for number, box in enumerate(boxes) if number != ILL}
    assert expected == {name: sorted(a['serial'] for a in target['accelerators']) for name, target in found.items()}
    assert {None} == {target['error'] for target in found.values()}
    assert [1] * BOXES == [box.asked['logins'] for number, box in enumerate(boxes) if number != ILL] + [1]


def test_the_page_about_faults_lists_these_rows():
    """All of them, in this order, with the errors that they ask for."""
    page = (Path(__file__).parents[2] / 'doc' / 'source' / 'contributor' / 'faults.rst').read_text()
    table = page.split('IPMI: one faulty BMC among ten\n')[1].split('In the rows with lost datagrams')[0]
    lines = [re.split('  +', line) for line in table.splitlines() if '  ' in line and not line.startswith('=')]
    assert ['what is wrong', *ROWS] == [line[0] for line in lines]
    errors = {line[0]: re.findall('``(.+)``', line[2]) for line in lines[1:]}
    assert {name: [row.error.__name__] if row.error else [] for name, row in ROWS.items()} == errors
