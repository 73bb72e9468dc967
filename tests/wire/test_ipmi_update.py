# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware is written to emulated machines over IPMI: direct, over the bridge, with losses; and by the command line."""

import hashlib
import io
import json
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.bmc.ipmi import update
from baremetal_acc.emulator.ipmi.hpm_ability import Ability, Times
from baremetal_acc.emulator.ipmi.hpm_commands import ACTIVATE, FINISH, INITIATE, ROLL_BACK, ROLLBACK_STATUS, STATUS
from baremetal_acc.emulator.ipmi.lan import LanThread
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction as Part
from baremetal_acc.emulator.ipmi.upgrade_image import build_upgrade_image
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcNotAuthorised, BmcUnreachable, BmcUnsupported, ImageError
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.image import Upload, UploadProgress
from baremetal_acc.model.inventory import TaskState
from baremetal_acc.model.lock import ResetKind
from tests.cli.desk import Desk
from tests.unit.emulator.ipmi.machines import AMC_IDENTITY, BMC_KEY, IDENTITY, LATER_KEY, hpm, image, upgrade
from tests.unit.planning import values as v
from tests.wire.test_ipmi_driver import NOW, PASSWORD, Site, ref

OLD, NEW = '1.2.0.7', '2.15.0.9'
SHOWN_OLD, SHOWN_NEW = '1.02.00070000', '2.15.00090000'
FPGA, LATER = ref('/ipmi/0-72/hpm/0'), ref('/ipmi/0-72/hpm/1')


@pytest.fixture
def lan():
    """What serves the BMCs."""
    with LanThread() as thread:
        yield thread


@pytest.fixture
def site(lan):
    """A server with an AMC that has an FPGA."""
    return Site(lan)


def uploading(content, size=None):
    """An image as the catalogue gives it."""
    return Upload(file='fpga.hpm', size_bytes=len(content) if size is None else size, open=lambda: io.BytesIO(content))


def written(connection, place, upload):
    """Turn by turn, to the task of what has been brought in force."""
    found = connection.push(place, upload)
    while isinstance(found, UploadProgress):
        found = connection.go_on(place, upload, found)
    return found


def ended(connection, place, seconds=20):
    """The task when it is over."""
    until = time.monotonic() + seconds
    while True:
        try:
            found = connection.task(place)
        except BmcUnreachable:
            found = None
        if found is not None and found.state is not TaskState.ACTIVE:
            return found
        assert time.monotonic() < until, found
        time.sleep(0.1)


def test_a_card_is_written_over_the_bridge(lan):
    """Erase, blocks of 23 bytes, Finish, Activate: each as it has to be, activation once; then it is read."""
    site = Site(lan, amc_more={'times': Times(erase=0.3, finish=0.2, activate=0.5)})
    content = image(NEW)
    with site.connect(username='admin') as connection:
        task = written(connection, FPGA, uploading(upgrade(NEW, data=content)))
        assert (FPGA, TaskState.ACTIVE) == (task.ref, task.state)
        done = ended(connection, FPGA)
        assert (TaskState.SUCCEEDED, 'Activate Firmware succeeded') == (done.state, done.raw)
        assert SHOWN_NEW == connection.component(FPGA).version
    assert (NEW, OLD, None, None) == site.versions()
    assert f'sha256:{hashlib.sha256(content).hexdigest()}' == site.machine.components['host/FPGA_0'].active.digest
    assert (1, 0) == (site.amc_upgrades.activations, site.endpoint.sessions)


def test_what_is_lost_on_the_way_changes_nothing(lan):
    """A twentieth of all datagrams is lost, each way: the same bytes arrive, and it is activated once."""
    site = Site(lan)
    content = image(NEW)
    with site.connect(username='admin') as connection:
        connection.look(NOW)
        site.line.loss = 0.05
        # Not Activate itself: it is sent once, and where it is lost the version is not the wanted one.
        site.amc.guards.append(lambda request: setattr(site.line, 'loss', 0.0) if request.command == FINISH else None)
        written(connection, FPGA, uploading(upgrade(NEW, data=content)))
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert f'sha256:{hashlib.sha256(content).hexdigest()}' == site.machine.components['host/FPGA_0'].active.digest
    assert 1 == site.amc_upgrades.activations


