# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image that is changed after it was checked is not sent, and what is sent is what was checked.

The job is turned here, so that the attacker strikes at a moment and not by luck: when every image has been checked and before
the first is opened for sending, or after it was opened and before the first byte is sent. Nothing sleeps.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from baremetal_acc.execution import ImageStore, Tools, observe, tick
from baremetal_acc.model.action import CheckImage, Flash
from baremetal_acc.model.image import Image, Upload
from baremetal_acc.model.job import Done, Failed, Flow, Job, Outcome, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.render.refusals import raise_if_unsafe
from tests.malicious.attack import Attack
from tests.malicious.workshop import NEW, OLD, Workshop, flipped, pushed, reached, told

FIRMWARE_ONLY = f'format = 1\n[[rule]]\nmatch = {{ kind = "FPGA" }}\nfirmware = {{ FPGA1_FW = "{NEW}" }}\n'


def turned(
    shop: Workshop, change: Callable[[Tools], Tools], between: Callable[[Job, Tools], Tools] = lambda _, tools: tools
) -> Outcome:
    """Make the plan for the firmware and turn its job to its end, on a clock of our own.

    :param between: what the tools are for the next turn; Ironic and a command that is given again load them anew.
    """
    shop.baseline = FIRMWARE_ONLY
    shop.lay()
    target, tools = shop.session()
    shop.machine.advance(60)  # LastResetTime counts seconds: a reset in the one of its start would not show
    now = datetime.now(UTC) + timedelta(minutes=1)
    made = plan(observe(target, tools, now), tools.baseline, target.node, tools.catalogue, parts=frozenset({Part.FIRMWARE}))
    raise_if_unsafe(made)
    job = begin(
        made, identity='1', node='node-1', flow=Flow.CLI, step='apply', lifecycle=0, now=now, timeout=timedelta(hours=1)
    )
    tools = change(tools)
    for _ in range(200):
        tools = between(job, tools)
        job, outcome = tick(job, target, tools, now)
        if not isinstance(outcome, Wait):
            return outcome
        now += outcome.delay + timedelta(milliseconds=1)
        if outcome.delay:
            shop.machine.advance(outcome.delay.total_seconds())
    raise AssertionError('the job does not end')


def when_checked(strike: Callable[[], object]) -> Callable[[Tools], Tools]:
    """The attacker strikes once, when the last image has been checked."""
    left = [strike]

    def save(job: Job) -> None:
        checks = [i.state for i in job.items if isinstance(i.action, CheckImage)]
        assert checks
        if left and all(state is ItemState.DONE for state in checks):
            left.pop()()

    return lambda tools: replace(tools, save=save)


class Between:
    """The operator's store; the attacker strikes when it has given an image out."""

    def __init__(self, store: ImageStore, strike: Callable[[], object]) -> None:
        self._store = store
        self._strike = strike

    def open(self, image: Image) -> Upload:
        """An upload, its file changed since."""
        found = self._store.open(image)
        self._strike()
        return found


# -- what the attacker does ------------------------------------------------------------------------------------------------


def replaced(shop: Workshop, path: Path) -> None:
    evil = shop.path('evil')
    evil.write_bytes(flipped(path.read_bytes(), 5000))
    evil.rename(path)


def changed_in_place(shop: Workshop, path: Path) -> None:
    with path.open('r+b') as stream:
        stream.seek(5000)
        stream.write(b'evil')


def cut(shop: Workshop, path: Path) -> None:
    os.truncate(path, 5000)


def grown(shop: Workshop, path: Path) -> None:
    with path.open('ab') as stream:
        stream.write(b'evil')


def removed(shop: Workshop, path: Path) -> None:
    path.unlink()


def replaced_by_a_link(shop: Workshop, path: Path) -> None:
    shutil.move(path, shop.outside / 'kept')
    path.symlink_to(shop.outside / 'kept')


