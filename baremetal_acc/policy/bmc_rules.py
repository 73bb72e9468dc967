# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of ``[bmc]``: parse what a baseline demands of the settings of each BMC, and find the rule that decides one."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from baremetal_acc.model import toml
from baremetal_acc.model.bmc_state import DISABLED, EJECTED, ENABLED, NO_OVERRIDE, RESTORED_TO, BmcSetting
from baremetal_acc.model.ref import BmcName
from baremetal_acc.policy.baseline_rules import DEFAULT_RULE, BmcDemand, BmcMatch, BmcProtocol, BmcRule, Exposure, NodeFacts

_SWITCHES = frozenset({
    BmcSetting.BOOTSTRAP_ACCOUNTS, BmcSetting.IPMI_OVER_LAN, BmcSetting.HOST_INTERFACES, BmcSetting.SERIAL_OVER_LAN,
})  # fmt: skip

_WORDS: Mapping[BmcSetting, tuple[str, ...]] = {
    **dict.fromkeys(_SWITCHES, (DISABLED, ENABLED)),
    BmcSetting.VIRTUAL_MEDIA: (EJECTED,),
}
"""The only values that can be demanded of these settings."""

_MAY_BE_EMPTY = frozenset({BmcSetting.ACCOUNTS, BmcSetting.EVENT_SUBSCRIPTIONS})

_EXAMPLES: Mapping[BmcSetting, str] = {
    BmcSetting.FIRMWARE_VERSION: '"2.19"',
    BmcSetting.ACCOUNTS: '["ironic=Administrator"]',
    BmcSetting.EVENT_SUBSCRIPTIONS: '["https://events.example.org/*"]',
    BmcSetting.BOOT_OVERRIDE: f'["{NO_OVERRIDE}", "Hdd"]',
    BmcSetting.TLS_CERTIFICATE: '"Example Issuing CA *"',
}

ROLES = ('ReadOnly', 'Operator', 'Administrator')
"""The predefined roles, the one with the fewest privileges first. Source: DSP0266, "Roles"."""

LONGEST_DAYS = 3660


class IfAbsent(StrEnum):
    """What a setting counts as that the BMC does not show: a failure, or met."""

    REFUSE = 'refuse'
    ACCEPT = 'accept'


def parse(document: toml.Table, taken: frozenset[str] = frozenset()) -> tuple[BmcRule, ...]:
    """Parse ``[bmc]``, or each ``[[bmc]]``, of a baseline.

    :param taken: the names of its other rules.
    :raises DocumentError: a rule is invalid; names file and line.
    """
    one = isinstance(document.data.get('bmc'), dict)
    rules: dict[str, BmcRule] = {}
    tables: tuple[toml.Table, ...] = (document.table('bmc'),) if one else document.tables('bmc')
    for number, table in enumerate(tables):
        rule = _rule(table, 'bmc' if one else f'bmc-{number + 1}')
        if rule.name in taken or rule.name in rules:
            raise table.error('name', f'two rules are called {rule.name!r}', 'give this one another name')
        rules[rule.name] = rule
    return tuple(rules.values())


def _rule(table: toml.Table, default_name: str) -> BmcRule:
    name = table.string('name') or default_name
    if name == DEFAULT_RULE:
        raise table.error('name', f'{DEFAULT_RULE!r} is reserved for the defaults; choose another name')
    matched = table.table('match')
    match = BmcMatch(
        bmc=matched.string('bmc'),
        protocol=matched.choice('protocol', BmcProtocol),
        resource_class=matched.string('resource_class'),
        owner=matched.string('owner'),
        exposure=matched.choice('exposure', Exposure),
    )
    matched.finish()
    demands = tuple(found for setting in BmcSetting if (found := _demand(table, setting)) is not None)
    restored = _restored(table, match, {demand.setting: demand for demand in demands})
    table.finish()
    if not demands:
        raise table.error(None, 'demands nothing', f'add one of {", ".join(BmcSetting)}')
    return BmcRule(name=name, match=match, demands=tuple(replace(d, restore=d.setting in restored) for d in demands))


