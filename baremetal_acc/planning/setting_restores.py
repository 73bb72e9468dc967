# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide which settings of a BMC a job restores, where a rule of ``[bmc]`` says so, and which it keeps.

A setting is only ever closed: a service is disabled, a medium ejected, a boot override or a subscription removed, an account
disabled. What the target itself rests on is never written: the account of its own sessions, IPMI over LAN where one of its BMCs
is used over IPMI, and the host interface by which its BMC is used.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import assert_never
from urllib.parse import urlsplit

from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import BmcSetting, BmcState, KeptReason, ShownValue
from baremetal_acc.model.finding import AccountFault, DifferingAccount, DifferingCertificate
from baremetal_acc.policy.baseline_rules import BmcDemand

MOST = 32
"""How much of one setting one job restores. Real BMCs have some ten accounts; the size of a stored job is limited."""

RESTED_ON = frozenset({KeptReason.OWN_ACCOUNT, KeptReason.OWN_IPMI, KeptReason.OWN_INTERFACE})
"""What the target itself rests on: a rule that says to restore it contradicts the target."""

_OF_IPMI = frozenset({BmcSetting.IPMI_OVER_LAN, BmcSetting.SERIAL_OVER_LAN})
"""Settings that whoever uses a BMC over IPMI may rest on: Ironic's console may be serial over LAN."""

ENABLED_FIELD = 'Enabled'
"""Field of an account that is restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A part of a setting that is not restored.

    :ivar account: the name of the account, where it is one.
    """

    why: KeptReason
    account: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcUse:
    """How the target uses a BMC.

    :ivar address: of the BMC, with its scheme.
    :ivar over_ipmi: a BMC of the target is used over IPMI; it may be this one under another name.
    :ivar several: the BMC serves several machines.
    """

    address: str
    over_ipmi: bool
    several: bool


def sort_out(
    demand: BmcDemand,
    rule: str,
    differing: Iterable[ShownValue | DifferingAccount | DifferingCertificate],
    state: BmcState,
    use: BmcUse,
) -> tuple[tuple[RestoreSetting, ...], tuple[Kept, ...]]:
    """Return how to restore what differs from a demand, and what is kept.

    :param state: what the BMC shows; ``use``: how the target uses this BMC.
    """
    found = tuple(differing)
    if not demand.restore or not found:
        return (), ()
    whole = _kept_whole(demand.setting, use)
    if whole is not None:
        return (), (Kept(why=whole),)
    sorted_out = tuple(_sorted(demand, rule, found, state))
    restores = tuple(one for one in sorted_out if isinstance(one, RestoreSetting))
    kept = tuple(dict.fromkeys(one for one in sorted_out if isinstance(one, Kept)))
    return restores[:MOST], kept if len(restores) <= MOST else (*kept, Kept(why=KeptReason.TOO_MANY))


def _kept_whole(setting: BmcSetting, use: BmcUse) -> KeptReason | None:
    """Return why nothing of a setting is restored on a BMC."""
    if use.several:
        return KeptReason.SEVERAL_MACHINES
    if setting in _OF_IPMI and use.over_ipmi:
        return KeptReason.OWN_IPMI
    if setting is BmcSetting.HOST_INTERFACES and is_link_local(use.address):
        return KeptReason.OWN_INTERFACE
    return None


def _sorted(
    demand: BmcDemand, rule: str, differing: Iterable[ShownValue | DifferingAccount | DifferingCertificate], state: BmcState
) -> Iterator[RestoreSetting | Kept]:
    # An account that could not be read, or none of ours among those that were: then any of them may be ours.
    is_unsure = not any(a.is_own for a in state.accounts) or any(u.setting is BmcSetting.ACCOUNTS for u in state.unread)
    for one in differing:
        match one:
            case ShownValue(value=str(value)):
                yield RestoreSetting(setting=demand.setting, ref=one.ref, field=one.field, expects=value, rule=rule)
            case DifferingAccount(account=account):
                if one.fault is not AccountFault.UNEXPECTED:
                    yield Kept(why=KeptReason.LISTED_ACCOUNT, account=account.name)
                elif account.is_own:
                    yield Kept(why=KeptReason.OWN_ACCOUNT, account=account.name)
                elif is_unsure or account.may_be_own or not account.name.strip():
                    yield Kept(why=KeptReason.UNCERTAIN_ACCOUNT, account=account.name)
                else:
                    yield RestoreSetting(
                        setting=demand.setting, ref=account.ref, field=ENABLED_FIELD, expects=account.name, rule=rule
                    )
            case ShownValue() | DifferingCertificate():
                pass  # a value that is not shown cannot be restored, a certificate is never
            case _:
                assert_never(one)


def is_link_local(address: str) -> bool:
    """Whether a BMC is used through an address of the link: that of a host interface, seen from its host.

    Source: DSP0270 1.3, section "Network Host Interface"; RFC 3927, RFC 4291.
    """
    host = (urlsplit(address).hostname or '').partition('%')[0]
    with suppress(ValueError):
        return ip_address(host).is_link_local
    return False


def resembles(name: str, logins: Iterable[str]) -> bool:
    """Whether the name of an account is one of these, in any case of letters, with or without blanks around it."""
    return name.strip().casefold() in {login.strip().casefold() for login in logins}
