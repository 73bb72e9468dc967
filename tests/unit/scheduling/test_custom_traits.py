# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The custom traits that are created in advance: all that catalogue and rules can lead to, and no others."""

from dataclasses import replace

from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.image import ImageKind
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.policy.baseline import parse
from baremetal_acc.scheduling import provider_names, provider_traits, providers
from baremetal_acc.scheduling.custom_traits import vocabulary
from baremetal_acc.scheduling.schedulable import supply
from tests.unit.planning import values as v

GZIP = v.function_image(name='img-gzip', function='gzip')
AES = v.function_image(name='img-aes', function='AES-256 (GCM)', denied='broken')
FIRMWARE = replace(GZIP, name='fw', kind=ImageKind.FIRMWARE, function=None)
RULES = """format = 1
[[rule]]
name = "a"
match = { kind = "FPGA" }
offer = "region"
offer_class = "CUSTOM_REGION"
[[rule]]
name = "b"
match = { kind = "GPU" }
offer_class = "PGPU"
[[rule]]
name = "c"
"""
PLAIN = parse('format = 1\n[[rule]]\nname = "r"\n', 'baseline.toml')


def test_the_functions_of_the_catalogue_and_the_classes_of_the_rules_are_known() -> None:
    """Each function as a class, as a trait, and as what a region can be given; standard names everybody has."""
    known = vocabulary(parse(RULES, 'baseline.toml'), iter((GZIP, AES, FIRMWARE)))
    kinds = {f'CUSTOM_ACC_{kind}' for kind in Kind if kind not in (Kind.GPU, Kind.FPGA)}
    functions = {'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES_256_GCM'}
    assert {*functions, 'CUSTOM_REGION', *kinds} == known.classes
    can = {'CUSTOM_ACC_CAN_GZIP', 'CUSTOM_ACC_CAN_AES_256_GCM'}
    marks = {'CUSTOM_OWNER_BAREMETAL_ACC', 'CUSTOM_ACC_PROGRAM', 'CUSTOM_PROGRAMMABLE', 'CUSTOM_ACC_TOGETHER'}
    marks |= {'CUSTOM_ACC_RESERVES_NOTHING', 'CUSTOM_ACC_OPERATOR_RESERVED'}
    assert {*functions, *can, *marks, *kinds, 'CUSTOM_ACC_GPU', 'CUSTOM_ACC_FPGA'} == known.traits


def test_a_function_without_a_name_keeps_the_others_from_nothing() -> None:
    """Who offers it is told what is wrong with it."""
    known = vocabulary(PLAIN, (replace(GZIP, function='!!'), GZIP))
    assert {'CUSTOM_ACC_FN_GZIP'} == {c for c in known.classes if 'FN' in c}


def test_an_overlong_function_is_known_as_what_it_is_published() -> None:
    """The cut name of the trait is not the cut name of the class with another beginning."""
    long = replace(GZIP, function='gzip' * 80)
    known = vocabulary(PLAIN, (long,))
    seen = v.inventory(v.fpga())
    rules = parse('format = 1\n[[rule]]\nname = "r"\noffer = "region"\n', 'baseline.toml')
    met = Verdict(target='node-1', findings=())
    made = supply(seen, met, rules, v.NODE, (long,))
    tree = providers.tree(seen, met, '11111111-aaaa-4bbb-8ccc-222222222222', made.functions, made.offers)
    ours = {t for p in tree.providers for t in p.traits} - provider_traits.device_traits(v.fpga())
    assert any(t.startswith(provider_names.CAN_PREFIX) for t in ours)
    assert ours <= known.traits
