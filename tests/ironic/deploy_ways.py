# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The table of every way through a deploy or another flow of Ironic, and how each ends.

Each row is a test of ``test_ways_to_deploy.py`` with its key in its name, and a row of
doc/source/reference/ways_to_deploy.rst. Write that page with ``python -m tests.ironic.deploy_ways >
doc/source/reference/ways_to_deploy.rst``.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ironic.common import policy, states
from oslo_config import cfg
from oslo_policy import policy as oslo_policy

from baremetal_acc_ironic.authorization.policy import list_policies

OWNER, LESSEE = 'o' * 32, 'l' * 32


PROVISION = 'baremetal:node:set_provision_state'
CLEAN_STEPS = 'baremetal:node:set_provision_state:clean_steps'
SERVICE_STEPS = 'baremetal:node:set_provision_state:service_steps'
POWER = 'baremetal:node:set_power_state'
INSTANCE_INFO = 'baremetal:node:update_instance_info'
INTERFACES = 'baremetal:node:update:driver_interfaces'
RUNBOOK = 'baremetal:runbook:create'


class Kind(StrEnum):
    """How a way ends."""

    DEPLOYED = 'deployed after verification'
    DONE = 'done'
    REFUSED = 'refused'
    IRONIC_FAILS = 'Ironic itself fails'


class Host(StrEnum):
    """The host at the end, as its BMC has it."""

    ON = 'On'
    OFF = 'Off'


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a way ends.

    :ivar state: the provision state.
    :ivar says: words of ``last_error``, or of the answer of the API.
    """

    kind: Kind
    state: str
    host: Host
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way.

    :ivar deploy: the entry point of Ironic's deploy interfaces that it is about.
    :ivar rules: of Ironic's policy, all of which whoever asks has to satisfy; empty: the conductor does it by itself.
    :ivar safe: why it is safe.
    """

    key: str
    title: str
    rules: tuple[str, ...]
    end: End
    safe: str
    deploy: str | None = None


def _deployed(state: str = states.ACTIVE, host: Host = Host.ON) -> End:
    return End(kind=Kind.DEPLOYED, state=state, host=host)


def _done(state: str, host: Host) -> End:
    return End(kind=Kind.DONE, state=state, host=host)


def _refused(state: str, *says: str, host: Host = Host.OFF) -> End:
    return End(kind=Kind.REFUSED, state=state, host=host, says=says)


def _ironic_fails(state: str, *says: str, host: Host = Host.OFF) -> End:
    return End(kind=Kind.IRONIC_FAILS, state=state, host=host, says=says)


_BEFORE = 'Steps 120 and 110 lock and verify before step 100, which starts the host for the first time.'
_UNVERIFIED = 'this deploy has not passed verify_accelerators'
_UNPROVEN = 'no verification has proven the locks of its accelerators closed for this deployment'
_LOCK = 'service the node with lock_accelerators first'
_EARLY = 'would run before verify_accelerators'
_LOWER = 'give each a lower priority than verify_accelerators'

