# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which accounts of a BMC does the administrator expect, and which of those that there are does he not?

Each is named, and may be given the most that it may be: ``monitor=user``. Whoever was root on the host can raise an account,
and give it a password that he knows; an account that is expected to do little is not expected to do more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import PRIVILEGES, BmcUser, Inventory
from baremetal_acc.model.ref import BmcName
from baremetal_acc.model.toml import did_you_mean

NAME_BYTES = 16
"""Of the longest name of an account. Source: IPMI 2.0 revision 1.1, section 22.28."""


def limits(expected: Iterable[str]) -> Mapping[str, str | None]:
    """The most that each expected account may be, by its name; None: that is not said.

    What stands behind the last ``=`` is the privilege: a name that holds one has its privilege behind.

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
    """Why no account could be meant, with a hint; None where one could."""
    name, privilege = _parts(text)
    if privilege is not None and (name != name.rstrip() or privilege != privilege.lstrip()):
        return f"{text!r} has blanks beside the '='", f'write {f"{name.rstrip()}={privilege.lstrip()}"!r}'
    if privilege is not None and privilege not in PRIVILEGES:
        near = {word.casefold(): word for word in PRIVILEGES}.get(privilege.casefold())
        guess = (f'did you mean {near}?' if near else did_you_mean(privilege, PRIVILEGES)) if privilege else None
        which = guess or f'it can be {", ".join(PRIVILEGES)}'
        hint = f'{which}; for an account of the name {text!r} write {f"{text}=administrator"!r}, or what it may be at most'
        return f'{privilege!r} is no privilege' if privilege else "nothing stands behind the '='", hint
    if _size(name) > NAME_BYTES:
        return f'{name!r} has {_size(name)} bytes: no account of IPMI has more than {NAME_BYTES}', None
    return None


def _parts(text: str) -> tuple[str, str | None]:
    name, sign, privilege = text.rpartition('=')
    return (name, privilege) if sign else (text, None)


def _size(name: str) -> int:
    """Bytes of a name, by the fewest that a BMC could show it with."""
    try:
        return len(name.encode('latin-1'))
    except UnicodeEncodeError:
        return len(name.encode())


def audit(
    accelerator: Accelerator, inventory: Inventory, expected: Iterable[str]
) -> Iterator[tuple[BmcName, tuple[str, ...], str | None]]:
    """Each BMC of a device that tells who may log in, what is wrong with that, and why not all accounts could be read."""
    wanted = tuple(expected)
    for name in sorted({ref.bmc for ref in accelerator.refs}):
        facts = inventory.bmc(name)
        if facts is not None and facts.accounts is not None:
            yield name, (*strange(facts.accounts.users, wanted), *facts.accounts.unguarded), facts.accounts.unread


def strange(users: Iterable[BmcUser], expected: Iterable[str]) -> list[str]:
    """What is wrong with accounts that may log in, one text each.

    Of two with the same name one is not the expected one, and nobody knows which.
    """
    users, most = tuple(users), limits(expected)
    often = Counter(user.name for user in users)
    return [f'{user}{why}' for user in users if (why := _strange(user, most, often[user.name])) is not None]


def _strange(user: BmcUser, most: Mapping[str, str | None], times: int) -> str | None:
    """Why one is not as expected, '' where its name says it; None where it is."""
    if user.name not in most:
        return ''
    if times > 1:
        return f': one of {times} accounts with that name'
    limit = most[user.name]
    if limit is not None and _height(user.privilege) > _height(limit):
        return f': may be {limit} at most'
    return None


def _height(privilege: str) -> int:
    """What is not known counts as more than everything."""
    return PRIVILEGES.index(privilege) if privilege in PRIVILEGES else len(PRIVILEGES)
