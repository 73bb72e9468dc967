# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render why a plan is refused, and raise the error for it."""

from collections.abc import Iterable
from typing import assert_never

from baremetal_acc.errors import Refused
from baremetal_acc.model import refusal as r
from baremetal_acc.model.bmc_state import KeptReason
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.refusal import Reason, Refusal, RestoreProblem
from baremetal_acc.planning import activation, waivers
from baremetal_acc.render import bmc_settings, findings
from baremetal_acc.render.words import are, counted, do, shortened

NO_RECORD_HINT = (
    'the record is kept where the lock was engaged, in the state folder of the command line or in the Ironic node: release the '
    'lock from there, or restore that state (locking again makes no record); or release the lock by hand: reset the BMC to its '
    'defaults, or send Set Command Enables for channel Fh over LAN'
)

_HIDDEN_WHILE_OFF = ': the host is off, and some BMCs show cards only while it is on'

_TAKES_NONE = (
    'accepts no firmware: it has no UpdateService (Redfish), or no controller that speaks HPM.1 (IPMI); update the '
    'device in another way, and remove its firmware from the rules of the baseline'
)

_SERVE = (
    'set option [baremetal_acc] image_server_host, in the configuration of the machine that this runs on, to the '
    'address at which BMCs reach that machine'
)


def raise_if_unsafe(made: Plan) -> None:
    """Raise an error if a plan has refusals.

    :raises Refused: it has some; the error holds all of them.
    """
    if made.refusals:
        raise Refused(map(sentence, made.refusals), hint=NO_RECORD_HINT if is_unrecorded(made) else None)


def refuse_several_hosts(inventory: Inventory) -> None:
    """Refuse a target with several hosts, for a shell that powers one host.

    :raises Refused: it has several.
    """
    systems = [str(facts.system or facts.name) for facts in inventory.hosts]
    if len(systems) > 1:
        why = f'{inventory.target} has several hosts ({", ".join(systems)}), each with code of its own, but a node is one host'
        raise Refused([why], hint='give each host a node of its own, and name one System in each')


def is_unrecorded(made: Plan) -> bool:
    """Whether a lock would have to be released although it is not recorded what was closed of it."""
    return any(isinstance(one.reason, r.NoRecord) for one in made.refusals)


