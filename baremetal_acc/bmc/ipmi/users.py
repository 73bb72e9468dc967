# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which accounts of a BMC may log in over IPMI?

Whoever was root on the host may have made himself one over the system interface, or enabled one that was there. Passwords
cannot be read: that of an account which is expected may be another one than the operator thinks.

Source: IPMI 2.0 revision 1.1, sections 22.27 (Get User Access) and 22.29 (Get User Name).
"""

from baremetal_acc.bmc.ipmi import device
from baremetal_acc.bmc.ipmi.wire import Code, NetFn, Raw, ask
from baremetal_acc.errors import BmcError, BmcRefused
from baremetal_acc.model.inventory import PRIVILEGES, Accounts, BmcUser

_GET_ACCESS, _GET_NAME = 0x44, 0x46
_THIS_CHANNEL = 0x0E
_ENABLED, _DISABLED = 0x40, 0x80
_NO_ACCESS = 0x0F
_NO_SUCH_NUMBER = frozenset({0xC9, Code.INVALID_FIELD})
"""Of a number that the BMC counts among those that it could have."""

_NAMES = {_NO_ACCESS: PRIVILEGES[0], **dict(enumerate(PRIVILEGES[1:], 1))}


def read(raw: Raw) -> Accounts:
    """The accounts that may log in. That they cannot all be read is told, and no error.

    One counts that is enabled, on whatever channel; and of a BMC that does not say so, one that has access on ours.

    :raises BmcError: it can be spoken to no more.
    """
    found: list[BmcUser] = []
    try:
        most = ask(raw, NetFn.APP, _GET_ACCESS, bytes([_THIS_CHANNEL, 1]), what='Get User Access', least=4)[0] & 0x3F
        for number in range(1, most + 1):
            user = _user(raw, number)
            if user is not None:
                found.append(user)
    except BmcError as exc:
        device.check(raw, exc)
        return Accounts(users=tuple(found), unread=exc.what)
    return Accounts(users=tuple(found))


def _user(raw: Raw, number: int) -> BmcUser | None:
    """An account that may log in; None if it may not, or there is none of that number."""
    try:
        data = ask(raw, NetFn.APP, _GET_ACCESS, bytes([_THIS_CHANNEL, number]), what='Get User Access', least=4)
    except BmcRefused as exc:
        if exc.status in _NO_SUCH_NUMBER:
            return None
        raise
    state, access = data[1] & 0xC0, data[3]
    privilege = access & 0x0F
    if state == _DISABLED or (state != _ENABLED and privilege in (0, _NO_ACCESS)):
        return None
    name = ask(raw, NetFn.APP, _GET_NAME, bytes([number]), what='Get User Name', least=1)
    return BmcUser(number=number, name=_text(name[:16]), privilege=_NAMES.get(privilege, f'privilege {privilege:X}h'))


def _text(name: bytes) -> str:
    """A name; with what stands behind the zero that ends it, if anything does: such a one only looks like another."""
    text = name.rstrip(b'\0')
    return text.replace(b'\0', b'\\0').decode('latin-1')
