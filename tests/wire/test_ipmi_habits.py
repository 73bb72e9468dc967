# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware is written to controllers that differ from the standard as real ones do: the habits of the emulated machine.

Each is met by the real driver over RMCP+, direct or over the bridge, and the machine says what became of it: the very bytes,
activated once, or nothing at all.
"""

import dataclasses
import hashlib
import time

import pytest

from baremetal_acc.bmc.ipmi import update
from baremetal_acc.emulator.ipmi import session as emulated
from baremetal_acc.emulator.ipmi.controller import EmulatedCode
from baremetal_acc.emulator.ipmi.hpm_ability import HABITS, Ability, Times
from baremetal_acc.emulator.ipmi.hpm_commands import ABORT, ACTIVATE, BLOCK, FINISH, INITIATE, ROLL_BACK, STATUS
from baremetal_acc.emulator.ipmi.lan import LanThread
from baremetal_acc.errors import BmcBusy
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import TaskState
from tests.unit.emulator.ipmi.machines import BMC_KEY, FPGA_KEY, IDENTITY, image, upgrade
from tests.wire.test_ipmi_driver import NOW, Site, ref
from tests.wire.test_ipmi_update import FPGA, NEW, OLD, SHOWN_NEW, SHOWN_OLD, count, desk_of, ended, uploading, written

BMC = ref('/ipmi/hpm/0')
PAGE = 256


@pytest.fixture
def lan():
    """What serves the BMCs."""
    with LanThread() as thread:
        yield thread


def habitual(lan, *names, times=None, **more):
    """A server whose BMC and AMC have these habits."""
    fields = {field: value for name in names for field, value in HABITS[name].items()}
    return Site(lan, ability=Ability(**fields | more), times=times or Times())


def for_bmc(size_bytes=1000):
    """Bytes of a BMC's firmware, and an image with them."""
    data = image('1.5', model='es2000', component='bmc', size_bytes=size_bytes)
    return data, upgrade('1.5', identity=IDENTITY, data=data)


def runs(site, key, data):
    """The machine runs these very bytes."""
    return f'sha256:{hashlib.sha256(data).hexdigest()}' == site.machine.components[key].active.digest


def sizes(controller):
    """Of the blocks that reach a controller, in their order."""
    seen = []
    controller.guards.append(
        lambda request: seen.append(len(request.data) - 1) if (request.netfn, request.command) == (0x2C, BLOCK) else None
    )
    return seen


def refusals(controller):
    """The codes by which a controller refuses blocks."""
    codes, around = set(), controller.around

    def noting(request, execute):
        answer = around(request, execute)
        if request.command == BLOCK and answer.code:
            codes.add(answer.code)
        return answer

    controller.around = noting
    return codes


