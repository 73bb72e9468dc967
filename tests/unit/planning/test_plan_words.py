# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan refuses and what it notes, word by word: an operator reads it, and acts on it."""

from dataclasses import replace

import pytest

from baremetal_acc.model.image import Fit, ImageKind
from baremetal_acc.model.inventory import Gap, PowerState, Sending, UpdateFacts, UploadWay
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.policy.baseline_rules import Baseline, Downgrade, Match, OnMissing, Rule
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

OPEN = v.baseline(block=frozenset())
NO_RESET = 'host:/redfish/v1/Systems/1 has to {}, and offers no ResetType for that'
FUNCTIONS = v.baseline(firmware=None, functions=(('Slot*', 'gzip'),))
ONE_SLOT = v.fpga(slots=(v.slot(0, None, v.OLD),), locks=v.fpga().locks[:2])
BACK = v.image('back', version='0.9')
RUNNING = v.image('running', version=v.OLD, security_version=5)
REVOKE = v.image('revoke-1', kind=ImageKind.REVOCATION, component='Keys', version='7')
CARD = v.gpu(firmware=(v.component(version=v.NEW), v.component('Keys', '6')))
REVOKED = v.baseline(revocations=('revoke-1',))
BY_RULE = ', which security_floor of rule all sets: select a later image, or lower the floor in that rule'
BY_RUNNING = (
    ', that of 1.0, which runs (security_version of image running in the catalogue): only downgrade = "allow" in rule all '
    'permits a lower one'
)
TWIN = AcceleratorId('uuid:gpu-1')
NUMBERED = tuple(
    v.gpu(
        id=AcceleratorId(f'uuid:gpu-{n}'),
        primary=v.ref(f'Systems/1/Processors/GPU_{n}'),
        refs=(v.ref(f'Systems/1/Processors/GPU_{n}'),),
        firmware=(v.component(f'GPU_{n}', v.NEW),),
        locks=(),
    )
    for n in range(6)
)


def made(accelerators, rules=None, catalogue=None, bmc=None, gaps=(), **how):
    if not isinstance(accelerators, tuple):
        accelerators = (accelerators,)
    seen = replace(v.inventory(bmcs=(v.facts(**(bmc or {})),), gaps=gaps), accelerators=accelerators)
    rules = rules or v.baseline()
    rules = replace(
        rules, rules=tuple(replace(r, custody=None) for r in rules.rules)
    )  # that it is less is the subject of others
    return plan(seen, rules, v.NODE, (v.image(), v.function_image()) if catalogue is None else catalogue, **how)


def of_gpu(subject, reason):
    return refusal_words.Told(v.GPU, 'H100 GPU_0', subject, reason)


def of_fpga(subject, reason):
    return refusal_words.Told(v.FPGA, 'Stratix FPGA1', subject, reason)


def of_node(subject, reason):
    return refusal_words.Told(None, 'node-1', subject, reason)


def firmware(reason):
    """Of the one component of the GPU."""
    return (of_gpu('firmware GPU_0', reason),)


def item_of_all(count):
    """So many devices that one item stands for."""
    item = v.component().ref
    return tuple(replace(a, firmware=(replace(a.firmware[0], version=v.OLD, ref=item),)) for a in NUMBERED[:count])


ITEM = 'host:/redfish/v1/UpdateService/FirmwareInventory/GPU_0'

