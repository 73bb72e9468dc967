# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The attacks of a tenant who is root over the IPMI system interface, and how an operator reads over the LAN if one worked.

Each attack is one line of :data:`ATTACKS`, with the command that the firmware firewall has to close. It is tried three times:
open, locked, and unlocked again. A completion code alone proves nothing: what the operator sees before and after has to agree.
"""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction, build_upgrade_image, version_bytes
from tests.emulator_ipmi.programs import Ipmitool, Said
from tests.emulator_ipmi.tenant import Tenant

OK, REFUSED = 0x00, 0xD4
"""Of table 5-2 of IPMI 2.0: done; insufficient privilege, or not allowed here."""

CARD = ('-t', '0x72', '-b', '0')
"""Ipmitool's words for the card behind the BMC."""

IMAGE_BYTES = 64 * 1024
UPLOAD_SECONDS = 900
"""Of 64 KiB in blocks of 23 to 36 bytes, without KVM on a busy machine."""

BACK_SECONDS = 60
BMC_VERSION = '1.04.2'
"""What the emulated BMC comes with; a rollback leads there."""

TENANTS_PASSWORD = b'of the tenant'
USER, GUEST = 2, 9
"""The operator's place in the table of users, and an empty one."""

_SPARE = 0xF0
"""A place in an FRU inventory behind all of its areas."""

_GET_USER_NAME = 0x46
"""A command that no lock closes."""

_MASK_BYTES = 16
_CODE = re.compile(r'(?:rsp|compcode|ccode|comp(?:letion)? ?code)\s*[=:]\s*(?:0x)?([0-9a-f]{2})\b', re.IGNORECASE)
_SHORT, _LONG = 16, 20
_IS_LONG = 0x80
_BYTES = re.compile(r'(?: [0-9a-f]{2})+')


class Round(Enum):
    """When it is tried."""

    OPEN = 'open'
    LOCKED = 'locked'
    UNLOCKED = 'unlocked again'


def raw(*data: int) -> str:
    """Ipmitool's words for a request."""
    return 'raw ' + ' '.join(f'{byte:#04x}' for byte in data)


def completion_code(said: Said) -> int | None:
    """How a command of ipmitool ended, as it told it; None where it failed without a code."""
    if said.code == 0:
        return OK
    found = _CODE.search(said.out)
    return int(found[1], 16) if found else None


def answered(said: Said) -> str:
    """The bytes that a raw request was answered with, among whatever else was printed."""
    return ' '.join(line.strip() for line in said.out.splitlines() if _BYTES.fullmatch(line.rstrip()))


def mask(text: str) -> frozenset[int]:
    """The commands whose bits are set."""
    bits = int.from_bytes(bytes.fromhex(text), 'little')
    return frozenset(number for number in range(8 * _MASK_BYTES) if bits >> number & 1)


def masked(commands: Iterable[int]) -> bytes:
    """Such a mask."""
    return sum(1 << command for command in set(commands)).to_bytes(_MASK_BYTES, 'little')


def listed(commands: Iterable[int]) -> str:
    """For people."""
    return ' '.join(f'{command:02X}' for command in sorted(commands))


def upgrade_image(version: str, *, of_card: bool = False) -> bytes:
    """For the BMC or the card, as their maker would give it out."""
    model, component, device_id = ('d5005', 'fpga', 0x31) if of_card else ('es2000', 'bmc', 0x20)
    data = build_image(model=model, component=component, version=version, size_bytes=IMAGE_BYTES)
    upload = UploadAction(component=0, version=version, data=data, description=component)
    return build_upgrade_image([upload], device_id=device_id, manufacturer=0, product=0)


def files() -> dict[str, bytes]:
    """What the tenant has with him: new firmware for each round."""
    return {
        f'/{name}-{number}.hpm': upgrade_image(new_version(number, of_card=of_card), of_card=of_card)
        for number in range(1, len(Round) + 1)
        for name, of_card in (('bmc', False), ('card', True))
    }


def new_version(number: int, *, of_card: bool = False) -> str:
    """What he would like to run."""
    return f'{2 if of_card else 1}.{10 + number}'