def test_a_bmc_that_restarts_with_its_new_firmware_is_waited_for(lan):
    """The session is lost with it: silence is no answer, and a new session finds the version."""
    site = Site(lan, times=Times(activate=1.0))
    place = ref('/ipmi/hpm/0')
    data = image('1.5', model='es2000', component='bmc')
    with site.connect(username='admin') as connection:
        written(connection, place, uploading(upgrade('1.5', identity=IDENTITY, data=data)))
        state = ended(connection, place).state
        assert state in (TaskState.SUCCEEDED, TaskState.GONE)
        assert '1.05' == connection.component(place).version
    assert ('1.5', '1.4', None, None) == site.versions(BMC_KEY)
    assert 1 == site.upgrades.activations


def test_what_needs_a_power_cycle_is_staged(site):
    """Activated, and not in force: the version that runs is the old one, and the other one is what waits."""
    with site.connect(username='admin') as connection:
        written(connection, LATER, uploading(upgrade(NEW, number=1, data=image(NEW))))
        ended(connection, LATER)
        assert SHOWN_OLD == connection.component(LATER).version
    assert (OLD, NEW) == (site.versions(LATER_KEY)[0], site.versions(LATER_KEY)[2])


OTHER = {'manufacturer': AMC_IDENTITY.manufacturer, 'product': AMC_IDENTITY.product}
WRONG = {
    'no image': (b'no image at all', 'is not an HPM.1 image'),
    'cut short': (upgrade(NEW)[:-1], 'the MD5 digest at the end is wrong'),
    'another component': (upgrade(NEW, number=1), 'contains firmware for component 1, but the target is component 0 alone'),
    'two components': (
        build_upgrade_image(
            [Part(component=n, version=NEW, data=image(NEW), description='x') for n in (0, 1)],
            device_id=AMC_IDENTITY.device_id,
            **OTHER,
        ),
        'contains firmware for components 0, 1',
    ),
    'another device': (
        build_upgrade_image([Part(component=0, version=NEW, data=image(NEW), description='x')], device_id=0x77, **OTHER),
        'is for device id 77h, but the controller has 11h',
    ),
}


@pytest.mark.parametrize('wrong', WRONG)
def test_what_speaks_against_an_image_is_found_before_anything_is_changed(site, wrong):
    """Nothing is initiated, and the error is one after which the component counts as untouched."""
    content, told = WRONG[wrong]
    initiated = []
    site.amc.guards.append(
        lambda request: initiated.append(1) if (request.netfn, request.command) == (0x2C, INITIATE) else None
    )
    with site.connect(username='admin') as connection, pytest.raises(BmcUnsupported) as caught:
        written(connection, FPGA, uploading(content))
    assert told in str(caught.value)
    assert ('download the image again' in str(caught.value)) == (wrong in ('no image', 'cut short'))
    assert [] == initiated
    assert (OLD, None, None, None) == site.versions()


def described(version=SHOWN_NEW, **more):
    """An image as the catalogue describes it."""
    return v.image('fpga-new', component='FPGA*', version=version, **{'reset': ResetKind.NONE} | more)


@pytest.mark.parametrize('wrong', WRONG)
def test_what_speaks_against_an_image_is_told_to_an_operator_who_asks(site, wrong):
    """No administrator has to, and nothing is initiated."""
    content, told = WRONG[wrong]
    initiated = count(site.amc, INITIATE)
    with site.connect() as connection, pytest.raises((ImageError, BmcUnsupported)) as caught:
        connection.judge((FPGA,), described(), uploading(content))
    assert told in str(caught.value)
    assert 0 == initiated[INITIATE]


def test_an_image_that_can_be_written_is_judged_to_be_one(site):
    """With the version as the controller shows it then, however it is written, and the reset that it needs."""
    initiated = count(site.amc, INITIATE)
    with site.connect() as connection:
        for version in (SHOWN_NEW, f'v{SHOWN_NEW}'):
            connection.judge((FPGA,), described(version), uploading(upgrade(NEW)))
        for reset in (ResetKind.POWER_CYCLE, ResetKind.SYSTEM_RESET):
            connection.judge((LATER,), described(reset=reset), uploading(upgrade(NEW, number=1)))
    assert 0 == initiated[INITIATE]