DEPLOY_INTERFACES = (
    Way(
        key='direct',
        deploy='direct',
        title='``direct``: the ramdisk writes an image',
        rules=(PROVISION,),
        end=_deployed(),
        safe=_BEFORE,
    ),
    Way(
        key='ansible',
        deploy='ansible',
        title='``ansible``: a playbook writes the image, from the ramdisk',
        rules=(PROVISION,),
        end=_deployed(),
        safe=_BEFORE,
    ),
    Way(
        key='custom_agent',
        deploy='custom-agent',
        title="``custom-agent``: steps of the operator's own ramdisk",
        rules=(PROVISION,),
        end=_deployed(),
        safe=_BEFORE,
    ),
    Way(
        key='bootc',
        deploy='bootc',
        title='``bootc``: a container image is installed by the ramdisk',
        rules=(PROVISION,),
        end=_deployed(),
        safe=_BEFORE,
    ),
    Way(
        key='ramdisk',
        deploy='ramdisk',
        title="``ramdisk``: the tenant's own ramdisk or ISO is booted in step 100",
        rules=(PROVISION,),
        end=_deployed(),
        safe=_BEFORE,
    ),
    Way(
        key='anaconda',
        deploy='anaconda',
        title="``anaconda``: the tenant's own installer is booted in step 100, and Ironic ends the deploy when it reports",
        rules=(PROVISION,),
        end=_deployed(),
        safe=f'{_BEFORE} Ironic runs no step below 100 here, and none of ours is there.',
    ),
    Way(
        key='noop',
        deploy='noop',
        title='``noop``: nothing is booted; the host is powered on afterwards',
        rules=(PROVISION,),
        end=_deployed(),
        safe='The deploy does not start the host, and a power request is refused until this deploy has been verified.',
    ),
    Way(
        key='autodetect',
        deploy='autodetect',
        title='``autodetect``: Ironic switches to ``direct``, the last of ``[DEFAULT] autodetect_deploy_interfaces``',
        rules=(PROVISION,),
        end=_deployed(),
        safe='Ironic switches the deploy interface before it gathers the steps; ours are of the firmware interface and stay.',
    ),
    Way(
        key='autodetect_ramdisk',
        deploy='autodetect',
        title='``autodetect`` where ``instance_info`` asks for ``ramdisk``, by ``boot_iso`` and ``ironic_ramdisk_deploy``',
        rules=(PROVISION, INSTANCE_INFO),
        end=_deployed(),
        safe='As with ``ramdisk``: the tenant chooses among interfaces that the operator has listed, and all run our steps.',
    ),
    Way(
        key='fake',
        deploy='fake',
        title='``fake``: pretends to deploy',
        rules=(INTERFACES,),
        end=_refused(states.AVAILABLE, 'Could not find the following interface', 'fake', 'Valid interfaces are'),
        safe='No hardware type of ours supports it: Ironic answers 400 to whoever sets it.',
    ),
)

IMAGES = (
    Way(
        key='volume_external',
        title='Boot from a volume, storage interface ``external``: no ramdisk, no image',
        rules=(PROVISION,),
        end=_deployed(),
        safe='Step 100 starts nothing here; the host is first started by step 20, after the verification.',
    ),
    Way(
        key='volume_cinder',
        title='Boot from a volume, storage interface ``cinder``',
        rules=(PROVISION,),
        end=_deployed(),
        safe='The same.',
    ),
    Way(
        key='fast_track',
        title="Fast track: the operator's ramdisk has been running since inspection or cleaning, and the host stays on",
        rules=(PROVISION,),
        end=_deployed(),
        safe='Locks are engaged and read back under the running ramdisk, before it gets its first command; only an agent that '
        "has the node's token is taken for it.",
    ),
    Way(
        key='rebuild_same',
        title='Rebuild with the same image',
        rules=(PROVISION,),
        end=_deployed(),
        safe='A rebuild is a deploy: what was proven for the earlier one counts for nothing until this one is verified.',
    ),
    Way(
        key='rebuild_lost',
        title='Rebuild after a BMC has lost a lock while the tenant had the node',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, 'was not written again', 'clean the node'),
        safe='The cards may run what the tenant has written: only cleaning writes them again.',
    ),
    Way(
        key='rebuild_other',
        title='Rebuild with another image',
        rules=(PROVISION, INSTANCE_INFO),
        end=_deployed(),
        safe='The same.',
    ),
    Way(
        key='rebuild_unreachable',
        title='Rebuild with an image that cannot be fetched',
        rules=(PROVISION, INSTANCE_INFO),
        end=_ironic_fails(states.DEPLOYFAIL, 'Failed to prepare to deploy', 'Got HTTP code 404'),
        safe='Ironic powers the host off before it looks at the image, and nothing starts it again until a deploy is verified.',
    ),
    Way(
        key='rebuild_unresolved',
        title='Rebuild without an image of which Ironic could tell the type, such as none',
        rules=(PROVISION, INSTANCE_INFO),
        end=_ironic_fails(
            states.ACTIVE,
            "cannot access local variable 'auto_lessee' where it is not associated with a value",
            host=Host.ON,
        ),
        safe='Ironic answers 500 before it does anything: the deployment goes on as it was.',
    ),
)

