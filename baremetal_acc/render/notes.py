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
from baremetal_acc.render.words import are, shortened

NEXT_START = (
    'this BMC does not show firmware that is activated and takes effect at the next start of the host: if others may '
    'have written to the card since the host was last powered on, power-cycle the host and inspect again'
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
            return f'{content.subject} has no restore image: {none}, so the device is quarantined if the write fails'
        case n.Forced():
            return f'{content.subject} is sent with ForceUpdate: {_cause(content.cause)}'
        case n.WrittenForCustody():
            why = custody.explain(content.custody, content.at)
            return f'the card is written even if it shows the required versions, since its chain of custody is not valid: {why}'
        case n.FoundOpen():
            return (
                'apply writes the card even if it shows the required versions, since a lock that we had engaged was '
                'found unlocked'
            )
        case n.QuarantinedSince():
            return f'quarantined since {content.at:%Y-%m-%d %H:%M:%S}Z: {_end_of_quarantine(content)}'
        case n.ShownFromNextStart():
            return f'{content.subject}: {NEXT_START}'
        case n.LeftByBundle():
            return (
                f'{content.subject} is left as it is by bundle {content.bundle}: version {content.version} is already installed'
            )
        case n.WrittenByBundle():
            again = 'is written again, since the bundle is forced'
            why = again if content.again else 'is written as well, which no rule asks for'
            return f'{content.subject} {why}: bundle {content.bundle} to {content.version}'
        case n.BundleSent():
            where = 'no Targets' if content.targets is None else f'Targets {json.dumps(list(content.targets))}'
            counts = f'{content.change} changed, {content.again} written again, {content.left} left as they are'
            return f'bundle {content.bundle} is sent once, with {where}: {counts}'
        case n.BundleHoldsMore():
            parts = shortened([f'{component} {version}' for component, version in content.parts])
            also = f'bundle {content.bundle} also holds {parts}, which belong to no card that is shown'
            return f'{also}: no rule asks for them, and their versions are reported at the end'
        case n.BundleIfItFails():
            return f'bundle {content.bundle}: {_retry(content)}'
        case n.KnownByName():
            ids = shortened(content.components)
            known = f'the components for {ids} are chosen by the name of the item alone, not by SoftwareId'
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
            return 'nothing to do about the findings that are not met' if content.unmet else 'nothing to do'
        case n.NotMended():
            return f'no action fixes {content.subject}: {findings.clause(content.fact, content.rule)}'
        case n.WaitsForUpdate():
            return f'waits first: {content.message}'
        case n.PowerCordPulled():
            return f'a person has to unplug and replug the power cord of {content.system}: the job waits for that'
        case n.LeftOff():
            names = sorted(f'{label} ({card})' for label, card in content.cards)
            return f'the host is left powered off: {shortened(names)} {are(names)} quarantined'
        case n.MayHideCardsWhileOff():
            return 'the BMC may hide cards while the host is off, which is seen only then; hidden cards are not changed'
        case _:
            assert_never(content)


def _cause(cause: n.ForceCause) -> str:
    match cause:
        case n.ForceCause.EQUAL:
            return 'this version is already installed, and a BMC may skip an image of the same version'
        case n.ForceCause.LOWER:
            return 'a BMC may refuse an image of a lower version'
        case _:
            assert_never(cause)


def _end_of_quarantine(content: n.QuarantinedSince) -> str:
    if content.ended:
        return 'the card is written again, whatever it shows'
    command = 'apply --execute' if content.firmware else 'apply or program --execute'
    return f'this does not end the quarantine, but {command} that writes the damaged parts again does'


def _retry(content: n.BundleIfItFails) -> str:
    alone = 'what fails is sent once more, to that component alone, with ForceUpdate'
    retry = alone if content.alone else 'if a part fails, the whole bundle is sent once more, with ForceUpdate'
    if content.older is None:
        return f'{retry}; there is no older bundle to restore'
    return f'{retry}; if all of it fails, bundle {content.older} is restored, with ForceUpdate'


def _lock_left(content: n.LockLeft) -> str:
    closed = content.state in (LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED)
    left = 'left engaged' if closed else f'left as it is ({content.state})'
    where = f'{content.mechanism} at {content.ref}'
    if not content.paths:
        return f'{left}: {where}: no part of it was engaged by us'
    return f'{left}: {where}, since no rule requires {", ".join(content.paths)} to be blocked'