@pytest.mark.parametrize('version', ['2.15', '2.15.0.9', '2.15.00090001'])
def test_a_version_that_the_controller_would_not_show_is_none_for_the_catalogue(site, version):
    """It would be written, found to be another one, and the card quarantined."""
    with site.connect() as connection, pytest.raises(ImageError) as caught:
        connection.judge((FPGA,), described(version), uploading(upgrade(NEW)))
    assert f'has version {SHOWN_NEW} in its header' in str(caught.value)
    assert f'version {version} in the catalogue (write {SHOWN_NEW} into the catalogue' in str(caught.value)


def test_what_runs_only_after_a_reset_needs_a_catalogue_that_says_so(site):
    """Else nobody would reset it, and the job would wait in vain."""
    with site.connect() as connection, pytest.raises(BmcUnsupported) as caught:
        connection.judge((LATER,), described(), uploading(upgrade(NEW, number=1)))
    told = str(caught.value)
    assert 'firmware of component 1 runs only after a payload cold reset, but fpga-new has apply.reset none' in told
    assert 'reset = "system-reset"' in told


def test_other_bytes_than_those_that_were_checked_are_not_sent(site):
    """More or less of them."""
    content = upgrade(NEW)
    with site.connect(username='admin') as connection:
        for size in (len(content) - 1, len(content) + 1, 1 << 40):
            with pytest.raises(BmcUnsupported, match=r'image fpga\.hpm: (no longer )?has '):
                written(connection, FPGA, uploading(content, size))


def test_an_operator_writes_nothing(site):
    """The user may not be administrator: nothing is initiated."""
    with site.connect() as connection, pytest.raises(BmcNotAuthorised, match='the user lacks the privilege administrator'):
        written(connection, FPGA, uploading(upgrade(NEW)))
    assert (OLD, None, None, None) == site.versions()


def test_a_component_that_there_is_not_takes_nothing(site):
    """Seven of eight numbers."""
    content = build_upgrade_image(
        [Part(component=5, version=NEW, data=image(NEW), description='x')], device_id=AMC_IDENTITY.device_id, **OTHER
    )
    with (
        site.connect(username='admin') as connection,
        pytest.raises(BmcUnsupported, match='for component 5, which the controller'),
    ):
        connection.push(ref('/ipmi/0-72/hpm/5'), uploading(content))


def test_a_controller_that_is_at_something_else_is_busy(lan):
    """It has taken nothing, and can be asked later."""
    site = Site(lan, amc_more={'times': Times(erase=30)})
    assert b'\x80' == hpm(site.amc, INITIATE, b'\1\1', channel=0)[:1]
    with site.connect(username='admin') as connection, pytest.raises(BmcBusy) as caught:
        written(connection, FPGA, uploading(upgrade(NEW)))
    assert 'the controller is busy: Initiate Upgrade Action is in progress' in str(caught.value)
    assert (OLD, None, None, None) == site.versions()


def test_an_upload_that_is_refused_on_its_way_is_not_untouched(site):
    """Finish says that the firmware is not whole; nothing is activated, and nobody says that nothing was changed."""
    site.amc.guards.append(lambda request: 0x82 if (request.netfn, request.command) == (0x2C, 0x33) else None)
    with site.connect(username='admin') as connection, pytest.raises(BmcAnswerInvalid) as caught:
        written(connection, FPGA, uploading(upgrade(NEW)))
    assert 'Finish Firmware Upload ended with completion code 82h' in str(caught.value)
    assert (1, 1, 0) == tuple(
        str(caught.value).count(place) for place in ('BMC ', '/ipmi/0-72/hpm/0: upload (finish): ', 'component')
    )
    assert 'nothing was activated' in str(caught.value)
    assert 0 == site.amc_upgrades.activations
    assert (OLD, None) == site.versions()[:2]


