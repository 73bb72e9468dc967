# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the settings of each BMC with the rules of ``[bmc]``: what is absent, unread or ambiguous does not meet a demand.

Which of those that differ a job restores is decided in :mod:`baremetal_acc.planning.setting_restores`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import assert_never
from urllib.parse import urlsplit

from baremetal_acc.model import subject
from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import DISABLED, BmcSetting, BmcState, ShownAccount, ShownCertificate, ShownValue
from baremetal_acc.model.finding import AccountFault, BmcSettingFound, DifferingAccount, DifferingCertificate, SettingResult
from baremetal_acc.model.inventory import BmcFacts, Inventory
from baremetal_acc.model.ref import BmcName
from baremetal_acc.model.verdict import Finding, Met
from baremetal_acc.planning.image_selection import same_version
from baremetal_acc.planning.setting_restores import BmcUse, Kept, sort_out
from baremetal_acc.planning.trouble import SettingNotMet
from baremetal_acc.planning.watch_alarms import TroubleKind, WatchTrouble
from baremetal_acc.policy.baseline_rules import Baseline, BmcDemand, BmcProtocol, NodeFacts
from baremetal_acc.policy.bmc_rules import ROLES, decided, protocol_of, roles

MEETS = frozenset({SettingResult.MATCHES, SettingResult.ABSENT_ACCEPTED, SettingResult.IN_USE})
"""The results that meet a demand."""

_STARTS_A_RAMDISK = frozenset({BmcSetting.VIRTUAL_MEDIA, BmcSetting.BOOT_OVERRIDE})
"""Settings that Ironic itself changes in order to start its ramdisk."""


def demanded(baseline: Baseline, bmc: BmcFacts, node: NodeFacts) -> frozenset[BmcSetting]:
    """Return the settings of a BMC that rules name; only these are read."""
    return frozenset(decided(baseline.bmc, bmc.name, bmc.address, node))


def findings(inventory: Inventory, baseline: Baseline, node: NodeFacts, *, ramdisk: bool = False) -> Iterator[Finding]:
    """Yield one finding for each setting of each BMC that a rule names.

    :param ramdisk: only the operator's own ramdisk runs on the host.
    """
    over_ipmi = {urlsplit(b.address).hostname for b in inventory.bmcs if protocol_of(b.address) is BmcProtocol.IPMI}
    uses = _uses(inventory, node)
    for bmc in inventory.bmcs:
        for setting, (demand, rule) in sorted(decided(baseline.bmc, bmc.name, bmc.address, node).items()):
            is_over_ipmi = urlsplit(bmc.address).hostname in over_ipmi
            fact = _compared(demand, bmc.state, inventory.at, ramdisk=ramdisk, is_over_ipmi=is_over_ipmi)
            if bmc.state is not None and fact.result is SettingResult.DIFFERS:
                _, kept = sort_out(demand, rule, fact.differing, bmc.state, uses[bmc.name])
                fact = replace(fact, kept=tuple(dict.fromkeys(one.why for one in kept)))
            yield Finding(
                accelerator=None,
                label=node.name,
                subject=subject.bmc_setting(bmc.name, setting),
                fact=fact,
                met=Met.YES if fact.result in MEETS else Met.NO,
                rule=rule,
            )


def has_restores(baseline: Baseline) -> bool:
    """Whether a rule says to restore a setting, so that the settings have to be read for a plan."""
    return any(demand.restore for rule in baseline.bmc for demand in rule.demands)


def restores(
    inventory: Inventory, baseline: Baseline, node: NodeFacts, *, ramdisk: bool
) -> Iterator[tuple[BmcFacts, BmcSetting, str, tuple[RestoreSetting, ...], tuple[Kept, ...]]]:
    """Yield each setting that differs and that its rule says to restore: what is restored of it, and what is kept.

    :param ramdisk: a ramdisk was or may be started on the host; what may have started it is left alone.
    """
    uses = _uses(inventory, node)
    for bmc in inventory.bmcs:
        for setting, (demand, rule) in sorted(decided(baseline.bmc, bmc.name, bmc.address, node).items()):
            state = bmc.state
            if state is None or setting not in state.asked or (ramdisk and setting in _STARTS_A_RAMDISK):
                continue
            shown = tuple(v for v in state.values if v.setting is setting)
            made, kept = sort_out(demand, rule, _differing(demand, state, shown, inventory.at), state, uses[bmc.name])
            if made or kept:
                yield bmc, setting, rule, made, kept


def _uses(inventory: Inventory, node: NodeFacts) -> Mapping[BmcName, BmcUse]:
    over_ipmi = node.over_ipmi or any(protocol_of(b.address) is BmcProtocol.IPMI for b in inventory.bmcs)
    return {b.name: BmcUse(address=b.address, over_ipmi=over_ipmi, several=b.name in inventory.several) for b in inventory.bmcs}