class Operator:
    """Who comes over the LAN, with ipmitool, and looks.

    :param folder: for files with passwords.
    """

    def __init__(self, folder: Path, *, port: int, user: str, password: str) -> None:
        self._password = password.encode()
        self._own = Ipmitool(port, folder, user=user, password=password)
        self._tenants = Ipmitool(port, folder, user=user, password=TENANTS_PASSWORD.decode())

    def raw(self, *data: int, way: tuple[str, ...] = (), level: str = 'OPERATOR') -> str:
        """What is answered to a request, as hexadecimal digits."""
        return ' '.join(self._own.right(*way, *raw(*data).split(), level=level).out.split())

    def administer(self, *data: int) -> None:
        """Write something."""
        self.raw(*data, level='ADMINISTRATOR')

    def wait(self) -> None:
        """Until the BMC answers: a restart takes it away for a while."""
        end = time.monotonic() + BACK_SECONDS
        while self._own('mc', 'guid', level='OPERATOR', tries=('1', '1')).code:
            assert time.monotonic() < end, f'the BMC has been silent for {BACK_SECONDS} s'

    def version(self, *way: str) -> str:
        """Of the firmware that runs, as HPM.1 tells it."""
        self.wait()
        return self.raw(0x2C, 0x2F, 0, 0, 1, way=way)[3:]

    def fru(self, *way: str) -> str:
        """Four bytes of an FRU inventory that nobody needs."""
        return self.raw(0x0A, 0x11, 0, _SPARE, 0, 4, way=way)[3:]

    def closed(self) -> str:
        """Commands of NetFn 06h that the host may not use, of those that can be closed."""
        configurable, enabled = (mask(self.raw(0x06, command, 0x0F, 0x06, 0)) for command in (0x0C, 0x61))
        return listed(configurable - enabled)

    def firewall(self) -> tuple[str, ...]:
        """All commands that the host may use, as masks."""
        wanted = [(netfn, 0) for netfn in (0x00, 0x06, 0x0A, 0x0C)] + [(0x2C, 0, 0)]
        return tuple(self.raw(0x06, 0x61, 0x0F, *one) for one in wanted)

    def is_on(self) -> bool:
        """Whether the host has power, as the BMC sees it."""
        return self._own.right('chassis', 'status', level='OPERATOR').fields['System Power'] == 'on'

    def power_on(self) -> None:
        """Give it power, and wait until the BMC sees that it has."""
        self._own.right('chassis', 'power', 'on', level='OPERATOR')
        end = time.monotonic() + BACK_SECONDS
        while not self.is_on():
            assert time.monotonic() < end, f'the host is still off after {BACK_SECONDS} s'
            time.sleep(0.2)

    def whose_password(self) -> str:
        """Which one opens a session."""
        opens = [one('mc', 'guid', tries=('1', '1')).code == 0 for one in (self._own, self._tenants)]
        return ' and '.join(whose for whose, does in zip(("the operator's", "the tenant's"), opens, strict=True) if does)

    def take_password_back(self) -> None:
        """With the one that the tenant has set."""
        is_long = len(self._password) > _SHORT
        user, size = (USER | _IS_LONG, _LONG) if is_long else (USER, _SHORT)
        self._tenants.right(*raw(0x06, 0x47, user, 2, *self._password.ljust(size, b'\0')).split())

    def mark(self) -> None:
        """Set what a restart of the BMC forgets: no alerts on the LAN, for the time being."""
        self.administer(0x06, 0x40, 1, 0xA2, 0)

    def channel(self) -> str:
        """Mode and limit of the LAN, as they are just now."""
        self.wait()
        return self.raw(0x06, 0x41, 1, 0x80)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One thing that a tenant tries.

    :ivar command: NetFn and command that the firewall has to close.
    :ivar act: does it, in the round of that number; the last thing that is said counts.
    :ivar seen: what the operator sees of it.
    :ivar makes: what he sees once it has worked, from what he saw before.
    :ivar ready: what he does before he looks.
    :ivar undo: what is done where it has worked.
    """

    name: str
    command: str
    act: Callable[[Tenant, int], Said]
    seen: Callable[[Operator], str]
    makes: Callable[[str, int], str]
    ready: Callable[[Operator], None] = lambda _: None
    undo: Callable[[Tenant, Operator], object] = lambda *_: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What became of an attack."""

    code: int | None
    before: str
    after: str
    wanted: str

    @property
    def text(self) -> str:
        """In a word or two."""
        said = 'failed' if self.code is None else f'{self.code:02X}h'
        effect = 'done' if self.after == self.wanted != self.before else 'nothing' if self.after == self.before else 'something'
        return f'{said}, {effect}'