@pytest.mark.parametrize('command', [0x32, 0x33])
def test_a_controller_that_is_at_no_upload_any_more_is_explained(site, command):
    """D5h was a number alone: somebody else has ended it, or it has restarted."""
    site.amc.guards.append(lambda request: 0xD5 if (request.netfn, request.command) == (0x2C, command) else None)
    with site.connect(username='admin') as connection, pytest.raises(BmcAnswerInvalid) as caught:
        written(connection, FPGA, uploading(upgrade(NEW)))
    assert 'ended with completion code D5h: no upload is in progress any more: the controller may have restarted' in str(
        caught.value
    )
    assert 'another client has begun or ended one' in str(caught.value)


def test_an_activation_whose_answer_is_lost_is_not_sent_again(site):
    """The controller has done it; what became of it is seen by looking."""
    executed = []

    def lose(request):
        if (request.netfn, request.command) == (0x2C, ACTIVATE):
            executed.append(1)
            site.line.loss = 1.0

    site.amc.guards.append(lose)
    with site.connect(username='admin') as connection:
        task = written(connection, FPGA, uploading(upgrade(NEW)))
        assert 'it is unknown whether it began' in task.message
        site.line.loss = 0.0
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert [1] == executed
    assert 1 == site.amc_upgrades.activations


def test_what_became_of_an_activation_is_read_anew_each_time(lan):
    """Another process, which knows nothing of the upload, reads the same."""
    site = Site(lan)
    with site.connect(username='admin') as connection:
        assert TaskState.GONE is connection.task(FPGA).state
        written(connection, FPGA, uploading(upgrade(NEW)))
    with site.connect() as connection:
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert b'\0' == hpm(site.amc, 0x38, channel=0)[:1]
    with site.connect() as connection:
        assert TaskState.GONE is connection.task(FPGA).state
        assert SHOWN_OLD == connection.component(FPGA).version


# ----------------------------------------------------------------------------------------------------------------- in turns


def count(controller, *commands):
    """How often commands of HPM.1 reach a controller, by command."""
    seen = Counter()

    def guard(request):
        if request.netfn == 0x2C and request.command in commands:
            seen[request.command] += 1

    controller.guards.append(guard)
    return seen


@pytest.fixture
def short(monkeypatch):
    """Turns that end soon."""
    monkeypatch.setattr(update, 'TURN', timedelta(seconds=0.03))


def test_each_turn_may_be_in_another_session_of_another_process(site, short):
    """What is stored in between is text; the same bytes arrive, each once, and it is activated once."""
    content = image(NEW, size_bytes=40_000)
    seen = count(site.amc, INITIATE)
    upload = uploading(upgrade(NEW, data=content))
    with site.connect(username='admin') as connection:
        found = connection.push(FPGA, upload)
    assert (0, False, {}) == (found.percent, found.whole, seen)
    turns = []
    while isinstance(found, UploadProgress):
        turns.append(found.percent)
        with site.connect(username='admin') as connection:
            found = connection.go_on(FPGA, upload, decode(UploadProgress, json.loads(json.dumps(encode(found)))))
    assert len(turns) > 3
    assert sorted(turns) == turns
    assert 100 == turns[-1]
    with site.connect() as connection:
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert f'sha256:{hashlib.sha256(content).hexdigest()}' == site.machine.components['host/FPGA_0'].active.digest
    # Once to make ready, for which the image asks, and once for the upload.
    assert (2, 1) == (seen[INITIATE], site.amc_upgrades.activations)


def test_an_upload_of_which_nobody_knows_how_far_it_is_begins_anew(site, short):
    """With Abort and the first block: what arrives is whole all the same."""
    content = image(NEW, size_bytes=40_000)
    upload = uploading(upgrade(NEW, data=content))
    seen = count(site.amc, INITIATE)
    with site.connect(username='admin') as connection:
        found = connection.go_on(FPGA, upload, connection.push(FPGA, upload))
        assert (True, False) == (found.percent < 100, found.whole)
        for lost in (None, 'something that another version has stored', '{"stage":"send"}', '[]'):
            found = connection.go_on(FPGA, upload, replace(found, so_far=lost))
            assert (True, False) == (found.percent < 100, found.whole)
        while isinstance(found, UploadProgress):
            found = connection.go_on(FPGA, upload, found)
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert f'sha256:{hashlib.sha256(content).hexdigest()}' == site.machine.components['host/FPGA_0'].active.digest
    assert (10, 1) == (seen[INITIATE], site.amc_upgrades.activations)


