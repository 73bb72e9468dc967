# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render the notes of a plan or a verdict, which tell its reader what will happen or what to know."""

import json
from typing import assert_never

from baremetal_acc.model import finding as f
from baremetal_acc.model import note as n
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.note import Content
from baremetal_acc.planning import waivers
from baremetal_acc.policy.baseline_rules import DEFAULT_RULE
from baremetal_acc.render import custody, findings
from baremetal_acc.render.words import shortened

NEXT_START = (
    'this BMC does not show what was activated and runs from the next start of the host on: where others may have written to '
    'the card since the host was last powered on, power-cycle it and look again'
)


def text(content: Content) -> str:
    """Render a note as a sentence without its label."""
    match content:
        case n.Demanded():
            return f'{content.subject} to {content.what}: rule {content.rule}'
        case n.StepFirst():
            first = f'{content.subject} to {content.version} first'
            return f'{first}: image {content.image} may not be written over {content.over}'
        case n.Revoked():
            return f'{content.subject} of {content.component}, which cannot be undone: rule {content.rule}'
        case n.SecurityVersionLowered():
            down = f'goes down from security version {content.before} to {content.after}'
            return f'{content.subject} {down}: rule {content.rule} allows it'
        case n.NoRestoreImage():
            none = f'image {content.image} says restore = "none"'
            return f'{content.subject} has no way back: {none}, so if it fails the device is quarantined'
        case n.Forced():
            return f'{content.subject} is sent with ForceUpdate: {_cause(content.cause)}'
        case n.WrittenForCustody():
            why = custody.explain(content.custody, content.at)
            return f'it is written whatever it shows, for its custody does not hold: {why}'
        case n.FoundOpen():
            return 'apply writes it whatever it shows, for a lock of it that we had closed was found open since'
        case n.QuarantinedSince():
            return f'quarantined since {content.at:%Y-%m-%d %H:%M:%S}Z: {_end_of_quarantine(content)}'
        case n.ShownFromNextStart():
            return f'{content.subject}: {NEXT_START}'
        case n.LeftByBundle():
            return f'{content.subject} is left as it is by bundle {content.bundle}: {content.version} is there'
        case n.WrittenByBundle():
            again = 'is written again, since the bundle is forced'
            why = again if content.again else 'is written as well, which no rule asks for'
            return f'{content.subject} {why}: bundle {content.bundle} to {content.version}'
        case n.BundleSent():
            where = 'no Targets' if content.targets is None else f'Targets {json.dumps(list(content.targets))}'
            counts = (
                f'{content.change} components change, {content.again} are written again, {content.left} are left as they are'
            )
            return f'bundle {content.bundle} is sent once, with {where}: {counts}'
        case n.BundleHoldsMore():
            parts = shortened([f'{component} {version}' for component, version in content.parts])
            also = f'bundle {content.bundle} also holds {parts}, of no card that is shown here'
            return f'{also}: no rule asks for that, and what it shows in the end is told'
        case n.BundleIfItFails():
            return f'bundle {content.bundle}: {_retry(content)}'
        case n.KnownByName():
            ids = shortened(content.components)
            known = f'which component is for {ids} is known by the name of the item alone, not by its SoftwareId'
            return f'bundle {content.bundle}: {known}'
        case f.RuleMatchesNothing():
            return f'rule {content.rule} matches no device here'
        case f.CardLeftOut():
            return findings.left_out(content)
        case n.LeftOpen():
            return waivers.open_by(content.waived)
        case n.LessThanDefault():
            relaxed = content.relaxation
            rule = f'rule {relaxed.rule}: ' if relaxed.rule != DEFAULT_RULE else ''
            cards = f' ({shortened(content.cards)})' if content.cards else ''
            return f'less than the default: {rule}{relaxed.text}{cards}'
        case n.LockLeft():
            return _lock_left(content)
        case n.NothingToDo():
            return 'nothing to do about what does not hold' if content.unmet else 'nothing to do'
        case n.NotMended():
            return f'no action mends {content.subject}: {findings.clause(content.fact, content.rule)}'
        case n.WaitsForUpdate():
            return f'waits first: {content.message}'
        case n.PowerCordPulled():
            return f'somebody has to pull the power cord of {content.system} and plug it in again: the job waits for that'
        case n.LeftOff():
            cards = shortened(sorted(f'{label} ({card})' for label, card in content.cards))
            return f'the host is left powered off: {cards} is quarantined'
        case n.MayHideCardsWhileOff():
            return 'whether the BMC still shows the cards while the host is off is seen only then; what it hides is not changed'
        case _:
            assert_never(content)


def _cause(cause: n.ForceCause) -> str:
    match cause:
        case n.ForceCause.EQUAL:
            return 'this version is there, and a BMC may skip an image of it'
        case n.ForceCause.LOWER:
            return 'a BMC may refuse an image of a lower version'
        case _:
            assert_never(cause)


def _end_of_quarantine(content: n.QuarantinedSince) -> str:
    if content.ended:
        return 'it is written anew, whatever it shows'
    command = 'apply --execute' if content.firmware else 'apply or program --execute'
    return f'this does not end it, but {command} that writes anew what was spoilt'


def _retry(content: n.BundleIfItFails) -> str:
    alone = 'what fails is sent once more, to that component alone, forced'
    retry = alone if content.alone else 'where a part fails, the whole bundle is sent once more, forced'
    if content.older is None:
        return f'{retry}; there is no bundle to go back to'
    return f'{retry}; where all of it fails, bundle {content.older} is put back, forced'


def _lock_left(content: n.LockLeft) -> str:
    closed = content.state in (LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED)
    left = 'left closed' if closed else f'left as it is ({content.state})'
    where = f'{content.mechanism} at {content.ref}'
    if not content.paths:
        return f'{left}: {where}: nothing of it was closed by us'
    return f'{left}: {where}, for no rule wants {", ".join(content.paths)} blocked'
