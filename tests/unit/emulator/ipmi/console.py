# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An RMCP+ console written by hand: it shares no code with the emulator that it speaks to.

Source: IPMI 2.0 revision 1.1, section 13; doc/source/reference/ipmi_notes.rst, "RMCP+ sessions".
"""

import hashlib
import hmac
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

RMCP = bytes.fromhex('0600ff07')
CONSOLE = bytes.fromhex('a4a3a2a1')
RANDOM = bytes(range(0x40, 0x50))
SUITES = {3: (1, 1, 1, 'sha1', 12), 17: (3, 4, 1, 'sha256', 16)}


def checksummed(data: bytes) -> bytes:
    return data + bytes((-sum(data) % 256,))


def message(
    netfn: int, command: int, data: bytes = b'', sequence: int = 1, lun: int = 0, to: int = 0x20, sender: int = 0x81
) -> bytes:
    return checksummed(bytes((to, netfn << 2 | lun))) + checksummed(bytes((sender, sequence << 2, command)) + data)


def plain(kind: int, payload: bytes) -> bytes:
    return RMCP + struct.pack('<BBIIH', 6, kind, 0, 0, len(payload)) + payload


class Console:
    """One session with an endpoint, which is a function from a datagram to datagrams."""

    def __init__(self, endpoint, *, suite=17, name=b'admin', password=b'secret', kg=b'', role=0x14):
        self.endpoint = endpoint
        self.auth, self.integrity, self.secrecy, self.digest, self.check = SUITES[suite]
        self.name, self.password, self.kg, self.role = name, password, kg, role
        self.sequence, self.rq = 0, 0

    def mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, getattr(hashlib, self.digest)).digest()

    def ask(self, kind: int, payload: bytes) -> bytes:
        (answer,) = self.endpoint.receive(plain(kind, payload))
        assert answer[:4] == RMCP
        assert (6, kind + 1, 0, 0, len(answer) - 16) == struct.unpack_from('<BBIIH', answer, 4)
        return answer[16:]

    def open_request(self) -> bytes:
        parts = ((0, self.auth), (1, self.integrity), (2, self.secrecy))
        return bytes((7, self.role & 0xF, 0, 0)) + CONSOLE + b''.join(bytes((k, 0, 0, 8, v, 0, 0, 0)) for k, v in parts)

    def open(self) -> int:
        """The status of Open Session."""
        answer = self.ask(0x10, self.open_request())
        self.opened = answer
        if answer[1] == 0:
            self.bmc = answer[8:12]
        return answer[1]

    def rakp1(self) -> bytes:
        return bytes((8, 0, 0, 0)) + self.bmc + RANDOM + bytes((self.role, 0, 0, len(self.name))) + self.name

    def rakp(self) -> tuple[int, int | None]:
        """The statuses of RAKP 2 and 4; checks what the BMC proves."""
        second = self.ask(0x12, self.rakp1())
        if second[1]:
            return second[1], None
        assert bytes((8, 0, 0, 0)) + CONSOLE == second[:8]
        theirs, guid, proof = second[8:24], second[24:40], second[40:]
        tail = bytes((self.role, len(self.name))) + self.name
        self.proof_right = proof == self.mac(self.password, CONSOLE + self.bmc + RANDOM + theirs + guid + tail)
        third = bytes((9, 0, 0, 0)) + self.bmc + self.mac(self.password, theirs + CONSOLE + tail)
        self.third = third
        fourth = self.ask(0x14, third)
        if fourth[1]:
            return 0, fourth[1]
        key = self.mac(self.kg or self.password, RANDOM + theirs + tail)
        self.icv_right = fourth[8:] == self.mac(key, RANDOM + self.bmc + guid)[: self.check]
        self.k1, self.k2 = self.mac(key, b'\1' * 20), self.mac(key, b'\2' * 20)[:16]
        return 0, 0

    def login(self) -> 'Console':
        assert 0 == self.open()
        assert (0, 0) == self.rakp()
        assert self.proof_right
        assert self.icv_right
        return self

    def packet(self, inner: bytes, sequence: int | None = None) -> bytes:
        """An encrypted and signed packet of the next number, or of that one."""
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        pad = -(len(inner) + 1) % 16
        iv = bytes(range(16))
        cipher = Cipher(algorithms.AES(self.k2), modes.CBC(iv)).encryptor()
        payload = iv + cipher.update(inner + bytes(range(1, pad + 1)) + bytes((pad,))) + cipher.finalize()
        body = bytes((6, 0xC0)) + self.bmc + struct.pack('<IH', sequence, len(payload)) + payload
        fill = -(len(body) + 2) % 4
        body += b'\xff' * fill + bytes((fill, 7))
        return RMCP + body + self.mac(self.k1, body)[: self.check]

    def unpacked(self, answer: bytes) -> bytes:
        """The message in a packet of the BMC, whose integrity is checked."""
        body, check = answer[4 : -self.check], answer[-self.check :]
        assert check == self.mac(self.k1, body)[: self.check]
        assert bytes((6, 0xC0)) + CONSOLE == body[:6]
        assert 0 == len(body) % 4
        (size,) = struct.unpack_from('<H', body, 10)
        payload = body[12 : 12 + size]
        cipher = Cipher(algorithms.AES(self.k2), modes.CBC(payload[:16])).decryptor()
        text = cipher.update(payload[16:]) + cipher.finalize()
        return text[: -text[-1] - 1]

    def raw(self, netfn: int, command: int, data: bytes = b'', *, rq: int | None = None) -> list[bytes]:
        """The messages that come back."""
        if rq is None:
            self.rq = (self.rq + 1) % 64
            rq = self.rq
        return [self.unpacked(one) for one in self.endpoint.receive(self.packet(message(netfn, command, data, rq)))]

    def command(self, netfn: int, command: int, data: bytes = b'') -> bytes:
        """Completion code and data of the one answer."""
        (answer,) = self.raw(netfn, command, data)
        assert checksummed(bytes((0x81, (netfn | 1) << 2))) + bytes((0x20, self.rq << 2, command)) == answer[:6]
        assert 0 == sum(answer[3:]) % 256
        return answer[6:-1]