def judge(attack: Attack, when: Round, found: Found) -> list[str]:
    """What is not as it has to be."""
    code, after = (REFUSED, found.before) if when is Round.LOCKED else (OK, found.wanted)
    name = f'{when.value}: {attack.name} ({attack.command})'
    wrong = []
    if found.code != code:
        wrong.append(f'{name}: expected {code:02X}h, and it was {found.text}')
    if found.after != after:
        wrong.append(f'{name}: expected the operator to see {after!r} then, and he sees {found.after!r}')
    if found.wanted == found.before and when is not Round.LOCKED:
        wrong.append(f'{name}: it shows nothing, since what it leads to was there before: {found.before!r}')
    return wrong


def try_it(attack: Attack, number: int, tenant: Tenant, operator: Operator) -> Found:
    """Once, with what is seen before and after."""
    attack.ready(operator)
    before = attack.seen(operator)
    said = attack.act(tenant, number)
    after = attack.seen(operator)
    if after != before:
        attack.undo(tenant, operator)
    return Found(code=completion_code(said), before=before, after=after, wanted=attack.makes(before, number))


# -- what is tried ----------------------------------------------------------------------------------------------------


def _request(*data: int) -> Callable[[Tenant, int], Said]:
    """A request that is the same in each round."""
    return lambda tenant, _: tenant.ipmitool(raw(*data))


def _numbered(*data: int) -> Callable[[Tenant, int], Said]:
    """A request whose last byte is the number of the round."""
    return lambda tenant, number: tenant.ipmitool(raw(*data, number))


def _upgrade(tenant: Tenant, number: int) -> Said:
    return tenant.ipmitool(f'hpm upgrade /bmc-{number}.hpm force activate', UPLOAD_SECONDS)


def _upgrade_card(tenant: Tenant, number: int) -> Said:
    """Over the bridge; the card takes it as the host restarts."""
    said = tenant.ipmitool(f'{" ".join(CARD)} hpm upgrade /card-{number}.hpm force activate', UPLOAD_SECONDS)
    tenant.restart()
    return said


def _close_one(tenant: Tenant, _: int) -> Said:
    """What the host may use he may also give up."""
    return _write_enables(tenant, _read(tenant, 0x61) - {_GET_USER_NAME})


def _open_all(tenant: Tenant, _: int) -> Said:
    """With the masks read first: who sets a bit that cannot be set is refused for that."""
    return _write_enables(tenant, _read(tenant, 0x61) | _read(tenant, 0x0C))


def _read(tenant: Tenant, command: int) -> frozenset[int]:
    return mask(answered(tenant.ipmitool(raw(0x06, command, 0x0F, 0x06, 0))))


def _write_enables(tenant: Tenant, enabled: Iterable[int]) -> Said:
    return tenant.ipmitool(raw(0x06, 0x60, 0x0F, 0x06, 0, *masked(enabled)))


def _packed(version: str) -> str:
    return version_bytes(version).hex(' ')


def _text(written: str) -> bytes:
    return written.encode().ljust(_SHORT, b'\0')


