# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The receive message queue and message flags of the system interface (06/05, 2E to 31, 33 and 35).

The response of a controller behind the BMC to the host arrives in the receive message queue; the attention flag is set until
the queue has been read.

Source: IPMI 2.0 revision 1.1, sections 22.1 to 22.8.
"""

from collections import deque
from collections.abc import Callable

from baremetal_acc.emulator.ipmi.controller import (
    APP,
    IPMB,
    MANY,
    SYSTEM,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.message import Message

CAPACITY = 32
"""The capacity of the queue; further messages are lost, as on a real BMC."""

RECEIVED = 0x01
"""Bit of the message flags: the queue is not empty."""

_LOGGING = 0x08
_RECEIVE_INTERRUPT = 0x01
_ENABLES = 0x0F
_EMPTY = 0x80


class Messages:
    """The receive message queue of the system interface.

    :ivar on_attention: called with whether attention is set, and whether by an interrupt.
    :ivar manufacturing: Manufacturing Test On was received.
    """

    def __init__(self) -> None:
        self.on_attention: list[Callable[[bool, bool], None]] = []
        self.manufacturing = False
        self._queue: deque[Message] = deque(maxlen=CAPACITY)
        self._enables = _LOGGING

    def join(self, controller: EmulatedController) -> None:
        """Register the messaging commands at a controller."""
        user, administrator = EmulatedPrivilege.USER, EmulatedPrivilege.ADMINISTRATOR
        controller.add(APP, 0x05, self._manufacture, privilege=administrator, most=MANY)
        controller.add(APP, 0x2E, self._set_enables, privilege=administrator, least=1)
        controller.add(APP, 0x2F, lambda _: bytes((self._enables,)), privilege=user)
        controller.add(APP, 0x30, self._clear, privilege=administrator, least=1)
        controller.add(APP, 0x31, lambda _: bytes((RECEIVED if self._queue else 0,)), privilege=user)
        controller.add(APP, 0x33, self._get, privilege=administrator)
        controller.add(APP, 0x35, self._event, privilege=user)
        controller.on_reset.append(self._restarted)

    def put(self, message: Message) -> None:
        """Queue a message for the host's software."""
        if len(self._queue) < CAPACITY:
            self._queue.append(message)
        self._attend()

    @property
    def waiting(self) -> int:
        """The number of messages in the queue."""
        return len(self._queue)

    def _attend(self) -> None:
        for told in self.on_attention:
            told(bool(self._queue), bool(self._enables & _RECEIVE_INTERRUPT))

    def _restarted(self) -> None:
        self._queue.clear()
        self._enables = _LOGGING
        self.manufacturing = False
        self._attend()

    def _manufacture(self, _: CommandRequest) -> bytes:
        self.manufacturing = True
        return b''

    def _set_enables(self, request: CommandRequest) -> bytes:
        """Set BMC Global Enables: bits 0 to 3 can be set; the OEM bits 5 to 7 are not supported."""
        if request.data[0] & ~_ENABLES:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        self._enables = request.data[0]
        return b''

    def _of_the_host(self, request: CommandRequest) -> None:
        if request.channel != SYSTEM:
            raise CommandRefusal(EmulatedCode.INVALID_COMMAND)

    def _clear(self, request: CommandRequest) -> bytes:
        self._of_the_host(request)
        if request.data[0] & RECEIVED:
            self._queue.clear()
            self._attend()
        return b''

    def _get(self, request: CommandRequest) -> bytes:
        """The oldest message, from its NetFn on: the address of the BMC is left out."""
        self._of_the_host(request)
        if not self._queue:
            raise CommandRefusal(_EMPTY)
        message = self._queue.popleft()
        self._attend()
        return bytes((IPMB,)) + message.encoded()[1:]

    def _event(self, _: CommandRequest) -> bytes:
        """Read Event Message Buffer: always empty, since this BMC has no sensors."""
        raise CommandRefusal(_EMPTY)
