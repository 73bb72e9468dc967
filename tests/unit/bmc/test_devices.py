# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The table of devices identifies accelerators by their PCI ids, and an error names the line of a wrong file."""

import os
import re
from pathlib import Path

import os_traits
import pytest

from baremetal_acc.bmc import device_ids
from baremetal_acc.bmc.device_ids import REMEMBERED, DeviceMaker, DeviceRow, Devices, load, shipped
from baremetal_acc.bmc.registry import known_devices
from baremetal_acc.errors import DocumentError
from baremetal_acc.model.accelerator import Kind

NONE = 'none'
"""Known, and no accelerator."""


def said(row: DeviceRow | None) -> str | None:
    """The word of a row for what a device is; None: there is no row."""
    return None if row is None else row.kind or NONE


@pytest.mark.parametrize(
    ('vendor', 'device', 'display', 'kind'),
    [
        ('0x10de', '0x2330', False, Kind.GPU),
        ('0x10de', '0x4242', True, Kind.GPU),
        ('0x10de', '0x4242', False, None),
        ('0x102b', '0x0538', True, NONE),
        ('0x15b3', '0xa2dc', False, Kind.DPU),
        ('0x15b3', '0x1021', False, None),
        (None, '0x2330', True, None),
        ('0x10de', None, True, None),
    ],
)
def test_ids_say_the_kind(vendor: str | None, device: str | None, display: bool, kind: str | None) -> None:
    """A vendor's row for display classes does not make its switches GPUs."""
    row = shipped().by_pci(vendor, device, display=display)
    assert kind == said(row)


@pytest.mark.parametrize(
    ('name', 'kind'),
    [
        ('NVIDIA L40', Kind.GPU),
        ('nvidia h100 pcie', Kind.GPU),
        ('H100 80GB HBM3', Kind.GPU),
        ('BlueField-3 SmartNIC Main Card', Kind.DPU),
        ('BlueField-3 DPU', Kind.DPU),
        ('MBF2M516C-CECOT', Kind.DPU),
        ('MBF1M332A-ASCAT', Kind.DPU),
        ('MBF2', None),
        ('FPGA PAC D5005', Kind.FPGA),
        ('FPGA Programmable Acceleration Card N3000', Kind.FPGA),
        ('ALVEO U250 PQ', Kind.FPGA),
        ('PAC D5005', None),
        ('ThinkSystem SR670 V2 Switched 4x x16 PCIe Gen4 DW/SW GPU', None),
        ('MCX75310AAS-NEAT', NONE),
        ('ConnectX-7 200GE 2P NIC', NONE),
        ('ConnectX-6 Dx BlueField-2 DPU', None),
        (None, None),
    ],
)
def test_names_say_the_kind(name: str | None, kind: str | None) -> None:
    """From their beginning: GPU somewhere in a name says nothing."""
    row = shipped().by_name(name)
    assert kind == said(row)


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
    assert NONE == said(row)
    named = table.by_name('Own chip')
    assert Kind.ASIC == said(named)
    other = table.by_pci('0x10de', '0x2331', display=True)
    assert Kind.GPU == said(other)