SCENES = {
    'nothing is there': (((),), {}, (of_node('accelerators', 'none was found'),)),
    'nothing is there, and the host is off': (
        ((),),
        {'bmc': {'power': PowerState.OFF}},
        (of_node('accelerators', 'none was found: the host is off, and some BMCs show cards only while it is on'),),
    ),
    'none of the chosen is there, and the host is off': (
        (v.gpu(),),
        {'only': frozenset({v.FPGA}), 'bmc': {'power': PowerState.OFF}},
        (of_node('accelerators', 'none was found'),),
    ),
    'none of the chosen is there': (
        (v.gpu(),),
        {'only': frozenset({v.FPGA})},
        (of_node('accelerators', 'none was found'),),
    ),
    'two of one identity': (
        ((v.gpu(firmware=()), v.gpu(firmware=())), v.baseline(firmware=None)),
        {},
        (of_node(v.GPU, '2 devices have this identity, so it is unknown which one is meant'),),
    ),
    'a gap that hides devices, and one that hides none': (
        (v.gpu(),),
        {'gaps': (Gap(ref=v.ref('Chassis'), reason='HTTP 500', hides=True), Gap(ref=v.ref('Fabrics'), reason='HTTP 404'))},
        (of_node('host:/redfish/v1/Chassis', 'devices may be hidden by what could not be read: HTTP 500'),),
    ),
    'too few devices': (
        (v.gpu(), v.baseline(count=4)),
        {},
        (of_node('rule all', 'expected 4 matching devices, found 1'),),
    ),
    'too many devices': (
        (v.gpu(), v.baseline(count=0)),
        {},
        (of_node('rule all', 'expected 0 matching devices, found 1'),),
    ),
    'as many devices as there must be': ((v.gpu(), v.baseline(count=1)), {}, ()),
    'a number for other nodes': (
        (v.gpu(locks=(v.reading(blocks=v.ALL_PATHS),)), v.baseline(count=4, match=Match(resource_class='silver'))),
        {},
        (),
    ),
    'a rule that may be for it': (
        (
            v.gpu(vendor=None, locks=(v.reading(blocks=v.ALL_PATHS),)),
            Baseline(rules=(Rule(name='theirs', match=Match(vendor='NVIDIA'), block=v.HOST_DEVICE),)),
        ),
        {'parts': frozenset({Part.FIRMWARE})},
        (
            of_gpu(
                'rule theirs',
                'the BMC does not show the vendor that the rule matches on, so the rule may apply to this device',
            ),
        ),
    ),
    'a rule that may be for it, where nothing is demanded': (
        (
            v.gpu(vendor=None, firmware=()),
            Baseline(rules=(Rule(name='theirs', match=Match(vendor='NVIDIA'), block=v.HOST_DEVICE),)),
        ),
        {'parts': frozenset({Part.PUBLISH})},
        (),
    ),
    'all at once, those of the node first, then by device': (
        (
            (v.gpu(firmware=()), v.fpga(slots=(), locks=(v.reading(accelerator=v.FPGA),))),
            v.baseline(functions=(('Slot*', 'gzip'),), count=3),
        ),
        {'gaps': (Gap(ref=v.ref('Chassis'), reason='HTTP 500', hides=True),)},
        (
            of_node('host:/redfish/v1/Chassis', 'devices may be hidden by what could not be read: HTTP 500'),
            of_node('rule all', 'expected 3 matching devices, found 2'),
            of_fpga('firmware GPU_*', 'the BMC reports no such component'),
            of_fpga('function gzip', 'no slot of the device matches'),
            of_gpu('firmware GPU_*', 'the BMC reports no such component'),
            of_gpu('function gzip', 'no slot of the device matches'),
        ),
    ),
    # -------------------------------------------------------------------------------------------------- the component
    'no such components': (
        (v.gpu(), v.baseline(firmware=(('A', v.NEW), ('B', v.NEW)))),
        {},
        (
            of_gpu('firmware A', 'the BMC reports no such component'),
            of_gpu('firmware B', 'the BMC reports no such component'),
        ),
    ),
    'no such component': (
        (v.gpu(firmware=()),),
        {},
        (of_gpu('firmware GPU_*', 'the BMC reports no such component'),),
    ),
    'no such component, and the BMC was not read': (
        (v.gpu(firmware=()),),
        {'bmc': {'name': BmcName('other')}},
        (of_gpu('firmware GPU_*', 'the BMC reports no such component'),),
    ),
    'no such component, since there is no UpdateService': (
        (v.gpu(firmware=()),),
        {'bmc': {'update': None}},
        (of_gpu('firmware GPU_*', v.NO_FIRMWARE),),
    ),
    'a component without an Id': (
        (v.gpu(firmware=(replace(v.component(), id=None),)), v.baseline(firmware=(('*', v.NEW),))),
        {},
        (of_gpu('firmware *', 'the BMC reports no such component'),),
    ),
    'a denied version is demanded': (
        (v.gpu(), None, (v.image(denied='CVE-1'), RUNNING)),
        {},
        firmware('version 2.0 is denied: CVE-1'),
    ),
    'a denied version runs': (
        (v.gpu(), v.baseline(firmware=None), (replace(RUNNING, denied='CVE-1'),)),
        {},
        firmware('version 1.0 is denied (CVE-1), and no rule says which version to run instead'),
    ),
    'a denied version waits for a reset': (
        (v.gpu(firmware=(v.component(staged=v.NEW),)), v.baseline(firmware=None), (v.image(denied='CVE-1'),)),
        {},
        firmware('version 2.0 is denied (CVE-1), and no rule says which version to run instead'),
    ),
    'a denied version runs in what has no Id': (
        (
            v.gpu(firmware=(replace(v.component(), id=None),)),
            v.baseline(firmware=None),
            (replace(RUNNING, denied='CVE-1'),),
        ),
        {},
        (of_gpu(f'firmware {ITEM}', 'version 1.0 is denied (CVE-1), and no rule says which version to run instead'),),
    ),
    'two components of one name': (
        (v.gpu(firmware=(v.component(), replace(v.component(), ref=v.ref('Other')))), v.baseline(block=frozenset())),
        {},
        firmware('the BMC shows several firmware items of the device with the Id GPU_0'),
    ),
    'a version that could not be read': (
        (v.gpu(firmware=(v.component(version=None),)),),
        {},
        firmware('its version could not be read, so it is unknown what would be overwritten'),
    ),
    'a component that is a guess': (
        (v.gpu(firmware=(v.component(certain=False),)),),
        {},
        firmware('the BMC does not say that GPU_0 belongs to this device'),
    ),
    'a component that cannot be updated': (
        (v.gpu(firmware=(v.component(updateable=False),)),),
        {},
        firmware('the BMC says that it is not updateable'),
    ),
    'a component of which nobody says whether it can be updated': (
        (v.gpu(firmware=(v.component(updateable=None),)),),
        {},
        (),
    ),
    # ------------------------------------------------------------------------------------------------------- the image
    'no image': (
        (v.gpu(), None, ()),
        {},
        firmware('the catalogue has no image of version 2.0 that fits (rule all)'),
    ),
    'a version that the catalogue writes otherwise': (
        (
            v.gpu(),
            None,
            (v.image(version='2.00'), v.image('other', version='2.10'), v.image('denied', version='2.000', denied='bad')),
        ),
        {},
        firmware('the catalogue has no image of version 2.0 that fits: did you mean 2.00? (rule all)'),
    ),
    'a version that the catalogue writes in two other ways': (
        (v.gpu(), None, (v.image(version='2.00'), v.image('other', version='02.0'))),
        {},
        firmware('the catalogue has no image of version 2.0 that fits (rule all)'),
    ),
    'images for other ids': (
        (
            v.gpu(),
            None,
            tuple(v.image(f'pcie-{n}', fits=(Fit(vendor='NVIDIA', model='H100 PCIe'),)) for n in range(5)[::-1]),
        ),
        {},
        firmware(
            'the catalogue has no image of version 2.0 that fits: the ids that the device shows differ from the fits '
            'of pcie-0, pcie-1, '
            'pcie-2, pcie-3 and 1 more, or are hidden (rule all)'
        ),
    ),
    'several images': (
        (v.gpu(), None, (v.image('b'), v.image('a'))),
        {},
        firmware('several images of the catalogue fit version 2.0: a, b (rule all)'),
    ),
    'an image for a name': (
        (v.gpu(), None, (v.image(fits=(Fit(vendor='NVIDIA', model='H100'),)),)),
        {},
        firmware('image gpu-new fits by vendor and model only; name pci, part_number or software_id in its fits'),
    ),
    'an image of no security version, over what nobody knows': ((v.gpu(), None, (v.image(security_version=0),)), {}, ()),
    'an image for a name and for an id of the component': (
        (v.gpu(), None, (v.image(fits=(Fit(model='H100'), Fit(software_id='0x0020'))),)),
        {},
        (),
    ),
    'an image below the floor': (
        (v.gpu(), v.baseline(security_floor=9)),
        {},
        firmware(f'image gpu-new has security version 5, the floor is 9{BY_RULE}'),
    ),
    'an image on the floor': ((v.gpu(), v.baseline(security_floor=5)), {}, ()),
    'an image below what runs': (
        (v.gpu(), v.baseline(security_floor=3), (v.image(), replace(RUNNING, security_version=6))),
        {},
        firmware(f'image gpu-new has security version 5, the floor is 6{BY_RUNNING}'),
    ),
    'a step that goes down': (
        (
            v.gpu(),
            v.baseline(security_floor=3),
            (v.image(via=('1.5',), security_version=4), v.image('first', version='1.5', reset=ResetKind.NONE)),
        ),
        {},
        firmware(
            'image gpu-new has security version 4, the floor is 5, that of image first, which is written before it: only '
            'downgrade = "allow" in rule all permits a lower one'
        ),
    ),
    'a downgrade that the rule allows': (
        (
            v.gpu(),
            v.baseline(security_floor=3, downgrade=Downgrade.ALLOW),
            (v.image(), replace(RUNNING, security_version=6)),
        ),
        {},
        (),
    ),
    'an image that may not be written over what runs': (
        (v.gpu(), None, (v.image(via=('1.8', '1.9')),)),
        {},
        firmware(
            'image gpu-new may be written over 1.8, 1.9 only, and 1.0 runs; the catalogue has no chain of images that '
            'leads there '
            '(images that are denied, or whose version several images have, are not used)'
        ),
    ),
    'a step that needs a reset': (
        (v.gpu(), None, (v.image(via=('1.5',)), v.image('step', version='1.5', reset=ResetKind.SYSTEM_RESET))),
        {},
        firmware(
            'image gpu-new may be written over 1.5 only, and 1.0 runs: require version 1.5 first (image step, in '
            'effect after a system-reset)'
        ),
    ),
    # --------------------------------------------------------------------------------------------------- the way back
    'a way back that is not there': (
        (v.gpu(), None, (v.image(restore='lost'),)),
        {},
        firmware('restore image lost is not in the catalogue'),
    ),
    'a way back that is no firmware, and fits nothing': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, kind=ImageKind.REVOCATION))),
        {},
        tuple(
            of_gpu('firmware GPU_0', f'restore image back {why}')
            for why in ('does not fit this device', 'is not a firmware image')
        ),
    ),
    'a way back that is denied': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, denied='CVE-1'))),
        {},
        firmware('restore image back is denied: CVE-1'),
    ),
    'a way back of another device that is denied': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, denied='CVE-1', fits=(Fit(pci='0x8086:0x09c4'),)))),
        {},
        tuple(
            of_gpu('firmware GPU_0', f'restore image back {why}') for why in ('does not fit this device', 'is denied: CVE-1')
        ),
    ),
    'a way back that is no step is not asked over what it may be written': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, via=('0.8',)))),
        {},
        (),
    ),
    'a way back of a version that is denied': (
        (v.gpu(), None, (v.image(restore='back'), BACK, v.image('leaks', version='0.9', denied='CVE-1'))),
        {},
        firmware('restore image back is denied: CVE-1'),
    ),
    'a way back for a name and for an id of the component': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, fits=(Fit(model='H100'), Fit(software_id='0x0020'))))),
        {},
        (),
    ),
    'a way back, and a BMC that was not read': (
        (v.gpu(), OPEN, (v.image(reset=ResetKind.NONE, restore='back'), BACK)),
        {'bmc': {'name': BmcName('other')}},
        firmware('its BMC host was not read'),
    ),
    'a way back, and a BMC that takes no images': (
        (v.gpu(), OPEN, (v.image(reset=ResetKind.NONE, restore='back'), BACK)),
        {'bmc': {'update': None}},
        firmware(v.NO_FIRMWARE),
    ),
    'a way back for a name': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, fits=(Fit(model='H100'),)))),
        {},
        firmware('restore image back fits this device by vendor and model only'),
    ),
    'a way back that goes down': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, security_version=4), RUNNING)),
        {},
        firmware(f'restore image back has security version 4, the floor is 5{BY_RUNNING}'),
    ),
    'a way back on the floor': ((v.gpu(), None, (v.image(restore='back'), BACK, RUNNING)), {}, ()),
    'a way back that is too large': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, size_bytes=4001))),
        {'bmc': {'update': UpdateFacts(push=True, pull=True, max_size=4000)}},
        firmware('restore image back has 4001 bytes, its BMC accepts at most 4000'),
    ),
    'a way back of the largest size': (
        (v.gpu(), None, (v.image(restore='back'), replace(BACK, size_bytes=4000))),
        {'bmc': {'update': UpdateFacts(push=True, pull=True, max_size=4000)}},
        (),
    ),
    # ----------------------------------------------------------------------------------------------------------- the BMC
    'a BMC that was not read': (
        (v.gpu(), OPEN, (v.image(reset=ResetKind.NONE),)),
        {'bmc': {'name': BmcName('other')}},
        firmware('its BMC host was not read'),
    ),
    'a BMC that takes no images': (
        (v.gpu(),),
        {'bmc': {'update': None}},
        firmware(v.NO_FIRMWARE),
    ),
    'a BMC that only fetches': (
        (v.gpu(),),
        {'bmc': {'update': UpdateFacts(push=False, pull=True)}},
        firmware(
            'BMC host can only fetch images itself (SimpleUpdate): set option [baremetal_acc] image_server_host, in '
            'the configuration of the machine that this runs on, to the address at which BMCs reach that machine'
        ),
    ),
    'a BMC that offers nothing': (
        (v.gpu(),),
        {'bmc': {'update': UpdateFacts(push=False, pull=False)}},
        firmware(
            'BMC host offers no way to send an image: it has no MultipartHttpPushUri, HttpPushUri or SimpleUpdate',
        ),
    ),
    'a BMC that would not take it': (
        (v.gpu(),),
        {
            'bmc': {
                'update': UpdateFacts(
                    push=True,
                    pull=False,
                    sending=Sending(
                        way=UploadWay.MULTIPART_PUSH,
                        apply_time=None,
                        obstacle='images are applied only at night (OperationApplyTime)',
                    ),
                )
            }
        },
        firmware('BMC host accepts no image: images are applied only at night (OperationApplyTime)'),
    ),
    'a BMC that takes it': (
        (v.gpu(),),
        {
            'bmc': {
                'update': UpdateFacts(
                    push=True, pull=False, max_size=1000, sending=Sending(way=UploadWay.MULTIPART_PUSH, apply_time=None)
                )
            }
        },
        (),
    ),
    'an image that is too large': (
        (v.gpu(),),
        {'bmc': {'update': UpdateFacts(push=True, pull=True, max_size=999)}},
        firmware('image gpu-new has 1000 bytes, BMC host accepts at most 999'),
    ),
    'no System to reset': (
        (v.gpu(), OPEN),
        {'bmc': {'system': None}},
        firmware('needs a power-cycle, and the BMC shows no System to reset'),
    ),
    'a System without the reset': (
        (v.gpu(), OPEN),
        {'bmc': {'resets': frozenset({ResetKind.SYSTEM_RESET})}},
        (refusal_words.Told(accelerator=None, label='node-1', subject=('host'), reason=NO_RESET.format('do a power-cycle')),),
    ),
    'a System that cannot be held off': (
        (v.gpu(), OPEN, (v.image(reset=ResetKind.NONE),)),
        {'hold': True, 'bmc': {'resets': frozenset({ResetKind.SYSTEM_RESET, ResetKind.POWER_CYCLE})}},
        (
            refusal_words.Told(
                accelerator=None,
                label='node-1',
                subject=('host'),
                reason=NO_RESET.format('be powered off and on'),
            ),
        ),
    ),
    'a System to hold whose power nobody knows': (
        (v.gpu(), OPEN, (v.image(reset=ResetKind.NONE),)),
        {'hold': True, 'bmc': {'power': PowerState.UNKNOWN}},
        (of_node('host', 'must be powered off first, and its BMC does not report its power state'),),
    ),
    'a System whose power nobody knows and that need not be held': (
        (v.gpu(), OPEN, (v.image(reset=ResetKind.NONE),)),
        {'hold': False, 'bmc': {'power': PowerState.UNKNOWN}},
        (),
    ),
    'no System to hold': (
        (v.gpu(), OPEN, (v.image(reset=ResetKind.NONE),)),
        {'bmc': {'system': None}, 'hold': True},
        (of_node('host', 'must be powered off first, and its BMC shows no System to power off'),),
    ),
    # ------------------------------------------------------------------------------------------------------ revocations
    'a revocation that is not in the catalogue': (
        (CARD, REVOKED, (v.image(),)),
        {},
        (of_gpu('revocation revoke-1', 'the catalogue has no such image (rule all)'),),
    ),
    'a revocation that is firmware': (
        (CARD, REVOKED, (v.image(), v.image('revoke-1', component='Keys'))),
        {},
        (of_gpu('revocation revoke-1', 'the image is of kind firmware (rule all)'),),
    ),
    'a revocation of nothing': (
        (CARD, REVOKED, (v.image(), replace(REVOKE, component='Nothing'))),
        {},
        (of_gpu('revocation revoke-1', 'no component of the device fits (rule all)'),),
    ),
    'a revocation of what has to run another version': (
        (
            CARD,
            v.baseline(firmware=(('Keys', '6'),), revocations=('revoke-1',)),
            (v.image('keys-6', component='Keys', version='6'), REVOKE),
        ),
        {},
        (of_gpu('revocation revoke-1', 'version 6 is already required of Keys'),),
    ),
    'a revocation of what has to run that very version': (
        (
            v.gpu(firmware=(v.component(version=v.NEW), v.component('Keys', '7'))),
            v.baseline(firmware=(('Keys', '7'),), revocations=('revoke-1',)),
            (v.image('keys-7', component='Keys', version='7'), REVOKE),
        ),
        {},
        (),
    ),
    'a revocation that is denied': (
        (CARD, REVOKED, (v.image(), replace(REVOKE, denied='wrong key'))),
        {},
        (
            of_gpu('firmware Keys', 'image revoke-1 is denied: wrong key'),
            of_gpu('firmware Keys', 'version 7 is denied: wrong key'),
        ),
    ),
    'a revocation beside firmware of a denied version that is written over': (
        (
            v.gpu(firmware=(v.component(), v.component('Keys', '6'))),
            REVOKED,
            (v.image(), replace(RUNNING, denied='CVE-1'), REVOKE),
        ),
        {},
        (
            of_gpu(
                'revocation revoke-1',
                'cannot be undone, so all other firmware has to run first, and GPU_0 does not; remove the revocation '
                'from rule all until it does',
            ),
        ),
    ),
    'a step of another version than one that is denied': (
        (
            v.gpu(firmware=(replace(v.component(), software_id=None),)),
            None,
            (
                v.image(via=('1.5',)),
                v.image('step', version='1.5', reset=ResetKind.NONE),
                v.image('leaks', version='1.5', denied='CVE-1', fits=(Fit(software_id='0x0020'),)),
            ),
        ),
        {},
        firmware('version 1.5 is denied: CVE-1'),
    ),
    'a revocation before its time': (
        (
            v.gpu(
                firmware=(
                    v.component(),
                    v.component('Keys', '6', staged='7'),
                    v.component('Other', '1', staged='2'),
                    replace(v.component('Nameless', '1', staged='2'), id=None),
                )
            ),
            REVOKED,
            (v.image(), REVOKE),
        ),
        {},
        (
            of_gpu(
                'revocation revoke-1',
                'cannot be undone, so all other firmware has to run first, and GPU_0, Other, '
                'host:/redfish/v1/UpdateService/FirmwareInventory/Nameless do not; remove the revocation from rule '
                'all until it does',
            ),
        ),
    ),
    'a revocation with a way back': (
        (CARD, REVOKED, (v.image(), replace(REVOKE, restore='other'), replace(REVOKE, name='other', version='6'))),
        {},
        tuple(
            of_gpu('firmware Keys', f'restore image other {why}')
            for why in ('does not fit this device', 'is not a firmware image')
        ),
    ),
    'a revocation below the floor': (
        (CARD, v.baseline(revocations=('revoke-1',), security_floor=6), (v.image(), REVOKE)),
        {},
        (of_gpu('firmware Keys', f'image revoke-1 has security version 5, the floor is 6{BY_RULE}'),),
    ),
    # -------------------------------------------------------------------------------------------------------- functions
    'no slot': (
        (v.fpga(), v.baseline(firmware=None, functions=(('Slot7', 'gzip'),))),
        {},
        (of_fpga('function gzip', 'no slot of the device matches'),),
    ),
    'no function image': (
        (ONE_SLOT, FUNCTIONS, ()),
        {},
        (of_fpga('function Slot0', 'the catalogue has no image of gzip that fits (rule all)'),),
    ),
    'several function images': (
        (ONE_SLOT, FUNCTIONS, (v.function_image('b'), v.function_image('a'))),
        {},
        (of_fpga('function Slot0', 'several images of the catalogue fit gzip: a, b (rule all)'),),
    ),
    'all function images are denied': (
        (ONE_SLOT, FUNCTIONS, (v.function_image('b', denied='it leaks'), v.function_image('a', denied='CVE-1'))),
        {},
        (of_fpga('function Slot0', 'image a is denied: CVE-1; image b is denied: it leaks'),),
    ),
    'a function of a denied version': (
        (ONE_SLOT, FUNCTIONS, (v.function_image('b', denied='it leaks'), v.function_image('a'))),
        {},
        (of_fpga('function Slot0', 'version 2.0 is denied: it leaks'),),
    ),
    'a function of a denied version that is held': (
        (
            replace(ONE_SLOT, slots=(v.slot(0, 'gzip', v.NEW),)),
            FUNCTIONS,
            (v.function_image('b', denied='it leaks'), v.function_image('a')),
        ),
        {},
        (of_fpga('function Slot0', 'version 2.0 is denied: it leaks'),),
    ),
    'a function of another version than the denied one': (
        (ONE_SLOT, FUNCTIONS, (v.function_image('b', denied='it leaks', version='3'), v.function_image('a'))),
        {},
        (),
    ),
    'a slot without an item': (
        (replace(ONE_SLOT, slots=(replace(ONE_SLOT.slots[0], item=None),)), FUNCTIONS),
        {},
        (of_fpga('function Slot0', 'the BMC shows no SoftwareInventory for the slot, so it cannot be programmed'),),
    ),
    'several slots of one name': (
        (
            replace(ONE_SLOT, slots=(ONE_SLOT.slots[0], replace(v.slot(1, None, v.OLD), slot_id='Slot0'))),
            v.baseline(firmware=None, functions=(('Slot*', 'gzip'),), block=frozenset()),
        ),
        {},
        (of_fpga('function Slot0', 'the BMC shows several slots of the device with the id Slot0'),),
    ),
    'a slot whose item is a guess': (
        (
            replace(ONE_SLOT, slots=(replace(ONE_SLOT.slots[0], item=replace(ONE_SLOT.slots[0].item, certain=False)),)),
            FUNCTIONS,
        ),
        {},
        (of_fpga('function Slot0', 'the BMC does not say that Slot0 belongs to this device'),),
    ),
    'a function below the floor': (
        (ONE_SLOT, v.baseline(firmware=None, functions=(('Slot*', 'gzip'),), security_floor=6)),
        {},
        (of_fpga('function Slot0', f'image gzip-2 has security version 5, the floor is 6{BY_RULE}'),),
    ),
    'a function for a name and for an id of the item': (
        (
            replace(ONE_SLOT, slots=(replace(ONE_SLOT.slots[0], item=replace(ONE_SLOT.slots[0].item, software_id='0x1')),)),
            FUNCTIONS,
            (v.function_image(fits=(Fit(model='Stratix'), Fit(software_id='0x1'))),),
        ),
        {},
        (),
    ),
    'a denied function that no rule speaks of': (
        (
            v.fpga(locks=(v.reading(accelerator=v.FPGA),)),
            v.baseline(firmware=None),
            (v.function_image(denied='it leaks'),),
        ),
        {},
        (
            of_fpga(
                'function Slot0', 'holds gzip-2, which is denied (it leaks), and no rule says what the slot has to hold instead'
            ),
        ),
    ),
    'a denied function, and a rule for another slot': (
        (
            v.fpga(locks=(v.reading(accelerator=v.FPGA),)),
            v.baseline(firmware=None, functions=(('Slot1', 'gzip'),)),
            (v.function_image(denied='it leaks'), v.function_image('gzip-3', version='3')),
        ),
        {},
        (
            of_fpga(
                'function Slot0', 'holds gzip-2, which is denied (it leaks), and no rule says what the slot has to hold instead'
            ),
        ),
    ),
    # ------------------------------------------------------------------------------------------------------------- locks
    'nothing blocks a path': (
        (
            v.gpu(locks=(), firmware=(v.component('RoT_0', v.NEW), v.component('GPU_0', v.NEW))),
            v.baseline(block=frozenset({WritePath.HOST_DEVICE, WritePath.HOST_BMC_IPMI})),
        ),
        {},
        tuple(
            of_gpu(f'lock {path}', 'no mechanism blocks this path for GPU_0, RoT_0 (rule all requires it)')
            for path in (WritePath.HOST_BMC_IPMI, WritePath.HOST_DEVICE)
        ),
    ),
    'a lock needs the reset of nobody knows what': (
        (v.gpu(locks=(v.reading(needs=ResetKind.SYSTEM_RESET),)), v.baseline(firmware=None)),
        {},
        (of_gpu('lock rot', 'needs a system-reset, and the BMC does not show what to reset'),),
    ),
    'a lock that cannot be closed altogether': (
        (
            v.gpu(
                firmware=(v.component('A', v.NEW), v.component('B', v.NEW)),
                locks=(
                    v.reading(
                        LockState.UNLOCKED,
                        mechanism='hollow',
                        place='A',
                        closable=False,
                        reason='it cannot lock x',
                        scope=Scope.COMPONENT,
                        part='A',
                    ),
                    v.reading(LockState.UNLOCKED, mechanism='firm', place='B', scope=Scope.COMPONENT, part='B'),
                ),
            ),
            v.baseline(firmware=None),
        ),
        {},
        (
            of_gpu(
                'lock host-device',
                'A cannot be locked by hollow at host:/redfish/v1/A: it cannot lock x (rule all requires it)',
            ),
        ),
    ),
    'some paths are blocked, one is waived, one is not': (
        (
            v.gpu(locks=(v.reading(blocks=frozenset({WritePath.BMC_NETWORK})),), firmware=(v.component('A', v.NEW),)),
            v.baseline(firmware=None, block=v.ALL_PATHS, on_missing=OnMissing.WAIVE, waiver=v.waiver(WritePath.HOST_BMC_IPMI)),
        ),
        {},
        tuple(
            of_gpu(f'lock {path}', 'no mechanism blocks this path for A (rule all requires it)')
            for path in (WritePath.HOST_BMC_REDFISH, WritePath.HOST_DEVICE)
        ),
    ),
    # ---------------------------------------------------------------------------------------------------------- wide items
    'an item of two devices': (
        (item_of_all(2), OPEN),
        {},
        tuple(
            refusal_words.Told(
                accelerator=AcceleratorId(f'uuid:gpu-{n}'),
                label=f'H100 GPU_{n}',
                subject=(f'firmware GPU_{n}'),
                reason=f'{ITEM} represents several parts: GPU_0 of H100 GPU_0 (uuid:gpu-0), GPU_1 of H100 GPU_1 (uuid:gpu-1)',
            )
            for n in range(2)
        ),
    ),
    'an item of four devices': (
        (item_of_all(4), OPEN),
        {'only': frozenset({v.GPU})},
        (
            of_gpu(
                'firmware GPU_0',
                f'{ITEM} represents several parts: ' + ', '.join(f'GPU_{n} of H100 GPU_{n} (uuid:gpu-{n})' for n in range(4)),
            ),
        ),
    ),
    'items whose URIs differ in their last letter': (
        (v.gpu(firmware=(v.component(), v.component('GPU_0X', v.NEW))), v.baseline(firmware=(('GPU_0', v.NEW),))),
        {},
        (),
    ),
    'an item of many devices': (
        (item_of_all(6), OPEN),
        {'only': frozenset({v.GPU})},
        (
            of_gpu(
                'firmware GPU_0',
                f'{ITEM} represents several parts: '
                + ', '.join(f'GPU_{n} of H100 GPU_{n} (uuid:gpu-{n})' for n in range(4))
                + ' and 2 more',
            ),
        ),
    ),
    'an item of two slots': (
        (
            v.fpga(slots=(ONE_SLOT.slots[0], replace(v.slot(1), item=ONE_SLOT.slots[0].item))),
            v.baseline(firmware=None, functions=(('Slot0', 'gzip'),)),
        ),
        {},
        (
            of_fpga(
                'function Slot0',
                'host:/redfish/v1/UpdateService/SoftwareInventory/Slot0 represents several parts: slot Slot0 of Stratix FPGA1 '
                '(uuid:fpga-1), slot Slot1 of Stratix FPGA1 (uuid:fpga-1)',
            ),
        ),
    ),
    'an item that is a device, and has another below it': (
        (
            v.gpu(
                firmware=(
                    replace(v.component(), ref=v.ref('systems/1/PROCESSORS/gpu_0/')),
                    replace(v.component('Other'), ref=v.ref('Systems/1/Processors/GPU_0/Other')),
                    replace(v.component(), ref=v.ref('Systems/1/Processors/GPU_00'), id=None),
                )
            ),
        ),
        {},
        firmware(
            'host:/redfish/v1/systems/1/PROCESSORS/gpu_0/ represents several parts: GPU_0 of H100 GPU_0 (uuid:gpu-0), H100 '
            'GPU_0 (uuid:gpu-0), Other of H100 GPU_0 (uuid:gpu-0)'
        ),
    ),
    'an item above many items': (
        (
            v.gpu(
                firmware=(
                    replace(v.component(), ref=v.ref('Up/Above')),
                    *(replace(v.component(f'Below{n}', v.NEW), ref=v.ref(f'Up/Above/{n}')) for n in range(4)),
                    replace(v.component('Beside', v.NEW), ref=v.ref('Up/Above0')),
                    replace(v.component('Before', v.NEW), ref=v.ref('Up/A')),
                    replace(v.component('First', v.NEW), ref=v.ref('A')),
                )
            ),
        ),
        {},
        firmware(
            'host:/redfish/v1/Up/Above represents several parts: GPU_0 of H100 GPU_0 (uuid:gpu-0), Below0 of H100 GPU_0 '
            '(uuid:gpu-0), Below1 of H100 GPU_0 (uuid:gpu-0)'
        ),
    ),
    'an item that is on two BMCs in two places': (
        (
            v.gpu(
                firmware=(
                    v.component(),
                    replace(v.component('Other', v.NEW), ref=Ref(bmc=BmcName('a'), uri=v.component().ref.uri)),
                )
            ),
        ),
        {},
        (),
    ),
    'an item of what has no Id': (
        (v.gpu(firmware=(v.component(), replace(v.component(), id=None))),),
        {},
        firmware(f'{ITEM} represents several parts: GPU_0 of H100 GPU_0 (uuid:gpu-0), the device of H100 GPU_0 (uuid:gpu-0)'),
    ),
    # ------------------------------------------------------------------------------------------------------- quarantined
    'a host with a quarantined card has to start': (
        (NUMBERED, v.baseline(firmware=(('GPU_*', v.NEW),), block=frozenset())),
        {
            'hold': True,
            'spoilt': frozenset(a.id for a in NUMBERED[1:]),
            'again': frozenset({v.GPU}),
        },
        (
            of_node(
                'host',
                'has to start for H100 GPU_0 firmware GPU_0, but stays powered off while '
                + ', '.join(f'H100 GPU_{n} (uuid:gpu-{n})' for n in range(1, 5))
                + ' and 1 more are quarantined: write the quarantined cards in the same job',
            ),
        ),
    ),
}


