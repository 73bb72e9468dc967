# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a flavor asks for is read as Nova reads it."""

from datetime import UTC, datetime

import pytest

from baremetal_acc.scheduling import demand
from baremetal_acc.scheduling.demand import MOST_FIELDS, MOST_OF_A_REQUEST, AskedFunctions
from baremetal_acc.scheduling.pools import Demand

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
KNOWN = ('aes', 'gzip', 'AES-256 (GCM)')
MACHINE = {'resources:CUSTOM_BAREMETAL_GOLD': '1', 'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'}


def flavor(**more: str) -> AskedFunctions:
    """What a flavor of placement.rst asks for, with more extra specs."""
    return demand.of_flavor(MACHINE | {key.replace('__', ':'): value for key, value in more.items()}, KNOWN)


@pytest.mark.parametrize(
    ('extra', 'functions'),
    [
        ({'resources:CUSTOM_ACC_FN_AES': '1'}, ('aes',)),
        ({'hw:x': '1', 'resources_ACC:CUSTOM_ACC_FN_AES': '1'}, ('aes',)),
        (
            {'resources_A:FPGA': '1', 'trait_A:CUSTOM_ACC_FN_AES': 'required'}
            | {'resources_B:FPGA': '1', 'trait_B:CUSTOM_ACC_FN_AES': 'required'},
            ('aes', 'aes'),
        ),
        ({'resources_ACC:CUSTOM_ACC_FN_AES_256_GCM': '1'}, ('AES-256 (GCM)',)),
        ({'resources1:CUSTOM_ACC_FN_AES': '1', 'resources2:CUSTOM_ACC_FN_AES': '1'}, ('aes', 'aes')),
        ({'resources_B:CUSTOM_ACC_FN_AES': '1', 'resources_A:CUSTOM_ACC_FN_GZIP': '1'}, ('gzip', 'aes')),
        ({'resources_ACC:CUSTOM_ACC_FN_AES': '0'}, ()),
        ({'resources_ACC:FPGA': '1', 'trait_ACC:CUSTOM_ACC_FN_AES': 'required'}, ('aes',)),
        ({'resources_ACC:CUSTOM_REGION': '1', 'trait_ACC:CUSTOM_ACC_FN_AES': 'required'}, ('aes',)),
        ({'resources_ACC:FPGA': '1', 'trait_ACC:CUSTOM_ACC_FN_AES': 'forbidden'}, ()),
        ({'resources_ACC:FPGA': '1', 'trait_ACC:CUSTOM_ACC_FPGA': 'required'}, ()),
        ({'trait:CUSTOM_ACC_FN_AES': 'required'}, ('aes',)),
        # What is required of a region is so of its machine too, which is no second region.
        ({'resources_ACC:CUSTOM_ACC_FN_AES': '1', 'trait_ACC:CUSTOM_ACC_FN_AES': 'required'}, ('aes',)),
        ({'resources_ACC:CUSTOM_ACC_FN_AES': '1', 'trait:CUSTOM_ACC_FN_AES': 'required'}, ('aes',)),
        ({'resources_ACC:CUSTOM_ACC_FN_AES': '1', 'trait:CUSTOM_ACC_FN_GZIP': 'required'}, ('aes', 'gzip')),
        (
            {'resources_ACC:FPGA': '0', 'trait_ACC:CUSTOM_ACC_FN_AES': 'required', 'trait:CUSTOM_ACC_FN_AES': 'required'},
            ('aes',),
        ),
        ({'group_policy': 'isolate', 'hw:cpu_policy': 'dedicated', 'resourcesACC': '1', ':': '1', 'xresources:FPGA': '1'}, ()),
    ],
)
def test_a_flavor_asks_for_functions(extra, functions):
    """Each region that it needs is one: by the class of its function, or by a trait beside the class of regions."""
    asked = demand.of_flavor(MACHINE | extra, KNOWN)
    assert functions == asked.functions
    assert () == asked.notes
    assert ('CUSTOM_BAREMETAL_GOLD' if functions else None) == asked.resource_class