@pytest.mark.parametrize(
    ('text', 'line', 'what'),
    [
        ('format = 2\n', 1, 'format = 1 expected'),
        ('format = 1\n[[device]]\nkind = "TPU"\npci = ["0x1:0x2"]\n', 3, 'none of'),
        ('format = 1\n[[device]]\nkind = "GPU"\n', 2, 'needs pci or names'),
        ('format = 1\n[[device]]\nkind = "GPU"\npci = ["0x10de"]\n', 4, 'does not have the form 0xVVVV:0xDDDD'),
        ('format = 1\n[[device]]\nkind = "GPU"\npcii = ["0x10de:0x1"]\n', 4, 'no such key'),
        ('format = 1\n[[device]]\nkind = "GPU"\nnames = ["x"]\ntrait = ["A"]\n', 5, 'no such key'),
        ('format = 1\n[[devices]]\nkind = "GPU"\n', 2, 'no such key'),
        ('format = 1\n[[device]\n', 2, 'not valid TOML'),
        ('format = 1\n[[device]]\nkind = "GPU"\nkind = "GPU"\n', 4, 'not valid TOML'),
        ('[[device]]\nkind = "GPU"\nnames = ["x"]\n', 1, 'format = 1 expected'),
        ('format = 1\n[[device]]\nkind = 7\nnames = ["x"]\n', 3, 'text expected, a number found'),
        ('format = 1\n[[device]]\nkind = "GPU"\npci = "0x10de:0x2330"\n', 4, 'list of texts expected'),
        ('format = 1\n[[device]]\nkind = "GPU"\n\npci = ["0x10de:0x2330",\n  7]\n', 5, 'list of texts expected'),
        ('format = 1\n[[device]]\nkind = "GPU"\npci = ["10de:2330"]\n', 4, 'write four digits'),
        ('format = 1\n[[device]]\nkind = "GPU"\npci = ["0x10de:0x233"]\n', 4, 'write four digits'),
        ('format = 1\n[[device]]\nkind = "GPU"\npci = ["0x10de:0x[0-9]330"]\n', 4, 'write four digits'),
        ('format = 1\n[[device]]\nkind = "GPU"\nnames = ["*"]\n', 4, 'would match every device'),
        ('format = 1\n[[device]]\nkind = "GPU"\nnames = ["x"]\ntraits = ["GPU_X"]\n', 5, 'CUSTOM_ and then'),
        ('format = 1\n[[device]]\nkind = "GPU"\nnames = ["x"]\nonly = "screen"\n', 5, 'none of display'),
        ('format = 1\n[[vendor]]\ntexts = ["x"]\n', 2, 'name is missing'),
        (
            'format = 1\n[[device]]\nkind = "GPU"\nnames = ["x"]\n[[device]]\nkind = "FPGA"\nnames = ["X"]\n',
            7,
            'is listed twice',
        ),
        (
            'format = 1\n[[device]]\nkind = "GPU"\npci = ["0x1:*"]\n',
            4,
            r'does not have the form 0xVVVV:0xDDDD \(write four digits each, \* and \? for any',
        ),
    ],
)
def test_a_wrong_file_names_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    """File, line, and what is wrong."""
    path = tmp_path / 'wrong.toml'
    path.write_text(text)
    with pytest.raises(DocumentError, match=what) as caught:
        load([path])
    assert (str(path), line) == (caught.value.path, caught.value.line)


def test_the_hint_of_a_pattern_that_stands_twice_names_the_first_one(tmp_path: Path) -> None:
    """Both lines are at hand."""
    path = tmp_path / 'twice.toml'
    row = '[[device]]\nkind = "{}"\npci = ["0x1fff:*"]\n'
    path.write_text('format = 1\n' + row.format('GPU') + row.format('FPGA'))
    with pytest.raises(DocumentError, match=r'line 7.*is listed twice.*line 2 lists it already') as caught:
        load([path])
    assert 7 == caught.value.line


def test_a_pattern_of_another_file_is_no_mistake(tmp_path: Path) -> None:
    """That is how an operator overrides a row; within a file the same ids may stand with only and without."""
    for name in ('a', 'b'):
        (tmp_path / name).write_text('format = 1\n[[device]]\nkind = "GPU"\npci = ["0x1fff:*"]\n')
    assert 2 == sum('0x1fff:*' in row.pci for row in load([tmp_path / 'a', tmp_path / 'b']).rows)


def test_what_an_editor_leaves_behind_is_no_table(tmp_path: Path) -> None:
    """Hidden files, and links to nothing among them."""
    (tmp_path / '.#10.toml').symlink_to('nobody@nowhere.1')
    (tmp_path / '.10.toml').write_text('nonsense')
    assert shipped() == known_devices(tmp_path)