def test_what_a_controller_is_at_between_turns_is_ours(site, short):
    """Whoever asks what goes on there is told the place that the progress names, which is how a job knows its own."""
    upload = uploading(upgrade(NEW, data=image(NEW, size_bytes=40_000)))
    with site.connect(username='admin') as connection:
        connection.look(NOW)
        found = connection.push(FPGA, upload)
        site.amc_upgrades.times = Times(erase=30)
        assert b'\x80' == hpm(site.amc, INITIATE, b'\1\1', channel=0)[:1]
        with pytest.raises(BmcBusy):
            connection.go_on(FPGA, upload, replace(found, so_far=None))
        assert [found.task] == [task.ref for task in connection.active_tasks()]


# ------------------------------------------------------------------------------------------------------------- going back


def test_what_a_component_has_kept_comes_back_without_an_upload(site):
    """Manual Rollback, once; the reading of its task tells it from an activation, and the version is read."""
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        ended(connection, FPGA)
        seen = count(site.amc, INITIATE, ROLL_BACK, ACTIVATE)
        back = replace(uploading(upgrade(OLD)), goes_back=True)
        found = connection.push(FPGA, back)
        assert (True, {}) == (found.whole, seen)
        task = connection.go_on(FPGA, back, found)
        assert ('/ipmi/0-72/hpm/0/rollback', TaskState.ACTIVE, 'rolled back') == (task.ref.uri, task.state, task.message)
        done = ended(connection, task.ref)
        assert (TaskState.SUCCEEDED, 'Initiate Manual Rollback succeeded') == (done.state, done.raw)
        assert TaskState.GONE is connection.task(FPGA).state
        assert SHOWN_OLD == connection.component(FPGA).version
    assert {ROLL_BACK: 1} == seen
    assert OLD == site.versions()[0]


@pytest.mark.parametrize('why', ['not asked for', 'kept another', 'runs it', 'cannot', 'others have something to go back to'])
def test_an_image_is_uploaded_where_going_back_is_not_it(lan, why):
    """Where it is not the very version, or would change another component, the image is written."""
    site = Site(lan, amc_more={'ability': Ability(manual_rollback=why != 'cannot')})
    card = site.machine.components['host/FPGA_0']
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        ended(connection, FPGA)
        if why == 'others have something to go back to':
            site.machine.components[LATER_KEY].previous = replace(card.active, version='1.1')
        elif why == 'kept another':
            card.previous = replace(card.previous, version='1.1')
        elif why == 'runs it':
            card.active = replace(card.active, version=OLD)
        back = replace(uploading(upgrade(OLD)), goes_back=why != 'not asked for')
        found = connection.push(FPGA, back)
        assert (0, False) == (found.percent, found.whole)
        while isinstance(found, UploadProgress):
            found = connection.go_on(FPGA, back, found)
        assert FPGA == found.ref
    assert 0 == site.amc_upgrades.rollbacks


@pytest.mark.parametrize('code', [0xC1, 0xC7, 0xD4, 0xD5])
def test_where_a_controller_refuses_to_go_back_the_image_is_uploaded(lan, caplog, code):
    """It has not begun; it is asked once, and said why."""
    site = Site(lan)
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        ended(connection, FPGA)
        back = replace(uploading(upgrade(OLD)), goes_back=True)
        found = connection.push(FPGA, back)
        asked = []
        site.amc.guards.append(
            lambda request: code if (request.netfn, request.command) == (0x2C, ROLL_BACK) and not asked.append(1) else None
        )
        anew = connection.go_on(FPGA, back, found)
        assert replace(found, so_far=None, percent=0, whole=False) == anew
        while isinstance(anew, UploadProgress):
            anew = connection.go_on(FPGA, back, anew)
        assert (TaskState.SUCCEEDED, FPGA) == (ended(connection, anew.ref).state, anew.ref)
        assert SHOWN_OLD == connection.component(FPGA).version
    assert ([1], 0) == (asked, site.amc_upgrades.rollbacks)
    assert 'Initiate Manual Rollback: ' in caplog.text
    assert 'the previous firmware is uploaded' in caplog.text


