# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which guards must never go: each with the edit that takes it out, and the tests that have to notice."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One guard.

    :ivar file: where it stands.
    :ivar guard: the text that is it, once in that file.
    :ivar gone: what the text becomes when somebody takes the guard out.
    :ivar tests: where its loss has to show.
    """

    name: str
    file: str
    guard: str
    gone: str
    tests: str


EVIDENCE = 'baremetal_acc/decide/evidence.py'
VERIFY = 'baremetal_acc/decide/verify.py'
BASELINE = 'baremetal_acc/decide/baseline.py'
PLAN = 'baremetal_acc/decide/plan.py'
FLASH = 'baremetal_acc/decide/flash.py'
ADVANCE = 'baremetal_acc/decide/advance.py'
RUN = 'baremetal_acc/run.py'
STORE = 'baremetal_acc/catalogue/store.py'
LOCKS = 'baremetal_acc/locks'
LOCK_TESTS = 'tests/wire/test_locks.py'
DRIFT = 'baremetal_acc/decide/drift.py'
DRIFT_TESTS = 'tests/unit/decide/test_drift.py'

GUARDS = (
    Guard(
        name='ignore the lifecycle of evidence',
        file=EVIDENCE,
        guard='[e for e in same_card if e.lifecycle == lifecycle]',
        gone='list(same_card)',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='take evidence of another card',
        file=EVIDENCE,
        guard='[e for e in ours if e.accelerator == reading.accelerator]',
        gone='list(ours)',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name="take another flow's evidence in a deploy",
        file=EVIDENCE,
        guard='[e for e in current if flow is None or e.flow == flow]',
        gone='list(current)',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='skip the read-back: a reading older than the engagement proves it',
        file=EVIDENCE,
        guard='if reading.at <= record.at:',
        gone='if False:',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='read back over the session that wrote',
        file=EVIDENCE,
        guard='if reading.session == record.session:',
        gone='if False:',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='take a pending setting for one in force',
        file=EVIDENCE,
        guard='if record.needs is not ResetKind.NONE and',
        gone='if False and',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='take a lock found closed for one that we engaged',
        file=EVIDENCE,
        guard="    if not ours:\n        return replace(reading, reason='found closed, not engaged by us')",
        gone='    if not ours:\n        return replace(reading, state=LockState.LOCKED_VERIFIED)',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='treat unknown (and every other state) as locked',
        file=EVIDENCE,
        guard='    if reading.state is not LockState.LOCKED_REPORTED:\n        return reading\n',
        gone='',
        tests='tests/unit/decide/test_evidence.py tests/unit/decide/test_verify.py',
    ),
    Guard(
        name='let a mechanism call itself verified',
        file=EVIDENCE,
        guard='    if reading.state is LockState.LOCKED_VERIFIED:\n',
        gone='    if False:\n',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='accept a subject that no mechanism covers',
        file=EVIDENCE,
        guard='            return Coverage(subject=subject, state=LockState.UNSUPPORTED, reading=None)',
        gone='            return Coverage(subject=subject, state=LockState.LOCKED_VERIFIED, reading=None)',
        tests='tests/unit/decide/test_evidence.py tests/unit/decide/test_verify.py',
    ),
    Guard(
        name='take a lock of one path for a lock of another',
        file=EVIDENCE,
        guard='if path in r.blocks and r.accelerator == accelerator.id]',
        gone='if r.accelerator == accelerator.id]',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='take a lock of one component for a lock of the device',
        file=EVIDENCE,
        guard='            return subject.scope is Scope.COMPONENT and subject.part == reading.part',
        gone='            return True',
        tests='tests/unit/decide/test_evidence.py',
    ),
    Guard(
        name='let a rule relax what a deploy accepts',
        file=VERIFY,
        guard='wanted.accept & DEPLOY_ACCEPTS if flow is Flow.DEPLOY else wanted.accept',
        gone='wanted.accept',
        tests='tests/unit/decide/test_verify.py',
    ),
    Guard(
        name='accept an absent component',
        file=VERIFY,
        guard='version, _ABSENT, Met.NO, wanted.firmware_rule)',
        gone='version, _ABSENT, Met.YES, wanted.firmware_rule)',
        tests='tests/unit/decide/test_verify.py',
    ),
    Guard(
        name='accept a machine without any accelerator',
        file=VERIFY,
        guard='    if not inventory.accelerators:\n',
        gone='    if False:\n',
        tests='tests/unit/decide/test_verify.py',
    ),
    Guard(
        name='accept a card that has vanished',
        file=VERIFY,
        guard='    for vanished in sorted(known - seen):',
        gone='    for vanished in sorted(known & frozenset()):',
        tests='tests/unit/decide/test_verify.py',
    ),
    Guard(
        name='accept a read that may hide devices',
        file=VERIFY,
        guard='        if gap.hides:\n',
        gone='        if False:\n',
        tests='tests/unit/decide/test_verify.py',
    ),
    Guard(
        name='accept a stranger staged for the next reset',
        file=VERIFY,
        guard='        if component.staged is not None and not images.same_version(component.staged, version):',
        gone='        if False:',
        tests='tests/unit/decide/test_verify.py',
    ),
    Guard(
        name='execute a plan with refusals',
        file=PLAN,
        guard='    if made.refusals:\n',
        gone='    if False:\n',
        tests='tests/unit/decide/test_plan.py',
    ),
    Guard(
        name='flash below the security floor',
        file=PLAN,
        guard='    if image.security_version < floor:',
        gone='    if False:',
        tests='tests/unit/decide/test_plan.py',
    ),
    Guard(
        name='flash an item that may belong to another device',
        file=PLAN,
        guard='    if not component.certain:',
        gone='    if False:',
        tests='tests/unit/decide/test_plan.py',
    ),
    Guard(
        name='give back a host that was unlocked on purpose',
        file=PLAN,
        guard='if host is not None and give_back and',
        gone='if host is not None and',
        tests='tests/unit/decide/test_plan.py',
    ),
    Guard(
        name='take a vanished task for success',
        file=FLASH,
        guard="    (_R, Seen.VANISHED): _settle(_R, 'the BMC has forgotten the update, and the version is not there'),",
        gone='    (_R, Seen.VANISHED): _DONE,',
        tests='tests/unit/decide/test_flash.py',
    ),
    Guard(
        name='send again what was sent and not answered',
        file=FLASH,
        guard="    (_S, Seen.NOTHING): _settle(_S, 'it was sent, and the BMC shows neither a task nor the version'),",
        gone='    (_S, Seen.NOTHING): Next(state=ItemState.PLANNED, effect=Effect.WAIT),',
        tests='tests/unit/decide/test_flash.py',
    ),
    Guard(
        name='write to a device that changed since the plan',
        file=RUN,
        guard='    if moved is not None:\n',
        gone='    if False:\n',
        tests='tests/unit/run/test_tick.py',
    ),
    Guard(
        name='give the host back with a lock open',
        file=RUN,
        guard='            if still_open:\n',
        gone='            if False:\n',
        tests='tests/unit/run/test_tick.py',
    ),
    Guard(
        name='perform before the intent is stored',
        file=RUN,
        guard='        job = sent(job, move.perform, now)\n        tools.save(job)\n',
        gone='        job = sent(job, move.perform, now)\n',
        tests='tests/unit/run/test_tick.py',
    ),
    Guard(
        name='pass a job whose verdict is not met',
        file=RUN,
        guard='    reasons = [str(f) for f in unmet] if job.demands_met else []\n',
        gone='    reasons = []\n',
        tests='tests/unit/run/test_tick.py',
    ),
    Guard(
        name='go on writing after a failure',
        file=ADVANCE,
        guard='        return at <= Stage.WRITE or not (job.opened or (held and at is Stage.ENGAGE))',
        gone='        return False',
        tests='tests/unit/run/test_tick.py',
    ),
    Guard(
        name='take a lock of one slot for a lock of another of its name',
        file=EVIDENCE,
        guard='            if reading.part is not None and times[subject] > 1:',
        gone='            if False:',
        tests='tests/unit/decide/test_attacks.py',
    ),
    Guard(
        name='take the best of two places of one mechanism',
        file=EVIDENCE,
        guard='_RANK[reading.state] < _RANK[known.state]:',
        gone='_RANK[reading.state] > _RANK[known.state]:',
        tests='tests/unit/decide/test_attacks.py',
    ),
    Guard(
        name='take evidence of another part of a card',
        file=EVIDENCE,
        guard='[e for e in same_card if e.part == reading.part]',
        gone='list(same_card)',
        tests='tests/unit/decide/test_attacks.py',
    ),
    Guard(
        name='forget a lock that we engaged and that is not shown any more',
        file=VERIFY,
        guard='e.accelerator == accelerator.id and e.place not in shown:',
        gone='False:',
        tests='tests/unit/decide/test_attacks.py',
    ),
    Guard(
        name='let a device out of a rule by not showing its model',
        file=BASELINE,
        guard='            if rule.match.undecided(accelerator, node):',
        gone='            if False:',
        tests='tests/unit/decide/test_attacks.py',
    ),
    Guard(
        name='take a reset of one System for one of another',
        file=ADVANCE,
        guard='        and e.reset == reset.system\n',
        gone='',
        tests='tests/unit/decide/test_attacks.py',
    ),
    Guard(
        name='pass a job that lost a card',
        file=RUN,
        guard='known=tools.known | job.devices',
        gone='known=tools.known',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='give the host back while its cards are not shown',
        file=RUN,
        guard="f.subject == 'present' or f.subject",
        gone='f.subject',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='leave a host on that lost a lock when it was given back',
        file=RUN,
        guard='    if still_open:\n        reasons += _taken_back',
        gone='    if False:\n        reasons += _taken_back',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='write while somebody has powered the held host on',
        file=RUN,
        guard='    moved = _moved(action, inventory) or _host_runs(job, inventory)\n',
        gone='    moved = _moved(action, inventory)\n',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='release while somebody has powered the held host on',
        file=RUN,
        guard='    if running is not None:\n',
        gone='    if False:\n',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='leave a lock open that no rule asks for',
        file=PLAN,
        guard='and (accelerator.id, *reading.place) not in released:',
        gone=':',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='pass a job that cannot close what it opened',
        file=RUN,
        guard='    reasons += _left_open(job, inventory, still_open if job.demands_met else ())\n',
        gone='',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='take a reset that nobody saw for done',
        file=RUN,
        guard='            if last is None:\n',
        gone='            if False:\n',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='send a reset again whose answer was lost',
        file=RUN,
        guard='            except BmcUnreachable as exc:\n                # Whether',
        gone='            except KeyError as exc:\n                # Whether',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='cut the power while the BMC writes',
        file=RUN,
        guard='    if active:\n',
        gone='    if False:\n',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='pass a job whose publishing found a lock open',
        file=RUN,
        guard='    if job.demands_met and verdict.unmet:\n',
        gone='    if False:\n',
        tests='tests/unit/run/test_attacks.py',
    ),
    Guard(
        name='leave on offer what has failed',
        file=ADVANCE,
        guard='            return False  # what failed must not stay on offer',
        gone='            return True',
        tests='tests/unit/run/test_tick.py',
    ),
    Guard(
        name='skip the digest check before the push',
        file=STORE,
        guard='    if digest.hexdigest() != image.digest.value:',
        gone='    if False:',
        tests='tests/unit/catalogue/test_store.py',
    ),
    Guard(
        name='skip the size check before the push',
        file=STORE,
        guard='    if left:\n',
        gone='    if False:\n',
        tests='tests/unit/catalogue/test_store.py',
    ),
    Guard(
        name='read an image from anywhere',
        file=STORE,
        guard='        if not any(path.is_relative_to(os.path.realpath(folder)) for folder in self.folders):',
        gone='        if False:',
        tests='tests/unit/catalogue/test_store.py',
    ),
    Guard(
        name='WriteProtected: take what could not be read for locked',
        file=f'{LOCKS}/write_protected.py',
        guard='            state, reason = LockState.UNKNOWN, why\n',
        gone='            state, reason = LockState.LOCKED_REPORTED, why\n',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='WriteProtected: believe a BMC that says true of everything',
        file=f'{LOCKS}/write_protected.py',
        guard='LockState.UNKNOWN if constant else LockState.LOCKED_REPORTED',
        gone='LockState.LOCKED_REPORTED',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='ProgrammableFromHost: take null for false',
        file=f'{LOCKS}/fpga_programmable_from_host.py',
        guard="            return LockState.UNKNOWN, 'the BMC says null'",
        gone='            return LockState.LOCKED_REPORTED, None',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='ProgrammableFromHost: close a slot that is no longer the one that was read',
        file=f'{LOCKS}/fpga_programmable_from_host.py',
        guard='if not isinstance(slots, list) or index >= len(slots) or _slot_id(slots[index], index) != reading.part:',
        gone='if False:',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='InbandUpdatePolicy: take a read error of the root of trust for locked',
        file=f'{LOCKS}/nvidia_inband_update_policy.py',
        guard='    if missing:\n        return LockState.UNKNOWN, UNSURE',
        gone='    if False:\n        return LockState.UNKNOWN, UNSURE',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='InbandUpdatePolicy: let a name prove which device is protected',
        file=f'{LOCKS}/nvidia_inband_update_policy.py',
        guard='    if inferred:\n',
        gone='    if False:\n',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='HostPrivilege: one of two ways closed is closed',
        file=f'{LOCKS}/bluefield_host_privilege.py',
        guard='        if level and rshim:\n            return LockState.LOCKED_REPORTED, None',
        gone='        if level or rshim:\n            return LockState.LOCKED_REPORTED, None',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='HostPrivilege: take what could not be read for nothing',
        file=f'{LOCKS}/bluefield_host_privilege.py',
        guard='        if self.unreadable is not None:\n',
        gone='        if False:\n',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='HostPrivilege: overlook that it opens with the next reset',
        file=f'{LOCKS}/bluefield_host_privilege.py',
        guard='        if pending is not None and level and rshim:\n',
        gone='        if False:\n',
        tests=LOCK_TESTS,
    ),
    Guard(
        name='call a card gone that may be hidden',
        file=DRIFT,
        guard='kind = ChangeKind.GONE if hidden is None else ChangeKind.NOT_SEEN',
        gone='kind = ChangeKind.GONE',
        tests=DRIFT_TESTS,
    ),
    Guard(
        name='forget a card that could not be seen',
        file=DRIFT,
        guard='known = [_lean(a) for a in met.missing if _hidden(a, now) is not None]',
        gone='known = []',
        tests=DRIFT_TESTS,
    ),
    Guard(
        name='take a version that could not be read for another one',
        file=DRIFT,
        guard='    return replace(new, version=old.version, staged=new.staged or old.staged)',
        gone='    return new',
        tests=DRIFT_TESTS,
    ),
    Guard(
        name='take another card at the same URI for the same card',
        file=DRIFT,
        guard='    if old.id == new.id and new.identity is not IdentitySource.URI:\n        return False',
        gone='    if old.id == new.id:\n        return False',
        tests=DRIFT_TESTS,
    ),
    Guard(
        name='let a flash account for what changed on another card',
        file=DRIFT,
        guard='(change.accelerator, change.ref) == (action.accelerator, action.ref)',
        gone='True',
        tests=DRIFT_TESTS,
    ),
    Guard(
        name='let a BMC write log lines of its own',
        file=DRIFT,
        guard="c if c.isprintable() else '?'",
        gone='c',
        tests=DRIFT_TESTS,
    ),
    Guard(
        name='let a ramdisk speak in our name',
        file='interfaces/baremetal_acc_ironic/record.py',
        guard='    return found if same else None',
        gone='    return found',
        tests='tests/ironic/test_kept.py::TestKept::test_a_ramdisk_cannot_speak_in_our_name',
    ),
    Guard(
        name='forget the cards behind a collection that fails',
        file='interfaces/baremetal_acc_ironic/reading.py',
        guard='    return known\n',
        gone='    return inventory\n',
        tests='tests/ironic/test_drift.py::TestGpus::test_a_collection_that_fails_takes_no_card_away',
    ),
    Guard(
        name='let an expanded member speak for another collection',
        file='baremetal_acc/bmc/redfish/reader.py',
        guard="        if place.rpartition('/')[0] != collection:\n            return\n",
        gone='',
        tests='tests/wire/test_reader.py::test_an_expanded_member_does_not_speak_for_another_collection',
    ),
    Guard(
        name='take the last of two values of one name',
        file='baremetal_acc/bmc/redfish/reader.py',
        guard='            if found[name] != value:',
        gone='            if False:',
        tests='tests/wire/test_connector.py::test_an_object_that_gives_one_name_two_values_is_no_answer',
    ),
    Guard(
        name='count quotes that are written as numbers',
        file='baremetal_acc/bmc/redfish/reader.py',
        guard='if _ESCAPED_QUOTE not in content and',
        gone='if',
        tests='tests/unit/bmc/test_decoding.py',
    ),
    Guard(
        name='believe an ETag about a lock',
        file='baremetal_acc/bmc/redfish/reader.py',
        guard='    return kind in UNCHANGED or (',
        gone='    return True or (',
        tests='tests/wire/test_again.py',
    ),
    Guard(
        name='let an ETag add headers',
        file='baremetal_acc/bmc/redfish/connector.py',
        guard='    if not all(map(_HEADER.fullmatch, lines)):',
        gone='    if False:',
        tests='tests/wire/test_connector.py::test_an_etag_adds_no_header',
    ),
    Guard(
        name='use a connection that brought more than was asked for',
        file='baremetal_acc/bmc/redfish/transport.py',
        guard='        self.keep = self.keep and not self._more\n',
        gone='',
        tests='tests/wire/test_transport.py',
    ),
    Guard(
        name='let a recording write outside of its folder',
        file='baremetal_acc/bmc/redfish/mockup.py',
        guard="        if part in ('', '.', '..') or ",
        gone='        if ',
        tests='tests/unit/bmc/test_mockup.py',
    ),
    Guard(
        name='take a staged version for the running one',
        file='baremetal_acc/bmc/redfish/firmware.py',
        guard='version=None, staged=waiting.version',
        gone='staged=waiting.version',
        tests='tests/wire/trees',
    ),
    Guard(
        name='let a version lose the characters that cannot be shown',
        file='baremetal_acc/bmc/redfish/parse.py',
        guard="c if c.isprintable() else '\\ufffd'",
        gone="c if c.isprintable() else ''",
        tests='tests/wire/trees',
    ),
    Guard(
        name='take what is no collection, read ahead, for an empty one',
        file='baremetal_acc/bmc/redfish/reader.py',
        guard='        if whole and isinstance(found, Document):\n            try:',
        gone='        if False:\n            try:',
        tests='tests/wire/test_again.py',
    ),
    Guard(
        name='pass over a member that is no link',
        file='baremetal_acc/bmc/redfish/walk.py',
        guard="reason='link expected', hides=hides))",
        gone="reason='link expected', hides=False))",
        tests='tests/wire/test_reader.py',
    ),
)