def test_two_of_a_function_in_one_group_can_never_be_found():
    """No region offers more than one, so that to program any would help nobody."""
    asked = demand.of_flavor({'resources_ACC:CUSTOM_ACC_FN_AES': '2', 'resources_B:CUSTOM_ACC_FN_GZIP': '1'}, KNOWN)
    assert ('gzip',) == asked.functions
    note = '2 CUSTOM_ACC_FN_AES in one group can never be met, since a region has at most one'
    assert (f'{note}; use one group for each',) == asked.notes


def test_a_region_that_can_be_given_a_function_is_programmed_for_its_tenant():
    """CUSTOM_ACC_CAN_ asks for no region that holds anything yet: it is no demand, and that is said."""
    asked = demand.of_flavor(MACHINE | {'resources_ACC:FPGA': '1', 'trait_ACC:CUSTOM_ACC_CAN_AES': 'required'}, KNOWN)
    assert () == asked.functions
    note = 'CUSTOM_ACC_CAN_AES: no demand, since the region is programmed when the instance is deployed'
    assert (note,) == asked.notes


@pytest.mark.parametrize(
    'extra',
    [
        {'resources_ACC:CUSTOM_ACC_FN_BROTLI': '1'},
        {'resources_ACC:FPGA': '1', 'trait_ACC:CUSTOM_ACC_FN_BROTLI': 'required'},
        {'trait:CUSTOM_ACC_FN_BROTLI': 'required'},
    ],
)
def test_what_the_catalogue_does_not_know_is_no_demand(extra):
    """Nothing could be programmed for it."""
    asked = demand.of_flavor(MACHINE | extra, KNOWN)
    assert ((), None) == (asked.functions, asked.resource_class)
    assert ('CUSTOM_ACC_FN_BROTLI: no such function in the catalogue',) == asked.notes


def test_an_amount_that_is_none_is_told():
    """Nova refuses such a flavor; here the rest of it counts."""
    asked = demand.of_flavor({'resources_A:CUSTOM_ACC_FN_AES': 'one', 'resources_B:CUSTOM_ACC_FN_GZIP': '1'}, KNOWN)
    assert ('gzip',) == asked.functions
    assert ('resources_A:CUSTOM_ACC_FN_AES: one is not a number',) == asked.notes


def test_what_the_image_requires_is_required_of_the_machine():
    """Nova adds an image's traits to the group of the machine."""
    asked = demand.of_flavor(MACHINE, KNOWN, image_traits=('CUSTOM_ACC_FN_GZIP', 'HW_CPU_X86_AVX2'))
    assert (('gzip',), 'CUSTOM_BAREMETAL_GOLD') == (asked.functions, asked.resource_class)
    assert ('gzip',) == demand.of_flavor({}, KNOWN, image_traits=('CUSTOM_ACC_FN_GZIP',)).functions


@pytest.mark.parametrize(
    ('extra', 'resource_class', 'notes'),
    [
        ({}, None, ()),
        ({'resources:VCPU': '1'}, None, ()),
        ({'resources:CUSTOM_GOLD': '1'}, 'CUSTOM_GOLD', ()),
        ({'resources:CUSTOM_GOLD': '0'}, None, ()),
        ({'resources:CUSTOM_GOLD': '2'}, None, ()),
        ({'resources_NODE:CUSTOM_GOLD': '1'}, 'CUSTOM_GOLD', ()),
        ({'resources:CUSTOM_GOLD': '1', 'resources_X:CUSTOM_LICENCE': '1'}, 'CUSTOM_GOLD', ()),
        ({'resources:CUSTOM_GOLD': '1', 'resources:CUSTOM_ACC_DPU': '1'}, 'CUSTOM_GOLD', ()),
        (
            {'resources:CUSTOM_GOLD': '1', 'resources:CUSTOM_A': '1'},
            None,
            ('unclear which of CUSTOM_A, CUSTOM_GOLD is the class of the node: nodes of all classes count',),
        ),
        (
            {'resources_1:CUSTOM_GOLD': '1', 'resources_2:CUSTOM_A': '1'},
            None,
            ('unclear which of CUSTOM_A, CUSTOM_GOLD is the class of the node: nodes of all classes count',),
        ),
        # The class of regions is no class of machines.
        ({'resources_B:CUSTOM_REGION': '1', 'trait_B:CUSTOM_ACC_FN_GZIP': 'required'}, None, ()),
        ({'resources_B:CUSTOM_REGION': '1', 'trait_B:CUSTOM_ACC_CAN_GZIP': 'required'}, None, None),
    ],
)
def test_the_machine_is_asked_for_by_its_own_class(extra, resource_class, notes):
    """What the group of the machine names, of the operator's own classes, once."""
    asked = demand.of_flavor({'resources_ACC:CUSTOM_ACC_FN_AES': '1'} | extra, KNOWN)
    assert resource_class == asked.resource_class
    assert notes is None or notes == asked.notes


