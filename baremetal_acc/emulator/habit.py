# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The habits of emulated Redfish services: permanent behaviours of BMCs, each with the public report that describes it.

A fault is temporary; a habit is how a BMC always behaves. A habit consists of rules of :mod:`baremetal_acc.emulator.fault` that
are in force from the start and stay when the faults are removed. Any number of habits can be combined; of two rules of the same
name that fit the same request, the first applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class UnknownHabit(ValueError):
    """There is no habit of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """One habit.

    :ivar what: what the BMC does, worded as the rest of a sentence that begins with "the BMC".
    :ivar source: the standard or the public reports that describe the habit.
    :ivar rules: fault documents; see :meth:`baremetal_acc.emulator.fault.Faults.add`.
    """

    name: str
    what: str
    source: str
    rules: tuple[Mapping[str, Any], ...]


_NO_TASK = 'canonical/testflinger#255, HewlettPackard/python-ilorest-library#57, openbmc/bmcweb#75'
_MONITOR = 'DSP0266, asynchronous operations: the URI of a monitor is for the service to choose'
_WEAK = 'ansible-collections/community.general#6434, #11270'
_LATER = 'DMTF/Redfish-Protocol-Validator#55'
_START = 'DSP8010, UpdateService StartUpdate; Settings, OperationApplyTime'
_SESSIONS = 'stmcginnis/gofish#75, bb-Ricardo/check_redfish#89, #198'
_RESETS = 'DMTF/Redfish-Tacklebox#82, ansible-collections/community.general#7083'
# Seen on HGX and BlueField; the report is about an inventory that could not be read after an update of the BMC.
_LATE = 'no public report of just this; compare bb-Ricardo/check_redfish#69'

_ALL = (
    Habit(
        name='no-task-updating',
        what='answers an update 200 without body or Location; shows no task, but the state Updating in UpdateService',
        source=_NO_TASK,
        rules=({'name': 'no-task'},),
    ),
    Habit(
        name='no-task-silent',
        what='answers an update 200 without body or Location; nothing says that an image is being written',
        source=_NO_TASK,
        rules=({'name': 'no-task', 'service_says': False},),
    ),
    Habit(
        name='monitor-only',
        what='has a monitor under UpdateService, and no Task: 202 while an image is written, then 204 without a body',
        source=_MONITOR,
        rules=({'name': 'task-monitor-only'},),
    ),
    Habit(
        name='monitor-vanishes',
        what='has a monitor under UpdateService, and no Task: 202 while an image is written, then 404',
        source=_MONITOR,
        rules=({'name': 'task-monitor-only', 'vanishes': True},),
    ),
    Habit(
        name='location-elsewhere',
        what='sends Location with an address that it takes for its own, https://bmc.internal.example',
        source='DMTF/libredfish#156',
        rules=({'name': 'location-elsewhere'},),
    ),
    Habit(
        name='update-waits-for-restart',
        what='writes an image after the host has restarted; until then the task is Pending',
        source='dellemc-openmanage-ansible-modules#716',
        rules=({'name': 'task-waits-for-restart'},),
    ),
    Habit(
        name='update-scheduled-for-restart',
        what='writes an image after the host has restarted; until then the task is Scheduled',
        source='dellemc-openmanage-ansible-modules#716',
        rules=({'name': 'task-waits-for-restart', 'state': 'Scheduled'},),
    ),
    Habit(
        name='update-waits-unsaid',
        what='writes an image after the host has restarted; until then the task is New, and no message says why',
        source='dellemc-openmanage-ansible-modules#716; DSP8010, TaskState New',
        rules=({'name': 'task-waits-for-restart', 'state': 'New', 'says': False},),
    ),
    Habit(
        name='update-waits-for-start',
        what='accepts only the apply time OnStartUpdateRequest; the task is Pending until StartUpdate, and then continues',
        source=_START,
        rules=({'name': 'task-waits-for-start'},),
    ),
    Habit(
        name='update-starts-anew',
        what='accepts only the apply time OnStartUpdateRequest; the task ends after the check, and StartUpdate begins another',
        source='bmc-toolbox/bmclib, StartUpdateForUploadedFirmware',
        rules=({'name': 'task-waits-for-start', 'new_task': True},),
    ),
    Habit(
        name='update-waits-unasked',
        what='accepts every apply time; the task is nevertheless Pending until StartUpdate, with the message AwaitToUpdate',
        source='DSP8011, message registry Update, AwaitToUpdate; no public report of just this',
        rules=({'name': 'task-waits-for-start', 'asked': False},),
    ),
    Habit(
        name='update-waits-later',
        what='as update-waits-unasked, but the message comes after the check of the image, seconds after the upload',
        source='DSP8011, message registry Update, AwaitToUpdate; no public report of just this',
        rules=({'name': 'task-waits-for-start', 'asked': False, 'checks': 2},),
    ),
    Habit(
        name='weak-etags',
        what='shows weak ETags, which match nothing',
        source=_WEAK,
        rules=({'name': 'weak-etag'},),
    ),
    Habit(
        name='weak-etags-match-strong',
        what='shows weak ETags, whose strong form matches',
        source=_WEAK,
        rules=({'name': 'weak-etag', 'matches': True},),
    ),
    Habit(
        name='needs-if-match',
        what='refuses a PATCH without If-Match (428)',
        source='ansible/ansible#56050',
        rules=({'name': 'precondition-required'},),
    ),
    Habit(
        name='needs-if-match-hides-etag',
        what='refuses a PATCH without If-Match (428), and shows no ETag',
        source='ansible/ansible#56050',
        rules=({'name': 'precondition-required', 'hides': True},),
    ),
    Habit(
        name='patch-later',
        what='answers a PATCH 202 with a monitor, and executes it 3 s later; refuses others until then',
        source=_LATER,
        rules=({'name': 'patch-later'},),
    ),
    Habit(
        name='patch-later-no-monitor',
        what='answers a PATCH 202, and executes it 3 s later; nothing exists at Location',
        source=_LATER,
        rules=({'name': 'patch-later', 'monitor': False},),
    ),
    Habit(
        name='patch-shown-later',
        what='answers a PATCH 204, and shows the change 3 s later',
        source='openbmc/bmcweb#129',
        rules=({'name': 'patch-later', 'said': False},),
    ),
    Habit(
        name='trailing-slash',
        what='redirects a PATCH or POST to a URI without a trailing slash to the URI with one (308)',
        source='ansible/ansible#48296, PegaProx/project-pegaprox#609',
        rules=({'name': 'trailing-slash'},),
    ),
    Habit(
        name='skips-equal-version',
        what='does not write an image of the version that a component runs, unless ForceUpdate is true',
        source='a pldm of trays (fw-update), ComponentUpdateSkipped',
        rules=({'name': 'equal-version-skipped'},),
    ),
    Habit(
        name='one-session',
        what='allows one session at a time, and refuses a second login (503)',
        source=_SESSIONS,
        rules=({'name': 'session-limit'},),
    ),
    Habit(
        name='no-session',
        what='refuses every login, as if no session were free (503); Basic authentication works',
        source='theforeman/smart-proxy#895',
        rules=({'name': 'session-limit', 'most': 0},),
    ),
    Habit(
        name='no-power-cycle',
        what='does not support the reset type PowerCycle',
        source=_RESETS,
        rules=({'name': 'reset-types-missing'},),
    ),
    Habit(
        name='no-restart',
        what='supports no reset type that restarts a system, only On, ForceOff and GracefulShutdown',
        source=_RESETS,
        rules=({'name': 'reset-types-missing', 'types': 'PowerCycle,ForceRestart,GracefulRestart'},),
    ),
    Habit(
        name='cards-hidden-while-off',
        what='shows cards with their processors, PCIe devices and items only while their system is on',
        source='dsx-ai-factory/infra-controller#4903',
        rules=({'name': 'absent-while-off'},),
    ),
    Habit(
        name='version-null-after-update',
        what='shows Version null in an item for 60 s after an update',
        source=_LATE,
        rules=({'name': 'item-late'},),
    ),
    Habit(
        name='item-missing-after-update',
        what='does not show an item for 60 s after an update',
        source=_LATE,
        rules=({'name': 'item-late', 'missing': True},),
    ),
    Habit(
        name='item-renamed-by-version',
        what='has the version in the Id and URI of each item, so that an update changes both',
        source='DSP0266: URIs are for the service to choose; public captures have Installed-159-1.2.4__BIOS.Setup.1-1',
        rules=({'name': 'item-renamed', 'by_version': True},),
    ),
    Habit(
        name='background-copy',
        what='has roots of trust that copy an image for 60 s after an update; refuses a further update during that time',
        source='sonic-net/sonic-mgmt#26697',
        rules=({'name': 'background-copy'},),
    ),
    Habit(
        name='powers-host-on',
        what='powers on the host at the end of an update',
        source='fwupd/fwupd#8661',
        rules=({'name': 'powered-on-by-update'},),
    ),
)

HABITS: Mapping[str, Habit] = {habit.name: habit for habit in _ALL}
"""All habits by their names."""


def find_habit(name: str) -> Habit:
    """Return the habit of that name.

    :raises UnknownHabit: there is no such habit; the text lists the known ones.
    """
    if name not in HABITS:
        raise UnknownHabit(f'unknown habit {name!r}; the habits are {", ".join(HABITS)}')
    return HABITS[name]
