# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan to restore settings of BMCs, where a rule of ``[bmc]`` says so; refuse to restore what the target itself rests on."""

from baremetal_acc.model import subject
from baremetal_acc.model.refusal import Refusal, RestsOnSetting
from baremetal_acc.planning.bmc_settings import restores
from baremetal_acc.planning.plan_draft import PlanDraft
from baremetal_acc.planning.setting_restores import RESTED_ON
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts


def plan_settings(draft: PlanDraft, baseline: Baseline, node: NodeFacts, *, ramdisk: bool) -> None:
    """Plan the restores of settings that were read and differ.

    :param ramdisk: a ramdisk was or may be started on the host; what may have started it is left alone.
    """
    for bmc, setting, rule, made, kept in restores(draft.inventory, baseline, node, ramdisk=ramdisk):
        draft.actions += made
        draft.refusals += (
            Refusal(
                accelerator=None,
                label=node.name,
                subject=subject.bmc_setting(bmc.name, setting),
                reason=RestsOnSetting(why=one.why, rule=rule, account=one.account),
            )
            for one in kept
            if one.why in RESTED_ON
        )
