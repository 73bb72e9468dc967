# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Quirks apply by what a BMC says of itself, and to no other BMC."""

from baremetal_acc.bmc.quirks import Quirks


def test_a_bmc_without_a_name_has_no_quirk() -> None:
    """The standard holds, and one update at a time."""
    quirks = Quirks()
    assert ((), None) == (quirks.device_extensions(), quirks.item_slot())
    assert (False, False, 1) == (
        quirks.item_id_ends_with_device_id(),
        quirks.inventory_keeps_old_versions(),
        quirks.updates_at_once(),
    )


def test_the_extension_of_the_root_names_the_maker() -> None:
    """ServiceRoot.Oem or ServiceRoot.Vendor; some roots have only one of them."""
    assert Quirks(oem=frozenset({'Dell'})).item_id_ends_with_device_id()
    assert Quirks(vendor='Dell').inventory_keeps_old_versions()
    assert Quirks(oem=frozenset({'Hpe'})).item_slot() is not None
    assert ['systems'] == [where for where, _ in Quirks(vendor='Dell').device_extensions()]
    assert not Quirks(vendor='Contoso', oem=frozenset({'Contoso'})).item_id_ends_with_device_id()