def test_a_rollback_that_is_not_taken_now_is_asked_for_again(lan):
    """A busy controller has done nothing, and has not refused."""
    site = Site(lan)
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        ended(connection, FPGA)
        back = replace(uploading(upgrade(OLD)), goes_back=True)
        found = connection.push(FPGA, back)
        busy = lambda request: 0xC0 if (request.netfn, request.command) == (0x2C, ROLL_BACK) else None  # noqa: E731
        site.amc.guards.append(busy)
        with pytest.raises(BmcBusy, match='Initiate Manual Rollback'):
            connection.go_on(FPGA, back, found)
        site.amc.guards.remove(busy)
        assert TaskState.SUCCEEDED is ended(connection, connection.go_on(FPGA, back, found).ref).state
    assert 1 == site.amc_upgrades.rollbacks


def done_and_called_busy(controller, command):
    """The first time it is done, and answered with C0h: a bus has repeated it, or the controller lies. How often it came."""
    sent = []

    def around(request, execute):
        answer = execute(request)
        if (request.netfn, request.command) != (0x2C, command):
            return answer
        sent.append(answer.code)
        return replace(answer, code=0xC0) if len(sent) == 1 else answer

    controller.around = around
    return sent


@pytest.mark.parametrize('tells', [True, False])
def test_a_rollback_that_was_done_and_called_busy_is_not_done_again(lan, tells):
    """A second one would bring the failed firmware back. Where nobody could tell whether it was done, none is tried."""
    site = Site(lan)
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        ended(connection, FPGA)
        sent = done_and_called_busy(site.amc, ROLL_BACK)
        silent = lambda request: 0xC1 if (request.netfn, request.command) == (0x2C, STATUS) else None  # noqa: E731
        if not tells:
            site.amc.guards.append(silent)
        written(connection, FPGA, replace(uploading(upgrade(OLD)), goes_back=True))
        until = time.monotonic() + 20
        while connection.component(FPGA).version != SHOWN_OLD:
            assert time.monotonic() < until
            time.sleep(0.1)
    assert ((1, 1) if tells else (0, 0)) == (len(sent), site.amc_upgrades.rollbacks)


def test_a_rollback_that_was_done_while_it_restarted_is_not_done_again(lan):
    """It answers C0h for a while, so that nobody can tell; when it can be asked again, that it was done is seen first."""
    site = Site(lan)
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        ended(connection, FPGA)
        done_and_called_busy(site.amc, ROLL_BACK)
        executed, away = site.amc.around, []

        def around(request, execute):
            if away and request.netfn == 0x2C:
                return replace(execute(replace(request, command=STATUS)), code=0xC0)
            answer = executed(request, execute)
            away.extend([1] if request.command == ROLL_BACK else [])
            return answer

        site.amc.around = around
        back = replace(uploading(upgrade(OLD)), goes_back=True)
        found = connection.push(FPGA, back)
        for _ in range(2):
            with pytest.raises(BmcBusy):
                connection.go_on(FPGA, back, found)
        site.amc.around = None
        assert TaskState.SUCCEEDED is ended(connection, connection.go_on(FPGA, back, found).ref).state
        assert SHOWN_OLD == connection.component(FPGA).version
    assert 1 == site.amc_upgrades.rollbacks


def test_a_controller_that_does_not_want_to_be_written_is_not(site):
    """Bit 7 of what it can: it counts as busy, and nothing is sent that would change anything."""
    can = site.amc.around

    def around(request, execute):
        answer = execute(request)
        if (request.netfn, request.command) != (0x2C, 0x2E):
            return answer
        data = bytearray(answer.data)
        data[2] |= 0x80
        return replace(answer, data=bytes(data))

    site.amc.around = around
    seen = count(site.amc, INITIATE)
    with site.connect(username='admin') as connection:
        with pytest.raises(BmcBusy, match='an upgrade is undesirable now'):
            connection.push(FPGA, uploading(upgrade(NEW)))
        site.amc.around = can
        assert TaskState.ACTIVE is written(connection, FPGA, uploading(upgrade(NEW))).state
    assert 2 == seen[INITIATE]