def in_order(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """Sort refusals by device, then by subject, as tables and documents list them."""
    return tuple(sorted(refusals, key=lambda one: (one.accelerator or '', str(one.subject), reason(one.reason), one.label)))


def sentence(refusal: Refusal) -> str:
    """Name the device, the part of it, and why it is refused."""
    return f'{refusal.label}, {refusal.subject}: {reason(refusal.reason)}'


def reason(why: Reason) -> str:
    """Say why something is refused, as the end of a sentence, with what to do where that is not obvious."""
    match why:
        case r.NoAccelerators():
            return f'none was found{_HIDDEN_WHILE_OFF if why.host_is_off else ""}'
        case r.SharedIdentity():
            return f'{why.times} devices have this identity, so it is unknown which one is meant'
        case r.MayHideDevices():
            return f'devices may be hidden by what could not be read: {why.gap.reason}'
        case r.Counted():
            return f'expected {counted(why.wanted, "matching device")}, found {findings.number(why)}{findings.unsure(why)}'
        case r.RuleUndecided():
            return (
                f'the BMC does not show the {" and the ".join(why.hidden)} that the rule matches on, so the rule may '
                'apply to this device'
            )
        case r.NoSuchComponent():
            return 'the BMC reports no such component'
        case r.TakesNoFirmware():
            return f'BMC {why.bmc} {_TAKES_NONE}'
        case r.VersionDenied():
            return f'version {why.version} is denied: {why.denial}'
        case r.DeniedVersionThere():
            return f'version {why.version} is denied ({why.denial}), and no rule says which version to run instead'
        case r.DeniedFunctionThere():
            return f'holds {why.image}, which is denied ({why.denial}), and no rule says what the slot has to hold instead'
        case r.NoImage():
            return _no_image(why)
        case r.SeveralImages():
            what = why.function if why.version is None else f'version {why.version}'
            return f'several images of the catalogue fit {what}: {", ".join(why.images)} (rule {why.rule})'
        case r.ImagesDenied():
            return '; '.join(f'image {name} is denied: {denial}' for name, denial in why.images)
        case r.NoWayToVersion():
            only = f'image {why.image} may be written over {", ".join(why.via)} only, and {why.runs} runs'
            dead_ends = 'images that are denied, or whose version several images have, are not used'
            return f'{only}; the catalogue has no chain of images that leads there ({dead_ends})'
        case r.StepNeedsReset():
            only = f'image {why.image} may be written over {", ".join(why.via)} only, and {why.runs} runs'
            return f'{only}: require version {why.step_version} first (image {why.step}, in effect after a {why.reset})'
        case r.NoSuchRevocation():
            what = 'the catalogue has no such image' if why.kind is None else f'the image is of kind {why.kind}'
            return f'{what} (rule {why.rule})'
        case r.RevocationFitsNothing():
            return f'no component of the device fits (rule {why.rule})'
        case r.OtherVersionDemanded():
            return f'version {why.version} is already required of {why.component}'
        case r.RevocationTooEarly():
            late = f'cannot be undone, so all other firmware has to run first, and {", ".join(why.late)} {do(why.late)} not'
            return f'{late}; remove the revocation from rule {why.rule} until it does'
        case r.VersionUnknown():
            return 'its version could not be read, so it is unknown what would be overwritten'
        case r.SeveralItems():
            return f'the BMC shows several firmware items of the device with the Id {why.component}'
        case r.SeveralSlots():
            return f'the BMC shows several slots of the device with the id {why.slot}'
        case r.ItemUncertain():
            return f'the BMC does not say that {why.component} belongs to this device'
        case r.NotUpdateable():
            return 'the BMC says that it is not updateable'
        case r.NoSlot():
            return 'no slot of the device matches'
        case r.SlotHasNoItem():
            return 'the BMC shows no SoftwareInventory for the slot, so it cannot be programmed'
        case r.ImageDenied():
            return f'image {why.image} is denied: {why.denial}'
        case r.FitsByNameOnly():
            return f'image {why.image} fits by vendor and model only; name pci, part_number or software_id in its fits'
        case r.BelowFloor():
            return (
                f'image {why.image} has security version {why.security_version}, the floor is {why.floor}{_origin(why.origin)}'
            )
        case r.BmcNotRead():
            return f'its BMC {why.bmc} was not read'
        case r.OnlyFetches():
            return f'BMC {why.bmc} can only fetch images itself (SimpleUpdate): {_SERVE}'
        case r.NoWayToSend():
            ways = 'MultipartHttpPushUri, HttpPushUri or SimpleUpdate'
            return f'BMC {why.bmc} offers no way to send an image: it has no {ways}'
        case r.TakesNoImage():
            return f'BMC {why.bmc} accepts no image: {why.obstacle}'
        case r.ImageTooLarge():
            return f'image {why.image} has {why.size_bytes} bytes, BMC {why.bmc} accepts at most {why.max_bytes}'
        case r.ImageUnusable():
            return str(why.error).removeprefix(f'image {why.image}: ')
        case r.WideTarget():
            return f'{why.ref} represents several parts: {shortened(why.parts)}'
        case r.SharedResource():
            shared = 'also belongs to another machine of this BMC'
            return f'{why.ref} {shared}, so it is not written for one machine alone'
        case r.NoWayBack():
            return f'restore image {why.image} {_problem(why.problem)}'
        case r.SeveralOfBundle():
            return f'several components of bundle {why.bundle} fit: {shortened(why.images)}'
        case r.AlsoWritten():
            return (
                f'bundle {why.bundle} would write {why.version} to it, which is also to be written with {shortened(why.images)}'
            )
        case r.BundleReachesDevice():
            return f'bundle {why.bundle} is also written to this device: name this device as well, or all devices'
        case r.BundleAgainstRule():
            return f'bundle {why.bundle} would write {why.version} to it, but rule {why.rule} requires {why.demanded}'
        case r.BundleReachesMachines():
            return f'BMC {why.bmc} serves several machines, and would write the bundle to all of them'
        case r.OneComponentAtATime():
            return f'BMC {why.bmc} takes one component at a time (HPM.1)'
        case r.PartDenied():
            return f'its part {why.component} {why.version} is denied: {why.denial}'
        case r.NoRecord():
            read = '' if why.why is None else f' ({why.why})'
            record = 'and there is no record of what we engaged, which is all that may be released'
            return f'{why.ref} reads {why.state}{read}, {record}'
        case r.NothingToResetForLock():
            return f'needs a {why.needs}, and the BMC does not show what to reset'
        case r.CannotBeClosed():
            return f'{why.part} cannot be locked by {why.mechanism} at {why.ref}: {why.why} (rule {why.rule} requires it)'
        case r.NoMechanism():
            demands = f'no mechanism blocks this path for {", ".join(why.parts)} (rule {why.rule} requires it)'
            return f'{demands}; {waivers.HIDDEN}' if why.vanished else f'{demands}{waivers.ended_text(why.waivers)}'
        case r.NoHost():
            return 'must be powered off first, and its BMC shows no System to power off'
        case r.PowerStateUnknown():
            return 'must be powered off first, and its BMC does not report its power state'
        case r.ResetNotOffered():
            what = 'be powered off and on' if why.kind is ResetKind.NONE else f'do a {why.kind}'
            return f'{why.system} has to {what}, and offers no ResetType for that'
        case r.NothingToReset():
            return activation.nothing_to_reset(why.kind)
        case r.NoStandbyCycle():
            by_hand = ResetKind.AC_POWER_CYCLE
            return (
                f'{why.system} has to do an {why.kind}, and its BMC offers no action for that; with apply.reset = "{by_hand}" '
                'in the catalogue the job waits for a person to unplug the power cord'
            )
        case r.PowerUnknownBeforeCycle():
            unknown = 'its BMC does not report its power state'
            return f'{why.system} must be powered off before its standby power is removed, and {unknown}'
        case r.ComesOnByItself():
            return (
                f'{why.system} powers on by itself when power returns (PowerRestorePolicy {why.policy}), but must stay '
                'off until its locks are verified: set PowerRestorePolicy to LastState or AlwaysOff'
            )
        case r.RestsOnSetting():
            return _rests_on(why)
        case r.QuarantinedNeedsStart():
            cards = sorted(f'{label} ({card})' for label, card in why.cards)
            needs = shortened(sorted(set(why.reasons)))
            kept = f'stays powered off while {shortened(cards)} {are(cards)} quarantined'
            return f'has to start for {needs}, but {kept}: write the quarantined cards in the same job'
        case _:
            assert_never(why)


def _no_image(why: r.NoImage) -> str:
    what = f'the catalogue has no image of {why.function if why.version is None else f"version {why.version}"} that fits'
    if why.for_others:
        off = _HIDDEN_WHILE_OFF if why.host_is_off else ''
        others = shortened(why.for_others)
        return f'{what}: the ids that the device shows differ from the fits of {others}, or are hidden{off} (rule {why.rule})'
    meant = '' if why.meant is None else f': did you mean {why.meant}?'
    return f'{what}{meant} (rule {why.rule})'


def _origin(origin: r.FloorOrigin) -> str:
    """Say what sets a security floor, and what to do."""
    match origin.cause:
        case r.FloorCause.RULE:
            return f', which security_floor of rule {origin.rule} sets: select a later image, or lower the floor in that rule'
        case r.FloorCause.RUNNING:
            by = f', that of {origin.runs}, which runs (security_version of image {origin.image} in the catalogue)'
        case r.FloorCause.WRITTEN_BEFORE:
            by = f', that of image {origin.image}, which is written before it'
        case _:
            assert_never(origin.cause)
    if origin.rule is None:
        return f'{by}: no revocation with a lower one is written'
    return f'{by}: only downgrade = "allow" in rule {origin.rule} permits a lower one'


def _problem(why: RestoreProblem) -> str:
    """Say why an image cannot be restored, as the end of a sentence about it."""
    match why:
        case r.NotInCatalogue():
            return 'is not in the catalogue'
        case r.NotRestorable():
            return 'is not a firmware image'
        case r.RestoreDenied():
            return f'is denied: {why.denial}'
        case r.DoesNotFit():
            return 'does not fit this device'
        case r.RestoreFitsByNameOnly():
            return 'fits this device by vendor and model only'
        case r.RestoreBelowFloor():
            return f'has security version {why.security_version}, the floor is {why.floor}{_origin(why.origin)}'
        case r.RestoreTooLarge():
            return f'has {why.size_bytes} bytes, its BMC accepts at most {why.max_bytes}'
        case _:
            assert_never(why)


def _rests_on(why: r.RestsOnSetting) -> str:
    which = '' if why.account is None else f' (account {why.account!r})'
    kept = f'rule {why.rule} says to restore it, but {bmc_settings.kept_words(why.why)}{which}'
    hint = 'list the account in the rule' if why.why is KeptReason.OWN_ACCOUNT else 'remove it from restore of the rule'
    return f'{kept}: {hint}'