def test_a_request_is_bounded():
    """Neither many extra specs nor many groups make more work than a flavor can be worth."""
    many = {f'resources_{n}:CUSTOM_ACC_FN_AES': '1' for n in range(MOST_FIELDS + 1)}
    asked = demand.of_flavor(many, KNOWN)
    assert ('aes',) * MOST_OF_A_REQUEST == asked.functions
    assert (
        f'the flavor has {MOST_FIELDS + 1} extra specs, of which {MOST_FIELDS} are read',
        f'the flavor requests {MOST_FIELDS} functions, of which {MOST_OF_A_REQUEST} count',
    ) == asked.notes
    some = dict(list(many.items())[:MOST_OF_A_REQUEST])
    assert AskedFunctions(functions=('aes',) * MOST_OF_A_REQUEST) == demand.of_flavor(some, KNOWN)
    exact = dict(list(many.items())[:1]) | {f'x{n}': '' for n in range(MOST_FIELDS - 1)}
    assert AskedFunctions(functions=('aes',)) == demand.of_flavor(exact, KNOWN)


def test_a_note_shows_nothing_that_a_terminal_obeys():
    """Names in notes come from whoever makes flavors."""
    asked = demand.of_flavor({'resources_A:CUSTOM_ACC_FN_\x1b[31m': '1', f'resources_B:CUSTOM_ACC_FN_{"X" * 90}': '1'}, KNOWN)
    assert (
        "'CUSTOM_ACC_FN_\\x1b[31m': no such function in the catalogue",
        f"'CUSTOM_ACC_FN_{'X' * 66}': no such function in the catalogue",
    ) == asked.notes
    longest = f'CUSTOM_ACC_FN_{"X" * 66}'
    assert (f'{longest}: no such function in the catalogue',) == demand.of_flavor({f'resources:{longest}': '1'}, KNOWN).notes
    longer = demand.of_flavor({f'resources:{longest}X': '1'}, KNOWN).notes
    assert (f"'{longest}': no such function in the catalogue",) == longer
    assert ("'CUSTOM_ACC_FN_\\xc4': no such function in the catalogue",) == demand.of_flavor(
        {'resources:CUSTOM_ACC_FN_Ä': '1'}, KNOWN
    ).notes


def test_two_spellings_of_one_function_are_one():
    """A catalogue may spell a function in two ways, which placement has one name for."""
    for known in (('aes', 'AES'), ('AES', 'aes')):
        assert ('AES',) == demand.of_flavor({'resources:CUSTOM_ACC_FN_AES': '1'}, known).functions


@pytest.mark.parametrize(
    ('name', 'function'),
    [
        ('aes', 'aes'),
        ('AES', 'aes'),
        ('CUSTOM_ACC_FN_AES', 'aes'),
        ('CUSTOM_ACC_FN_AES_256_GCM', 'AES-256 (GCM)'),
        ('brotli', None),
    ],
)
def test_a_function_is_named_as_the_catalogue_or_as_placement_does(name, function):
    """Who adds a demand by hand may use either."""
    assert function == demand.of_name(name, KNOWN)


def test_a_request_for_several_has_one_id_each():
    """Told twice it is the same demands; a request for one has its own id."""
    one = AskedFunctions(functions=('aes',), resource_class='CUSTOM_GOLD')
    assert (Demand(id='req', function='aes', at=NOW, resource_class='CUSTOM_GOLD'),) == one.demands('req', NOW)
    two = AskedFunctions(functions=('aes', 'aes'))
    assert (('req/1', 2), ('req/2', 2)) == tuple((d.id, d.of) for d in two.demands('req', NOW))
    assert {('req', True)} == {d.request for d in two.demands('req', NOW)}
    assert ('req/1', False) == one.demands('req/1', NOW)[0].request, 'who calls his request so asks for one function'
    assert () == AskedFunctions().demands('req', NOW)