def troubles(found: Iterable[Finding]) -> Iterator[WatchTrouble]:
    """Yield the troubles of a watched node that are among the findings of :func:`findings`.

    A setting that is not shown, or could not be read, is reported only if it stays so.
    """
    for finding in found:
        fact = finding.fact
        if finding.met is not Met.YES and isinstance(fact, BmcSettingFound):
            differs = fact.result is SettingResult.DIFFERS
            yield WatchTrouble(
                kind=TroubleKind.SETTING if differs else TroubleKind.UNREADABLE,
                device=None,
                subject=str(finding.subject),
                fact=SettingNotMet(found=fact, rule=finding.rule),
                certain=differs,
            )


def _compared(demand: BmcDemand, state: BmcState | None, at: datetime, *, ramdisk: bool, is_over_ipmi: bool) -> BmcSettingFound:
    setting = demand.setting

    def found(result: SettingResult, **more: object) -> BmcSettingFound:
        return BmcSettingFound(
            setting=setting,
            expected=demand.expected,
            days_left=demand.days_left,
            result=result,
            **more,  # type: ignore[arg-type]
        )

    if state is None or setting not in state.asked:
        return found(SettingResult.NOT_READ)
    unread = tuple(u for u in state.unread if u.setting is setting)
    shown = tuple(v for v in state.values if v.setting is setting)
    differing = tuple(_differing(demand, state, shown, at))
    rests = setting is BmcSetting.IPMI_OVER_LAN and demand.expected == (DISABLED,) and is_over_ipmi
    if differing:
        in_use = ramdisk and setting in _STARTS_A_RAMDISK and not unread
        result = SettingResult.IN_USE if in_use else SettingResult.DIFFERS
        return found(result, shown=shown, differing=differing, unread=unread, rests_on_it=rests)
    if unread:
        return found(SettingResult.UNREAD, shown=shown, unread=unread)
    hidden = tuple(v for v in shown if v.value is None)
    if hidden or setting not in state.present:
        absent = SettingResult.ABSENT_ACCEPTED if demand.accepts_absent else SettingResult.NOT_SHOWN
        return found(absent, shown=hidden)
    return found(SettingResult.MATCHES, shown=shown)


def _differing(
    demand: BmcDemand, state: BmcState, shown: Iterable[ShownValue], at: datetime
) -> Iterator[ShownValue | DifferingAccount | DifferingCertificate]:
    setting = demand.setting
    match setting:
        case BmcSetting.ACCOUNTS:
            yield from _accounts(demand, state.accounts)
        case BmcSetting.TLS_CERTIFICATE:
            yield from _certificates(demand, state.certificates, at)
        case (
            BmcSetting.FIRMWARE_VERSION
            | BmcSetting.BOOTSTRAP_ACCOUNTS
            | BmcSetting.IPMI_OVER_LAN
            | BmcSetting.HOST_INTERFACES
            | BmcSetting.VIRTUAL_MEDIA
            | BmcSetting.EVENT_SUBSCRIPTIONS
            | BmcSetting.BOOT_OVERRIDE
            | BmcSetting.SERIAL_OVER_LAN
        ):
            yield from (v for v in shown if v.value is not None and not _is_as_demanded(demand, v.value))
        case _:
            assert_never(setting)


def _is_as_demanded(demand: BmcDemand, value: str) -> bool:
    if demand.setting is BmcSetting.FIRMWARE_VERSION:
        return any(same_version(value, version) for version in demand.expected)
    if demand.setting is BmcSetting.EVENT_SUBSCRIPTIONS:
        return any(fnmatchcase(value, pattern) for pattern in demand.expected)
    return value.casefold() in {word.casefold() for word in demand.expected}


def _accounts(demand: BmcDemand, accounts: tuple[ShownAccount, ...]) -> Iterator[DifferingAccount]:
    """Yield the accounts that are not as expected. Of two accounts with one name, nobody knows which is the expected one."""
    most, often = roles(demand.expected), Counter(a.name for a in accounts)
    for account in accounts:
        if account.name not in most:
            yield DifferingAccount(account=account, fault=AccountFault.UNEXPECTED)
        elif often[account.name] > 1:
            yield DifferingAccount(account=account, fault=AccountFault.DUPLICATE)
        elif not _may_have(account.role, most[account.name]):
            yield DifferingAccount(account=account, fault=AccountFault.ROLE, limit=most[account.name])


def _may_have(role: str | None, limit: str | None) -> bool:
    """Whether a role is within a limit. The privileges of a role that is not predefined are unknown: it has to be the limit."""
    if limit is None or role == limit:
        return True
    return role in ROLES and limit in ROLES and ROLES.index(role) <= ROLES.index(limit)


def _certificates(demand: BmcDemand, certificates: Iterable[ShownCertificate], at: datetime) -> Iterator[DifferingCertificate]:
    for one in certificates:
        is_of_issuer = any(fnmatchcase(one.issuer or '', pattern) for pattern in demand.expected)
        left = None if one.not_after is None else (one.not_after - at).days
        if not is_of_issuer or left is None or left < (demand.days_left or 0):
            yield DifferingCertificate(certificate=one, is_of_issuer=is_of_issuer, days_left=left)