def _restored(table: toml.Table, match: BmcMatch, demands: Mapping[BmcSetting, BmcDemand]) -> frozenset[BmcSetting]:
    """Return the settings that a rule says to restore: those that it demands itself, and that can be restored as it demands."""
    named = table.choices('restore', BmcSetting) or frozenset()
    for setting in sorted(named):
        demand = demands.get(setting)
        if setting not in RESTORED_TO:
            raise table.error('restore', f'{setting} cannot be restored: Redfish has no standard property or action for it')
        if demand is None:
            raise table.error('restore', f'this rule does not say what {setting} has to be', f'add {setting} to the rule')
        if setting in _SWITCHES and demand.expected != (DISABLED,):
            raise table.error('restore', f'{setting} is only ever restored to "{DISABLED}": nothing is opened')
        if setting is BmcSetting.BOOT_OVERRIDE and NO_OVERRIDE not in demand.expected:
            raise table.error('restore', f'{setting} is only ever restored to "{NO_OVERRIDE}", which this rule does not accept')
        if setting is BmcSetting.ACCOUNTS and not demand.expected:
            what = 'the account that baremetal-acc logs in with has to be listed, since the others are disabled'
            raise table.error('restore', f'{setting} lists no account: {what}')
    if named and match.protocol is BmcProtocol.IPMI:
        raise table.error('restore', 'settings of a BMC that is used over IPMI are not restored', 'match protocol = "redfish"')
    return named


def _demand(table: toml.Table, setting: BmcSetting) -> BmcDemand | None:
    if not isinstance(table.data.get(setting), dict):
        expected = _expected(table, setting, setting)
        return None if expected is None else BmcDemand(setting=setting, expected=expected)
    inner = table.table(setting)
    expected = _expected(inner, 'expect', setting)
    absent = inner.choice('if_absent', IfAbsent)
    days = inner.integer('days_left') if setting is BmcSetting.TLS_CERTIFICATE else None
    inner.finish()
    if expected is None:
        raise inner.error(None, 'expect is missing', f'for example {setting} = {{ expect = {_example(setting)} }}')
    if days is not None and days > LONGEST_DAYS:
        raise inner.error('days_left', f'{days} days are too many; at most {LONGEST_DAYS} are allowed')
    return BmcDemand(setting=setting, expected=expected, accepts_absent=absent is IfAbsent.ACCEPT, days_left=days)


def _expected(table: toml.Table, key: str, setting: BmcSetting) -> tuple[str, ...] | None:
    """Return the values of which one is demanded, or for lists everything that is allowed; None when the key is absent."""
    words = _WORDS.get(setting)
    if words is not None:
        text = table.string(key)
        if text is not None and text not in words:
            raise table.error(key, f'{text!r} is none of {", ".join(words)}', toml.did_you_mean(text, words))
        return None if text is None else (text,)
    found = (table.required_string(key),) if isinstance(table.data.get(key), str) else table.strings(key)
    if found == () and setting not in _MAY_BE_EMPTY:
        raise table.error(key, 'is empty: nothing would be accepted', f'for example {_example(setting)}')
    if setting is BmcSetting.ACCOUNTS and found is not None:
        _check_accounts(table, key, found)
    return found


def _example(setting: BmcSetting) -> str:
    return _EXAMPLES.get(setting) or f'"{_WORDS[setting][0]}"'


def _check_accounts(table: toml.Table, key: str, found: Iterable[str]) -> None:
    try:
        roles(found)
    except ValueError as exc:
        raise table.error(key, str(exc), 'write NAME, or NAME=ROLE with the highest role that it may have') from None


def roles(expected: Iterable[str]) -> Mapping[str, str | None]:
    """Return the highest role that each expected account may have, by its name; None where the rule gives no limit.

    The text after the last ``=`` is the RoleId. So an account whose name contains ``=`` has to be written with its role.

    :raises ValueError: an account is named twice, or a name or a role is missing.
    """
    found: dict[str, str | None] = {}
    for text in expected:
        name, sign, role = text.rpartition('=')
        if sign and (not role or role != role.strip()):
            raise ValueError(f"{text!r} has no role directly after the '='")
        name, limit = (name, role) if sign else (text, None)
        if name != name.strip():
            raise ValueError(f'{text!r} has blanks around the name')
        if name in found:
            raise ValueError(f'{name!r} is named twice')
        found[name] = limit
    return found


def decided(
    rules: Iterable[BmcRule], bmc: BmcName, address: str, node: NodeFacts
) -> Mapping[BmcSetting, tuple[BmcDemand, str]]:
    """Return the demand on each setting of a BMC, and the name of its rule: the first one that matches and has the key decides.

    :param address: of the BMC, with its scheme.
    """
    found: dict[BmcSetting, tuple[BmcDemand, str]] = {}
    for rule in rules:
        if rule.match.matches(bmc, protocol_of(address), node):
            for demand in rule.demands:
                found.setdefault(demand.setting, (demand, rule.name))
    return found


def protocol_of(address: str) -> BmcProtocol:
    """Return the protocol of a BMC's address."""
    return BmcProtocol.IPMI if address.startswith('ipmi:') else BmcProtocol.REDFISH