def test_a_table_answers_the_same_however_often_it_is_asked(tmp_path: Path) -> None:
    """It remembers, and a BMC that invents names without end does not fill the memory."""
    path = tmp_path / 'own.toml'
    path.write_text('format = 1\n[[device]]\nkind = "ASIC"\nnames = ["Own *"]\n')
    table = load([path])
    found = {table.by_name(f'Own {n}') for n in range(REMEMBERED + 10)} | {
        table.by_name('Own 1'),
        table.by_name(f'Own {REMEMBERED + 9}'),
    }
    assert 1 == len(found)
    assert {None} == {table.by_name(f'Other {n}') for n in range(10)}


def test_a_name_is_brought_into_the_form_in_which_it_is_compared_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of a hundred devices asks for their names several times in one look."""
    formed: list[str] = []

    def plain(name: str) -> str:
        formed.append(name)
        return name.casefold()

    monkeypatch.setattr(device_ids, 'plain', plain)
    row = DeviceRow(kind=Kind.GPU, names=('Own *',))
    table = Devices(rows=(row,), makers=(DeviceMaker(name='Own', texts=('Own Inc',)),))
    assert [row, row, None, None] == [table.by_name(name) for name in ('Own 1', 'Own 1', 'Other', 'Other')]
    assert ['Own', 'Own'] == [table.vendor(text) for text in ('OWN inc', 'OWN inc')]
    assert ['Own 1', 'Other', 'OWN inc'] == formed[-3:]
    assert 3 == sum(formed.count(text) for text in ('Own 1', 'Other', 'OWN inc'))


def test_a_table_is_made_anew_only_when_its_files_have_changed(tmp_path: Path) -> None:
    """A conductor asks at every turn of every job; what an operator changes counts at the next one, whatever its time says."""
    path = tmp_path / 'own.toml'
    path.write_text('format = 1\n[[device]]\nkind = "GPU"\nnames = ["Own A*"]\n')
    table, times = known_devices(tmp_path), path.stat()
    assert table is known_devices(tmp_path)
    path.write_text('format = 1\n[[device]]\nkind = "GPU"\nnames = ["Own B*"]\n')
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (None, True) == (known_devices(tmp_path).by_name('Own A1'), known_devices(tmp_path).by_name('Own B1') is not None)
    path.write_text('format = 1\n[[device]]\nkind = "none of them"\n')
    for _ in range(2):
        with pytest.raises(DocumentError):
            known_devices(tmp_path)


def test_the_shipped_table_and_the_sample_can_be_read_together(tree: Path) -> None:
    """What an operator copies works; every trait of the shipped table is one."""
    table = known_devices(tree / 'etc' / 'baremetal_acc' / 'devices.d')
    assert len(table.rows) > len(shipped().rows)
    assert all(trait.startswith('CUSTOM_') for row in shipped().rows for trait in row.traits)


CARDS = (
    ('0x10de:0x20b5', Kind.GPU, 'CUSTOM_GPU_NVIDIA_A100'),
    ('0x10de:0x2941', Kind.GPU, 'CUSTOM_GPU_NVIDIA_GB200'),
    ('0x10de:0x31c2', Kind.GPU, 'CUSTOM_GPU_NVIDIA_GB300'),
    ('0x10de:0x26b9', Kind.GPU, 'CUSTOM_GPU_NVIDIA_L40S'),
    ('0x1002:0x74a1', Kind.GPU, 'CUSTOM_GPU_AMD_MI300X'),
    ('0x8086:0x56c0', Kind.GPU, 'CUSTOM_GPU_INTEL_FLEX'),
    ('0x1da3:0x1060', Kind.ASIC, 'CUSTOM_ASIC_GAUDI_3'),
    ('0x17cb:0xa100', Kind.ASIC, 'CUSTOM_ASIC_QUALCOMM_CLOUD_AI'),
    ('0x10ee:0x5005', Kind.FPGA, 'CUSTOM_FPGA_XILINX_U250'),
    ('0x10ee:0x6987', Kind.FPGA, 'CUSTOM_COMPUTATIONAL_STORAGE'),
    ('0x15b3:0xa2df', Kind.DPU, 'CUSTOM_DPU_BLUEFIELD_4'),
    ('0x10de:0x1af1', NONE, None),
    ('0x1002:0x515e', NONE, None),
    ('0x126f:0x0750', NONE, None),
)
"""A card by its PCI ids, what it is, and a trait of it."""


def test_every_kind_has_a_card() -> None:
    """The table finds one, and it is named above. An accelerating NIC is known by what it has, and by no row."""
    kinds = set(Kind) - {Kind.NIC}
    rows = {row.kind for row in shipped().rows}
    assert [] == [f'kind {kind}: no row of data/devices.toml finds it; add one with pci or names' for kind in kinds - rows]
    cards = {kind for _, kind, _ in CARDS}
    assert [] == [f'kind {kind}: no card of it is tried; add one to CARDS in {Path(__file__).name}' for kind in kinds - cards]


@pytest.mark.parametrize(('ids', 'kind', 'trait'), CARDS)
def test_current_cards_are_known_without_their_class(ids: str, kind: str, trait: str | None) -> None:
    """Real trees leave ClassCode out."""
    row = shipped().by_pci(*ids.split(':'), display=False)
    assert row is not None
    assert (kind, {trait} - {None}) == (said(row), row.traits & {trait})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """An operator's file that is not there is an error, not an empty table."""
    with pytest.raises(DocumentError, match='nowhere'):
        load([tmp_path / 'nowhere.toml'])