# Fails with 80h on today's client: it begins anew without Abort, Initiate is answered 80h, and the client takes that for done.
@pytest.mark.parametrize('open_still', [0x80, None])
def test_blocks_that_are_cut_without_a_word_are_sent_again_in_short_ones(lan, open_still):
    """Finish tells that bytes are missing: then blocks of 36 bytes, which every controller takes; activated once.

    The first upload is still open then: a controller may want an Abort before it begins another.
    """
    site = habitual(lan, 'length-modulo-256', while_uploading=open_still)
    data, content = for_bmc(8000)
    blocks, seen = sizes(site.bmc), count(site.bmc, FINISH, ACTIVATE)
    with site.connect(username='admin') as connection:
        written(connection, BMC, uploading(content))
        ended(connection, BMC)
        assert '1.05' == connection.component(BMC).version
    assert runs(site, BMC_KEY, data)
    assert blocks[0] > 255, 'nothing was cut'
    assert 36 == max(blocks[-(len(data) // 36) :])
    assert ({FINISH: 2, ACTIVATE: 1}, 1) == (seen, site.upgrades.activations)


@pytest.mark.parametrize('code', [0xCC, 0x82])
@pytest.mark.parametrize('place', [BMC, FPGA])
def test_a_block_whose_answer_was_lost_may_be_refused_when_it_comes_again(lan, monkeypatch, code, place):
    """By a BMC that remembers no answers, too. It has been taken: the upload goes on, and Finish finds all of it."""
    monkeypatch.setattr(emulated, 'DUPLICATES', 0)
    site = habitual(lan, repeated=code)
    data, content = for_bmc() if place is BMC else ((fpga := image(NEW)), upgrade(NEW, data=fpga))
    refused = refusals(site.bmc if place is BMC else site.amc)
    for number in ('01', '03', '04'):
        site.machine.add_fault({'name': 'hang', 'method': '2C/32', 'uri': f'00 {number} *', 'count': 1, 'after': True})
    with site.connect(username='admin') as connection:
        written(connection, place, uploading(content))
        ended(connection, place)
    assert runs(site, BMC_KEY if place is BMC else FPGA_KEY, data)
    assert code in refused
    assert {code, EmulatedCode.LENGTH_INVALID} >= refused
    assert 1 == (site.upgrades if place is BMC else site.amc_upgrades).activations


def test_losses_do_no_harm_where_repeated_blocks_are_refused(lan, monkeypatch):
    """A twentieth of all datagrams, each way, and nobody remembers an answer."""
    monkeypatch.setattr(emulated, 'DUPLICATES', 0)
    site = habitual(lan, 'refuses-repeats')
    data, refused = image(NEW), refusals(site.amc)
    with site.connect(username='admin') as connection:
        connection.look(NOW)
        site.line.loss = 0.05
        site.amc.guards.append(lambda request: setattr(site.line, 'loss', 0.0) if request.command == FINISH else None)
        written(connection, FPGA, uploading(upgrade(NEW, data=data)))
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert runs(site, FPGA_KEY, data)
    assert {EmulatedCode.INVALID_FIELD} == refused


def test_pages_that_are_written_at_once_are_not_waited_for(lan, monkeypatch):
    """80h to each of 156 pages: it is looked at once, and goes on; no second is waited, and no block sent twice."""
    site = habitual(lan, 'pages-in-progress')
    data = image(NEW, size_bytes=40_000)
    pauses = []
    monkeypatch.setitem(update.go_on.__kwdefaults__, 'sleep', pauses.append)
    with site.connect(username='admin') as connection:
        connection.look(NOW)
        seen = count(site.amc, BLOCK, STATUS)
        written(connection, FPGA, uploading(upgrade(NEW, data=data)))
        looks = seen[STATUS]
        ended(connection, FPGA)
    assert runs(site, FPGA_KEY, data)
    pages = len(data) // PAGE
    assert (156, 0) == (pages, site.amc_upgrades.repeated)
    assert pages <= looks < pages + 20
    assert len(data) / 23 <= seen[BLOCK] <= len(data) / 23 + 1
    assert sum(pauses) < 1


def test_what_is_activated_at_the_end_of_its_upload_is_found_to_run(lan):
    """The controller restarts by itself, has nothing left to activate, and says nothing of it: the version tells."""
    site = habitual(lan, 'activates-at-finish', times=Times(erase=0.2, activate=0.8))
    data = image(NEW)
    seen = count(site.amc, ACTIVATE)
    with site.connect(username='admin') as connection:
        written_anyhow(connection, FPGA, uploading(upgrade(NEW, data=data)))
        assert ended(connection, FPGA).state in (TaskState.SUCCEEDED, TaskState.GONE)
        assert SHOWN_NEW == connection.component(FPGA).version
    assert runs(site, FPGA_KEY, data)
    assert (0, OLD) == (site.amc_upgrades.activations, site.versions()[1])
    assert seen[ACTIVATE] < 2


def written_anyhow(connection, place, upload):
    """As :func:`written`, asked again while the controller is away, as a job does."""
    found, until = connection.push(place, upload), time.monotonic() + 20
    while isinstance(found, UploadProgress):
        try:
            found = connection.go_on(place, upload, found)
        except BmcBusy:
            assert time.monotonic() < until
            time.sleep(0.1)
    return found


@pytest.mark.parametrize('finish', [0, 0.3])
def test_the_command_line_is_content_with_what_activates_by_itself(lan, tmp_path, finish):
    """apply and verify end with 0, and nothing is written a second time."""
    site = habitual(lan, 'activates-at-finish', times=Times(finish=finish, activate=0.8))
    desk, files = desk_of(site, tmp_path, [('fpga-new', NEW, SHOWN_NEW, 'none')])
    seen = count(site.amc, FINISH)
    done = desk.run('apply', '--execute', '--target', 'node-1', *files)
    assert 0 == done.code, done
    assert 0 == desk.run('verify', *files).code
    assert ((NEW, OLD, None, None), {FINISH: 1}) == (site.versions(), seen)


def test_where_an_upgrade_is_undesirable_nothing_is_changed(lan):
    """It is busy, with the reason; nothing is sent but what reads. When it says so no more it is written."""
    site = habitual(lan, 'undesirable')
    writes = (ABORT, INITIATE, BLOCK, FINISH, ACTIVATE, ROLL_BACK)
    seen = count(site.amc, *writes)
    with site.connect(username='admin') as connection:
        with pytest.raises(BmcBusy) as caught:
            written(connection, FPGA, uploading(upgrade(NEW)))
        assert 'an upgrade is undesirable now' in str(caught.value)
        assert ({}, (OLD, None, None, None)) == (seen, site.versions())
        site.amc_upgrades.ability = dataclasses.replace(site.amc_upgrades.ability, undesirable=False)
        written(connection, FPGA, uploading(upgrade(NEW)))
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state


def test_a_self_test_that_there_is_not_fails_nobody(lan, tmp_path):
    """It reads as failed and is none of upgrades, says bit 0; the command line writes, and does not go back."""
    site = habitual(lan, 'untested')
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW)))
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert b'\x57\x02' == site.amc_upgrades.ability.untested
    other = habitual(lan, 'untested')
    images = [('fpga-new', NEW, SHOWN_NEW, 'fpga-old'), ('fpga-old', OLD, SHOWN_OLD, 'none')]
    desk, files = desk_of(other, tmp_path, images)
    done = desk.run('apply', '--execute', '--target', 'node-1', *files)
    assert (0, NEW) == (done.code, other.versions()[0]), done
    assert (1, 0) == (other.amc_upgrades.activations, other.amc_upgrades.rollbacks)