def test_an_activation_that_was_done_and_called_busy_counts(lan):
    """The status says that it was the last command; it is not sent again."""
    site = Site(lan)
    sent = done_and_called_busy(site.amc, ACTIVATE)
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert (1, 1) == (len(sent), site.amc_upgrades.activations)


def test_a_rollback_that_has_failed_is_told_as_that(lan):
    """It is sent once."""
    site = Site(lan)
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        ended(connection, FPGA)
        back = replace(uploading(upgrade(OLD)), goes_back=True)
        found = connection.push(FPGA, back)
        failed = lambda request: 0x81 if (request.netfn, request.command) == (0x2C, ROLLBACK_STATUS) else None  # noqa: E731
        site.amc.guards.append(failed)
        task = connection.go_on(FPGA, back, found)
        assert (TaskState.FAILED, 'the result of the rollback is: failed') == (
            (got := ended(connection, task.ref)).state,
            got.raw,
        )


# --------------------------------------------------------------------------------------------------------- the command line


BASELINE = f"""
format = 1

[[rule]]
name = "fpgas"
match = {{ kind = "FPGA", model = "Alveo U50" }}
firmware = {{ FPGA = "{SHOWN_NEW}" }}
block = []
"""

IMAGE = """
[[image]]
name = "{name}"
kind = "firmware"
component = "FPGA"
version = "{version}"
security_version = 1
fits = [{{ part_number = "PN-1" }}]
source = "{name}.hpm"
size = {size}
digest = "sha256:{digest}"
apply = {{ reset = "none" }}
restore = "{restore}"
"""


def desk_of(site, tmp_path, images, exposure='none'):
    """A desk with this machine, and images by name with version and way back."""
    desk = Desk(folder=tmp_path, environ={'PW': PASSWORD})
    desk.bmcs(
        {
            'node-1': {
                'ipmi_address': '127.0.0.1',
                'ipmi_port': site.port,
                'ipmi_username': 'admin',
                'ipmi_password_env': 'PW',
                'exposure': exposure,
            }
        }
    )
    catalogue = 'format = 1\n'
    for name, version, shown, restore in images:
        content = upgrade(version)
        (tmp_path / f'{name}.hpm').write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        catalogue += IMAGE.format(name=name, version=shown, size=len(content), digest=digest, restore=restore)
    desk.write('baseline.toml', BASELINE)
    desk.write('catalogue.toml', catalogue)
    desk.write(
        'acc.conf',
        '[baremetal_acc]\npoll_interval = 0.2\nsettle_timeout = 5\nreset_timeout = 20\njob_timeout = 60\nbmc_timeout = 5\n',
    )
    return desk, ('--baseline', 'baseline.toml', '--catalogue', 'catalogue.toml', '--config-file', 'acc.conf')


def test_the_command_line_brings_a_card_to_the_baseline_over_ipmi(lan, tmp_path):
    """plan, apply and verify: it is written once, the version is read back, and the second plan has nothing to do."""
    site = Site(lan, amc_more={'times': Times(erase=0.2, activate=0.4)})
    desk, files = desk_of(site, tmp_path, [('fpga-new', NEW, SHOWN_NEW, 'none')])
    planned = desk.run('plan', *files, '-f', 'json')
    assert 3 == planned.code, planned
    actions = [(a['action'], a.get('uri')) for a in planned.document['targets'][0]['actions']]
    assert ('flash', '/ipmi/0-72/hpm/0') in actions, json.dumps(planned.document, indent=1)
    assert {('hpm.1', None)} == {
        (a['way'], a['apply_time']) for a in planned.document['targets'][0]['actions'] if a['action'] == 'flash'
    }
    done = desk.run('apply', '--execute', '--target', 'node-1', *files)
    assert 0 == done.code, done
    assert (NEW, OLD, None, None) == site.versions()
    assert 1 == site.amc_upgrades.activations
    verified = desk.run('verify', *files)
    assert 0 == verified.code, verified
    assert 0 == desk.run('plan', *files).code
    assert PASSWORD not in planned.out + planned.err + done.out + done.err


