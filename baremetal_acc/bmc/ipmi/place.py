# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Where is a BMC, and with what does one log in there? Checked before anything is sent.

Source: IPMI 2.0 revision 1.1, sections 6.8 and 13.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum

from baremetal_acc.bmc.api import Setting, by_name
from baremetal_acc.errors import UsageError

PORT = 623
NAME_BYTES, PASSWORD_BYTES, KEY_BYTES = 16, 20, 20
"""At most. A longer password would be cut short by some BMCs, and then what is cut off protects nothing."""

ANSWER = timedelta(seconds=10)
"""For one command. Real BMCs take seconds to read the EEPROM of a card over a bus that others use."""

LOGIN = timedelta(seconds=15)
"""For a login: three messages, each of which may be lost several times."""


class Privilege(IntEnum):
    """What a session may. Source: IPMI 2.0 revision 1.1, section 6.8."""

    OPERATOR = 3
    ADMINISTRATOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A cipher suite that may be used.

    :ivar algorithms: authentication, integrity, confidentiality. Source: tables 13-17 to 13-19.
    :ivar digest: bytes of the check in RAKP 2; ``check`` of those in RAKP 4 and in each packet.
    :ivar hash: how pyghmi calls it; ``digest_name`` how hashlib does.
    """

    number: int
    algorithms: tuple[int, int, int]
    digest: int
    check: int
    hash: int
    digest_name: str


SUITES = {
    17: Suite(number=17, algorithms=(3, 4, 1), digest=32, check=16, hash=256, digest_name='sha256'),
    3: Suite(number=3, algorithms=(1, 1, 1), digest=20, check=12, hash=1, digest_name='sha1'),
}
"""All others have no encryption, no check, or a broken one. 3 (SHA-1) is for BMCs that have nothing better, if told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a BMC is, and how to log in there. Made by :func:`place`.

    :ivar label: for messages.
    :ivar answer: for a command that says nothing else.
    :ivar key: K_G, the key of the BMC; None: the password serves for it.
    :ivar set_by: as in :class:`~baremetal_acc.bmc.api.BmcAddress`.
    """

    label: str
    host: str
    port: int
    username: bytes
    password: bytes = field(repr=False)
    suite: Suite
    key: bytes | None = field(default=None, repr=False)
    answer: timedelta = ANSWER
    login: timedelta = LOGIN
    set_by: Mapping[Setting, str] = field(default_factory=by_name, repr=False)


def place(
    label: str,
    host: str,
    *,
    port: int = PORT,
    username: str | bytes,
    password: str | bytes,
    suite: int = 17,
    key: bytes | None = None,
    answer: timedelta = ANSWER,
    login: timedelta = LOGIN,
) -> Place:
    """Where a BMC is, checked.

    :raises UsageError: no session could be opened with that.
    """
    named, secret = (text.encode() if isinstance(text, str) else text for text in (username, password))
    found = SUITES.get(suite)
    if found is None:
        told = f'BMC {label}, cipher suite'
        raise UsageError(
            argument=told, what=f'{suite} is not used', hint='17, or 3 for a BMC that has nothing better; all others are weak'
        )
    for what, given, most in (('username', named, NAME_BYTES), ('password', secret, PASSWORD_BYTES)):
        told = f'BMC {label}, {what}'
        if not given:
            raise UsageError(argument=told, what='it is empty', hint='IPMI without a named user and a password is not used')
        if len(given) > most or 0 in given:
            raise UsageError(
                argument=told, what=f'it has more than {most} bytes, or a zero among them', hint='IPMI takes no other'
            )
    if key is not None and not (0 < len(key) <= KEY_BYTES and any(key)):
        raise UsageError(
            argument=f'BMC {label}, K_G', what=f'1 to {KEY_BYTES} bytes expected', hint='leave it out if there is none'
        )
    return Place(
        label=label,
        host=host,
        port=port,
        username=named,
        password=secret,
        suite=found,
        key=key,
        answer=answer,
        login=login,
    )
