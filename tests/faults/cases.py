# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The table of the faults that a job meets, and how it has to end. One row for each; doc/source/contributor/faults.rst shows
them.

The numbers F1..F43 are those of the list that the project was begun with. A row that takes long, or that only varies another,
is ``slow``: it runs with ``BAREMETAL_ACC_FAULTS=all`` (``make soak``).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from baremetal_acc.model.action import Flash
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from tests.faults.rig import EROT, GPU, ITEM, ITEMS, NEW, NIC, OLD, Rig

Act = Callable[[Rig], object]


class Ending(StrEnum):
    """How a job ends. All of them are within the deadline, and closed: see :meth:`tests.faults.rig.Rig.judge`."""

    DONE = 'done'
    RESTORED = 'restored'
    QUARANTINED = 'quarantined'
    UNKNOWN = 'failed, unknown whether the write has ended'
    UNTOUCHED = 'failed, nothing written'
    HELD = 'failed, host kept off'


@dataclass(frozen=True, kw_only=True)
class Case:
    """One fault.

    :ivar number: in the list.
    :ivar meets: what goes wrong.
    :ivar says: words that name the cause, in the error that an operator reads; nothing where the job is done.
    :ivar what: which firmware: EROT is in force at once, GPU after a restart of the host.
    :ivar found_off: the tenant has shut the host down before the job began.
    :ivar opens: the fault opens a lock by itself.
    :ivar idle: no fault of the machine comes to pass, as the job gives it no occasion.
    :ivar machine: parameters of the emulator. ``address``: what the operator says of the BMC.
    :ivar image_bytes: of each image. What is small is gone from us before a BMC that takes no more of it shows that.
    """

    number: str
    meets: Act
    ends: Ending
    says: tuple[str, ...] = ()
    what: str = EROT
    hold: bool = True
    found_off: bool = False
    opens: bool = False
    idle: bool = False
    slow: bool = False
    machine: dict[str, Any] = field(default_factory=dict)
    address: dict[str, Any] = field(default_factory=dict)
    image_bytes: int = 40_000


# ------------------------------------------------------------------------------------------------------ when it goes wrong


def being_written(job: Job) -> bool:
    """The BMC has begun to write the first card."""
    return any(isinstance(i.action, Flash) and i.state is ItemState.RUNNING for i in job.items)


def nothing(_: Rig) -> None:
    """All goes well."""


def fault(name: str, **rule: Any) -> Act:
    """From the beginning of the job."""
    return lambda rig: rig.machine.fault(name, **rule)


def stuck_for_good(rig: Rig) -> None:
    """The task neither moves nor can be cancelled."""
    rig.machine.fault('task-stuck', at_percent=100, count=1, device='GPU_0')
    rig.machine.fault('task-not-cancelled')


def meanwhile(name: str, **rule: Any) -> Act:
    """While the first card is being written."""
    return lambda rig: rig.when(being_written, lambda: rig.machine.fault(name, **rule))


def for_a_while(name: str, seconds: float = 100, **rule: Any) -> Act:
    """While the first card is being written, and not for ever."""

    def act(rig: Rig) -> None:
        begun: list[float] = []

        def begin() -> None:
            begun.append(rig.seconds)
            rig.machine.fault(name, **rule)

        rig.when(being_written, begin)
        rig.when(lambda _: bool(begun) and rig.seconds - begun[0] >= seconds, rig.clear_faults)

    return act


def both(*acts: Act) -> Act:
    """Two things at once."""

    def act(rig: Rig) -> None:
        for one in acts:
            one(rig)

    return act


def powered_on(rig: Rig) -> None:
    """Somebody presses the button once nothing is written any more."""

    def written(job: Job) -> bool:
        return all(i.state.ended for i in job.items if isinstance(i.action, Flash))

    rig.when(written, lambda: rig.machine.power('On'))