@pytest.mark.parametrize('spoilt', ['fpga-new', 'fpga-old'])
def test_an_image_that_cannot_be_written_is_refused_before_the_host_is_held(lan, tmp_path, spoilt):
    """Also the one that would be put back: plan tells it, and apply changes nothing, not even the power of the host."""
    site = Site(lan)
    versions = {'fpga-new': NEW, 'fpga-old': OLD} | {spoilt: '7.1'}
    images = [('fpga-new', NEW, SHOWN_NEW, 'fpga-old'), ('fpga-old', OLD, SHOWN_OLD, 'none')]
    desk, files = desk_of(site, tmp_path, [(name, versions[name], shown, back) for name, _, shown, back in images], 'tenant')
    desk.write('baseline.toml', BASELINE + '\n[[rule]]\nname = "rest"\nblock = []\n')
    for verb in (('plan',), ('apply', '--execute', '--target', 'node-1')):
        done = desk.run(*verb, *files)
        assert 4 == done.code, done
        assert f'image {spoilt}: has version 7.01 in its header' in done.out + done.err
    checked = desk.run('catalogue', 'check', 'catalogue.toml')
    assert (4, True) == (checked.code, 'has version 7.01 in its header' in checked.err), checked
    assert ([], OLD) == (site.controls, site.versions()[0])


@pytest.mark.parametrize('command', [INITIATE, FINISH])
def test_a_login_that_fails_between_two_turns_costs_nothing(lan, tmp_path, monkeypatch, command):
    """Nothing was under way: the upload goes on where it was, and what is whole is activated, once."""
    monkeypatch.setattr(update, 'TURN', timedelta(seconds=0.2))
    site = Site(lan)
    site.line.delay_seconds = 0.01
    images = [('fpga-new', NEW, SHOWN_NEW, 'fpga-old'), ('fpga-old', OLD, SHOWN_OLD, 'none')]
    desk, files = desk_of(site, tmp_path, images)
    seen = count(site.amc, INITIATE, FINISH, ACTIVATE)
    begun, cut = [], []
    site.amc.guards.append(lambda request: begun.append(1) if request.command == command else None)
    real = site.endpoint.receive

    def receive(datagram):
        is_administrators = datagram[5:6] == b'\x12' and datagram[40] & 0x0F == 4  # RAKP 1, and its role
        lost = is_administrators and begun and len(cut) < 6
        if lost:
            cut.append(datagram)
        return () if lost else real(datagram)

    monkeypatch.setattr(site.endpoint, 'receive', receive)
    done = desk.run('apply', '--execute', '--target', 'node-1', *files)
    assert 0 == done.code, done
    assert cut
    assert [2, 1, 1] == [seen[one] for one in (INITIATE, FINISH, ACTIVATE)]
    assert (NEW, OLD, None, None) == site.versions()


@pytest.mark.parametrize('manual', [True, False])
def test_a_card_that_fails_its_self_test_gets_back_what_it_ran(lan, tmp_path, manual):
    """By Manual Rollback where the controller has it, else by writing the image that the catalogue names for that."""
    site = Site(lan, amc_more={'ability': Ability(manual_rollback=manual)})
    images = [('fpga-new', NEW, SHOWN_NEW, 'fpga-old'), ('fpga-old', OLD, SHOWN_OLD, 'none')]
    desk, files = desk_of(site, tmp_path, images)
    site.machine.add_fault({'name': 'self-test-fails', 'device': 'AMC_1', 'bits': 1, 'count': 1})
    seen = count(site.amc, INITIATE, ROLL_BACK)
    done = desk.run('apply', '--execute', '--target', 'node-1', *files)
    assert 6 == done.code, done
    assert 'the self-test failed with result 57h 01h' in done.out + done.err
    assert f'is restored to {SHOWN_OLD} (image fpga-old)' in done.out + done.err
    assert OLD == site.versions()[0]
    assert ((1, 2, 1) if manual else (0, 4, 2)) == (seen[ROLL_BACK], seen[INITIATE], site.amc_upgrades.activations)