@pytest.mark.parametrize('seconds', [0, 0.5])
def test_what_was_done_and_called_busy_is_not_sent_again(lan, seconds):
    """Activate, and then Manual Rollback: once each, by what the controller counts and by what it is sent."""
    site = habitual(lan, 'busy-when-done', times=Times(activate=seconds, roll_back=seconds))
    seen = count(site.amc, ACTIVATE, ROLL_BACK)
    with site.connect(username='admin') as connection:
        task = written(connection, FPGA, uploading(upgrade(NEW)))
        assert TaskState.SUCCEEDED is ended(connection, task.ref).state
        assert SHOWN_NEW == connection.component(FPGA).version
        back = dataclasses.replace(uploading(upgrade(OLD)), goes_back=True)
        task = written(connection, FPGA, back)
        assert TaskState.SUCCEEDED is ended(connection, task.ref).state
        assert SHOWN_OLD == connection.component(FPGA).version
    assert {ACTIVATE: 1, ROLL_BACK: 1} == seen
    assert (1, 1) == (site.amc_upgrades.activations, site.amc_upgrades.rollbacks)


def test_what_is_backed_up_by_itself_is_not_told_to(lan):
    """The image asks for a backup, which is refused: the firmware is written all the same, and what ran is the way back."""
    site = habitual(lan, 'refuses-backup')
    backups = []
    site.amc.guards.append(
        lambda request: (
            backups.append(1) if (request.netfn, request.command, request.data[1:]) == (0x2C, INITIATE, b'\0') else None
        )
    )
    data = image(NEW)
    with site.connect(username='admin') as connection:
        written(connection, FPGA, uploading(upgrade(NEW, data=data, back_up=0b1)))
        assert TaskState.SUCCEEDED is ended(connection, FPGA).state
    assert runs(site, FPGA_KEY, data)
    assert OLD == site.versions()[1]
    assert len(backups) < 2
