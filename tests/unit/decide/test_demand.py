# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is what a request asks for read as Nova and placement read it, and is each region held for one who waits?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from baremetal_acc.decide import demand
from baremetal_acc.decide.demand import MOST_FIELDS, MOST_OF_A_REQUEST, Asked, Progress, Told
from baremetal_acc.decide.pool import Demand, Machine, Region
from baremetal_acc.errors import UsageError
from baremetal_acc.model.ref import AcceleratorId

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KNOWN = ('aes', 'gzip', 'AES-256 (GCM)')
MACHINE = {'resources:CUSTOM_BAREMETAL_GOLD': '1', 'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'}


def flavor(**more: str) -> Asked:
    """What a flavor of placement.rst asks for, with more extra specs."""
    return demand.of_flavor(MACHINE | {key.replace('__', ':'): value for key, value in more.items()}, KNOWN)


# ----------------------------------------------------------------------------------------------------------------- request


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
    note = '2 CUSTOM_ACC_FN_AES in one group: no region has more than one, so that none can ever answer it'
    assert (f'{note}; use one group for each',) == asked.notes


def test_a_region_that_can_be_given_a_function_is_programmed_for_its_tenant():
    """CUSTOM_ACC_CAN_ asks for no region that holds anything yet: it is no demand, and that is said."""
    asked = demand.of_flavor(MACHINE | {'resources_ACC:FPGA': '1', 'trait_ACC:CUSTOM_ACC_CAN_AES': 'required'}, KNOWN)
    assert () == asked.functions
    note = 'CUSTOM_ACC_CAN_AES: a region that can be given a function need not hold it, and is programmed for its tenant'
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
    assert ('CUSTOM_ACC_FN_BROTLI: the catalogue knows no such function',) == asked.notes


def test_an_amount_that_is_none_is_told():
    """Nova refuses such a flavor; here the rest of it counts."""
    asked = demand.of_flavor({'resources_A:CUSTOM_ACC_FN_AES': 'one', 'resources_B:CUSTOM_ACC_FN_GZIP': '1'}, KNOWN)
    assert ('gzip',) == asked.functions
    assert ('resources_A:CUSTOM_ACC_FN_AES: one is no number',) == asked.notes


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
            ('any of CUSTOM_A, CUSTOM_GOLD may be the class of the machine: all machines count',),
        ),
        (
            {'resources_1:CUSTOM_GOLD': '1', 'resources_2:CUSTOM_A': '1'},
            None,
            ('any of CUSTOM_A, CUSTOM_GOLD may be the class of the machine: all machines count',),
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
        f'it has {MOST_FIELDS + 1} extra specs, of which {MOST_FIELDS} are read',
        f'it asks for {MOST_FIELDS} functions, of which {MOST_OF_A_REQUEST} count',
    ) == asked.notes
    some = dict(list(many.items())[:MOST_OF_A_REQUEST])
    assert Asked(functions=('aes',) * MOST_OF_A_REQUEST) == demand.of_flavor(some, KNOWN)
    exact = dict(list(many.items())[:1]) | {f'x{n}': '' for n in range(MOST_FIELDS - 1)}
    assert Asked(functions=('aes',)) == demand.of_flavor(exact, KNOWN)


def test_a_note_shows_nothing_that_a_terminal_obeys():
    """Names in notes come from whoever makes flavors."""
    asked = demand.of_flavor({'resources_A:CUSTOM_ACC_FN_\x1b[31m': '1', f'resources_B:CUSTOM_ACC_FN_{"X" * 90}': '1'}, KNOWN)
    assert (
        "'CUSTOM_ACC_FN_\\x1b[31m': the catalogue knows no such function",
        f"'CUSTOM_ACC_FN_{'X' * 66}': the catalogue knows no such function",
    ) == asked.notes
    longest = f'CUSTOM_ACC_FN_{"X" * 66}'
    assert (f'{longest}: the catalogue knows no such function',) == demand.of_flavor({f'resources:{longest}': '1'}, KNOWN).notes
    longer = demand.of_flavor({f'resources:{longest}X': '1'}, KNOWN).notes
    assert (f"'{longest}': the catalogue knows no such function",) == longer
    assert ("'CUSTOM_ACC_FN_\\xc4': the catalogue knows no such function",) == demand.of_flavor(
        {'resources:CUSTOM_ACC_FN_Ä': '1'}, KNOWN
    ).notes


