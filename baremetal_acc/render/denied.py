# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render why a device is withheld from placement because of the deny list of the catalogue."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from baremetal_acc.planning.drift import shown
from baremetal_acc.render import findings
from baremetal_acc.render.words import shortened
from baremetal_acc.scheduling.denied_devices import DeniedDevice, WithheldDevice

_MOST_FINDINGS = 4
"""Findings of one device that are stored with its node, where there is little room."""


def recorded(device: DeniedDevice, since: datetime) -> WithheldDevice:
    """Return a denied device as it is stored: with its facts as text."""
    kept = device.findings[:_MOST_FINDINGS]
    return WithheldDevice(
        accelerator=device.accelerator,
        label=shown(device.label),
        since=since,
        findings=tuple(replace(one, label=shown(one.label), fact=findings.words(one.fact)) for one in kept),
        more=len(device.findings) - len(kept),
    )


def reason(device: WithheldDevice) -> str:
    """Say what of a device is denied, without its name."""
    said = [f'{one.subject}: {findings.clause(one.fact, one.rule)}' for one in device.findings]
    return shown('; '.join([*said, *([f'and {device.more} more'] if device.more else [])]), 400)


def withheld(devices: Sequence[WithheldDevice]) -> str:
    """Say which devices are withdrawn, each with what is denied."""
    named = shortened([f'{d.label} ({reason(d)})' for d in devices])
    return f'withdrawn from placement by the deny list of the catalogue: {named}'


def released(devices: Sequence[WithheldDevice], *, published: bool) -> str:
    """Say which devices the deny list does not mean any more.

    :param published: those that are verified are in placement again; else the next publication of the node decides.
    """
    names = shortened([d.label for d in devices])
    then = 'what is verified is published again' if published else 'the next publication of the node decides about them'
    return f'the deny list of the catalogue does not mean {names} any more: {then}'
