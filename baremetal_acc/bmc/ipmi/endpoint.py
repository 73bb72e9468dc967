# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""IPMI endpoint: host, port, credentials and cipher suite of a BMC, validated before anything is sent.

Source: IPMI 2.0 revision 1.1, sections 6.8 and 13.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum

from baremetal_acc.bmc.driver import Setting, by_name
from baremetal_acc.errors import UsageError

PORT = 623
NAME_BYTES, PASSWORD_BYTES, KEY_BYTES = 16, 20, 20
"""Maximum lengths. Some BMCs would truncate a longer password, and the part cut off would protect nothing."""

ANSWER = timedelta(seconds=10)
"""Timeout of one command. Real BMCs take seconds to read a card's EEPROM over a shared bus."""

LOGIN = timedelta(seconds=15)
"""Timeout of the login handshake, whose messages may each be lost several times."""


class LoginPrivilege(IntEnum):
    """Privilege level of a session. Source: IPMI 2.0 revision 1.1, section 6.8."""

    OPERATOR = 3
    ADMINISTRATOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CipherSuite:
    """A cipher suite that may be used.

    :ivar algorithms: authentication, integrity, confidentiality. Source: tables 13-17 to 13-19.
    :ivar digest: bytes of the key exchange authentication code in RAKP 2.
    :ivar check: bytes of the integrity check value in RAKP 4 and in each packet.
    :ivar hash: pyghmi's number for the hash.
    :ivar digest_name: hashlib's name for the hash.
    """

    number: int
    algorithms: tuple[int, int, int]
    digest: int
    check: int
    hash: int
    digest_name: str


SUITES = {
    17: CipherSuite(number=17, algorithms=(3, 4, 1), digest=32, check=16, hash=256, digest_name='sha256'),
    3: CipherSuite(number=3, algorithms=(1, 1, 1), digest=20, check=12, hash=1, digest_name='sha1'),
}
"""Usable cipher suites. All others have no encryption, no integrity check, or a broken one. 3 (SHA-1) is used only where the
operator chooses it, for BMCs that have nothing better.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Endpoint of a BMC: address, credentials and timeouts. Created by :func:`place`, which validates it.

    :ivar label: name of the BMC, for messages.
    :ivar answer: default timeout of a command.
    :ivar login: timeout of a login.
    :ivar key: K_G, the key of the BMC; None: the password is used in its place.
    :ivar set_by: as in :class:`~baremetal_acc.bmc.driver.BmcAddress`.
    """

    label: str
    host: str
    port: int
    username: bytes
    password: bytes = field(repr=False)
    suite: CipherSuite
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
) -> Endpoint:
    """Validate the values, and create the endpoint.

    :raises UsageError: no session could be opened with these values.
    """
    named, secret = (text.encode() if isinstance(text, str) else text for text in (username, password))
    found = SUITES.get(suite)
    if found is None:
        told = f'BMC {label}, cipher suite'
        raise UsageError(
            argument=told,
            what=f'{suite} is not supported',
            hint='use 17, or 3 for a BMC that has nothing better; all others are weak',
        )
    for what, given, most in (('username', named, NAME_BYTES), ('password', secret, PASSWORD_BYTES)):
        told = f'BMC {label}, {what}'
        if not given:
            raise UsageError(
                argument=told, what='must not be empty', hint='IPMI without a user name and a password is not supported'
            )
        if len(given) > most or 0 in given:
            raise UsageError(
                argument=told, what=f'has more than {most} bytes, or contains a zero byte', hint='IPMI does not allow it'
            )
    if key is not None and not (0 < len(key) <= KEY_BYTES and any(key)):
        raise UsageError(
            argument=f'BMC {label}, K_G', what=f'1 to {KEY_BYTES} bytes expected', hint='leave it out if the BMC has none'
        )
    return Endpoint(
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
