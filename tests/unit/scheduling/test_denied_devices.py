# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices of a stored inventory the deny list means, and which providers may offer them."""

from dataclasses import replace

from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.scheduling import denied_devices, provider_names
from tests.unit.planning import values as v

NODE = '6f1a7c1e-0000-4000-8000-000000000001'
OTHER = replace(v.gpu(firmware=(v.component('GPU_1', version='1.5'),)), id=AcceleratorId('uuid:gpu-1'))
INVENTORY = v.inventory(v.gpu(), OTHER, v.fpga())
DENIED = denied_devices.denied_images((v.image(version=v.OLD, denied='CVE-2026-1'), v.image('other')))


def test_only_the_devices_that_run_a_denied_version_are_found():
    """Each with why; without a deny list there are none."""
    [found] = denied_devices.denied_devices(INVENTORY, DENIED)
    assert (v.GPU, 'CVE-2026-1') == (found.accelerator, found.findings[0].fact.denial)
    assert () == denied_devices.denied_devices(INVENTORY, ())


def test_a_version_that_the_next_reset_brings_counts():
    """A tenant can leave it so."""
    staged = v.gpu(firmware=(v.component(version='1.5', staged=v.OLD),))
    [found] = denied_devices.denied_devices(v.inventory(staged), DENIED)
    assert (v.GPU, True) == (found.accelerator, found.findings[0].fact.is_staged)


def test_every_provider_that_may_offer_a_device_is_named():
    """As a whole, together with those of its make, and by its slots: placement has the providers of an earlier rule, too."""
    card, fpga = v.gpu(), v.fpga()
    found = denied_devices.offering(INVENTORY, frozenset({v.GPU, v.FPGA}), NODE)
    assert {
        provider_names.card_uuid(NODE, v.GPU),
        provider_names.together_uuid(NODE, card),
        provider_names.card_uuid(NODE, v.FPGA),
        provider_names.together_uuid(NODE, fpga),
        *(provider_names.slot_uuid(NODE, v.FPGA, slot.slot_id) for slot in fpga.slots),
    } == found


def test_what_stands_for_others_too_is_told():
    """Two cards of one make share a provider; an FPGA that is alone shares none."""
    assert denied_devices.counted_with(INVENTORY, frozenset({v.GPU}), NODE)
    assert not denied_devices.counted_with(INVENTORY, frozenset({v.GPU, OTHER.id}), NODE)
    assert not denied_devices.counted_with(INVENTORY, frozenset({v.FPGA}), NODE)
