# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What of ours reads each thing that owner or lessee of a node may write in Ironic, and why that is safe.

One row for each line of the table that :mod:`tests.ironic.tenant_fields` makes. Which modules read a field is compared with the
code, so that whoever reads a further one has to think about it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

STATIC = 'tests/ironic/test_tenant_fields.py::TestFields::test_our_code_reads_no_other_field'
UNMOVED = 'tests/ironic/test_tenant_fields.py::TestUnmoved::test_what_rules_go_by_stays'
NOTHING = 'Nothing of ours reads it.'


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One row.

    :ivar why: what reads it, and why that is safe; for the page.
    :ivar modules: of the guest that read the field of a node, and ``pools`` where those do.
    :ivar shown: the tests that show it.
    """

    why: str
    modules: frozenset[str] = frozenset()
    shown: tuple[str, ...] = (STATIC,)


def _reader(why: str, *modules: str, shown: tuple[str, ...] = (STATIC, UNMOVED)) -> Reader:
    return Reader(why=why, modules=frozenset(modules), shown=shown)


_TARGET = 'target', 'ramdisk_source', 'bmc_source'
_INSTANCE = 'attach', 'config_drive', 'firmware', 'host_start', 'power', 'ramdisk_source', 'read_only', 'rights', 'status'
_WAYS_ROUND = 'tests/ironic/test_ways_round.py'
_RAMDISK = 'tests/ironic/test_ramdisk_source.py::TestSource::test_a_member_of_the_owner_chooses_none'

_FIELDS = {
    '/automated_clean = true': _reader('Nothing of ours reads it. Neither project may switch cleaning *off*.'),
    '/description': _reader(NOTHING),
    '/driver': _reader(
        "Selects the protocol of the host's BMC, and the nodes whose jobs a conductor runs. A node of another "
        'hardware type has none of our steps: give this right only to those whom you would let release a lock '
        '(:doc:`/reference/roles`).',
        'api_guard',
        'status',
        'firmware',
        'target',
        shown=(STATIC,),
    ),
    '/driver_info': _reader(
        'Of the keys that are not listed below, our code reads further ones of BMC addresses and of the ramdisk, which '
        'have to be accepted like the listed ones, and what it needs to log in to the BMCs: if that is wrong, the login '
        'fails.',
        *_TARGET,
    ),
    '/driver_info/acc_bmcs': _reader(
        'The addresses count only after an operator has accepted them. A node that has, or had, an owner passes no '
        'verification at other addresses.',
        *_TARGET,
        shown=('tests/ironic/test_bmc_source.py::test_each_key_makes_it_another_bmc',),
    ),
    '/driver_info/acc_exposure': _reader(
        'Rules go by the accepted exposure. While the node shows another one, it passes no verification.',
        *_TARGET,
        shown=('tests/ironic/test_exposure.py::TestExposure::test_what_a_member_of_the_owners_project_writes_opens_nothing',),
    ),
    '/driver_info/acc_parallel_updates': _reader(
        'Says how many updates a BMC gets at once. Whatever the number, what was written is read back.',
        *_TARGET,
        shown=(UNMOVED,),
    ),
    '/driver_info/redfish_address': _reader(
        'As ``acc_bmcs``.',
        *_TARGET,
        shown=('tests/ironic/test_bmc_source.py::TestAnothersBmc::test_it_does_not_verify_until_an_operator_has_taken_it',),
    ),
    '/driver_info/ipmi_address': _reader(
        'As ``acc_bmcs``.', *_TARGET, shown=('tests/ironic/test_bmc_source.py::test_each_key_makes_it_another_bmc',)
    ),
    '/driver_info/deploy_ramdisk': _reader(
        "What Ironic boots counts as the operator's ramdisk only if these keys are accepted or none of them is set: "
        '``deploy_*``, ``rescue_*``, ``bootloader``, ``external_http_url``, ``pxe_template``, ``ansible_*`` and the '
        'others of ``ramdisk_source.py``. Otherwise the host is off while locks are open.',
        *_TARGET,
        shown=(_RAMDISK, 'tests/ironic/test_ramdisk_source.py::test_each_key_alone_makes_another_ramdisk'),
    ),
    '/driver_info/kernel_append_params': _reader('As ``deploy_ramdisk``.', *_TARGET, shown=(_RAMDISK,)),
    '/extra': _reader(NOTHING),
    '/instance_info': _reader(
        'Besides the keys below, our code reads ``configdrive``, to add the hand-over certificate where ``[baremetal_acc] '
        'certificate_config_drive`` is true. A drive that cannot be read stays as it is.',
        *_INSTANCE,
        shown=(STATIC, UNMOVED, 'tests/ironic/test_config_drive.py::test_what_cannot_be_read_stays_as_it_is'),
    ),
    '/instance_info/traits': _reader(
        'Ironic selects deploy templates by them. The conductor refuses the steps of a template that only an operator may'
        ' run, and it refuses a deploy without the verification. The claims of an instance are read from placement; the '
        'deploy fails if the traits name a claim that placement does not have.',
        *_INSTANCE,
        shown=(
            'tests/ironic/test_ways_round.py::TestTemplates',
            'tests/ironic/test_left_out.py',
        ),
    ),
    '/instance_info/kernel_append_params': _reader(
        "While this key or ``ramdisk_kernel_arguments`` is set, no ramdisk counts as the operator's, and the host is off "
        'while locks are open. The keys are never accepted; they are removed together with the instance.',
        *_INSTANCE,
        shown=('tests/ironic/test_ramdisk_source.py::TestSource::test_an_admin_of_the_lessee_has_a_word_in_none',),
    ),
    '/instance_info/firmware_interface': _reader(
        'Ironic prefers ``<x>_interface`` of ``instance_info`` to the field of the node. Our hardware types support no '
        'other firmware and power interfaces than ours, and the API middleware lets only the system scope write such a '
        'key (:doc:`/howto/ironic`).',
        *_INSTANCE,
        shown=(STATIC,),
    ),
    '/instance_name': _reader(NOTHING),
    '/instance_uuid': _reader(
        "Says whether the node is in use, and which instance's claims in placement count. Without it, a node still counts"
        " as a tenant's by its provision state. With the UUID of another instance, that instance's claims get at most "
        'functions of the catalogue, as the rules of the baseline allow. The watch does not power off the host of a node '
        'that has an instance, but its open cards count as exposed all the same. The deny list reserves what the instance has '
        'claimed, and withdraws all else; its notification names the instance.',
        'host_start',
        'deny_list',
        'denial',
        'alarm',
        'attach',
        'unused_nodes',
        'certificate',
        'claimed_regions',
        'availability',
        'pools',
        'job_context',
    ),
    '/lessee': _reader(
        "A project that begins a flow is refused the operator's steps if it leases the node. If a project removes itself "
        "from this field, Ironic's policy gives it no rights any more. Neither the owner nor the lessee ever counts as an"
        ' operator. The watch does not power off the host of a leased node, but its open cards count as exposed all the '
        'same.',
        'api_guard',
        'host_start',
        'policy',
        'rights',
        'step_rules',
        'accepted_values',
        'unused_nodes',
        shown=('tests/ironic/test_untaken_class.py::TestNobodys::test_either_project_stands_against_it', UNMOVED),
    ),
    '/maintenance': _reader(
        'A node in maintenance is not available in placement. A card that is quarantined or open stays so when '
        'maintenance is cleared. The watch does not power off the host of a node in maintenance, but its open cards count'
        ' as exposed all the same.',
        'status',
        'availability',
        'pools',
        'quarantine',
        'recovery',
        'unused_nodes',
        'watch',
        shown=(
            'tests/ironic/test_lessee.py::TestPower::test_a_host_with_a_quarantined_card_is_not_powered_on_for_a_tenant',
            UNMOVED,
        ),
    ),
    '/name': _reader(
        'Appears in messages, and in the certificate next to the UUID. No rule depends on it.',
        'host_start',
        'api_guard',
        'certificate',
        'firmware',
        'pools',
        'notification',
        'rights',
        'target',
        'runner',
        'job_result',
        'step_errors',
    ),
    '/network_data': _reader(
        'As ``deploy_ramdisk``: the ramdisk finds Ironic by it.',
        'ramdisk_source',
        shown=('tests/ironic/test_ramdisk_source.py::test_network_data_is_part_of_it',),
    ),
    '/properties': _reader('Nothing of ours reads other keys than ``capabilities``.', 'record'),
    '/properties/capabilities': _reader(
        'Our inspection adds its own capabilities to those that are there. Nothing of ours depends on them.', 'record'
    ),
    '/protected': _reader('Pools leave a protected node alone.', 'pools'),
    '/protected_reason': _reader(NOTHING),
    '/resource_class': _reader(
        'Rules go by the accepted class, and by no class before one is accepted. If a rule could distinguish the class '
        'that the node shows from that, the node passes no verification. Pools count a node by the class that it shows. '
        'They program only functions of the catalogue, as the baseline allows.',
        'pools',
        'notification',
        'resource_class',
        shown=(
            'tests/ironic/test_untaken_class.py::TestUntaken::test_a_member_of_the_lessee_chooses_no_rule',
            'tests/ironic/test_untaken_class.py::TestEscaped::test_a_class_that_was_written_over_is_missed',
            'tests/ironic/test_lessee.py::TestResourceClass::test_another_class_chooses_no_other_rule',
            UNMOVED,
        ),
    ),
    '/retired': _reader('A retired node is not available in placement, and pools leave it alone.', 'availability', 'pools'),
    '/retired_reason': _reader(NOTHING),
}

_INTERFACES = {
    'bios': 'Nothing of ours reads it. Settings that are locks are read back from the BMC.',
    'boot': 'Nothing of ours reads it. What it boots is set in ``driver_info``, where an operator has to accept it.',
    'console': NOTHING,
    'deploy': 'Nothing of ours reads it: the deploy steps of our firmware interface run with every deploy interface.',
    'firmware': 'Selects the nodes whose jobs a conductor runs. Our hardware types support no other (:doc:`/howto/ironic`).',
    'inspect': (
        'Nothing of ours reads it. With another inspect interface, an inspection neither adds cards to those that must be'
        ' present nor removes any.'
    ),
    'management': NOTHING,
    'network': NOTHING,
    'power': 'Nothing of ours reads it. Our hardware types support no other than ours (:doc:`/howto/ironic`).',
    'raid': NOTHING,
    'rescue': NOTHING,
    'storage': NOTHING,
    'vendor': 'Nothing of ours reads it. Passthru is a right of the system scope.',
}
"""The fields ``<x>_interface``, which owners' administrators and managers may change."""