@pytest.mark.parametrize(
    ('kind', 'vendor', 'device', 'traits'),
    [
        (Kind.GPU, '0x10de', '0x2330', {'CUSTOM_NVIDIA_2330'}),
        (Kind.GPU, '0x10de', '0x1db6', {'CUSTOM_NVIDIA_1DB6', 'HW_GPU_CUDA_COMPUTE_CAPABILITY_V7_0'}),
        (Kind.FPGA, '0x8086', '0x0b2b', {'CUSTOM_FPGA_INTEL', 'CUSTOM_FPGA_PRODUCT_ID_0B2B'}),
        (Kind.FPGA, '0x8086', '0x09c4', {'CUSTOM_FPGA_INTEL', 'CUSTOM_FPGA_PRODUCT_ID_09C4', 'CUSTOM_FPGA_INTEL_PAC_ARRIA10'}),
        (Kind.FPGA, '0x10ee', '0x5001', {'CUSTOM_FPGA_XILINX', 'CUSTOM_FPGA_PRODUCT_ID_5001'}),
        (Kind.FPGA, '0x1bd4', '0xa115', {'CUSTOM_FPGA_INSPUR', 'CUSTOM_FPGA_PRODUCT_ID_A115'}),
        (Kind.FPGA, '0x1c2c', '0x1000', set()),
        (Kind.DPU, '0x10de', '0x2330', set()),
        (Kind.GPU, '0x8086', '0x0b2b', set()),
        (Kind.GPU, '0x10de', None, set()),
        (Kind.GPU, None, '0x2330', set()),
        (Kind.GPU, '0x10de', '0x23\u0663\u0660', set()),
        (Kind.GPU, '0x10de', '0x2330_T4', set()),
        (Kind.GPU, '0x10de', '2330', set()),
    ],
)
def test_pci_ids_give_the_names_that_cyborg_has_for_the_device(
    kind: Kind, vendor: str | None, device: str | None, traits: set[str]
) -> None:
    """As its drivers write them (openstack-cyborg 17.0.0); nothing that is no PCI id becomes a part of a name."""
    assert traits == shipped().traits(kind, vendor, device)