@pytest.mark.parametrize(
    ('query', 'functions', 'resource_class'),
    [
        ('resources=CUSTOM_GOLD:1&resources_ACC=CUSTOM_ACC_FN_AES:1', ('aes',), 'CUSTOM_GOLD'),
        ('/allocation_candidates?limit=1000&resources=CUSTOM_GOLD%3A1%2CCUSTOM_ACC_FN_AES%3A1', ('aes',), 'CUSTOM_GOLD'),
        (
            'https://placement/allocation_candidates?resources1=CUSTOM_ACC_FN_AES:1&resources2=CUSTOM_ACC_FN_GZIP:1',
            ('aes', 'gzip'),
            None,
        ),
        ('resources=CUSTOM_GOLD:1&resources_ACC=FPGA:1&required_ACC=CUSTOM_ACC_FN_AES', ('aes',), 'CUSTOM_GOLD'),
        ('resources=CUSTOM_GOLD:1&resources_ACC=FPGA:1&required_ACC=!CUSTOM_ACC_FN_AES', (), None),
        (
            'resources=CUSTOM_GOLD:1&resources_ACC=FPGA:1&required_ACC=HW_X,CUSTOM_ACC_FN_AES,!CUSTOM_ACC_FN_GZIP',
            ('aes',),
            'CUSTOM_GOLD',
        ),
        ('resources=CUSTOM_GOLD:1&root_required=CUSTOM_ACC_FN_AES,!CUSTOM_X', ('aes',), 'CUSTOM_GOLD'),
        ('resources=CUSTOM_GOLD:1&required=CUSTOM_ACC_FN_AES', ('aes',), 'CUSTOM_GOLD'),
        ('resources=CUSTOM_GOLD:1&resources_ACC=CUSTOM_ACC_FN_AES:1&group_policy=none&in_tree=x', ('aes',), 'CUSTOM_GOLD'),
        ('resources=CUSTOM_GOLD:1&resources_ACC=FPGA:1&required_ACC=in:HW_X,CUSTOM_ACC_FN_AES', (), None),
        ('resources=CUSTOM_GOLD:1&resources_ACC=FPGA:1&required_ACC=in:CUSTOM_ACC_FN_AES', ('aes',), 'CUSTOM_GOLD'),
    ],
)
def test_a_query_of_candidates_asks_for_functions(query, functions, resource_class):
    """As GET /allocation_candidates takes it: alone or in its URL, with all its other fields."""
    asked = demand.of_query(query, KNOWN)
    assert (functions, resource_class, ()) == (asked.functions, asked.resource_class, asked.notes)


def test_of_several_functions_that_would_do_one_counts():
    """The first one that the catalogue knows."""
    asked = demand.of_query('resources_A=FPGA:1&required_A=in:CUSTOM_ACC_FN_X,CUSTOM_ACC_FN_GZIP,CUSTOM_ACC_FN_AES', KNOWN)
    assert ('gzip',) == asked.functions
    note = 'any of CUSTOM_ACC_FN_X, CUSTOM_ACC_FN_GZIP, CUSTOM_ACC_FN_AES would do: CUSTOM_ACC_FN_GZIP counts'
    assert (note,) == asked.notes
    two = demand.of_query('resources_A=FPGA:1&required_A=in:CUSTOM_ACC_FN_GZIP,CUSTOM_ACC_FN_AES', KNOWN)
    assert ('any of CUSTOM_ACC_FN_GZIP, CUSTOM_ACC_FN_AES would do: CUSTOM_ACC_FN_GZIP counts',) == two.notes
    none = demand.of_query('resources_A=FPGA:1&required_A=in:CUSTOM_ACC_FN_X,CUSTOM_ACC_FN_Y', KNOWN)
    assert () == none.functions
    unknown = ('CUSTOM_ACC_FN_X: the catalogue knows no such function', 'CUSTOM_ACC_FN_Y: the catalogue knows no such function')
    assert unknown == none.notes


