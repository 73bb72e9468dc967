# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Controllers and memories for tests, from the layouts: only the type of an answer is shared with what is tested."""

import struct

from baremetal_acc.bmc.ipmi.command import CommandReply


def zero(data: bytes) -> bytes:
    """The byte that makes the sum 0."""
    return bytes([(256 - sum(data) % 256) % 256])


def text(value: str) -> bytes:
    """A field of eight-bit text with its type/length byte."""
    return bytes([0xC0 | len(value)]) + value.encode('latin-1')


def area(body: bytes) -> bytes:
    """An FRU area from what comes after its length: format 1, the end mark, filling, checksum."""
    filled = body + b'\xc1'
    filled += bytes(-(len(filled) + 3) % 8)
    whole = bytes([1, (len(filled) + 3) // 8]) + filled
    return whole + zero(whole)


def record(kind: int, body: bytes, *, last: bool = False) -> bytes:
    """A record of the multi-record area."""
    head = bytes([kind, 0x82 if last else 0x02, len(body)]) + zero(body)
    return head + zero(head) + body


def memory(*, chassis: bytes = b'', board: bytes = b'', product: bytes = b'', records: bytes = b'', size: int = 512) -> bytes:
    """A whole memory: areas one after the other, FFh behind them."""
    places, body = [], b''
    for part in (chassis, board, product, records):
        places.append((8 + len(body)) // 8 if part else 0)
        body += part + bytes(-len(part) % 8)
    head = bytes([1, 0, *places, 0])
    return (head + zero(head) + body).ljust(size, b'\xff')


def board(*, product: str = 'Card', serial: str = 'S1') -> bytes:
    """A board area in English, made 1996-01-01 16:40."""
    fields = text('Maker') + text(product) + text(serial) + text('P/N 7') + b'\xc0'
    return area(b'\x19' + (1000).to_bytes(3, 'little') + fields)


def product(name: str, serial: str) -> bytes:
    """A product area in English."""
    return area(b'\x19' + text('Maker') + text(name) + text('PN') + text('1a') + text(serial) + b'\xc0\xc0')


def fru_locator(
    number: int,
    *,
    address: int = 0x20,
    fru: int = 0,
    access: int = 0x80,
    channel: int = 0,
    name: str = 'x',
    entity: int = 0xC1,
    modifier: int = 0,
) -> bytes:
    """A record of type 11h. Entity C1h is an AMC, and 11 (0Bh) an add-in card."""
    body = bytes([address, fru, access, channel << 4, 0, 0x10, modifier, entity, 0x61, 0]) + text(name)
    return struct.pack('<HBBB', number, 0x51, 0x11, len(body)) + body


def mc_locator(
    number: int, *, address: int, channel: int = 0, capabilities: int = 0x29, name: str = 'mmc', entity: int = 0xC1
) -> bytes:
    """A record of type 12h."""
    body = bytes([address, channel, 0, capabilities, 0, 0, 0, entity, 0x62, 0]) + text(name)
    return struct.pack('<HBBB', number, 0x51, 0x12, len(body)) + body


def sensor(number: int) -> bytes:
    """A record of type 02h, which is of no interest."""
    return struct.pack('<HBBB', number, 0x51, 0x02, 43) + bytes(43)


class Fake:
    """A controller. What it does is in its attributes, for a test to change.

    :ivar behind: by channel and address.
    :ivar answers_by: ``embedded``, ``queue`` or nothing at all.
    :ivar most: bytes of data in an answer after the completion code.
    """

    def __init__(
        self, *, address=0x20, frus=None, repository=None, device_sdrs=None, behind=None, longest=240, most=255, firmware=2
    ):
        self.label = f'fake {address:02X}h'
        self.longest = longest
        self.most = most
        self.address = address
        self.frus = dict(frus or {})
        self.repository = repository
        self.device_sdrs = device_sdrs
        self.behind = dict(behind or {})
        self.answers_by = 'embedded'
        self.words = False
        self.too_long = 0xC8
        self.firmware = firmware
        self.queue = []
        self.asked = []
        self.sequences = []
        self.codes = {}
        self.cancel_after = None
        self._reservation = 0

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        assert len(data) <= self.longest
        self.asked.append((netfn, command, bytes(data), lun, once))
        whole = self.answer(netfn, command, bytes(data))
        return CommandReply(whole[0], whole[1:])

    def answer(self, netfn, command, data):
        """Completion code and data."""
        if (netfn, command) in self.codes:
            return bytes([self.codes[netfn, command]])
        match netfn, command:
            case 0x06, 0x01:
                return b'\0' + self.device_id()
            case 0x06, 0x34:
                return self.send(data)
            case 0x06, 0x33:
                return b'\0' + self.queue.pop(0) if self.queue else b'\x80'
            case 0x0A, 0x10 if data[0] in self.frus:
                return b'\0' + struct.pack('<HB', len(self.frus[data[0]]), self.words)
            case 0x0A, 0x11 if data[0] in self.frus:
                return self.read_fru(*struct.unpack('<BHB', data))
            case 0x0A, 0x10 | 0x11:
                return b'\xcb'
            case 0x0A, 0x20 if self.repository is not None:
                return b'\0' + struct.pack('<BHHIIB', 0x51, len(self.repository), 100, 7, 8, 0x02)
            case (0x0A, 0x22) | (0x04, 0x22):
                self._reservation += 1
                return b'\0' + struct.pack('<H', self._reservation)
            case 0x0A, 0x23 if self.repository is not None:
                return self.read_sdr(self.repository, data)
            case 0x04, 0x21 if self.device_sdrs is not None:
                return self.read_sdr(self.device_sdrs, data)
        return b'\xc1'

    def device_id(self):
        support = (0x08 if 0 in self.frus else 0) | (0x02 if self.repository is not None else 0) | (0x40 if self.behind else 0)
        first = self.address, 0x80 * (self.device_sdrs is not None) | 1, self.firmware, 0x05, 0x02, support
        return bytes(first) + b'\x5a\x31\x00' + b'\x34\x12' + b'\1\2\3\4'

    def read_fru(self, number, offset, count):
        unit = 2 if self.words else 1
        offset, count = offset * unit, count * unit
        if count + 1 > self.most or offset + count > len(self.frus[number]):
            return bytes([self.too_long])
        return bytes([0, count // unit]) + self.frus[number][offset : offset + count]

    def read_sdr(self, records, data):
        reservation, number, offset, count = struct.unpack('<HHBB', data)
        if self.cancel_after == 0:
            self.cancel_after = None
            self._reservation += 1
        elif self.cancel_after:
            self.cancel_after -= 1
        if offset and reservation != self._reservation:
            return b'\xc5'
        numbers = [int.from_bytes(r[:2], 'little') for r in records]
        if number == 0 and records:
            number = numbers[0]
        if number not in numbers:
            return b'\xcb'
        place = numbers.index(number)
        following = numbers[place + 1] if place + 1 < len(numbers) else 0xFFFF
        part = records[place][offset : None if count == 0xFF else offset + count]
        if len(part) + 2 > self.most:
            return b'\xca'
        return b'\0' + struct.pack('<H', following) + part

    def send(self, data):
        """Send Message: hands the message on, and its answer back."""
        assert 0x40 == data[0] & 0xF0
        message = data[1:]
        assert 0 == sum(message[:3]) % 256
        assert 0 == sum(message[3:]) % 256
        there = self.behind.get((data[0] & 0x0F, message[0]))
        if there is None:
            return b'\x83'
        netfn, sequence, command = message[1] >> 2, message[4] >> 2, message[5]
        there.sequences.append(sequence)
        there.asked.append((netfn, command, message[6:-1], message[1] & 3, False))
        body = there.answer(netfn, command, message[6:-1])
        head = bytes([message[3], (netfn | 1) << 2])
        tail = bytes([message[0], sequence << 2 | message[1] & 3, command]) + body
        response = head + zero(head) + tail + zero(tail)
        assert len(response) <= 32, 'the bus takes 32 bytes'
        if self.answers_by == 'embedded':
            return b'\0' + response
        if self.answers_by == 'queue':
            self.queue.append(bytes([data[0] & 0x0F]) + response[1:])
        return b'\0'