@pytest.mark.parametrize('scene', SCENES)
def test_what_a_plan_refuses_and_why_is_said_in_these_words(scene):
    """All of it, and nothing else."""
    args, how, expected = SCENES[scene]
    assert expected == refusal_words.refused(made(*args, **how))


def of(label, *texts):
    return tuple(refusal_words.ToldNote(label, text) for text in texts)


BMC_PATHS = frozenset({WritePath.HOST_BMC_REDFISH, WritePath.HOST_BMC_IPMI})
NOT_WANTED = 'since no rule requires host-bmc-ipmi, host-bmc-redfish to be blocked'
IDLE = 'rule all matches no device here'
LESS = 'less than the default: rule all: host-bmc-ipmi, host-bmc-redfish need not be blocked'
NO_PATH = 'less than the default: rule all: host-bmc-ipmi, host-bmc-redfish, host-device need not be blocked'
SEEN_LATER = 'the BMC may hide cards while the host is off, which is seen only then; hidden cards are not changed'
NO_WAY_BACK = (
    'firmware GPU_0 has no restore image: image gpu-new says restore = "none", so the device is quarantined if the write fails'
)
STEPS = (
    v.image(via=('1.5',), restore='step'),
    v.image('step', version='1.5', via=('1.2',), reset=ResetKind.NONE, restore='first'),
    v.image('first', version='1.2', reset=ResetKind.NONE, restore='first'),
)

