# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Show quarantined devices (:mod:`baremetal_acc.planning.quarantine`) in Ironic, and withhold them from placement.

The node of a quarantined device goes to maintenance.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import QUARANTINE
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.planning import quarantine
from baremetal_acc_ironic.state.node_state import NodeState

WAY_BACK = {
    Flow.CLEAN: 'clear maintenance, manage, and provide or clean the node',
    Flow.DEPLOY: 'clear maintenance and undeploy the node',
    Flow.SERVICE: 'clear maintenance, and service the node with update_accelerator_firmware, or undeploy it',
}

_REASON_CHARACTERS = 2000


def maintain(node: Any, quarantined: Iterable[Quarantine], flow: Flow) -> None:
    """Put the node into maintenance. The caller saves the node; Ironic's own handlers add the fault where they have one."""
    sentences = ' '.join(dict.fromkeys(q.why for q in quarantined))
    if len(sentences) > _REASON_CHARACTERS:
        sentences = sentences[:_REASON_CHARACTERS] + '...'
    way = WAY_BACK.get(flow, WAY_BACK[Flow.CLEAN])
    ends = 'cleaning ends the quarantine once it has written the device again and everything is at the baseline'
    text = f'{sentences} ({way}; {ends})'
    others = node.maintenance_reason if node.maintenance else None
    node.maintenance_reason = text if not others or others == text else f'{text}; before that: {others[:_REASON_CHARACTERS]}'
    node.maintenance = True


def reasons(state: NodeState) -> list[str]:
    """Return why no verification of the node passes."""
    return [f'{q.device} is quarantined since {q.since:%Y-%m-%d %H:%M:%S} UTC: {q.why}' for q in state.quarantined]


def still_bad(state: NodeState, inventory: Inventory) -> frozenset[AcceleratorId]:
    """The devices that a job does not publish: those in quarantine that its own writes do not mend."""
    writes = () if state.job is None else tuple(i.action for i in state.job.items if not i.restoring)
    return quarantine.suspects([q for q in state.quarantined if not quarantine.mended(q, writes, inventory)], inventory)


def withheld(verdict: Verdict, devices: frozenset[AcceleratorId]) -> Verdict:
    """Return the verdict for placement: a quarantined device offers nothing, whatever it reports."""
    findings = tuple(
        Finding(
            accelerator=device,
            label=device,
            subject=QUARANTINE,
            fact=FindingText(expected='none', found='quarantined'),
            met=Met.NO,
            rule='quarantine',
        )
        for device in sorted(devices)
    )
    return replace(verdict, findings=(*verdict.findings, *findings))
