# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The exit code, outcome and error of a job that has ended."""

from baremetal_acc import execution
from baremetal_acc.cli.exits import Exit
from baremetal_acc.errors import AccError, NotMet, Refused, WriteFailed
from baremetal_acc.model.action import (
    Action,
    Engage,
    Flash,
    Program,
    Release,
    Reset,
    ResetPurpose,
    RestoreSetting,
    SetCardSetting,
)
from baremetal_acc.model.job import Done, Job, Outcome
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Finding
from baremetal_acc.render import findings


def find_locked_again(job: Job, *, good: bool) -> frozenset[AcceleratorId]:
    """The devices whose locks a job has engaged and proven, also if other findings are not met."""
    if good:
        return frozenset(i.action.accelerator for i in job.items if isinstance(i.action, Engage))
    if job.verdict is None or not job.verdict.findings:
        return frozenset()
    engaged = [(i.action.accelerator, i.state) for i in job.items if isinstance(i.action, Engage)]
    left = {device for device, state in engaged if state is not ItemState.DONE}
    open_ones = {f.accelerator for f in execution.unprotected(job.verdict)}
    return frozenset(device for device, _ in engaged) - left - open_ones


_WRITES = (Release, Flash, Program, Reset, Engage, RestoreSetting, SetCardSetting)


def _is_hold(action: Action) -> bool:
    return isinstance(action, Reset) and action.purpose is ResetPurpose.HOLD


def _touched_cards(job: Job) -> bool:
    """Whether the job has, or may have, released a lock, sent an image or set a setting; engaging locks does not count."""
    kinds = Release | Flash | Program | SetCardSetting
    return any(i.state.begun and not i.untouched and isinstance(i.action, kinds) for i in job.items)


def judge_job(
    job: Job, outcome: Outcome, unmet: tuple[Finding, ...], said: tuple[str, ...] = ()
) -> tuple[Exit, str, AccError | None]:
    """Exit code, outcome and error of a job that has ended.

    A host that did not power off, so that no lock was released and no image sent, is a refusal; the reasons say whether it was
    told to power off. The locks are engaged all the same: the host may still power off, and is powered on again then.

    :param said: messages of BMCs about lock settings that they accepted and that the locks do not show.
    """
    open_points = (*map(findings.sentence, unmet), *said)
    if isinstance(outcome, Done):
        if open_points:
            return Exit.NOT_MET, 'not-met', NotMet(open_points)
        return Exit.HOLDS, 'done', None
    reasons = job.reasons + tuple(p for p in open_points if p not in job.reasons)
    went_wrong = [i for i in job.items if i.state is ItemState.FAILED]
    wrote = any(i.state.begun and not i.untouched and isinstance(i.action, Flash | Program) for i in job.items)
    reached = [i for i in went_wrong if wrote or not i.untouched or _is_hold(i.action)]
    failed_writes = [i for i in reached if isinstance(i.action, _WRITES)]
    if not _touched_cards(job) and any(_is_hold(i.action) and i.untouched for i in went_wrong):
        # A host that was never told to power off need not be powered on: that failed reset does not count.
        failed_writes = [i for i in failed_writes if not isinstance(i.action, Reset)]
    if any(_touched_cards(job) or not _is_hold(i.action) for i in failed_writes):
        return Exit.WRITE_FAILED, 'failed', WriteFailed(reasons)
    if went_wrong:
        return Exit.REFUSED, 'refused', Refused(reasons)
    if open_points:
        return Exit.NOT_MET, 'not-met', NotMet(reasons)
    return Exit.WRITE_FAILED, 'failed', WriteFailed(reasons)