STEPS = (
    Way(
        key='step_in_front',
        title='``deploy_steps`` with a step in front of ours, such as ``deploy.boot_instance`` at priority 130',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, 'deploy.boot_instance (priority 130)', _EARLY, _LOWER),
        safe='The steps are checked before the first one runs; and a deploy that is not verified starts no host.',
    ),
    Way(
        key='step_at_110',
        title='``deploy_steps`` with a step at the priority of the verification',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, 'deploy.boot_instance (priority 110)', _EARLY, _LOWER),
        safe='Of an equal priority the interface would decide, so that is refused as well.',
    ),
    Way(
        key='template_in_front',
        title='A deploy template with such a step, matched by a trait of the instance',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, 'deploy.boot_instance (priority 130)', _EARLY, _LOWER),
        safe='The same check.',
    ),
    Way(
        key='verify_left_out',
        title='``deploy_steps`` that give our verification the priority 0',
        rules=(PROVISION, 'baremetal:step:execute:firmware.verify_accelerators'),
        end=_refused(states.DEPLOYFAIL, 'verify_accelerators is left out of this deploy by the priority 0 in its deploy steps'),
        safe='A deploy without verification ends before its first step.',
    ),
    Way(
        key='verify_late',
        title='``deploy_steps`` that put our verification behind step 100, with ``ramdisk`` deploy',
        rules=(PROVISION, 'baremetal:step:execute:firmware.verify_accelerators'),
        end=_refused(states.DEPLOYFAIL, 'verify_accelerators'),
        safe='Step 100 may not start the host: the deploy is not verified yet.',
    ),
    Way(
        key='lock_left_out',
        title='A deploy template that gives our lock step the priority 0, while a lock is open',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, 'verify_accelerators', 'lock'),
        safe='The verification does not pass on evidence of an earlier deploy, or on a lock that is open.',
    ),
    Way(
        key='template_leaves_out',
        title='A deploy template that gives our verification the priority 0',
        rules=(PROVISION,),
        end=_refused(
            states.DEPLOYFAIL, 'verify_accelerators is left out of this deploy by the priority 0 in a deploy template'
        ),
        safe='As with ``deploy_steps``.',
    ),
    Way(
        key='deploy_by_runbook',
        title='A deploy or rebuild by a runbook',
        rules=(PROVISION, RUNBOOK),
        end=_refused(states.AVAILABLE, 'is supported only with manual cleaning'),
        safe='Ironic takes runbooks for cleaning and service only.',
    ),
    Way(
        key='clean_by_runbook',
        title="Cleaning by a tenant's own runbook with ``power_on`` and ``hold``, while a lock is open",
        rules=(PROVISION, CLEAN_STEPS, RUNBOOK),
        end=_done(states.MANAGEABLE, Host.OFF),
        safe="Only the operator's ramdisk runs: Ironic drops its reserved steps, and power requests are refused.",
    ),
    Way(
        key='deploy_hold',
        title='``deploy hold``: a reserved step ``hold`` or ``wait`` in ``deploy_steps``, in front of ours or behind them',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, 'deploy.hold (priority 130)', _EARLY),
        safe='In front of the verification it is refused. Behind it Ironic 39 drops it without a word.',
    ),
    Way(
        key='power_on_in_deploy_hold',
        title='A power request in ``deploy hold``, of a deploy that is not verified yet',
        rules=(POWER,),
        end=_refused(states.DEPLOYHOLD, _UNVERIFIED),
        safe='Power requests are refused until this deploy has passed the verification.',
    ),
    Way(
        key='service_hold',
        title='``service hold``: reserved steps ``hold`` and ``reboot`` in a service without the ramdisk',
        rules=(PROVISION, SERVICE_STEPS),
        end=_done(states.ACTIVE, Host.ON),
        safe='Ironic 39 drops reserved steps without a word. Where it did not, the host that runs would be one whose locks '
        'were proven for this deployment, as before.',
    ),
    Way(
        key='power_on_in_service_hold',
        title='A power request in ``service hold``, after an operator has released locks',
        rules=(POWER,),
        end=_refused(states.SERVICEHOLD, 'locks of its accelerators are open since', _LOCK),
        safe='The mark that locks were opened stands against every start until they are engaged again.',
    ),
    Way(
        key='clean_hold',
        title='``clean hold``, and a power request in it, while a lock is open',
        rules=(POWER,),
        end=_refused(states.CLEANHOLD, 'its locks are not proven, and no operator has allowed a start', 'allow_host_start'),
        safe="Nothing but the operator's ramdisk, in ``cleaning`` itself, needs no proof.",
    ),
)