def test_standard_traits_of_the_shipped_table_are_those_of_os_traits() -> None:
    """Placement refuses others, and with them whatever else is to be published."""
    standard = {t for n in shipped().namings for t in n.traits} | {t for r in shipped().rows for t in r.traits}
    standard = {t for t in standard if not t.startswith('CUSTOM_')}
    assert standard
    assert set() == os_traits.check_traits(standard)[1]


def test_an_operator_adds_names_to_the_shipped_ones(tmp_path: Path) -> None:
    """By PCI ids, whatever row finds the device; a row may give standard traits, too."""
    path = tmp_path / '10-mine.toml'
    path.write_text(
        'format = 1\n[[trait]]\nkind = "GPU"\npci = ["0x10DE:0x23??"]\ntraits = ["CUSTOM_MINE_{device}_X"]\n'
        '[[device]]\nkind = "NIC"\npci = ["0x15b3:0x1021"]\ntraits = ["HW_NIC_SRIOV"]\n'
    )
    found = load([path])
    assert {'CUSTOM_MINE_2330_X', 'CUSTOM_NVIDIA_2330'} == found.traits(Kind.GPU, '0x10de', '0x2330')
    row = found.by_pci('0x15b3', '0x1021', display=False)
    assert row is not None
    assert {'HW_NIC_SRIOV'} == row.traits


@pytest.mark.parametrize(
    ('lines', 'what'),
    [
        ('pci = ["0x10de:*"]\ntraits = ["CUSTOM_A"]', 'kind'),
        ('kind = "none"\npci = ["0x10de:*"]\ntraits = ["CUSTOM_A"]', 'kind'),
        ('kind = "GPU"\ntraits = ["CUSTOM_A"]', 'needs kind, pci and traits'),
        ('kind = "GPU"\npci = ["0x10de:*"]', 'needs kind, pci and traits'),
        ('kind = "GPU"\npci = ["10de"]\ntraits = ["CUSTOM_A"]', "'10de' does not have the form 0xVVVV:0xDDDD"),
        ('kind = "GPU"\npci = ["0x10de:*"]\ntraits = ["CUSTOM_{model}"]', "'CUSTOM_{model}' is not a trait name"),
        ('kind = "GPU"\npci = ["0x10de:*"]\ntraits = ["COMPUTE_MANAGED_PCI_DEVICE"]', 'is not a trait name'),
        ('kind = "GPU"\npci = ["0x10de:*"]\ntraits = ["CUSTOM_A"]\nvendor = "x"', 'vendor'),
    ],
)
def test_a_wrong_naming_names_its_line(lines: str, what: str, tmp_path: Path) -> None:
    """With the key that is wrong."""
    path = tmp_path / '10-mine.toml'
    path.write_text(f'format = 1\n[[trait]]\n{lines}\n')
    with pytest.raises(DocumentError, match=re.escape(what)) as failed:
        load([path])
    assert f'{path}' in str(failed.value)


@pytest.mark.parametrize(
    ('written', 'like'),
    [
        ('NVIDIA_A100-SXM4-40GB', 'NVIDIA A100 SXM4 40GB'),
        ('nvidia  a100', 'NVIDIA A100'),
        ('AMD_INSTINCT_MI300A_APU', 'AMD Instinct MI300A'),
        ('Bluefield 3 SmartNIC Main Card', 'BlueField-3'),
        ('Intel® Data Center GPU Max 1100', 'Intel(R) Data Center GPU Max 1100'),
        ('HL_325L', 'HL-325L'),
    ],
)
def test_names_are_compared_as_they_are_meant(written: str, like: str) -> None:
    """BMCs write blanks, hyphens and underscores for each other; patterns stay what they are."""
    assert shipped().by_name(written) is shipped().by_name(like) is not None
    assert shipped().by_name(f'x{written}') is None


@pytest.mark.parametrize('text', ['Nvidia(R) Corporation', 'NVIDIA Corporation', 'nvidia', 'NVIDIA_Corp.'])
def test_makers_are_too(text: str) -> None:
    """With the mark of a trade name or without."""
    assert 'NVIDIA' == shipped().vendor(text)
