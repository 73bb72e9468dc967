# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the user accounts of a BMC with the accounts that a baseline rule expects.

A rule names each expected account, and may limit its privilege: ``monitor=user``. Root on the host can raise the privilege of
an existing account and set its password, so an expected account with more privilege than its limit is reported, too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import PRIVILEGES, BmcUser, Inventory
from baremetal_acc.model.ref import BmcName
from baremetal_acc.model.toml import did_you_mean

NAME_BYTES = 16
"""Longest account name, in bytes. Source: IPMI 2.0 revision 1.1, section 22.28."""


def limits(expected: Iterable[str]) -> Mapping[str, str | None]:
    """Return the highest privilege that each expected account may have, by its name; None where the rule gives no limit.

    The text after the last ``=`` is the privilege. So an expected account whose name contains ``=`` has to be written with its
    privilege.

    :raises ValueError: an account is named twice.
    """
    found: dict[str, str | None] = {}
    for text in expected:
        name, privilege = _parts(text)
        if name in found:
            raise ValueError(f'{name!r} is named twice')
        found[name] = privilege
    return found


def flaw(text: str) -> tuple[str, str | None] | None:
    """Return why the text of an expected account is invalid, with a hint; None if it is valid."""
    name, privilege = _parts(text)
    if privilege is not None and (name != name.rstrip() or privilege != privilege.lstrip()):
        return f"{text!r} has blanks next to the '='", f'write {f"{name.rstrip()}={privilege.lstrip()}"!r}'
    if privilege is not None and privilege not in PRIVILEGES:
        near = {word.casefold(): word for word in PRIVILEGES}.get(privilege.casefold())
        guess = (f'did you mean {near}?' if near else did_you_mean(privilege, PRIVILEGES)) if privilege else None
        which = guess or f'privileges are {", ".join(PRIVILEGES)}'
        hint = (
            f'{which}; for an account of the name {text!r} write {f"{text}=administrator"!r}, or its highest allowed privilege'
        )
        return f'{privilege!r} is not a privilege' if privilege else "a privilege is missing after the '='", hint
    if _size(name) > NAME_BYTES:
        return f'{name!r} has {_size(name)} bytes; the name of an IPMI account has at most {NAME_BYTES}', None
    return None


def _parts(text: str) -> tuple[str, str | None]:
    name, sign, privilege = text.rpartition('=')
    return (name, privilege) if sign else (text, None)


def _size(name: str) -> int:
    """Return the size of a name in bytes, in the shortest encoding in which a BMC could report it."""
    try:
        return len(name.encode('latin-1'))
    except UnicodeEncodeError:
        return len(name.encode())


def audit(
    accelerator: Accelerator, inventory: Inventory, expected: Iterable[str]
) -> Iterator[tuple[BmcName, tuple[str, ...], str | None]]:
    """Yield for each BMC of a device that reports accounts: its name, what is wrong with them, and why some were not read."""
    wanted = tuple(expected)
    for name in sorted({ref.bmc for ref in accelerator.refs}):
        facts = inventory.bmc(name)
        if facts is not None and facts.accounts is not None:
            yield name, (*strange(facts.accounts.users, wanted), *facts.accounts.unguarded), facts.accounts.unread


def strange(users: Iterable[BmcUser], expected: Iterable[str]) -> list[str]:
    """Describe the accounts that may log in and are not as expected, one text each.

    Of two accounts with the same expected name, one is not the expected account, and nobody knows which: both are reported.
    """
    users, most = tuple(users), limits(expected)
    often = Counter(user.name for user in users)
    return [f'{user}{why}' for user in users if (why := _strange(user, most, often[user.name])) is not None]


def _strange(user: BmcUser, most: Mapping[str, str | None], times: int) -> str | None:
    """Return why an account is not as expected ('' if its name alone says so); None if it is as expected."""
    if user.name not in most:
        return ''
    if times > 1:
        return f': one of {times} accounts with this name'
    limit = most[user.name]
    if limit is not None and _height(user.privilege) > _height(limit):
        return f': allowed privilege is at most {limit}'
    return None


def _height(privilege: str) -> int:
    """Rank a privilege; an unknown privilege ranks above all known ones."""
    return PRIVILEGES.index(privilege) if privilege in PRIVILEGES else len(PRIVILEGES)
