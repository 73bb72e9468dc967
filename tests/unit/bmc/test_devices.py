# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Does the table of devices say what it says, and does a wrong file name its line?"""

from pathlib import Path

import pytest

from baremetal_acc.bmc.devices import Class, load, shipped
from baremetal_acc.errors import DocumentError
from baremetal_acc.model.accelerator import Kind


def test_every_kind_is_a_class_and_none_is_the_only_further_one() -> None:
    """The two enumerations stay together."""
    assert {*(kind.value for kind in Kind), 'none'} == {c.value for c in Class}
    assert {None, *Kind} == {c.kind() for c in Class}


@pytest.mark.parametrize(
    ('vendor', 'device', 'display', 'kind'),
    [
        ('0x10de', '0x2330', False, Class.GPU),
        ('0x10de', '0x4242', True, Class.GPU),
        ('0x10de', '0x4242', False, None),
        ('0x102b', '0x0538', True, Class.NONE),
        ('0x15b3', '0xa2dc', False, Class.DPU),
        ('0x15b3', '0x1021', False, None),
        (None, '0x2330', True, None),
        ('0x10de', None, True, None),
    ],
)
def test_ids_say_the_kind(vendor: str | None, device: str | None, display: bool, kind: Class | None) -> None:
    """A vendor's row for display classes does not make its switches GPUs."""
    row = shipped().by_pci(vendor, device, display=display)
    assert kind == (row.kind if row else None)


@pytest.mark.parametrize(
    ('name', 'kind'),
    [
        ('NVIDIA L40', Class.GPU),
        ('nvidia h100 pcie', Class.GPU),
        ('H100 80GB HBM3', Class.GPU),
        ('BlueField-3 SmartNIC Main Card', Class.DPU),
        ('ThinkSystem SR670 V2 Switched 4x x16 PCIe Gen4 DW/SW GPU', None),
        ('MCX75310AAS-NEAT', None),
        (None, None),
    ],
)
def test_names_say_the_kind(name: str | None, kind: Class | None) -> None:
    """From their beginning: GPU somewhere in a name says nothing."""
    row = shipped().by_name(name)
    assert kind == (row.kind if row else None)


def test_vendors_are_written_one_way() -> None:
    """An unknown one keeps its text."""
    written = [shipped().vendor(t) for t in ('NVIDIA Corporation', 'MLNX', 'Intel(R) Corporation', 'Contoso', None)]
    assert ['NVIDIA', 'NVIDIA (Mellanox)', 'Intel', 'Contoso', None] == written


def test_the_operators_rows_come_first(tmp_path: Path) -> None:
    """A file may name a new card, and may take one out."""
    path = tmp_path / 'ours.toml'
    path.write_text(
        'format = 1\n[[device]]\nkind = "none"\npci = ["0x10de:0x2330"]\n[[device]]\nkind = "ASIC"\nnames = ["Own *"]\n'
    )
    table = load([path])
    row = table.by_pci('0x10de', '0x2330', display=True)
    assert Class.NONE == (row.kind if row else None)
    named = table.by_name('Own chip')
    assert Class.ASIC == (named.kind if named else None)
    other = table.by_pci('0x10de', '0x2331', display=True)
    assert Class.GPU == (other.kind if other else None)


@pytest.mark.parametrize(
    ('text', 'line', 'what'),
    [
        ('format = 2\n', 1, 'format = 1 expected'),
        ('format = 1\n[[device]]\nkind = "TPU"\npci = ["0x1:0x2"]\n', 3, 'none of'),
        ('format = 1\n[[device]]\nkind = "GPU"\n', 2, 'needs pci or names'),
        ('format = 1\n[[device]]\nkind = "GPU"\npci = ["0x10de"]\n', 4, 'no 0xVVVV:0xDDDD'),
        ('format = 1\n[[device]]\nkind = "GPU"\npcii = ["0x10de:0x1"]\n', 4, 'no such key'),
        ('format = 1\n[[device]]\nkind = "GPU"\nnames = ["x"]\ntrait = ["A"]\n', 5, 'no such key'),
        ('format = 1\n[[devices]]\nkind = "GPU"\n', 2, 'no such key'),
        ('format = 1\n[[device]\n', 2, 'no valid TOML'),
    ],
)
def test_a_wrong_file_names_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    """File, line, and what is wrong."""
    path = tmp_path / 'wrong.toml'
    path.write_text(text)
    with pytest.raises(DocumentError, match=what) as caught:
        load([path])
    assert (str(path), line) == (caught.value.path, caught.value.line)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """An operator's file that is not there is an error, not an empty table."""
    with pytest.raises(DocumentError, match='nowhere'):
        load([tmp_path / 'nowhere.toml'])
