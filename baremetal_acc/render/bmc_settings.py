# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render the findings about the settings of BMCs: what a rule of ``[bmc]`` expects, what the BMC shows, what is kept."""

from typing import assert_never

from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import BmcSetting, KeptReason, ShownAccount, ShownValue
from baremetal_acc.model.finding import AccountFault, BmcSettingFound, DifferingAccount, DifferingCertificate, SettingResult
from baremetal_acc.model.waiver import moment

_MOST = 4
"""Limit of the values that one text lists."""

_RESTS = 'the target itself is read over IPMI, so IPMI over LAN cannot be disabled on it'


def words(fact: BmcSettingFound) -> tuple[str, str]:
    """Return what was expected and what was found."""
    return _expected(fact), _found(fact)


def _expected(fact: BmcSettingFound) -> str:
    listed = ', '.join(fact.expected)
    match fact.setting:
        case BmcSetting.ACCOUNTS:
            return f'no accounts but {listed}' if fact.expected else 'no accounts'
        case BmcSetting.EVENT_SUBSCRIPTIONS:
            return f'no event destinations but {listed}' if fact.expected else 'no event subscriptions'
        case BmcSetting.TLS_CERTIFICATE:
            days = '' if fact.days_left is None else f', valid for at least {fact.days_left} days'
            return f'a certificate of {" or ".join(fact.expected)}{days}'
        case (
            BmcSetting.FIRMWARE_VERSION
            | BmcSetting.BOOTSTRAP_ACCOUNTS
            | BmcSetting.IPMI_OVER_LAN
            | BmcSetting.HOST_INTERFACES
            | BmcSetting.VIRTUAL_MEDIA
            | BmcSetting.BOOT_OVERRIDE
            | BmcSetting.SERIAL_OVER_LAN
        ):
            return ' or '.join(fact.expected)
    assert_never(fact.setting)


def _found(fact: BmcSettingFound) -> str:
    result = fact.result
    match result:
        case SettingResult.MATCHES:
            return ', '.join(dict.fromkeys(v.value for v in fact.shown if v.value is not None)) or 'as expected'
        case SettingResult.DIFFERS:
            kept = tuple(f'not restored: {kept_words(why)}' for why in fact.kept if not fact.rests_on_it)
            return '; '.join((*_differing(fact), *_unread(fact), *((_RESTS,) if fact.rests_on_it else ()), *kept))
        case SettingResult.IN_USE:
            return f'{"; ".join(_differing(fact))}: accepted while the ramdisk of the operator runs, which may use it'
        case SettingResult.UNREAD:
            return f'could not be read: {"; ".join(_unread(fact))}'
        case SettingResult.NOT_SHOWN:
            where = ', '.join(f'{v.ref} {v.field}' for v in fact.shown[:_MOST])
            return f'not shown by the BMC{f" ({where})" if where else ""}'
        case SettingResult.ABSENT_ACCEPTED:
            return 'not shown by the BMC, which the rule accepts'
        case SettingResult.NOT_READ:
            return 'not read in this inspection'
    assert_never(result)


def _differing(fact: BmcSettingFound) -> tuple[str, ...]:
    told = tuple(map(_difference, fact.differing[:_MOST]))
    return (*told, f'and {len(fact.differing) - _MOST} more') if len(fact.differing) > _MOST else told


def _difference(one: ShownValue | DifferingAccount | DifferingCertificate) -> str:
    match one:
        case ShownValue():
            return f'{one.value} ({one.ref} {one.field})'
        case DifferingAccount():
            return _account(one)
        case DifferingCertificate():
            return _certificate(one)
    assert_never(one)


def _account(one: DifferingAccount) -> str:
    who = named(one.account)
    match one.fault:
        case AccountFault.UNEXPECTED:
            return who
        case AccountFault.DUPLICATE:
            return f'{who}: one of several accounts with this name'
        case AccountFault.ROLE:
            return f'{who}: allowed role is at most {one.limit}'
    assert_never(one.fault)


def named(account: ShownAccount) -> str:
    """Return the name of an account with its role, for texts."""
    bootstrap = ', created from the host' if account.is_bootstrap else ''
    return f'{account.name!r} ({account.role or "role not shown"}{bootstrap})'


def _certificate(one: DifferingCertificate) -> str:
    shown = one.certificate
    issuer = '' if one.is_of_issuer else f'issued by {shown.issuer or "nobody that the BMC shows"}, '
    if shown.not_after is None:
        return f'{issuer}its end is not shown ({shown.ref})'
    return f'{issuer}valid until {moment(shown.not_after)} ({shown.ref})'


def _unread(fact: BmcSettingFound) -> tuple[str, ...]:
    told = tuple(f'{u.ref}: {u.reason}' for u in fact.unread[:_MOST])
    return (*told, f'and {len(fact.unread) - _MOST} more') if len(fact.unread) > _MOST else told


def kept_words(why: KeptReason) -> str:
    """Return why a part of a setting is not restored although its rule says so."""
    match why:
        case KeptReason.OWN_ACCOUNT:
            return 'the BMC is used with this account'
        case KeptReason.OWN_IPMI:
            return 'a BMC of the target is used over IPMI, and it may be this one'
        case KeptReason.OWN_INTERFACE:
            return 'the BMC is used through its host interface (a link-local address)'
        case KeptReason.UNCERTAIN_ACCOUNT:
            return 'an account cannot be told apart from those with which BMCs of the target are used'
        case KeptReason.LISTED_ACCOUNT:
            return 'only accounts that the rule does not list are disabled'
        case KeptReason.SEVERAL_MACHINES:
            return 'the BMC serves several machines'
        case KeptReason.TOO_MANY:
            return 'the rest, since there is more than one job restores'
    assert_never(why)


def shown_before(action: RestoreSetting) -> str:
    """Return the value that a restore expects to find; of an account its name."""
    return repr(action.expects) if action.setting is BmcSetting.ACCOUNTS else action.expects