def test_a_class_without_number_is_told():
    """Placement refuses such a query; here the rest of it counts."""
    asked = demand.of_query('resources_A=CUSTOM_ACC_FN_AES&resources_B=CUSTOM_ACC_FN_GZIP:1', KNOWN)
    assert ('gzip',) == asked.functions
    assert ('resources_A: CUSTOM_ACC_FN_AES is no class with its number',) == asked.notes
    asked = demand.of_query('resources_A=CUSTOM_ACC_FN_AES:1:1&resources_B=CUSTOM_ACC_FN_GZIP:1', KNOWN)
    assert ('resources_A: CUSTOM_ACC_FN_AES:1:1 is no class with its number',) == asked.notes


@pytest.mark.parametrize('query', ['resources', 'GET /allocation_candidates', 'a=b&' * MOST_FIELDS + 'resources=FPGA:1'])
def test_what_is_no_query_is_refused(query):
    """The error shows one that is."""
    with pytest.raises(UsageError, match=r'query: is none of allocation candidates: .* \(such as resources=CUSTOM_GOLD:1'):
        demand.of_query(query, KNOWN)


@pytest.mark.parametrize(
    'query', ['', 'limit=1', 'required=CUSTOM_ACC_FN_AES', 'resources=FPGA', 'name=x&resources_ACC!=FPGA:1']
)
def test_a_query_for_no_resources_is_refused(query):
    """Placement has no answer to it either."""
    with pytest.raises(UsageError, match=r'query: asks for no resources \(such as resources=CUSTOM_GOLD:1'):
        demand.of_query(query, KNOWN)


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
    one = Asked(functions=('aes',), resource_class='CUSTOM_GOLD')
    assert (Demand(id='req', function='aes', at=NOW, resource_class='CUSTOM_GOLD'),) == one.demands('req', NOW)
    two = Asked(functions=('aes', 'aes'))
    assert (('req/1', 2), ('req/2', 2)) == tuple((d.id, d.of) for d in two.demands('req', NOW))
    assert {('req', True)} == {d.request for d in two.demands('req', NOW)}
    assert ('req/1', False) == one.demands('req/1', NOW)[0].request, 'who calls his request so asks for one function'
    assert () == Asked().demands('req', NOW)


# ---------------------------------------------------------------------------------------------------------------- progress


def machine(name: str, *holds: str | None, busy: str | None = None, coming: str | None = None, kind: str = 'gold') -> Machine:
    """A machine whose regions hold these functions; its first one may be on its way to another one."""
    regions = tuple(
        Region(
            provider=f'{name}-{n}',
            accelerator=AcceleratorId('uuid:1'),
            slot_id=f'Slot{n}',
            function=function,
            coming=coming if n == 0 else None,
        )
        for n, function in enumerate(holds)
    )
    return Machine(uuid=name, name=name, regions=regions, resource_class=kind, busy=busy)


def told(name: str = 'a', function: str = 'aes', at: datetime = NOW, resource_class: str | None = None) -> Told:
    """Somebody who waits."""
    return Told(demand=Demand(id=name, function=function, at=at, resource_class=resource_class), source='http', since=at)


def states(found: tuple[Told, ...]) -> dict[str, tuple[str, str | None]]:
    """How far it has come, by id."""
    return {t.demand.id: (str(t.progress), t.provider) for t in found}


