# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render why a device is withheld from placement because of the deny list of the catalogue."""

from collections.abc import Sequence

from baremetal_acc.render import findings
from baremetal_acc.render.words import shortened
from baremetal_acc.scheduling.denied_devices import DeniedDevice, WithheldDevice

_MOST_FINDINGS = 4
_MOST_CHARACTERS = 400


def reason(device: DeniedDevice) -> str:
    """Say what of a device is denied, without its name."""
    said = [f'{one.subject}: {findings.clause(one.fact, one.rule)}' for one in device.findings[:_MOST_FINDINGS]]
    more = len(device.findings) - len(said)
    text = '; '.join([*said, *([f'and {more} more'] if more else [])])
    return text if len(text) <= _MOST_CHARACTERS else f'{text[:_MOST_CHARACTERS]}...'


def withheld(devices: Sequence[WithheldDevice]) -> str:
    """Say which devices are withdrawn, each with what is denied."""
    return f'withdrawn from placement by the deny list of the catalogue: {shortened([f"{d.label} ({d.why})" for d in devices])}'


def released(devices: Sequence[WithheldDevice], *, published: bool) -> str:
    """Say which devices the deny list does not mean any more.

    :param published: those that are verified are in placement again; else the next publication of the node decides.
    """
    names = shortened([d.label for d in devices])
    then = 'what is verified is published again' if published else 'the next publication of the node decides about them'
    return f'the deny list of the catalogue does not mean {names} any more: {then}'
