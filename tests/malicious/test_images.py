# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is a malicious image refused before a byte of it reaches a BMC? The machine's own log of writes says so.

The catalogue is honest, or tells the truth about a malicious file. Each is one function that spoils an honest folder; the table
says with which code ``apply --execute`` ends and what it says.
"""

import os
import re
import socket
from pathlib import Path

import pytest

from baremetal_acc.emulator.image import build_image
from tests.malicious.workshop import BASELINE, GPU, MAX_IMAGE, NEW, OLD, Workshop, asked, entry, flipped, reached, unsaid

TIB = 1 << 40


# -- other bytes -----------------------------------------------------------------------------------------------------------


def one_bit_in_the_middle(shop: Workshop) -> None:
    data = shop.new_file.read_bytes()
    shop.new_file.write_bytes(flipped(data, len(data) // 2))


def one_bit_of_the_first_byte(shop: Workshop) -> None:
    shop.new_file.write_bytes(flipped(shop.new_file.read_bytes(), 0))


def one_bit_of_the_last_byte(shop: Workshop) -> None:
    shop.new_file.write_bytes(flipped(shop.new_file.read_bytes(), -1))


def one_byte_short(shop: Workshop) -> None:
    shop.new_file.write_bytes(shop.new_file.read_bytes()[:-1])


def half_of_it(shop: Workshop) -> None:
    data = shop.new_file.read_bytes()
    shop.new_file.write_bytes(data[: len(data) // 2])


def empty(shop: Workshop) -> None:
    shop.new_file.write_bytes(b'')


def one_byte_long(shop: Workshop) -> None:
    shop.new_file.write_bytes(shop.new_file.read_bytes() + b'\0')


def twice_the_image(shop: Workshop) -> None:
    shop.new_file.write_bytes(shop.new_file.read_bytes() * 2)


def a_tebibyte_of_holes(shop: Workshop) -> None:
    os.truncate(shop.new_file, TIB)


def holes_of_the_right_size(shop: Workshop) -> None:
    size = shop.new_file.stat().st_size
    shop.new_file.write_bytes(b'')
    os.truncate(shop.new_file, size)


def two_images_swapped(shop: Workshop) -> None:
    new, old = shop.new_file, shop.path('fpga-old.img')
    assert new.stat().st_size == old.stat().st_size
    kept = new.read_bytes()
    new.write_bytes(old.read_bytes())
    old.write_bytes(kept)


def a_beginning_that_is_described(shop: Workshop) -> None:
    shop.describe('fpga-new', shop.new_file.read_bytes()[:100])


def rebuilt_with_another_payload(shop: Workshop) -> None:
    shop.new_file.write_bytes(build_image(model='d5005', component='fpga', version=NEW, size_bytes=20_000, seed='evil'))


def a_function_with_one_bit_changed(shop: Workshop) -> None:
    path = shop.path('gzip-3.img')
    path.write_bytes(flipped(path.read_bytes(), 5000))


# -- other files -----------------------------------------------------------------------------------------------------------


def in_place_of_the_image(shop: Workshop) -> Path:
    shop.new_file.unlink()
    return shop.new_file


def no_file(shop: Workshop) -> None:
    in_place_of_the_image(shop)


def a_folder(shop: Workshop) -> None:
    in_place_of_the_image(shop).mkdir()


def a_pipe_that_nobody_writes(shop: Workshop) -> None:
    os.mkfifo(in_place_of_the_image(shop))


def a_socket(shop: Workshop) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(shop.folder)  # a socket's path is short
        try:
            listening.bind(in_place_of_the_image(shop).name)
        finally:
            os.chdir(here)


def a_link_to_a_file_outside(shop: Workshop) -> None:
    secret = shop.outside / 'secret'
    shop.new_file.rename(secret)
    shop.new_file.symlink_to(secret)


def a_link_to_endless_zeros(shop: Workshop) -> None:
    in_place_of_the_image(shop).symlink_to('/dev/zero')


def a_link_to_the_environment(shop: Workshop) -> None:
    in_place_of_the_image(shop).symlink_to('/proc/self/environ')


def a_link_to_itself(shop: Workshop) -> None:
    in_place_of_the_image(shop).symlink_to(shop.new_file.name)


def a_link_to_nothing(shop: Workshop) -> None:
    in_place_of_the_image(shop).symlink_to('gone')


def a_folder_that_leads_outside(shop: Workshop) -> None:
    shop.new_file.rename(shop.outside / 'fpga-new.img')
    shop.path('images').symlink_to(shop.outside)
    shop.new['source'] = '"images/fpga-new.img"'


def a_path_that_climbs_out(shop: Workshop) -> None:
    shop.new_file.rename(shop.outside / 'fpga-new.img')
    shop.new['source'] = '"../outside/fpga-new.img"'


def a_path_that_climbs_out_and_comes_from_within(shop: Workshop) -> None:
    shop.path('images').mkdir()
    shop.new_file.rename(shop.outside / 'fpga-new.img')
    shop.new['source'] = '"images/../../outside/fpga-new.img"'


def a_neighbour_whose_name_begins_alike(shop: Workshop) -> None:
    folder = shop.folder.with_name(f'{shop.folder.name}-evil')
    folder.mkdir()
    shop.new_file.rename(folder / 'fpga-new.img')
    shop.new['source'] = f'"../{folder.name}/fpga-new.img"'


def an_absolute_path(shop: Workshop) -> None:
    shop.new['source'] = '"/etc/passwd"'


# -- the wrong card --------------------------------------------------------------------------------------------------------


def of_another_card(shop: Workshop) -> None:
    shop.new['fits'] = GPU


def that_fits_the_name_and_no_id(shop: Workshop) -> None:
    shop.new['fits'] = '[{ model = "FPGA PAC D5005", pci = "0x10de:0x2330" }]'


def that_fits_one_id_of_each_of_two_cards(shop: Workshop) -> None:
    shop.new['fits'] = '[{ pci = "0x8086:0x0b2b", part_number = "2330-885-A1" }]'


def that_fits_another_component(shop: Workshop) -> None:
    shop.new['fits'] = '[{ pci = "0x8086:0x0b2b", software_id = "0x0020" }]'


def with_a_pattern_for_an_id(shop: Workshop) -> None:
    shop.new['fits'] = '[{ model = "*" }]'


def of_another_component(shop: Workshop) -> None:
    shop.new['component'] = '"FPGA1_Slot0"'


def a_function_in_place_of_firmware(shop: Workshop) -> None:
    shop.new.update(kind='"function"', function='"fpga"')
    del shop.new['restore']


def firmware_in_place_of_a_function(shop: Workshop) -> None:
    function = shop.images['gzip-3']
    function |= {'kind': '"firmware"', 'restore': '"none"'}
    del function['function']


def two_that_fit(shop: Workshop) -> None:
    data = build_image(model='d5005', component='fpga', version=NEW, size_bytes=20_000, seed='evil')
    shop.images['fpga-evil'] = entry(shop.path('evil.img'), data) | {
        key: shop.new[key] for key in ('component', 'version', 'restore', 'apply')
    }


def larger_than_the_bmc_takes(shop: Workshop) -> None:
    data = build_image(model='d5005', component='fpga', version=NEW, size_bytes=MAX_IMAGE)
    shop.new_file.write_bytes(data)
    shop.describe('fpga-new', data)


def a_tebibyte_that_is_told(shop: Workshop) -> None:
    os.truncate(shop.new_file, TIB)
    shop.new['size'] = str(TIB)


def larger_than_the_operator_allows(shop: Workshop) -> None:
    shop.conf['image_max_size'] = '10000'


# -- downgrades ------------------------------------------------------------------------------------------------------------


def older_than_what_runs(shop: Workshop) -> None:
    shop.new['security_version'] = '1'


def older_than_the_floor(shop: Workshop) -> None:
    shop.baseline = BASELINE + 'security_floor = 3\n'


# -- no way back -----------------------------------------------------------------------------------------------------------


def a_restore_image_with_one_bit_changed(shop: Workshop) -> None:
    path = shop.path('fpga-old.img')
    path.write_bytes(flipped(path.read_bytes(), 9000))


def a_restore_image_that_is_gone(shop: Workshop) -> None:
    shop.path('fpga-old.img').unlink()


def a_restore_image_that_lies_outside(shop: Workshop) -> None:
    shop.path('fpga-old.img').rename(shop.outside / 'fpga-old.img')
    shop.path('fpga-old.img').symlink_to(shop.outside / 'fpga-old.img')


def a_restore_image_of_another_card(shop: Workshop) -> None:
    shop.new['restore'] = '"gpu-new"'


def a_restore_image_of_another_component(shop: Workshop) -> None:
    shop.images['fpga-old']['component'] = '"FPGA1_Golden"'


OUTSIDE = 'is outside the folders that images may lie in'

TABLE = (
    (one_bit_in_the_middle, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (one_bit_of_the_first_byte, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (one_bit_of_the_last_byte, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (one_byte_short, ('image fpga-new', 'fpga-new.img has ', ' bytes, the catalogue says ')),
    (half_of_it, ('image fpga-new', 'fpga-new.img has ', ' bytes, the catalogue says ')),
    (empty, ('image fpga-new', 'fpga-new.img has 0 bytes, the catalogue says ')),
    (one_byte_long, ('image fpga-new', 'fpga-new.img is longer than ')),
    (twice_the_image, ('image fpga-new', 'fpga-new.img is longer than ')),
    (a_tebibyte_of_holes, ('image fpga-new', 'fpga-new.img is longer than ')),
    (holes_of_the_right_size, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (two_images_swapped, ('image fpga-new', 'fpga-new.img has sha256 ', 'image fpga-old', 'fpga-old.img has sha256 ')),
    (a_beginning_that_is_described, ('image fpga-new', 'fpga-new.img is longer than 100 bytes')),
    (rebuilt_with_another_payload, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (a_function_with_one_bit_changed, ('image gzip-3', 'gzip-3.img has sha256 ', 'the catalogue says ')),
    (no_file, ('image fpga-new', 'fpga-new.img cannot be read: No such file')),
    (a_folder, ('image fpga-new', 'fpga-new.img cannot be read: Is a directory')),
    (a_pipe_that_nobody_writes, ('image fpga-new', 'fpga-new.img')),
    (a_socket, ('image fpga-new', 'fpga-new.img cannot be read: No such device')),
    (a_link_to_a_file_outside, ('image fpga-new', f'outside/secret {OUTSIDE}')),
    (a_link_to_endless_zeros, ('image fpga-new', f'/dev/zero {OUTSIDE}')),
    (a_link_to_the_environment, ('image fpga-new', OUTSIDE)),
    (a_link_to_itself, ('image fpga-new', 'fpga-new.img', 'Too many levels of symbolic links')),
    (a_link_to_nothing, ('image fpga-new', 'gone cannot be read: No such file')),
    (a_folder_that_leads_outside, ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}')),
    (a_path_that_climbs_out, ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}')),
    (a_path_that_climbs_out_and_comes_from_within, ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}')),
    (a_neighbour_whose_name_begins_alike, ('image fpga-new', f'operator-evil/fpga-new.img {OUTSIDE}')),
    (an_absolute_path, ('image fpga-new', f'/etc/passwd {OUTSIDE}')),
    (of_another_card, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (that_fits_the_name_and_no_id, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (that_fits_one_id_of_each_of_two_cards, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (that_fits_another_component, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (with_a_pattern_for_an_id, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (of_another_component, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (a_function_in_place_of_firmware, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (firmware_in_place_of_a_function, ('function Slot0', 'no image of gzip that fits')),
    (two_that_fit, ('firmware FPGA1_FW', 'several images', 'fpga-evil, fpga-new')),
    (larger_than_the_bmc_takes, ('firmware FPGA1_FW', 'image fpga-new has 1000', f' bytes, BMC host takes {MAX_IMAGE}')),
    (a_tebibyte_that_is_told, ('firmware FPGA1_FW', f'image fpga-new has {TIB} bytes, BMC host takes {MAX_IMAGE}')),
    (larger_than_the_operator_allows, ('image fpga-new', ' bytes are more than 10000', 'image_max_size')),
    (older_than_what_runs, ('firmware FPGA1_FW', 'image fpga-new has security version 1, the floor is 2')),
    (older_than_the_floor, ('firmware FPGA1_FW', 'image fpga-new has security version 2, the floor is 3')),
    (a_restore_image_with_one_bit_changed, ('image fpga-old', 'fpga-old.img has sha256 ', 'the catalogue says ')),
    (a_restore_image_that_is_gone, ('image fpga-old', 'fpga-old.img cannot be read: No such file')),
    (a_restore_image_that_lies_outside, ('image fpga-old', f'outside/fpga-old.img {OUTSIDE}')),
    (a_restore_image_of_another_card, ('firmware FPGA1_FW', 'restore image gpu-new does not fit')),
    (a_restore_image_of_another_component, ('firmware FPGA1_FW', 'restore image fpga-old does not fit')),
)


@pytest.mark.parametrize(('spoil', 'says'), TABLE, ids=[row[0].__name__ for row in TABLE])
def test_a_malicious_image_is_refused_and_nothing_of_it_is_sent(spoil, says, shop):
    """Code 4 and one line that names target, image or component, file, and what is wrong; the BMCs were read and not written.

    The plan is refused as a whole: what was honest in it is not written either.
    """
    spoil(shop)
    assert [] == unsaid(shop.refused(4), ('node-1', *says))
    assert OLD == shop.machine.truth()['components']['host/FPGA1_FW']['active']['version']
    assert asked(shop.machine) > 0


def test_a_dry_run_refuses_the_same(shop):
    """``plan`` reads the images too: what is printed is what is done."""
    one_bit_in_the_middle(shop)
    shop.lay()
    done = shop.run('plan', *shop.options)
    assert 4 == done.code, done.err
    assert re.search(r'fpga-new\.img has sha256 [0-9a-f]{64}, the catalogue says [0-9a-f]{64}', done.errors[0])
    assert [] == reached(shop.machine)


def test_there_are_at_least_twenty_and_no_two_are_alike():
    """As many as the issue asks for."""
    spoilers = [row[0] for row in TABLE]
    assert len(spoilers) >= 20
    assert len(set(spoilers)) == len(spoilers)