FLOWS = (
    Way(
        key='adopt',
        title='``adopt``, and a power request of the tenant afterwards',
        rules=(PROVISION,),
        end=_refused(states.ACTIVE, _UNPROVEN, _LOCK),
        safe='Adoption starts nothing and proves nothing: the host stays as it is until the node was serviced.',
    ),
    Way(
        key='adopt_unwritten',
        title='``adopt`` of a node whose cards somebody else may have written, and steps of a service that prove its locks',
        rules=(PROVISION, SERVICE_STEPS),
        end=_refused(states.ACTIVE, _UNPROVEN, 'it is unknown what these cards run', 'reconcile_accelerators'),
        safe='Closed locks do not say what the cards run. They are written again by ``reconcile_accelerators``.',
    ),
    Way(
        key='rescue',
        title='Rescue and unrescue',
        rules=(PROVISION,),
        end=_done(states.ACTIVE, Host.ON),
        safe='The tenant is root in the rescue ramdisk, so it needs the same proof as the instance.',
    ),
    Way(
        key='rescue_opened',
        title='Rescue after an operator has released locks',
        rules=(PROVISION,),
        end=_refused(
            states.RESCUEFAIL, 'locks of its accelerators are open since', 'Ironic cannot service a node in this state'
        ),
        safe='The mark stands against every start, whatever the flow.',
    ),
    Way(
        key='service_in_band',
        title='Service with a step of the ramdisk',
        rules=(PROVISION, SERVICE_STEPS),
        end=_done(states.ACTIVE, Host.ON),
        safe='Ramdisk and instance are started on the proof of this deployment.',
    ),
    Way(
        key='service_opened',
        title='Service with a step of the ramdisk, after an operator has released locks',
        rules=(PROVISION, SERVICE_STEPS),
        end=_refused(states.SERVICEFAIL, 'locks of its accelerators are open since', _LOCK),
        safe='The mark stands against every start, whatever the flow.',
    ),
    Way(
        key='service_lock_fails',
        title='Service with ``lock_accelerators``, which finds a lock open that does not close; the tenant powers the host on',
        rules=(PROVISION, SERVICE_STEPS, POWER),
        end=_refused(states.SERVICEFAIL, 'locks of its accelerators are open since', 'found them open', _LOCK),
        safe='What a step of ours has found open stands against every start until a step has closed it.',
    ),
    Way(
        key='service_verify_fails',
        title='The same with ``verify_accelerators``',
        rules=(PROVISION, SERVICE_STEPS, POWER),
        end=_refused(states.SERVICEFAIL, 'locks of its accelerators are open since', 'found them open', _LOCK),
        safe='As before: whoever only reads has seen it, too.',
    ),
    Way(
        key='service_aborted',
        title='Service by the ramdisk that is aborted: Ironic boots the instance again',
        rules=(PROVISION,),
        end=_done(states.ACTIVE, Host.ON),
        safe='On the proof of this deployment, and from the boot source that Ironic has set for the instance.',
    ),
    Way(
        key='service_settings',
        title='Service with a step that restarts the host without a ramdisk, such as ``bios.apply_configuration``',
        rules=(PROVISION, SERVICE_STEPS),
        end=_done(states.SERVICEWAIT, Host.ON),
        safe='The instance is restarted on the proof of this deployment.',
    ),
    Way(
        key='service_unknown_step',
        title='Service with ``disable_ramdisk`` and a step that only the ramdisk knows',
        rules=(PROVISION, SERVICE_STEPS),
        end=_ironic_fails(states.SERVICING, 'node does not support this service step', host=Host.ON),
        safe='Ironic leaves the node in ``servicing``; nothing was done to it, and starts still need the proof.',
    ),
    Way(
        key='undeploy',
        title='Undeploy, with automated cleaning by the ramdisk',
        rules=(PROVISION,),
        end=_done(states.AVAILABLE, Host.OFF),
        safe='The host is powered off first; then only the ramdisk runs, and our step brings everything to the baseline.',
    ),
    Way(
        key='undeploy_never_off',
        title='Undeploy of a node with ``disable_power_off``: Ironic restarts the host in place of powering it off',
        rules=(PROVISION,),
        end=_refused(states.CLEANFAIL, "Ironic does not boot the operator's ramdisk", host=Host.ON),
        safe='While the node is undeployed, its locks are those that were proven. Cleaning refuses the start after that. '
        'Clean out of band, or clear ``disable_power_off``.',
    ),
    Way(
        key='undeploy_refused',
        title='Undeploy, after a deploy that was refused since a lock did not close, with automated cleaning by the ramdisk',
        rules=(PROVISION,),
        end=_done(states.AVAILABLE, Host.OFF),
        safe="The host was off until Ironic started the operator's ramdisk, which is seen before it is started.",
    ),
    Way(
        key='undeploy_refused_woke',
        title='The same, of a host that starts by itself before that',
        rules=(PROVISION,),
        end=_refused(states.CLEANFAIL, 'is quarantined', 'so it could not be written again', host=Host.ON),
        safe="The cards are written again, or quarantined where no rule says what they run; only the operator's ramdisk runs.",
    ),
    Way(
        key='automated_clean_off',
        title='Undeploy with ``[conductor] automated_clean = False``, and the next tenant deploys',
        rules=(PROVISION,),
        end=_deployed(),
        safe='What was proven ends with the deployment. The next deploy locks and verifies before the first start.',
    ),
    Way(
        key='automated_clean_off_lost',
        title='The same after a BMC has lost a lock while the first tenant had the node',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, 'was not written again', 'clean the node'),
        safe='The first look at the node is compared with how it was handed over; what cannot be trusted has to be written.',
    ),
    Way(
        key='automated_clean_off_failed',
        title='The same, and the next deploy fails before its steps are gathered; the tenant powers the host on',
        rules=(PROVISION, POWER),
        end=_refused(states.DEPLOYFAIL, _UNPROVEN, 'deploy the node again'),
        safe='A deploy forgets what was proven for an earlier one as its first act.',
    ),
    Way(
        key='automated_clean_off_adopt',
        title='The same, and the next tenant adopts the node at once',
        rules=(PROVISION,),
        end=_refused(states.MANAGEABLE, 'what was proven for its last deployment is still stored', 'retry'),
        safe='Adoption waits until the conductor has forgotten it, and proves nothing itself.',
    ),
    Way(
        key='automated_clean_off_node',
        title="Undeploy with the node's own ``automated_clean = False``; a tenant powers it on in ``available``",
        rules=(POWER,),
        end=_refused(states.AVAILABLE, 'its locks are not proven, and no operator has allowed a start', 'allow_host_start'),
        safe='Between deployments only an operator can allow a start.',
    ),
    Way(
        key='clean_in_band',
        title='Automated cleaning by the ramdisk, with a lock open',
        rules=(PROVISION,),
        end=_done(states.AVAILABLE, Host.OFF),
        safe="Only the operator's ramdisk is started, and Ironic has set it as the boot source before.",
    ),
    Way(
        key='clean_without_ramdisk',
        title='Manual cleaning with ``disable_ramdisk`` and reserved steps, while a lock is open',
        rules=(PROVISION, CLEAN_STEPS),
        end=_done(states.MANAGEABLE, Host.OFF),
        safe='Nothing is booted; Ironic drops its reserved steps, and would meet a refusal if it did not.',
    ),
    Way(
        key='unlocked_in_ramdisk',
        title='Cleaning by the ramdisk that leaves locks open; the host starts by itself before they are closed, and a tenant '
        'deploys',
        rules=(PROVISION, CLEAN_STEPS),
        end=_refused(states.DEPLOYFAIL, 'was not written again', 'clean the node'),
        safe='How the host was off after the ramdisk is kept. Where it has run since, only cleaning mends the cards.',
    ),
    Way(
        key='clean_settings',
        title='Manual cleaning with a step that restarts the host without a ramdisk, such as ``bios.apply_configuration`` of '
        '``redfish``',
        rules=(PROVISION, CLEAN_STEPS),
        end=_refused(states.CLEANFAIL, "Ironic does not boot the operator's ramdisk"),
        safe='The host would boot whatever is on its disk. Name a step of the ramdisk as well, as in the next row.',
    ),
    Way(
        key='clean_settings_ramdisk',
        title='The same beside a step of the ramdisk',
        rules=(PROVISION, CLEAN_STEPS),
        end=_done(states.MANAGEABLE, Host.OFF),
        safe='Ironic sets the ramdisk as the boot source before each restart.',
    ),
    Way(
        key='clean_unmanaged_boot',
        title='Cleaning with ``[agent] manage_agent_boot = False``: Ironic starts the host without setting what it boots',
        rules=(PROVISION,),
        end=_refused(states.CLEANFAIL, "Ironic does not boot the operator's ramdisk"),
        safe='The host would boot whatever it finds. Let Ironic manage the boot, or clean out of band.',
    ),
    Way(
        key='clean_never_off',
        title='Cleaning by the ramdisk of a node with ``disable_power_off``',
        rules=(PROVISION, CLEAN_STEPS),
        end=_refused(states.CLEANFAIL, "Ironic does not boot the operator's ramdisk"),
        safe='Ironic would restart the host once the ramdisk is torn down, into whatever is on its disk. '
        'Clean out of band, or clear ``disable_power_off``.',
    ),
    Way(
        key='clean_smart_nic',
        title='Cleaning of a node with a Smart NIC port, whose host Ironic powers on for its network first',
        rules=(PROVISION,),
        end=_refused(states.CLEANFAIL, "Ironic does not boot the operator's ramdisk"),
        safe='That start boots no ramdisk but the set-up of the firmware, or whatever a BMC makes of it.',
    ),
    Way(
        key='clean_boot_mode',
        title='Cleaning by the ramdisk of a node whose boot mode Ironic has to change first, where the BMC needs a restart of '
        'the host for it',
        rules=(PROVISION,),
        end=_refused(states.CLEANFAIL, "Ironic does not boot the operator's ramdisk", 'boot mode that the host has already'),
        safe='That restart comes before the ramdisk is the boot source: the host would boot whatever is on its disk. Set the '
        'boot mode of the node beforehand.',
    ),
    Way(
        key='deploy_smart_nic',
        title='Deploy of a node with a Smart NIC port',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, _UNVERIFIED),
        safe='That start comes before the steps, so before the verification.',
    ),
    Way(
        key='deploy_boot_mode',
        title='Deploy of a node whose boot mode Ironic has to change first, where the BMC needs a restart of the host for it',
        rules=(PROVISION,),
        end=_refused(states.DEPLOYFAIL, _UNVERIFIED),
        safe='That restart comes before the steps, so before the verification. Set the boot mode of the node beforehand.',
    ),
    Way(
        key='deploy_never_off',
        title='Deploy of a node with ``disable_power_off``',
        rules=(PROVISION,),
        end=_deployed(),
        safe='Ironic restarts the host where it would power it on; the order of the steps is the same.',
    ),
    Way(
        key='inspect_out_of_band',
        title='Inspection out of band, by ``redfish-acc``',
        rules=(PROVISION,),
        end=_done(states.MANAGEABLE, Host.OFF),
        safe='The BMC is read; nothing is started.',
    ),
    Way(
        key='inspect_managed',
        title="Inspection in band, by ``agent``, with Ironic's own boot, while a lock is open",
        rules=(PROVISION,),
        end=_done(states.MANAGEABLE, Host.OFF),
        safe="Only the operator's ramdisk is started, and Ironic has set it as the boot source before.",
    ),
    Way(
        key='inspect_boot_mode',
        title='The same, of a node whose boot mode Ironic has to change first, as in cleaning',
        rules=(PROVISION,),
        end=_refused(states.INSPECTFAIL, "Ironic does not boot the operator's ramdisk", 'boot mode that the host has already'),
        safe='That restart comes before the ramdisk is the boot source, too.',
    ),
    Way(
        key='inspect_unmanaged',
        title='Inspection in band whose boot Ironic does not manage (``[inspector] require_managed_boot = False``)',
        rules=(PROVISION,),
        end=_refused(states.INSPECTFAIL, "Ironic does not boot the operator's ramdisk"),
        safe='The host would boot whatever answers on its network. Let Ironic manage the boot, or inspect out of band.',
    ),
    Way(
        key='child_power_on',
        title='A child node (``parent_node``) is powered on, and Ironic powers its parent on first; the parent has a lock open',
        rules=(POWER,),
        end=_refused(states.AVAILABLE, 'its locks are not proven, and no operator has allowed a start', 'allow_host_start'),
        safe="The parent's own power interface is asked, so its own gate decides.",
    ),
    Way(
        key='child_steps',
        title='Steps with ``execute_on_child_nodes`` that power children on',
        rules=(PROVISION, CLEAN_STEPS),
        end=_done(states.MANAGEABLE, Host.OFF),
        safe="Ironic 39 drops them without a word; where it does not, each child's own gate decides.",
    ),
    Way(
        key='power_sync',
        title='The power synchronisation meets a host that is off and was on, of a deployment that is proven',
        rules=(),
        end=_done(states.ACTIVE, Host.ON),
        safe='It may be started, as by its tenant.',
    ),
    Way(
        key='power_sync_unproven',
        title='The same of a node of which nothing is proven',
        rules=(),
        end=_done(states.ACTIVE, Host.OFF),
        safe='Ironic is told that this power cannot be forced: it records that the host is off.',
    ),
    Way(
        key='takeover',
        title='Another conductor takes the node over, and prepares its boot',
        rules=(),
        end=_done(states.ACTIVE, Host.ON),
        safe='It sets the boot source and starts nothing.',
    ),
)