def test_who_waits_is_served_by_a_free_region():
    """A region that holds the function and is on offer; what it took is told."""
    (found,) = demand.progress([told()], [machine('m', 'gzip', 'aes')], NOW + 90 * SECOND)
    assert replace(told(), progress=Progress.SCHEDULABLE, since=NOW + 90 * SECOND, provider='m-1', took=90 * SECOND) == found


@pytest.mark.parametrize(
    'there',
    [
        machine('m', 'gzip', None),
        machine('m', 'aes', busy='claimed'),
        machine('m', 'aes', kind='silver'),
    ],
)
def test_who_waits_goes_on_waiting(there):
    """While no region that he could claim holds it."""
    waits = told(resource_class='CUSTOM_GOLD')
    assert (waits,) == demand.progress([waits], [there], NOW + SECOND)


def test_a_machine_that_is_being_programmed_is_coming():
    """Also its regions that hold the function already: all of them are withdrawn meanwhile."""
    found = demand.progress(
        [told('a'), told('b'), told('c')], [machine('m', 'gzip', 'aes', busy='x', coming='aes')], NOW + SECOND
    )
    assert {'a': ('programming', 'm-0'), 'b': ('programming', 'm-1'), 'c': ('waiting', None)} == states(found)
    assert NOW + SECOND == found[0].since


def test_when_it_is_programmed_for_long_its_beginning_stays():
    """The time is that of the change of its state."""
    before = replace(told(), progress=Progress.PROGRAMMING, since=NOW + SECOND, provider='m-0')
    (found,) = demand.progress([before], [machine('m', 'gzip', busy='x', coming='aes')], NOW + 60 * SECOND)
    assert before == found


def test_what_failed_waits_again():
    """Its region is not being given the function any more, and does not hold it: since it was told it waits."""
    before = replace(told(), progress=Progress.PROGRAMMING, since=NOW + SECOND, provider='m-0')
    assert (told(),) == demand.progress([before], [machine('m', 'gzip')], NOW + 60 * SECOND)


def test_one_region_serves_one():
    """The oldest first; in the order that they were told in they are given back."""
    young, old = told('a', at=NOW + SECOND), told('b')
    found = demand.progress([young, old], [machine('m', 'aes')], NOW + 2 * SECOND)
    assert ['b', 'a'] == [t.demand.id for t in found]
    assert {'a': ('waiting', None), 'b': ('schedulable', 'm-0')} == states(found)


def test_who_asks_for_a_class_is_not_left_without_for_whom_any_is_good():
    """Both are served where there is one region of each class, whoever came first."""
    either = told('a')
    gold = told('b', at=NOW + SECOND, resource_class='gold')
    found = demand.progress([either, gold], [machine('g', 'aes'), machine('s', 'aes', kind='silver')], NOW + 2 * SECOND)
    assert {'a': ('schedulable', 's-0'), 'b': ('schedulable', 'g-0')} == states(found)


def held(name: str = 'a', provider: str = 'm-0', at: datetime = NOW) -> Told:
    """Somebody whose function was schedulable ten seconds after he told."""
    return replace(
        told(name, at=at), progress=Progress.SCHEDULABLE, since=at + 10 * SECOND, provider=provider, took=10 * SECOND
    )


def test_a_region_is_held_for_whom_it_was_programmed():
    """Somebody else who waits, even if he told it earlier, does not get the same one."""
    found = demand.progress([told('old', at=NOW - SECOND), held()], [machine('m', 'aes')], NOW + 20 * SECOND)
    assert {'old': ('waiting', None), 'a': ('schedulable', 'm-0')} == states(found)
    assert held() == found[1]