def replaced_by_a_pipe(shop: Workshop, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_a_folder(shop: Workshop, path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_the_other_one(shop: Workshop, path: Path) -> None:
    shutil.copy(shop.path('fpga-old.img' if path == shop.new_file else 'fpga-new.img'), path)


def replaced_by_its_like(shop: Workshop, path: Path) -> None:
    """Of the same size, time and mode: nothing but its bytes tells."""
    before = path.stat()
    replaced(shop, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    path.chmod(before.st_mode)


def replaced_by_holes(shop: Workshop, path: Path) -> None:
    size = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, size)


TABLE = (
    (Attack.SWAPPED, replaced, 'has sha256 '),
    (Attack.SWAPPED, changed_in_place, 'has sha256 '),
    (Attack.SWAPPED, cut, 'has 5000 bytes, the catalogue says '),
    (Attack.SWAPPED, grown, 'is longer than '),
    (Attack.SWAPPED, removed, 'cannot be read: No such file'),
    (Attack.SWAPPED, replaced_by_a_link, 'outside/kept is outside the folders'),
    (Attack.SWAPPED, replaced_by_a_pipe, 'is not a regular file'),
    (Attack.SWAPPED, replaced_by_a_folder, 'cannot be read: Is a directory'),
    (Attack.SWAPPED, replaced_by_the_other_one, 'has sha256 '),
    (Attack.SWAPPED, replaced_by_its_like, 'has sha256 '),
    (Attack.SWAPPED, replaced_by_holes, 'has sha256 '),
)


@pytest.mark.parametrize(('_', 'strike', 'says'), TABLE, ids=[row[1].__name__ for row in TABLE])
def test_what_changes_between_check_and_push_is_not_sent(_, strike, says, clocked):
    """The job fails with image, file and reason; nothing has reached a BMC, and no host was restarted for it."""
    outcome = turned(clocked, when_checked(lambda: strike(clocked, clocked.new_file)))
    assert isinstance(outcome, Failed), outcome
    assert 1 == len([r for r in outcome.reasons if 'image fpga-new: ' in r and says in r]), outcome.reasons
    assert [] == pushed(clocked.machine)
    assert [] == reached(clocked.machine)
    assert OLD == clocked.machine.truth()['components']['host/FPGA1_FW']['active']['version']


@pytest.mark.parametrize('strike', [row[1] for row in TABLE], ids=[row[1].__name__ for row in TABLE])
def test_what_changes_after_it_was_opened_changes_nothing_that_is_sent(strike, clocked):
    """The BMC gets the bytes that were checked, to the last one: the copy is ours alone."""
    before = told(clocked.new_file)
    struck: list[object] = []

    def once() -> None:
        # The first two opens are checks, of the image and of its restore image; the third is for sending.
        struck.append(None)
        if len(struck) == 3:
            strike(clocked, clocked.new_file)

    outcome = turned(clocked, lambda tools: replace(tools, images=Between(tools.images, once)))
    assert isinstance(outcome, Done), outcome
    assert 3 == len(struck)
    assert [before] == pushed(clocked.machine)
    assert NEW == clocked.machine.truth()['components']['host/FPGA1_FW']['active']['version']


def when_the_flash_has_failed(strike: Callable[[], object]) -> Callable[[Tools], Tools]:
    """The attacker strikes once, when the flash has failed and before it is put back."""
    left = [strike]

    def save(job: Job) -> None:
        if left and any(isinstance(i.action, Flash) and i.state is ItemState.FAILED for i in job.items):
            left.pop()()

    return lambda tools: replace(tools, save=save)


@pytest.mark.parametrize(('_', 'strike', 'says'), TABLE, ids=[row[1].__name__ for row in TABLE])
def test_a_way_back_that_changes_since_it_was_checked_is_not_sent(_, strike, says, clocked):
    """The flash failed, and what would put it back is not what was checked: nobody uses the card, and that is said."""
    clocked.machine.fault('task-fails', count=1)
    outcome = turned(clocked, when_the_flash_has_failed(lambda: strike(clocked, clocked.path('fpga-old.img'))))
    assert isinstance(outcome, Failed), outcome
    assert 1 <= len([r for r in outcome.reasons if 'image fpga-old: ' in r and says in r]), outcome.reasons
    assert [told(clocked.new_file)] == pushed(clocked.machine)
    assert 1 == len(outcome.quarantined)


def test_an_honest_way_back_is_sent_byte_for_byte(clocked):
    """Else the test above could not fail."""
    clocked.machine.fault('task-fails', count=1)
    outcome = turned(clocked, lambda tools: tools)
    assert isinstance(outcome, Failed), outcome
    assert [told(clocked.new_file), told(clocked.path('fpga-old.img'))] == pushed(clocked.machine)
    assert not outcome.quarantined
