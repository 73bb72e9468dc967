# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node with an FPGA whose slots are programmed."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from baremetal_acc.emulator.image import build_image
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, Image, ImageKind
from baremetal_acc.model.lock import WritePath
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, Match, NodeFacts, Rule
from tests.faults.rig import MACHINE, SLOT, Rig

FUNCTION = 'aes'


def fpga_rig(
    emulated_machine: Callable[..., Any],
    folder: Path,
    *,
    hold: bool,
    exposure: Exposure = Exposure.TENANT,
    machine: Mapping[str, Any] | None = None,
    **how: Any,
) -> Rig:
    """A rig with one FPGA of two empty slots, open to their host; the second slot is to hold a function.

    :param machine: settings of the machine in place of those of the rig; ``how``: further fields of the rig.
    """
    settings = {key: value for key, value in MACHINE.items() if key != 'gpus'} | dict(machine or {})
    rig = Rig(machine=emulated_machine('fpga-server', **settings), folder=folder, hold=hold, **how)
    rig.what = SLOT
    data = build_image(kind='function', model='d5005', component='slot', version='3.1', function=FUNCTION, size_bytes=20_000)
    path = folder / 'aes.img'
    path.write_bytes(data)
    image = Image(
        name='aes',
        kind=ImageKind.FUNCTION,
        fits=(Fit(pci='0x8086:0x0b2b'),),
        component='Slot*',
        function=FUNCTION,
        version='3.1',
        security_version=1,
        source=str(path),
        size_bytes=len(data),
        digest=Digest(algorithm=DigestAlgorithm.SHA256, value=hashlib.sha256(data).hexdigest()),
    )
    rule = Rule(
        name='fpga', match=Match(kind=Kind.FPGA), functions=(('Slot1', FUNCTION),), block=frozenset({WritePath.HOST_DEVICE})
    )
    rig.target = replace(rig.target, node=NodeFacts(name='node-1', exposure=exposure))
    rig.tools = replace(rig.tools, baseline=Baseline(rules=(rule,)), catalogue=(image,))
    return rig


def programmed(rig: Rig) -> str | None:
    """What really lies in the slot."""
    bank = rig.machine.truth()['components']['host/FPGA1_Slot1']['active']
    return None if bank is None else str(bank['function'])


def pushes(rig: Rig) -> list[Any]:
    """The images of which the machine got anything."""
    return [e for e in rig.machine.log() if e['method'] == 'POST' and e['received_bytes'] and 'update' in e['path'].lower()]
