# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read what an HPM.1 target is able to do, its components, and its last command in progress.

Source: PICMG HPM.1 R1.0, section 3; doc/source/reference/ipmi_notes.rst, "Commands of HPM.1".
"""

from collections.abc import Callable
from typing import TypeVar

from baremetal_acc.bmc.ipmi.command import NOT_THERE, CommandRefused, NetFn, Raw, ask, refusal
from baremetal_acc.bmc.ipmi.hpm.commands import (
    NAMES,
    Capabilities,
    HpmCommand,
    HpmComponent,
    Selector,
    Status,
    encode_plain,
    encode_properties,
    parse_capabilities,
    parse_general,
    parse_name,
    parse_status,
    parse_version,
)
from baremetal_acc.errors import BmcError, BmcUnreachable

_T = TypeVar('_T')

_NOT_BY_THIS_INTERFACE = 0x81
"""Completion code of Get Target Upgrade Capabilities: not supported on this interface."""


def read_capabilities(raw: Raw) -> Capabilities | None:
    """Get Target Upgrade Capabilities; None: the controller has no HPM.1, or not on this interface, an ordinary answer.

    :raises BmcError: it was refused or not answered, or the answer is invalid.
    """
    reply = raw(NetFn.GROUP, HpmCommand.TARGET_CAPABILITIES, encode_plain())
    if reply.code in NOT_THERE or reply.code == _NOT_BY_THIS_INTERFACE:
        return None
    if not reply.ok:
        raise refusal(raw, NAMES[HpmCommand.TARGET_CAPABILITIES], reply)
    return parse_capabilities(reply.data, raw.label)


def read_status(raw: Raw) -> Status | None:
    """Get Upgrade Status; None: the controller does not have the command, an ordinary answer.

    :raises BmcError: it was refused or not answered, or the answer is invalid.
    """
    reply = raw(NetFn.GROUP, HpmCommand.STATUS, encode_plain())
    if reply.code in NOT_THERE:
        return None
    if not reply.ok:
        raise refusal(raw, NAMES[HpmCommand.STATUS], reply)
    return parse_status(reply.data, raw.label)


def read_component(raw: Raw, number: int) -> HpmComponent:
    """Read one component. Values that it refuses to report are None, with the reason in ``unread``.

    :raises BmcUnreachable: the controller does not answer.
    """
    unread: list[str] = []

    def read(selector: Selector, parse: Callable[[bytes, str], _T]) -> _T | None:
        what = f'{NAMES[HpmCommand.COMPONENT_PROPERTIES]} of component {number}, {selector.name.lower()}'
        try:
            data = ask(
                raw, NetFn.GROUP, HpmCommand.COMPONENT_PROPERTIES, encode_properties(number, selector), what=what, least=1
            )
            return parse(data, raw.label)
        except BmcUnreachable:
            raise
        except CommandRefused as exc:
            if exc.code != _NO_SUCH_PROPERTY:
                unread.append(exc.what)
        except BmcError as exc:
            unread.append(exc.what)
        return None

    properties = read(Selector.GENERAL, parse_general)
    return HpmComponent(
        number=number,
        properties=properties,
        current=read(Selector.CURRENT, parse_version),
        name=read(Selector.NAME, parse_name),
        rollback=read(Selector.ROLLBACK, parse_version) if properties is None or properties.rollback else None,
        deferred=read(Selector.DEFERRED, parse_version) if properties is None or properties.deferred else None,
        unread=tuple(unread),
    )


_NO_SUCH_PROPERTY = 0x83


def read_components(raw: Raw, target: Capabilities) -> tuple[HpmComponent, ...]:
    """Read all components of a target, in the order of their numbers.

    :raises BmcUnreachable: the controller does not answer.
    """
    return tuple(read_component(raw, number) for number in sorted(target.components))