@pytest.mark.parametrize(
    'there',
    [
        machine('m', 'aes', busy='claimed'),
        machine('m', 'gzip'),
        machine('m', 'aes', kind='silver'),
        machine('other', 'aes'),
        machine('m', 'aes', busy='x', coming='gzip'),
    ],
)
def test_what_was_claimed_or_is_gone_is_no_longer_held(there):
    """It was there once, which stays told; who wants it again tells it again."""
    mine = replace(held(), demand=replace(held().demand, resource_class='gold'))
    (found,) = demand.progress([mine], [there], NOW + 20 * SECOND)
    assert replace(mine, progress=Progress.TAKEN, since=NOW + 20 * SECOND) == found
    assert (found,) == demand.progress([found], [machine('m', 'aes')], NOW + 30 * SECOND)


def test_what_nobody_holds_is_over():
    """Without its region nobody can tell whether it is there still."""
    (found,) = demand.progress([replace(held(), provider=None)], [machine('m', 'aes')], NOW + 20 * SECOND)
    assert Progress.TAKEN == found.progress


def test_it_is_held_while_another_region_of_its_machine_is_programmed():
    """It is withdrawn for a while, and comes back."""
    there = machine('m', 'gzip', 'aes', busy='x', coming='aes')
    found = demand.progress([held(provider='m-1'), told('b')], [there], NOW + 20 * SECOND)
    assert {'a': ('schedulable', 'm-1'), 'b': ('programming', 'm-0')} == states(found)


def test_a_plan_counts_whoever_waits_and_whatever_is_held():
    """And not what somebody took: else each demand would be served again and again, until its time is over."""
    waits = told('w', resource_class='gold')
    comes = replace(told('p', resource_class='custom_gold'), progress=Progress.PROGRAMMING)
    taken = replace(held('t'), progress=Progress.TAKEN)
    found = demand.counting([waits, comes, held('h'), taken])
    assert (('w', 'CUSTOM_GOLD'), ('p', 'CUSTOM_GOLD'), ('h', None)) == tuple((d.id, d.resource_class) for d in found)
    assert replace(held('h').demand, held='m-0') == found[2]


def test_a_plan_is_told_which_region_serves_whom():
    """The one that is held, or is being programmed; nobody else is given it, and it is not changed."""
    comes = replace(told('p'), progress=Progress.PROGRAMMING, provider='m-1')
    waits = replace(told('w'), provider='m-2')
    assert ['m-0', 'm-1', None] == [d.held for d in demand.counting([held('h'), comes, waits])]
    assert [None] * 3 == [t.demand.held for t in (held('h'), comes, waits)], 'it is not stored'


# ---------------------------------------------------------------------------------------------------------------- together


def request(name: str, *functions: str, at: datetime = NOW, resource_class: str | None = None) -> list[Told]:
    """Somebody who waits for several functions of one machine."""
    asked = Asked(functions=functions, resource_class=resource_class)
    return [Told(demand=d, source='http', since=at) for d in asked.demands(name, at)]


def test_several_functions_are_schedulable_on_one_machine_or_not_at_all():
    """Nova boots one machine: the two functions on two of them are of no use to it."""
    waits = request('r', 'aes', 'gzip')
    apart = [machine('m', 'aes', 'zstd'), machine('n', 'gzip', 'zstd')]
    assert tuple(waits) == demand.progress(waits, apart, NOW + SECOND)
    found = demand.progress(waits, [*apart, machine('o', 'zstd', 'gzip', 'aes')], NOW + SECOND)
    assert {'r/1': ('schedulable', 'o-2'), 'r/2': ('schedulable', 'o-1')} == states(found)
    twice = request('r', 'aes', 'aes')
    assert tuple(twice) == demand.progress(twice, [machine('m', 'aes'), machine('n', 'aes')], NOW + SECOND)
    silver = request('r', 'aes', 'gzip', resource_class='silver')
    assert tuple(silver) == demand.progress(silver, [machine('m', 'aes', 'gzip')], NOW + SECOND)