TABLES: Mapping[str, tuple[Way, ...]] = {
    'Deploy interfaces': DEPLOY_INTERFACES,
    'Images, volumes and the running ramdisk': IMAGES,
    'Steps of whoever asks': STEPS,
    'Other flows': FLOWS,
}
"""By the title of each table of the page."""

WAYS: Mapping[str, Way] = {way.key: way for table in TABLES.values() for way in table}

_WHO = (
    ('system', {'system_scope': 'all'}, ('reader', 'member', 'admin')),
    ('owner', {'project_id': OWNER}, ('reader', 'member', 'manager', 'admin')),
    ('lessee', {'project_id': LESSEE}, ('reader', 'member', 'manager', 'admin')),
)


def askers(enforcer: oslo_policy.Enforcer, rules: tuple[str, ...]) -> Iterator[str]:
    """Who satisfies all of some rules: of the system, the owner's and the lessee's project the least role that does."""
    target = {'node.owner': OWNER, 'node.lessee': LESSEE}
    for scope, identity, roles in _WHO:
        for n, role in enumerate(roles):
            creds = {'roles': list(roles[: n + 1]), 'user_id': 'u', 'project_id': None, 'system_scope': None} | identity
            if all(enforcer.authorize(rule, target, creds) for rule in rules):
                yield f'{scope} {role}'
                break


