# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What was read about the writes and resets of a job, and about its BMCs and hosts, since its last poll."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import Complaint, HostReading, TaskReading
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.planning.update_states import UpdateObservation

UNASKED = 1_000_000
"""Stands for the number of running updates when the BMC could not be asked: it gets no further update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSight:
    """What was read about one write.

    :ivar stalled: the device was read, because the task makes no progress any more.
    :ivar shown: the version that runs; None if it was not read, or if the device does not report it.
    :ivar task: the BMC's task for the write, if the answer to the upload named none, or named a monitor that does not say that
        it waits for a restart, and only one task can be it.
    :ivar waits: its task has not started, or waits for a restart of the host.
    :ivar lost: its task was gone before it was ever seen running: what it was is not known.
    :ivar wrote_nothing: its task was cancelled before it wrote anything.
    :ivar told_written: its task reports that this very component was written.
    :ivar installed: when the component was last written, as the BMC reports it.
    :ivar successor: the item that represents the component now, where the update has given it another URI.
    :ivar told_busy: the component or the update service reports a write in progress, and the BMC has no task for it (any more).
    :ivar complaints: what the task of a bundle reports against components that no item of the job is about.
    :ivar start: the turn that starts the task, where the task waits for that.
    :ivar task_started: StartTime of its task as the BMC reports it, while the task runs and waits for nothing.
    """

    seen: UpdateObservation
    percent: int | None = None
    message: str | None = None
    stalled: bool = False
    shown: str | None = None
    task: Ref | None = None
    waits: bool = False
    lost: bool = False
    wrote_nothing: bool = False
    told_written: bool = False
    installed: str | None = None
    successor: Component | None = None
    told_busy: bool = False
    task_started: str | None = None
    complaints: tuple[Complaint, ...] = ()
    start: UploadProgress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was read about the writes and resets that the job has started, and about the BMCs and hosts that it uses.

    :ivar writes: by position of the item.
    :ivar resets: True: the reset took place; False: not yet; None: the BMC does not answer.
    :ivar foreign: number of running updates that are not the job's, or that the job has given up, by BMC; :data:`UNASKED` where
        the BMC does not report it.
    :ivar hosts: power readings of the Systems that the job holds off; one that could not be read is missing.
    :ivar foreign_writes: a task of somebody else that may write firmware, by BMC to which the job has not written yet.
    :ivar changes: the tasks by which BMCs carry out changes of locks; one that could not be read is missing.
    """

    writes: Mapping[int, WriteSight] = field(default_factory=dict)
    resets: Mapping[int, bool | None] = field(default_factory=dict)
    foreign: Mapping[BmcName, int] = field(default_factory=dict)
    hosts: Mapping[Ref, HostReading] = field(default_factory=dict)
    foreign_writes: Mapping[BmcName, Ref] = field(default_factory=dict)
    changes: Mapping[Ref, TaskReading] = field(default_factory=dict)