NOTES = {
    'what is written, by which rule, and that nothing brings it back': (
        (v.gpu(),),
        {},
        (*of('H100 GPU_0', NO_WAY_BACK, 'firmware GPU_0 to 2.0: rule all'), *of('node-1', LESS)),
    ),
    'nothing is to be done': ((v.gpu(firmware=(v.component(version=v.NEW),)),), {}, of('node-1', LESS)),
    'nothing is asked for but to publish': ((v.gpu(),), {'parts': frozenset({Part.PUBLISH})}, ()),
    'a rule for no device here': (
        (v.gpu(locks=(v.reading(blocks=v.ALL_PATHS),)), v.baseline(match=Match(vendor='AMD'))),
        {},
        of('node-1', IDLE),
    ),
    'steps': (
        (v.gpu(), None, STEPS),
        {},
        (
            *of(
                'H100 GPU_0',
                'firmware GPU_0 to 1.2 first: image step may not be written over 1.0',
                'firmware GPU_0 to 1.5 first: image gpu-new may not be written over 1.2',
                'firmware GPU_0 to 2.0: rule all',
            ),
            *of('node-1', LESS),
        ),
    ),
    'a downgrade that the rule allows': (
        (v.gpu(), v.baseline(downgrade=Downgrade.ALLOW), (v.image(), replace(RUNNING, security_version=6))),
        {},
        (
            *of(
                'H100 GPU_0',
                'firmware GPU_0 goes down from security version 6 to 5: rule all allows it',
                NO_WAY_BACK,
                'firmware GPU_0 to 2.0: rule all',
            ),
            *of(
                'node-1',
                LESS,
                'less than the default: rule all: versions with a lower security_version than the running one may be written',
            ),
        ),
    ),
    'a downgrade that is allowed and is none': (
        (v.gpu(), v.baseline(downgrade=Downgrade.ALLOW), (v.image(), RUNNING)),
        {},
        (
            *of('H100 GPU_0', NO_WAY_BACK, 'firmware GPU_0 to 2.0: rule all'),
            *of(
                'node-1',
                LESS,
                'less than the default: rule all: versions with a lower security_version than the running one may be written',
            ),
        ),
    ),
    'a revocation, which has no way back by its nature': (
        (CARD, REVOKED, (v.image(), REVOKE)),
        {},
        (*of('H100 GPU_0', 'revocation revoke-1 of Keys, which cannot be undone: rule all'), *of('node-1', LESS)),
    ),
    'what an unlock leaves as it is': (
        (
            v.gpu(
                locks=(
                    v.reading(mechanism='ours', place='A'),
                    v.reading(LockState.UNLOCKED, mechanism='open', place='B', blocks=BMC_PATHS),
                    v.reading(LockState.UNSUPPORTED, mechanism='none', place='C', blocks=BMC_PATHS),
                    v.reading(mechanism='closed', place='D', blocks=BMC_PATHS),
                    v.reading(LockState.PENDING_RESET, mechanism='pending', place='E', blocks=BMC_PATHS),
                    v.reading(LockState.UNKNOWN, mechanism='whole', place='F', blocks=BMC_PATHS, scope=Scope.BMC),
                    v.reading(LockState.LOCKED_VERIFIED, mechanism='proven', place='G', blocks=BMC_PATHS, scope=Scope.BMC),
                )
            ),
            v.baseline(block=v.HOST_DEVICE),
        ),
        {'parts': frozenset({Part.UNLOCK})},
        (
            *of(
                'H100 GPU_0',
                f'left engaged: closed at host:/redfish/v1/D, {NOT_WANTED}',
                f'left as it is (pending-reset): pending at host:/redfish/v1/E, {NOT_WANTED}',
            ),
            *of(
                'BMC host',
                f'left as it is (unknown): whole at host:/redfish/v1/F, {NOT_WANTED}',
                f'left engaged: proven at host:/redfish/v1/G, {NOT_WANTED}',
            ),
        ),
    ),
    'a function, and a host that was left off': (
        ((v.gpu(), ONE_SLOT), v.baseline(firmware=None, functions=(('Slot*', 'gzip'),), match=Match(vendor='Intel'))),
        {'hold': True, 'only': frozenset({v.FPGA}), 'spoilt': frozenset({v.GPU})},
        (
            *of('Stratix FPGA1', 'function Slot0 to gzip: rule all'),
            *of(
                'node-1',
                'less than the default: rule all: host-bmc-ipmi, host-bmc-redfish need not be blocked (Stratix FPGA1)',
                'the host is left powered off: H100 GPU_0 (uuid:gpu-0) is quarantined',
                SEEN_LATER,
            ),
        ),
    ),
    'many quarantined devices': (
        (NUMBERED, v.baseline(firmware=(('GPU_*', v.NEW),), block=frozenset()), (v.image(reset=ResetKind.NONE),)),
        {'hold': True, 'spoilt': frozenset(a.id for a in NUMBERED[1:]), 'again': frozenset({v.GPU})},
        (
            *of('H100 GPU_0', NO_WAY_BACK, 'firmware GPU_0 to 2.0: rule all'),
            *of(
                'node-1',
                NO_PATH,
                'the host is left powered off: '
                + ', '.join(f'H100 GPU_{n} (uuid:gpu-{n})' for n in range(1, 5))
                + ' and 1 more are quarantined',
                SEEN_LATER,
            ),
        ),
    ),
}


@pytest.mark.parametrize('scene', NOTES)
def test_what_a_plan_notes_is_said_in_these_words(scene):
    """Which rule decided, what cannot be undone, what is asked less of: all of it, and nothing else."""
    args, how, expected = NOTES[scene]
    assert sorted(expected, key=lambda n: (n.label, n.text)) == refusal_words.notes(made(*args, **how).notes)