def our_clock(jump: timedelta) -> Act:
    """Our own clock is set while the first card is being written."""

    def act(rig: Rig) -> None:
        rig.when(being_written, lambda: setattr(rig, 'skew', jump))

    return act


CARD = {'device': 'GPU_0'}
ITEM_URI = f'{ITEMS}/{ITEM[EROT].format(0)}'
PUSH = '*/update-multipart'
A_FORTNIGHT = 14 * 86400
LARGE = 24_000_000
TELLS_NO_RESET: dict[str, Any] = {'options': {'*': {'host_history': False}}}
"""BMCs of which neither a Manager nor a System shows LastResetTime."""
OUTLASTS: dict[str, Any] = {'flash_seconds': 5000.0}
"""A write that goes on for longer than the job."""
UNKNOWN_END = 'whether the write of image erot-new to HGX_FW_ERoT_GPU_0 has ended is not known'

CASES: dict[str, Case] = {
    # ---- the BMC and its tasks
    'upload-cut': Case(
        number='F1',
        meets=fault('upload-cut', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('neither a task nor the new version', 'update-multipart: the connection broke'),
        image_bytes=LARGE,
    ),
    'upload-cut-when-all-of-it-was-sent': Case(
        number='F1',
        meets=fault('upload-cut', count=1, **CARD),
        ends=Ending.UNKNOWN,
        says=('nothing proves that it did not accept the image', UNKNOWN_END),
        image_bytes=8_000,
    ),
    'answer-lost-as-the-service-restarts': Case(
        number='F1',
        machine=OUTLASTS,
        meets=both(fault('hang', uri=PUSH, after=True, count=1), fault('service-restarts', at_percent=0, count=1, **CARD)),
        ends=Ending.UNKNOWN,
        says=(
            'nothing proves that it did not accept the image',
            UNKNOWN_END,
            'To resume, run apply --execute, or the step, again',
        ),
    ),
    'upload-cut-by-restart': Case(
        number='F1',
        meets=fault('upload-cut', count=1, restarts=True, **CARD),
        ends=Ending.RESTORED,
        says=('neither a task nor the new version', 'the connection broke'),
    ),
    'bmc-dies-mid-flash': Case(
        number='F2',
        meets=fault('bmc-restart', count=1, seconds=400, **CARD),
        ends=Ending.RESTORED,
        says=('no longer shows the update', 'the BMC no longer has the task'),
    ),
    'bmc-dies-mid-flash-and-does-not-tell-of-it': Case(
        number='F2',
        machine=TELLS_NO_RESET,
        meets=fault('bmc-restart', count=1, seconds=400, **CARD),
        ends=Ending.UNKNOWN,
        says=('no longer shows the update, nothing proves that its write has ended', UNKNOWN_END),
    ),
    'bmc-dies-mid-flash-which-goes-on': Case(
        number='F2', meets=fault('bmc-restart', count=1, seconds=400, completes=True, **CARD), ends=Ending.DONE
    ),
    'bmc-dies-for-good': Case(
        number='F2',
        meets=fault('bmc-restart', count=1, seconds=A_FORTNIGHT, **CARD),
        ends=Ending.UNKNOWN,
        says=(
            'as the final inspection failed',
            'not done by the deadline',
            'the connection broke (check address, network and power of the BMC)',
        ),
    ),
    'bmc-dies-before-the-version-is-read': Case(
        number='F3', meets=fault('bmc-restart-on-request', uri=ITEM_URI, method='GET', count=1), ends=Ending.DONE
    ),
    'bmc-dies-in-the-look-before-the-write': Case(
        number='F3', meets=fault('bmc-restart-on-request', uri='*/Chassis', method='GET', count=1), ends=Ending.DONE
    ),
    'bmc-restarts-and-forgets-its-tasks': Case(
        number='F4',
        meets=fault('bmc-restart', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('no longer shows the update', 'the BMC no longer has the task'),
    ),
    'bmc-restarts-and-does-not-tell-of-it': Case(
        number='F4',
        machine=TELLS_NO_RESET,
        meets=fault('bmc-restart', count=1, **CARD),
        ends=Ending.UNKNOWN,
        says=('no longer shows the update, nothing proves that its write has ended', UNKNOWN_END),
    ),
    'service-restarts-and-the-write-goes-on': Case(
        number='F4', machine={'flash_seconds': 250.0}, meets=fault('service-restarts', count=1, **CARD), ends=Ending.DONE
    ),
    'service-restarts-and-the-write-outlasts-the-job': Case(
        number='F4',
        machine=OUTLASTS,
        meets=fault('service-restarts', at_percent=1, count=1, **CARD),
        ends=Ending.UNKNOWN,
        says=(
            'no longer shows the update, nothing proves that its write has ended',
            UNKNOWN_END,
            'To resume, run apply --execute, or the step, again',
            'the host stays powered off',
        ),
    ),
    'service-restarts-and-the-clock-of-its-bmc-is-set': Case(
        number='F4',
        machine=OUTLASTS,
        meets=both(fault('service-restarts', at_percent=1, count=1, **CARD), meanwhile('clock-jumps')),
        ends=Ending.UNKNOWN,
        says=('no longer shows the update, nothing proves that its write has ended', UNKNOWN_END),
    ),
    'task-vanishes': Case(
        number='F4',
        meets=fault('task-vanishes', count=1, **CARD),
        ends=Ending.UNKNOWN,
        says=(
            'no longer shows the update, nothing proves that its write has ended',
            'the BMC no longer has the task',
            UNKNOWN_END,
        ),
    ),
    'task-vanishes-and-the-write-goes-on': Case(
        number='F4', meets=fault('task-vanishes', count=1, completes=True, **CARD), ends=Ending.DONE
    ),
    'task-stuck-at-100': Case(
        number='F5',
        meets=fault('task-stuck', at_percent=100, count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The task was cancelled.'),
    ),
    'task-stuck-at-100-and-not-to-be-cancelled': Case(
        number='F5',
        meets=stuck_for_good,
        ends=Ending.UNKNOWN,
        says=(
            'could not be cancelled: BMC host',
            'reported as running, has made no progress for long, and the new version is not shown',
            'whether the write of image erot-new to HGX_FW_ERoT_GPU_0 has ended is not known (task host:',
            'the host stays powered off',
        ),
    ),
    'task-stuck-at-100-and-the-write-is-over': Case(
        number='F5', meets=fault('task-stuck', at_percent=100, completes=True, count=1, **CARD), ends=Ending.DONE
    ),
    'task-completed-version-unchanged': Case(
        number='F6',
        meets=fault('task-completed-version-unchanged', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update succeeded, but the new version is not shown',),
    ),
    'task-completed-version-unchanged-after-reset': Case(
        number='F6',
        what=GPU,
        meets=fault('task-completed-version-unchanged', count=1, **CARD),
        ends=Ending.RESTORED,
        says=(f'in the end it ran {OLD[GPU]}, expected {NEW[GPU]}',),
    ),
    'task-fails': Case(
        number='F7',
        meets=fault('task-fails', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The device refused the image.'),
    ),
    'task-fails-version-changed': Case(
        number='F7',
        meets=fault('task-fails', completes=True, count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The device refused the image.'),
    ),
    'task-fails-each-time': Case(
        number='F7',
        meets=fault('task-fails', **CARD),
        ends=Ending.QUARANTINED,
        says=(
            'The device refused the image.',
            'image erot-old was to be restored: the BMC says that the update failed',
            'the host stays powered off',
        ),
    ),
    'task-completed-critical': Case(
        number='F6',
        meets=fault('task-completed-critical', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The device did not take the image.'),
    ),
    'task-completed-ok-with-a-critical-message': Case(
        number='F6',
        meets=fault('task-completed-critical', status='OK', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update succeeded, but the new version is not shown', 'The device did not take the image.'),
    ),
    'task-completed-critical-version-changed': Case(
        number='F7',
        meets=fault('task-completed-critical', completes=True, count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The device did not take the image.'),
    ),
    'task-id-reused': Case(
        number='F8',
        meets=fault('task-id-reused', count=1, **CARD),
        ends=Ending.UNKNOWN,
        says=(
            'no longer shows the update, nothing proves that its write has ended',
            'the BMC has another task at this URI',
            UNKNOWN_END,
        ),
    ),
    'task-id-reused-and-the-write-went-on': Case(
        number='F8', meets=fault('task-id-reused', completes=True, count=1, **CARD), ends=Ending.DONE
    ),
    'monitor-200-without-body': Case(number='F9', meets=fault('monitor-empty'), ends=Ending.DONE),
    'monitor-200-without-body-long-before-the-end': Case(
        number='F9', machine={'flash_seconds': 250.0}, meets=fault('monitor-empty'), ends=Ending.DONE
    ),
    'memory-exhausted-by-parallel-pushes': Case(
        number='F43',
        meets=fault('memory-exhausted'),
        ends=Ending.RESTORED,
        says=('no longer shows the update', 'neither a task nor the new version', 'the connection broke'),
        address={'parallel_updates': 2},
    ),
    'memory-is-enough-one-at-a-time': Case(number='F43', meets=fault('memory-exhausted'), ends=Ending.DONE, idle=True),
    # ---- transport and answers
    '503-storm': Case(number='F10', meets=meanwhile('http-status', status=503, count=30), ends=Ending.DONE),
    '503-storm-absurd-retry-after': Case(
        number='F10', meets=meanwhile('http-status', status=503, retry_after='999999999', count=30), ends=Ending.DONE
    ),
    '503-storm-retry-after-nonsense': Case(
        number='F10', slow=True, meets=meanwhile('http-status', status=503, retry_after='-1 soon', count=30), ends=Ending.DONE
    ),
    'update-503-absurd-retry-after': Case(
        number='F10', meets=fault('update-503', retry_after=1_000_000_000, count=3), ends=Ending.DONE
    ),
    'reset-answered-with-an-error': Case(
        number='F10',
        what=GPU,
        hold=False,
        meets=fault('http-status', uri='*ComputerSystem.Reset', method='POST', status=500, count=1),
        ends=Ending.DONE,
    ),
    'power-off-answered-with-an-error': Case(
        number='F10',
        meets=fault('http-status', uri='*ComputerSystem.Reset', method='POST', status=500, count=1),
        ends=Ending.DONE,
    ),
    'password-rotated': Case(
        number='F11',
        meets=meanwhile('password-rotated'),
        ends=Ending.UNKNOWN,
        says=('login refused (check username and password', UNKNOWN_END, 'as the final inspection failed'),
    ),
    'password-rotated-for-a-while': Case(number='F11', meets=for_a_while('password-rotated'), ends=Ending.DONE),
    'certificate-changed': Case(
        number='F12',
        machine={'tls': True},
        meets=meanwhile('certificate-changed'),
        ends=Ending.UNKNOWN,
        says=(
            'the certificate is not trusted: unable to get local issuer certificate (set verify_ca',
            'as the final inspection failed',
        ),
    ),
    'certificate-changed-for-a-while': Case(
        number='F12', machine={'tls': True}, meets=for_a_while('certificate-changed'), ends=Ending.DONE
    ),
    'slow-loris': Case(number='F13', meets=meanwhile('drip', uri=ITEM_URI, count=2), ends=Ending.DONE),
    'slow-loris-for-every-answer': Case(number='F13', slow=True, meets=meanwhile('drip', count=20), ends=Ending.DONE),
    'hang-with-an-open-socket': Case(number='F14', meets=meanwhile('hang', uri=ITEM_URI, count=2), ends=Ending.DONE),
    'hang-after-an-upload-that-arrived': Case(
        number='F14', meets=fault('hang', uri=PUSH, after=True, count=1), ends=Ending.DONE
    ),
    'upload-stalls': Case(
        number='F14',
        meets=fault('upload-stalls', count=1, **CARD),
        ends=Ending.UNKNOWN,
        says=('nothing proves that it did not accept the image', UNKNOWN_END),
    ),
    'truncated-json': Case(number='F15', meets=meanwhile('truncated-json', count=10), ends=Ending.DONE),
    'truncated-json-for-good': Case(
        number='F15',
        meets=meanwhile('truncated-json', uri=ITEM_URI),
        ends=Ending.UNKNOWN,
        says=('HGX_FW_ERoT_GPU_0: the answer is not JSON',),
    ),
    'json-with-duplicate-keys': Case(
        number='F15', meets=meanwhile('strange-json', how='duplicate-keys', count=10), ends=Ending.DONE
    ),
    'json-with-duplicate-keys-for-good': Case(
        number='F15',
        meets=meanwhile('strange-json', how='duplicate-keys', uri=f'{ITEMS}*'),
        ends=Ending.UNKNOWN,
        says=("HGX_FW_ERoT_GPU_0: the answer contains '@odata.id' twice, with different values",),
    ),
    'json-huge': Case(number='F15', meets=meanwhile('strange-json', how='huge', count=3), ends=Ending.DONE),
    'json-huge-for-good': Case(
        number='F15',
        slow=True,
        meets=meanwhile('strange-json', how='huge', uri=f'{ITEMS}*'),
        ends=Ending.QUARANTINED,
        says=('HGX_FW_ERoT_GPU_0: the answer is longer than 8388608 bytes',),
    ),
    'json-with-nan': Case(number='F15', meets=meanwhile('strange-json', how='nan'), ends=Ending.DONE),
    'json-with-a-million-members': Case(
        number='F15', meets=meanwhile('strange-json', how='many-members', uri=f'{ITEMS}*', count=2), ends=Ending.DONE
    ),
    'json-with-an-endless-next-link': Case(
        number='F15', meets=meanwhile('strange-json', how='endless-next', count=20), ends=Ending.DONE
    ),
    'json-of-100000-levels': Case(number='F15', meets=meanwhile('strange-json', how='deep', count=10), ends=Ending.DONE),
    # ---- cards, power and time
    'item-renamed-by-the-update': Case(
        number='F16',
        meets=fault('item-renamed', **CARD),
        ends=Ending.DONE,
    ),
    'cards-swap-before-the-write': Case(
        number='F17',
        meets=fault('cards-swapped'),
        ends=Ending.HELD,
        says=('HGX_FW_ERoT_GPU_0 no longer belongs to this card',),
    ),
    'cards-swap-during-the-write': Case(
        number='F17',
        meets=meanwhile('cards-swapped'),
        ends=Ending.QUARANTINED,
        says=(
            'HGX_FW_ERoT_GPU_0 was no longer shown; the card showed HGX_FW_ERoT_GPU_1',
            'the component no longer belongs to this card',
        ),
    ),
    'card-vanishes-and-returns': Case(number='F18', meets=for_a_while('device-absent', **CARD), ends=Ending.DONE),
    'card-vanishes': Case(
        number='F18',
        meets=meanwhile('device-absent', **CARD),
        ends=Ending.QUARANTINED,
        says=('expected the card seen before, found absent', 'HTTP 404'),
    ),
    'card-exchanged-before-the-write': Case(
        number='F19',
        meets=fault('card-exchanged', **CARD),
        ends=Ending.HELD,
        says=('the BMC no longer shows the card', 'expected the card seen before, found absent'),
    ),
    'card-exchanged-during-the-write': Case(
        number='F19',
        meets=meanwhile('card-exchanged', **CARD),
        ends=Ending.QUARANTINED,
        says=('the BMC no longer shows the card', 'expected the card seen before, found absent'),
    ),
    'host-power-lost-mid-flash': Case(
        number='F20',
        hold=False,
        meets=fault('power-lost', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The power of the device failed.'),
    ),
    'host-power-lost-leaves-a-recovery-image': Case(
        number='F20',
        hold=False,
        meets=fault('power-lost', leaves='recovery', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The power of the device failed.'),
    ),
    'bmc-clock-a-day-ahead': Case(number='F26', meets=meanwhile('clock-jumps'), ends=Ending.DONE),
    'bmc-clock-a-day-back': Case(number='F26', meets=meanwhile('clock-jumps', seconds=-86400), ends=Ending.DONE),
    'bmc-clock-jumps-before-the-restart': Case(
        number='F26', what=GPU, hold=False, meets=meanwhile('clock-jumps', seconds=-86400), ends=Ending.DONE
    ),
    'our-clock-a-day-back': Case(number='F26', meets=our_clock(timedelta(days=-1)), ends=Ending.DONE, idle=True),
    'our-clock-a-day-ahead': Case(
        number='F26',
        meets=our_clock(timedelta(days=1)),
        ends=Ending.UNKNOWN,
        says=('the deadline has passed', 'not done by the deadline', 'whether the write of image erot-new'),
    ),
    # ---- a DPU whose own BMC fails, and not that of the host
    'dpu-bmc-restarts-before-the-write': Case(
        number='F3', what=NIC, meets=fault('bmc-restart-on-request', bmc='dpu', uri='*/Chassis', count=1), ends=Ending.DONE
    ),
    'dpu-bmc-dies-before-the-write': Case(
        number='F3',
        what=NIC,
        meets=fault('bmc-restart-on-request', bmc='dpu', uri='*/Chassis', count=1, seconds=A_FORTNIGHT),
        ends=Ending.HELD,
        says=('the deadline has passed', 'BMC dpu', 'the connection broke (check address, network and power of the BMC)'),
    ),
    'dpu-bmc-restarts-mid-flash': Case(
        number='F4',
        what=NIC,
        meets=fault('bmc-restart', bmc='dpu', count=1),
        ends=Ending.RESTORED,
        says=('no longer shows the update', 'the BMC no longer has the task'),
    ),
    'dpu-bmc-restarts-mid-flash-and-does-not-tell-of-it': Case(
        number='F4',
        what=NIC,
        machine=TELLS_NO_RESET,
        meets=fault('bmc-restart', bmc='dpu', count=1),
        ends=Ending.UNKNOWN,
        says=('no longer shows the update, nothing proves that its write has ended', 'the BMC no longer has the task'),
    ),
    'dpu-bmc-dies-for-good': Case(
        number='F2',
        what=NIC,
        meets=fault('bmc-restart', bmc='dpu', count=1, seconds=A_FORTNIGHT),
        ends=Ending.UNKNOWN,
        says=(
            'as the final inspection failed',
            'not done by the deadline (BMC dpu',
            'the connection broke (check address, network and power of the BMC)',
        ),
    ),
    # ---- a host that the tenant has shut down
    'host-found-off': Case(number='F20', what=GPU, found_off=True, meets=nothing, ends=Ending.DONE, idle=True),
    'host-found-off-and-a-task-fails': Case(
        number='F7',
        what=GPU,
        found_off=True,
        meets=fault('task-fails', count=1, **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The device refused the image.'),
    ),
    'host-found-off-and-tasks-fail-each-time': Case(
        number='F7',
        what=GPU,
        found_off=True,
        meets=fault('task-fails', **CARD),
        ends=Ending.QUARANTINED,
        says=(
            'The device refused the image.',
            'image gpu-old was to be restored: the BMC says that the update failed',
            'the host stays powered off',
        ),
    ),
    'host-found-off-and-images-are-dropped-in-each-restart': Case(
        number='F28',
        what=GPU,
        found_off=True,
        meets=fault('activation-refused', leaves='recovery', **CARD),
        ends=Ending.QUARANTINED,
        says=(
            f'in the end it ran recovery, expected {NEW[GPU]}',
            f'image gpu-old was to be restored: in the end it ran recovery, expected {OLD[GPU]}',
            'the host was powered off again',
        ),
    ),
    'host-found-off-and-powered-on-beside-a-spoilt-card': Case(
        number='F7',
        found_off=True,
        meets=both(fault('task-fails', **CARD), powered_on),
        ends=Ending.QUARANTINED,
        says=('image erot-old was to be restored: the BMC says that the update failed', 'the host was powered off again'),
    ),
    'host-found-off-and-the-cold-start-opens-a-lock': Case(
        number='F36',
        what=GPU,
        found_off=True,
        meets=fault('lock-lost-on-reset', **CARD),
        ends=Ending.HELD,
        says=('HGX_FW_ERoT_GPU_0 unlocked (nvidia_inband_update_policy at host:', 'the host was powered off again'),
        opens=True,
    ),
    # ---- what a card does with an image
    'image-damaged-on-its-way': Case(
        number='F28',
        meets=fault('image-damaged', count=1, **CARD),
        ends=Ending.RESTORED,
        says=(
            'the BMC says that the update failed',
            'the trailer (SHA-256) of the image is wrong: the image was truncated or changed',
        ),
    ),
    'image-dropped-in-the-restart': Case(
        number='F28',
        what=GPU,
        meets=fault('activation-refused', count=1, **CARD),
        ends=Ending.RESTORED,
        says=(f'in the end it ran {OLD[GPU]}, expected {NEW[GPU]}',),
    ),
    'image-dropped-in-the-restart-leaves-a-recovery-image': Case(
        number='F28',
        what=GPU,
        meets=fault('activation-refused', count=1, leaves='recovery', **CARD),
        ends=Ending.RESTORED,
        says=(f'in the end it ran recovery, expected {NEW[GPU]}',),
    ),
    'card-is-another-variant-of-its-model': Case(
        number='F29',
        meets=fault('other-variant', takes='h100-oem', shows={'SubsystemId': '0x1abc'}, **CARD),
        ends=Ending.HELD,
        says=(
            'has model h100-oem, but the image is for model h100',
            'image erot-old was to be restored: the BMC says that the update failed',
            'the host stays powered off',
        ),
    ),
    'image-revoked-in-the-card': Case(
        number='F31',
        meets=fault('image-refused', version=NEW[EROT], **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update failed', 'The image is signed with a key that was revoked.'),
    ),
    # ---- lies, and locks that do not hold
    'version-lies-old': Case(
        number='F33',
        meets=fault('version-lies', version=OLD[EROT], **CARD),
        ends=Ending.RESTORED,
        says=('the BMC says that the update succeeded, but the new version is not shown',),
    ),
    'staged-is-never-running': Case(
        number='F33',
        what=GPU,
        meets=fault('activation-lost', count=1, **CARD),
        ends=Ending.RESTORED,
        says=(f'in the end it ran {OLD[GPU]}, with {NEW[GPU]} staged, expected {NEW[GPU]}',),
    ),
    'lock-ignored': Case(
        number='F34',
        meets=fault('lock-ignored', **CARD),
        ends=Ending.HELD,
        says=('HGX_FW_ERoT_GPU_0 unlocked (nvidia_inband_update_policy at host:', 'the host stays powered off'),
        opens=True,
    ),
    'lock-lost-by-cold-start': Case(
        number='F36',
        meets=fault('lock-lost-on-reset', **CARD),
        ends=Ending.HELD,
        says=('HGX_FW_ERoT_GPU_0 unlocked (nvidia_inband_update_policy at host:', 'the host was powered off again'),
        opens=True,
    ),
    'lock-lost-by-bmc-restart': Case(
        number='F36',
        meets=both(fault('lock-lost-on-bmc-reset', **CARD), fault('bmc-restart', count=1, completes=True, **CARD)),
        ends=Ending.DONE,
    ),
    'lock-lost-by-update': Case(number='F36', meets=fault('lock-lost-on-update', **CARD), ends=Ending.DONE),
}