def table(title: str, enforcer: oslo_policy.Enforcer) -> str:
    """A table of the page, in reStructuredText."""
    lines = [f'.. list-table:: {title}', '   :header-rows: 1', '   :widths: 30 14 26 30', '']
    rows = [('way', 'who may ask', 'how it ends', 'why that is safe')]
    rows += [(w.title, _who(w, enforcer), ends(w.end), w.safe) for w in TABLES[title]]
    for row in rows:
        lines += [f'   {"*" if n == 0 else " "} - {cell}' for n, cell in enumerate(row)]
    return '\n'.join(lines) + '\n'


def _who(way: Way, enforcer: oslo_policy.Enforcer) -> str:
    return ', '.join(askers(enforcer, way.rules)) if way.rules else 'nobody: the conductor'


def ends(end: End) -> str:
    """How a way ends, for people."""
    host = f'the host is {end.host.lower()}'
    said = f': "{" ... ".join(end.says)}"' if end.says else ''
    match end.kind:
        case Kind.DEPLOYED:
            return f'{end.kind}: ``{end.state}``, {host}'
        case Kind.DONE:
            return f'``{end.state}``, {host}'
        case Kind.REFUSED | Kind.IRONIC_FAILS:
            return f'{end.kind}, ``{end.state}``, {host}{said}'


def default_policy() -> oslo_policy.Enforcer:
    """Ironic's default policy, with the rules of this package on its own steps."""
    conf = cfg.ConfigOpts()
    conf([], project='nothing', default_config_files=[], default_config_dirs=[])
    enforcer = oslo_policy.Enforcer(conf, policy_file='no-such-file.yaml')
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults([*policy.list_policies(), *list_policies()])
    enforcer.load_rules()
    return enforcer


HEAD = Path(__file__).with_name('ways_to_deploy_head.rst')


def page() -> str:
    """The page: what is written by hand, and the tables."""
    enforcer = default_policy()
    tables = (f'{title}\n{"-" * len(title)}\n\n{table(title, enforcer)}' for title in TABLES)
    return '\n'.join((HEAD.read_text(encoding='utf-8'), *tables))


def main() -> None:
    """Print the page."""
    sys.stdout.write(page())


if __name__ == '__main__':
    main()