def test_several_functions_are_programmed_on_one_machine():
    """Also the one that it holds already is not there until the machine is back."""
    waits = request('r', 'aes', 'gzip')
    found = demand.progress(waits, [machine('m', 'zstd', 'gzip', busy='x', coming='aes'), machine('n', 'aes')], NOW + SECOND)
    assert {'r/1': ('programming', 'm-0'), 'r/2': ('programming', 'm-1')} == states(found)
    found = demand.progress(found, [machine('m', 'aes', 'gzip'), machine('n', 'aes')], NOW + 9 * SECOND)
    assert {'r/1': ('schedulable', 'm-0'), 'r/2': ('schedulable', 'm-1')} == states(found)
    assert [9 * SECOND] * 2 == [t.took for t in found]
    other = demand.progress(waits, [machine('m', 'zstd', busy='x', coming='aes'), machine('n', 'gzip')], NOW + SECOND)
    assert tuple(waits) == other


def test_who_needs_several_of_one_machine_chooses_before_who_needs_one():
    """Both are served, though the other one came first."""
    one = told('a', at=NOW - SECOND)
    fleet = [machine('m', 'aes', 'gzip'), machine('n', 'aes')]
    found = demand.progress([one, *request('r', 'aes', 'gzip')], fleet, NOW + SECOND)
    assert {'a': ('schedulable', 'n-0'), 'r/1': ('schedulable', 'm-0'), 'r/2': ('schedulable', 'm-1')} == states(found)


def test_requests_share_a_machine_that_has_enough_for_both():
    """And the third one waits; each as a whole."""
    fleet = [machine('m', 'aes', 'gzip', 'aes', 'gzip', 'aes'), machine('n', 'gzip')]
    found = demand.progress([t for n in 'abc' for t in request(n, 'aes', 'gzip')], fleet, NOW + SECOND)
    assert {
        'a/1': ('schedulable', 'm-0'), 'a/2': ('schedulable', 'm-1'), 'b/1': ('schedulable', 'm-2'),
        'b/2': ('schedulable', 'm-3'), 'c/1': ('waiting', None), 'c/2': ('waiting', None),
    } == states(found)  # fmt: skip


def test_a_request_is_over_as_a_whole():
    """One of its regions was claimed, or is no longer what it was: what is left answers nobody."""
    held_both = demand.progress(request('r', 'aes', 'gzip'), [machine('m', 'aes', 'gzip')], NOW)
    found = demand.progress([*held_both, told('a')], [machine('m', 'aes', 'zstd')], NOW + SECOND)
    assert {'r/1': ('taken', 'm-0'), 'r/2': ('taken', 'm-1'), 'a': ('schedulable', 'm-0')} == states(found)
    assert held_both == demand.progress(held_both, [machine('m', 'aes', 'gzip')], NOW + SECOND)


def test_one_that_was_half_told_is_served_as_a_whole_when_the_rest_is_there():
    """It is looked at in the very moment; what it holds then is not the other half's fault."""
    first, second = request('r', 'aes', 'gzip')
    half = demand.progress([first], [machine('m', 'aes'), machine('n', 'aes', 'gzip')], NOW)
    assert {'r/1': ('schedulable', 'm-0')} == states(half)
    found = demand.progress([*half, second], [machine('m', 'aes'), machine('n', 'aes', 'gzip')], NOW + SECOND)
    assert {'r/1': ('schedulable', 'n-0'), 'r/2': ('schedulable', 'n-1')} == states(found)


def test_what_is_busy_for_a_moment_is_held_still():
    """A conductor looks at the machine, or it was tried a short while ago: its region is there, and nobody has taken it."""
    there = replace(machine('m', 'aes', busy='held by conductor x for a moment'), passing=True)
    assert (held(),) == demand.progress([held()], [there], NOW + 20 * SECOND)
    assert (told(),) == demand.progress([told()], [there], NOW + 20 * SECOND), 'nothing of it can be claimed now'