def _interfaces() -> Iterator[tuple[str, Reader]]:
    for name, why in _INTERFACES.items():
        modules = {'firmware': ('workers', 'status', 'deny_list'), 'power': ('status',)}.get(name, ())
        yield f'/{name}_interface', _reader(why, *modules, shown=(STATIC,))


def _request(why: str, *shown: str) -> Reader:
    return Reader(why=why, shown=shown or (STATIC,))


_POWER = 'tests/ironic/test_power.py'
_BOOTS = 'Selects what is booted, but starts nothing: our power interface decides whether the host starts.'

_REQUESTS = {
    'baremetal:node:create:self_owned_node': _request(
        'The project that enrols a node owns it from the start. So an operator has to accept its class, traits, ramdisk '
        'and exposure by hand; only the BMC addresses are accepted by the first flow that an operator begins.',
        'tests/ironic/test_untaken_class.py::TestNobodys::test_either_project_stands_against_it',
    ),
    'baremetal:node:delete:self_owned_node': _request(
        'What we have stored about the node is deleted, too (:doc:`/howto/ironic`).'
    ),
    'baremetal:node:set_maintenance': _request('As the field ``maintenance``.'),
    'baremetal:node:clear_maintenance': _request(
        'As the field ``maintenance``.',
        'tests/ironic/test_lessee.py::TestPower::test_a_host_with_a_quarantined_card_is_not_powered_on_for_a_tenant',
    ),
    'baremetal:node:set_boot_device': _request(_BOOTS),
    'baremetal:node:set_indicator_state': _request(NOTHING),
    'baremetal:node:inject_nmi': _request('Interrupts what the host runs, and opens nothing.'),
    'baremetal:node:set_power_state': _request('Our power interface decides whether the host starts.', _POWER),
    'baremetal:node:set_boot_mode': _request(_BOOTS),
    'baremetal:node:set_secure_boot': _request(_BOOTS),
    'baremetal:node:set_provision_state': _request(
        'Every flow runs our steps, whoever begins it. Who has begun it is stored, and only a flow of an operator accepts'
        ' values of the node.',
        _WAYS_ROUND,
        'tests/ironic/test_untaken_class.py::TestUntaken::test_nor_one_whose_automated_cleaning_runs',
    ),
    'baremetal:node:set_provision_state:clean_steps': _request(
        'Each step has a rule of its own (:doc:`/reference/roles`).', _WAYS_ROUND
    ),
    'baremetal:node:set_provision_state:service_steps': _request(
        'Each step has a rule of its own (:doc:`/reference/roles`).', _WAYS_ROUND
    ),
    'baremetal:node:set_raid_state': _request(NOTHING),
    'baremetal:node:set_console_state': _request(NOTHING),
    'baremetal:node:vif:attach': _request(NOTHING),
    'baremetal:node:vif:detach': _request(NOTHING),
    'baremetal:node:traits:set': _request(
        'Rules go by the accepted traits and by our own, and by no other trait before that. If a rule could distinguish '
        'the traits that the node shows from those, the node passes no verification.',
        ''
        ''
        'tests/ironic/test_traits.py::TestTraits::test_what_an_owners_admin_sets_before_the_operators_first_cleaning_is_not_taken',
        'tests/ironic/test_traits.py::TestTraits::test_what_an_owners_admin_sets_opens_nothing',
    ),
    'baremetal:node:traits:delete': _request(
        'As setting them.',
        'tests/ironic/test_traits.py::TestTraits::test_a_trait_that_is_taken_away_is_missed_as_well',
    ),
    'baremetal:node:vmedia:attach': _request(_BOOTS),
    'baremetal:node:vmedia:detach': _request(_BOOTS),
    'baremetal:port:create': _request(
        'Nothing of ours reads ports. Ironic knows its ramdisk by a MAC address ("The ramdisk" in :doc:`/howto/ironic`).'
    ),
    'baremetal:port:delete': _request('As above.'),
    'baremetal:port:update': _request('As above.'),
    'baremetal:portgroup:create': _request(NOTHING),
    'baremetal:portgroup:delete': _request(NOTHING),
    'baremetal:portgroup:update': _request(NOTHING),
    'baremetal:node:ipa_heartbeat': _request(
        'Anyone may send it, without a token. Ironic stores the address of the sender as that of the ramdisk. Nothing '
        'that the request says about its user is believed, and with ``[baremetal_acc] trust_ramdisk = false`` no ramdisk '
        'is trusted.',
        'tests/ironic/test_requester.py',
        'tests/ironic/test_flows.py',
    ),
    'baremetal:driver:ipa_continue_inspection': _request(
        'Anyone may send it, without a token. Data that a ramdisk sends under our names does not stay in the inventory. '
        'It adds no card to those that must be present, and removes none.',
        'tests/ironic/test_lessee.py::TestInspection::test_of_the_lessee_it_forgets_no_card',
    ),
    'baremetal:volume:create': _request(NOTHING),
    'baremetal:volume:delete': _request(NOTHING),
    'baremetal:volume:update': _request(NOTHING),
    'baremetal:allocation:create': _request('Sets ``instance_uuid`` (above) of an available node.'),
    'baremetal:allocation:delete': _request('Clears ``instance_uuid`` (above).'),
    'baremetal:allocation:update': _request(NOTHING),
    'baremetal:allocation:create_pre_rbac': _request('As creating one.'),
    'baremetal:runbook:create': _request(
        'Each step has a rule of its own, and the conductor checks the right again (:doc:`/reference/roles`).', _WAYS_ROUND
    ),
    'baremetal:runbook:delete': _request('A cleaning whose runbook is gone fails.'),
    'baremetal:runbook:update': _request('As creating one.', _WAYS_ROUND),
    'baremetal:runbook:use': _request('As creating one.', _WAYS_ROUND),
}

READERS: Mapping[str, Reader] = _FIELDS | dict(_interfaces()) | _REQUESTS