ATTACKS = (
    Attack(
        name='upgrade of the BMC by HPM.1',
        command='2C/31',
        act=_upgrade,
        seen=Operator.version,
        makes=lambda _, number: _packed(new_version(number)),
    ),
    Attack(
        name='rollback of the BMC by HPM.1',
        command='2C/38',
        act=lambda tenant, _: tenant.ipmitool('hpm rollback'),
        seen=Operator.version,
        makes=lambda *_: _packed(BMC_VERSION),
    ),
    Attack(
        name='Send Message: upgrade of the card by HPM.1',
        command='06/34',
        act=_upgrade_card,
        seen=lambda operator: operator.version(*CARD),
        makes=lambda _, number: _packed(new_version(number, of_card=True)),
    ),
    Attack(
        name='Master Write-Read: EEPROM of the card',
        command='06/52',
        act=_numbered(0x06, 0x52, 0x03, 0xA0, 0, 0, _SPARE, 0xBA, 0xD0, 0x52),
        seen=lambda operator: operator.fru(*CARD),
        makes=lambda _, number: f'ba d0 52 {number:02x}',
    ),
    Attack(
        name='Write FRU Data',
        command='0A/12',
        act=_numbered(0x0A, 0x12, 0, _SPARE, 0, 0xBA, 0xD0, 0x12),
        seen=Operator.fru,
        makes=lambda _, number: f'ba d0 12 {number:02x}',
    ),
    Attack(
        name='Add SDR',
        command='0A/24',
        act=_numbered(0x0A, 0x24, 0, 0, 0x51, 0xC0, 4, 0xBA, 0xD0, 0x24),
        seen=lambda operator: operator.raw(0x0A, 0x23, 0, 0, 0xFF, 0xFF, 0, 0xFF)[-11:],
        makes=lambda _, number: f'ba d0 24 {number:02x}',
    ),
    Attack(
        name='Set Command Enables: close one',
        command='06/60',
        act=_close_one,
        seen=Operator.closed,
        makes=lambda before, _: listed({*(int(one, 16) for one in before.split()), _GET_USER_NAME}),
    ),
    Attack(
        name='Set Command Enables: open all',
        command='06/60',
        act=_open_all,
        seen=Operator.closed,
        makes=lambda *_: '',
    ),
    Attack(
        name='Set Command Sub-function Enables',
        command='06/62',
        act=_request(0x06, 0x62, 0x0F, 0x06, 0, 0x47, 0x07, 0, 0, 0),
        seen=lambda operator: operator.raw(0x06, 0x63, 0x0F, 0x06, 0, 0x47),
        makes=lambda *_: '07 00 00 00',
        undo=lambda tenant, _: tenant.ipmitool(raw(0x06, 0x62, 0x0F, 0x06, 0, 0x47, 0x0F, 0, 0, 0)),
    ),
    Attack(
        name='Set User Password',
        command='06/47',
        act=_request(0x06, 0x47, USER, 2, *TENANTS_PASSWORD.ljust(_SHORT, b'\0')),
        seen=Operator.whose_password,
        makes=lambda *_: "the tenant's",
        undo=lambda _, operator: operator.take_password_back(),
    ),
    Attack(
        name='Set User Name',
        command='06/45',
        act=lambda tenant, number: tenant.ipmitool(raw(0x06, 0x45, GUEST, *_text(f'mallory {number}'))),
        seen=lambda operator: operator.raw(0x06, 0x46, GUEST),
        makes=lambda _, number: _text(f'mallory {number}').hex(' '),
        undo=lambda _, operator: operator.administer(0x06, 0x45, GUEST, *_text('')),
    ),
    Attack(
        name='Set User Access',
        command='06/43',
        act=_request(0x06, 0x43, 0x91, GUEST, 4),
        seen=lambda operator: operator.raw(0x06, 0x44, 1, GUEST)[-2:],
        makes=lambda *_: '14',
        undo=lambda _, operator: operator.administer(0x06, 0x43, 0x81, GUEST, 0x0F),
    ),
    Attack(
        name='Set Channel Access',
        command='06/40',
        act=_request(0x06, 0x40, 1, 0x82, 0x83),
        seen=Operator.channel,
        makes=lambda *_: '02 03',
        undo=lambda tenant, _: tenant.ipmitool(raw(0x06, 0x40, 1, 0x82, 0x84)),
    ),
    Attack(
        name='Set Channel Security Keys',
        command='06/56',
        act=_request(0x06, 0x56, 1, 1, 1, *range(1, 1 + _LONG)),
        seen=Operator.whose_password,
        makes=lambda *_: '',
        undo=lambda tenant, _: tenant.ipmitool(raw(0x06, 0x56, 1, 1, 1, *bytes(_LONG))),
    ),
    Attack(
        name='Set LAN Configuration Parameters',
        command='0C/01',
        act=_numbered(0x0C, 0x01, 1, 3, 10, 66, 6),
        seen=lambda operator: operator.raw(0x0C, 0x02, 1, 3, 0, 0)[3:],
        makes=lambda _, number: f'0a 42 06 {number:02x}',
    ),
    *(
        Attack(
            name=name,
            command=f'06/{command:02X}',
            ready=Operator.mark,
            act=_request(0x06, command),
            seen=Operator.channel,
            makes=lambda *_: '02 04',
        )
        for name, command in (('Cold Reset', 0x02), ('Warm Reset', 0x03))
    ),
)
"""What a tenant does who wants the machine for longer than he has it."""

ALLOWED = {
    'mc info': 'Firmware Revision',
    'fru print 0': 'Board Serial',
    'sdr elist all': 'FPGA1',
    'hpm check': 'FW_BMC_0',
    raw(0x06, 0x61, 0x0F, 0x06, 0): '00 00 00',
}
"""What a tenant may always do, with a part of the answer: a lock that forbade it would be none of ours."""
