# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A malicious image is refused before a byte of it reaches a BMC. The machine's own log of writes says so.

The catalogue is honest, or tells the truth about a malicious file. Each is one function that spoils an honest folder; the table
says with which code ``apply --execute`` ends and what it says.
"""

import hashlib
import os
import re
import socket
from pathlib import Path

import pytest

from baremetal_acc.emulator.image import build_image
from tests.malicious.attack import Attack
from tests.malicious.workshop import BASELINE, GPU, MAX_IMAGE, NEW, OLD, Workshop, asked, entry, flipped, reached, unsaid

TIB = 1 << 40

BY_NAME = '[{ vendor = "Intel", model = "FPGA PAC D5005" }]'


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


def one_bit_of_its_version(shop: Workshop) -> None:
    data = shop.new_file.read_bytes()
    shop.new_file.write_bytes(flipped(data, data.index(NEW.encode()) + len(NEW) - 1))


def one_bit_and_its_own_checksum_with_it(shop: Workshop) -> None:
    """The card would take it: what it looks at is right."""
    whole = flipped(shop.new_file.read_bytes()[:-32], 9000)
    shop.new_file.write_bytes(whole + hashlib.sha256(whole).digest())


def two_bits_that_cancel_out(shop: Workshop) -> None:
    """Neither a sum nor a parity of the bytes would show it."""
    data = bytearray(shop.new_file.read_bytes())
    low, high = (next(n for n in range(5000, 9000) if data[n] & 1 == bit) for bit in (0, 1))
    data[low] ^= 1
    data[high] ^= 1
    shop.new_file.write_bytes(data)


def two_blocks_swapped(shop: Workshop) -> None:
    data = shop.new_file.read_bytes()
    shop.new_file.write_bytes(data[:4096] + data[8192:12288] + data[4096:8192] + data[12288:])


def every_bit_of_a_block(shop: Workshop) -> None:
    data = shop.new_file.read_bytes()
    shop.new_file.write_bytes(data[:4096] + bytes(byte ^ 0xFF for byte in data[4096:8192]) + data[8192:])


def one_bit_of_the_digest_that_is_told(shop: Workshop) -> None:
    digest = shop.new['digest']
    shop.new['digest'] = f'{digest[:-2]}{int(digest[-2], 16) ^ 1:x}"'


def one_bit_of_the_digest_of_the_way_back(shop: Workshop) -> None:
    digest = shop.images['fpga-old']['digest']
    shop.images['fpga-old']['digest'] = f'{digest[:20]}{int(digest[20], 16) ^ 1:x}{digest[21:]}'


def one_bit_by_the_longer_digest(shop: Workshop) -> None:
    data = shop.new_file.read_bytes()
    shop.new['digest'] = f'"sha512:{hashlib.sha512(data).hexdigest()}"'
    shop.new_file.write_bytes(flipped(data, 5000))


def a_stepping_image_with_one_bit_changed(shop: Workshop) -> None:
    path = shop.step()
    path.write_bytes(flipped(path.read_bytes(), 5000))


def cut_behind_its_header(shop: Workshop) -> None:
    data = shop.new_file.read_bytes()
    shop.new_file.write_bytes(data[: data.index(b'}\n') + 2])


def without_its_checksum(shop: Workshop) -> None:
    shop.new_file.write_bytes(shop.new_file.read_bytes()[:-32])


def without_its_beginning(shop: Workshop) -> None:
    shop.new_file.write_bytes(shop.new_file.read_bytes()[512:])


def without_a_block_of_its_middle(shop: Workshop) -> None:
    data = shop.new_file.read_bytes()
    shop.new_file.write_bytes(data[:4096] + data[8192:])


def cut_and_its_end_filled_with_holes(shop: Workshop) -> None:
    """What a disk that was full, or a crash, leaves of a file: its size is right."""
    size = shop.new_file.stat().st_size
    os.truncate(shop.new_file, 16_384)
    os.truncate(shop.new_file, size)


def cut_and_its_size_told_with_it(shop: Workshop) -> None:
    os.truncate(shop.new_file, 8192)
    shop.new['size'] = '8192'


def a_function_that_is_cut(shop: Workshop) -> None:
    os.truncate(shop.path('gzip-3.img'), 4096)


def a_restore_image_that_is_cut(shop: Workshop) -> None:
    os.truncate(shop.path('fpga-old.img'), 4096)


def a_stepping_image_that_is_cut(shop: Workshop) -> None:
    os.truncate(shop.step(), 4096)


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


def evil(shop: Workshop) -> Path:
    """The image lies where it must not be read; whoever follows a path to it would find all as described."""
    return shop.new_file.rename(shop.outside / 'fpga-new.img')


def links_the_last_of_which_leads_outside(shop: Workshop) -> None:
    evil(shop)
    for name, to in (('fpga-new.img', 'second'), ('second', 'third'), ('third', '../outside/fpga-new.img')):
        shop.path(name).symlink_to(to)


def a_path_through_the_folder_of_the_process(shop: Workshop) -> None:
    evil(shop)
    shop.new['source'] = '"/proc/self/cwd/../outside/fpga-new.img"'


def what_the_process_reads(shop: Workshop) -> None:
    shop.new['source'] = '"/proc/self/fd/0"'


def a_path_from_home(shop: Workshop) -> None:
    evil(shop)
    shop.new['source'] = '"~/../outside/fpga-new.img"'


def a_path_by_a_variable(shop: Workshop) -> None:
    evil(shop)
    shop.new['source'] = '"$HOME/../outside/fpga-new.img"'


def a_path_that_climbs_in_percents(shop: Workshop) -> None:
    evil(shop)
    shop.new['source'] = '"%2e%2e/outside/fpga-new.img"'


def a_path_that_climbs_by_backslashes(shop: Workshop) -> None:
    evil(shop)
    shop.new['source'] = '"..\\\\outside\\\\fpga-new.img"'


def a_path_that_climbs_by_wide_dots(shop: Workshop) -> None:
    evil(shop)
    shop.new['source'] = '"\uff0e\uff0e/outside/fpga-new.img"'


def a_file_by_half_a_url(shop: Workshop) -> None:
    shop.new['source'] = f'"file:{evil(shop)}"'


def a_neighbour_of_an_allowed_folder(shop: Workshop) -> None:
    for name in ('images', 'images-evil'):
        (shop.outside / name).mkdir()
    shop.conf['image_folders'] = str(shop.outside / 'images')
    shop.new['source'] = f'"{evil(shop).rename(shop.outside / "images-evil" / "fpga-new.img")}"'


def a_path_that_climbs_out_of_an_allowed_folder(shop: Workshop) -> None:
    (shop.outside / 'images').mkdir()
    shop.conf['image_folders'] = str(shop.outside / 'images')
    evil(shop)
    shop.new['source'] = f'"{shop.outside}/images/../fpga-new.img"'


def a_function_that_lies_outside(shop: Workshop) -> None:
    shop.path('gzip-3.img').rename(shop.outside / 'gzip-3.img')
    shop.images['gzip-3']['source'] = '"../outside/gzip-3.img"'


def a_stepping_image_that_lies_outside(shop: Workshop) -> None:
    path = shop.step()
    path.rename(shop.outside / path.name)
    path.symlink_to(shop.outside / path.name)


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


def a_function_larger_than_the_bmc_takes(shop: Workshop) -> None:
    shop.images['gzip-3']['size'] = str(MAX_IMAGE + 1)


def a_restore_image_larger_than_the_bmc_takes(shop: Workshop) -> None:
    """It would show only when the card is broken already."""
    shop.images['fpga-old']['size'] = str(MAX_IMAGE + 1)


def with_its_ids_the_other_way_round(shop: Workshop) -> None:
    shop.new['fits'] = '[{ pci = "0x0b2b:0x8086" }]'


def of_the_next_card_of_that_vendor(shop: Workshop) -> None:
    shop.new['fits'] = '[{ pci = "0x8086:0x0b2c" }]'


def of_that_device_of_another_vendor(shop: Workshop) -> None:
    shop.new['fits'] = '[{ pci = "0x10de:0x0b2b" }]'


def of_every_other_card_by_any_component(shop: Workshop) -> None:
    shop.new['fits'] = '[{ pci = "0x10de:0x2330" }, { vendor = "NVIDIA" }, { part_number = "2330-885-A1" }]'
    shop.new['component'] = '"*"'


def that_fits_by_name_only(shop: Workshop) -> None:
    shop.new['fits'] = BY_NAME


def of_a_part_number_that_looks_alike(shop: Workshop) -> None:
    shop.new['fits'] = '[{ part_number = "BD-ACD-D5O05" }]'


def of_a_model_in_letters_that_look_alike(shop: Workshop) -> None:
    shop.new['fits'] = '[{ pci = "0x8086:0x0b2b", model = "FPGA PA\u0421 D5005" }]'


def a_function_of_another_card(shop: Workshop) -> None:
    shop.images['gzip-3']['fits'] = GPU


def a_function_by_name_only(shop: Workshop) -> None:
    shop.images['gzip-3']['fits'] = BY_NAME


def a_function_of_a_slot_that_is_not_there(shop: Workshop) -> None:
    shop.images['gzip-3']['component'] = '"Slot7"'


def a_restore_image_by_name_only(shop: Workshop) -> None:
    shop.images['fpga-old']['fits'] = BY_NAME


def a_stepping_image_of_another_card(shop: Workshop) -> None:
    shop.step(fits=GPU)


def a_stepping_image_by_name_only(shop: Workshop) -> None:
    shop.step(fits=BY_NAME)


# -- downgrades ------------------------------------------------------------------------------------------------------------


def older_than_what_runs(shop: Workshop) -> None:
    shop.new['security_version'] = '1'


def older_than_the_floor(shop: Workshop) -> None:
    shop.baseline = BASELINE + 'security_floor = 3\n'


def older_under_a_higher_version(shop: Workshop) -> None:
    """Versions are never ordered: what is called 9.9.9 may be old."""
    shop.baseline = BASELINE.replace(NEW, '9.9.9')
    shop.images['fpga-new'] |= {'version': '"9.9.9"', 'security_version': '1'}


def older_and_what_runs_spelt_otherwise(shop: Workshop) -> None:
    shop.new['security_version'] = '1'
    shop.images['fpga-old']['version'] = '"V2.0.0 "'


def older_and_a_twin_of_what_runs_that_is_older_still(shop: Workshop) -> None:
    shop.new['security_version'] = '1'
    shop.images['fpga-twin'] = shop.images['fpga-old'] | {'security_version': '0'}


def older_and_what_runs_called_a_revocation(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'security_version': '1', 'restore': '"none"'}
    shop.images['fpga-old']['kind'] = '"revocation"'


def older_and_all_of_the_catalogue_with_it(shop: Workshop) -> None:
    """Who lowers what runs with what he wants has the floor of the baseline against him."""
    shop.baseline = BASELINE + 'security_floor = 2\n'
    for image in shop.images.values():
        image['security_version'] = '1'


def a_function_older_than_the_floor(shop: Workshop) -> None:
    shop.baseline = BASELINE + 'security_floor = 2\n'
    shop.images['gzip-3']['security_version'] = '1'


def a_restore_image_older_than_the_floor(shop: Workshop) -> None:
    """Whoever makes a write fail would get what the floor forbids."""
    shop.baseline = BASELINE + 'security_floor = 3\n'
    shop.new['security_version'] = '3'


def a_restore_image_older_than_what_runs(shop: Workshop) -> None:
    shop.images['fpga-back'] = shop.images['fpga-old'] | {'version': '"1.0.0"', 'security_version': '1'}
    shop.new['restore'] = '"fpga-back"'


def a_stepping_image_older_than_what_runs(shop: Workshop) -> None:
    shop.step(security_version='1')


def a_stepping_image_older_than_the_floor(shop: Workshop) -> None:
    shop.baseline = BASELINE + 'security_floor = 3\n'
    shop.images['fpga-old']['security_version'] = '3'
    shop.new['security_version'] = '3'
    shop.step()


def older_than_its_stepping_image(shop: Workshop) -> None:
    shop.step(security_version='3')
    shop.images['fpga-old']['security_version'] = '3'


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


OUTSIDE = 'is outside the folders that are allowed for images'

TABLE = (
    (Attack.BIT_FLIPPED, one_bit_in_the_middle, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (Attack.BIT_FLIPPED, one_bit_of_the_first_byte, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (Attack.BIT_FLIPPED, one_bit_of_the_last_byte, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (Attack.TRUNCATED, one_byte_short, ('image fpga-new', 'fpga-new.img has ', ' bytes, the catalogue says ')),
    (Attack.TRUNCATED, half_of_it, ('image fpga-new', 'fpga-new.img has ', ' bytes, the catalogue says ')),
    (Attack.TRUNCATED, empty, ('image fpga-new', 'fpga-new.img has 0 bytes, the catalogue says ')),
    (Attack.OVERSIZED, one_byte_long, ('image fpga-new', 'fpga-new.img is longer than ')),
    (Attack.OVERSIZED, twice_the_image, ('image fpga-new', 'fpga-new.img is longer than ')),
    (Attack.OVERSIZED, a_tebibyte_of_holes, ('image fpga-new', 'fpga-new.img is longer than ')),
    (Attack.OTHER_BYTES, holes_of_the_right_size, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (
        Attack.OTHER_BYTES,
        two_images_swapped,
        ('image fpga-new', 'fpga-new.img has sha256 ', 'image fpga-old', 'fpga-old.img has sha256 '),
    ),
    (Attack.OVERSIZED, a_beginning_that_is_described, ('image fpga-new', 'fpga-new.img is longer than 100 bytes')),
    (Attack.OTHER_BYTES, rebuilt_with_another_payload, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (Attack.BIT_FLIPPED, a_function_with_one_bit_changed, ('image gzip-3', 'gzip-3.img has sha256 ', 'the catalogue says ')),
    (Attack.NO_FILE, no_file, ('image fpga-new', 'fpga-new.img cannot be read: No such file')),
    (Attack.NO_FILE, a_folder, ('image fpga-new', 'fpga-new.img cannot be read: Is a directory')),
    (Attack.NO_FILE, a_pipe_that_nobody_writes, ('image fpga-new', 'fpga-new.img is not a regular file')),
    (Attack.NO_FILE, a_socket, ('image fpga-new', 'fpga-new.img cannot be read: No such device')),
    (Attack.PATH_TRAVERSAL, a_link_to_a_file_outside, ('image fpga-new', f'outside/secret {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, a_link_to_endless_zeros, ('image fpga-new', f'/dev/zero {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, a_link_to_the_environment, ('image fpga-new', OUTSIDE)),
    (Attack.NO_FILE, a_link_to_itself, ('image fpga-new', 'fpga-new.img', 'Too many levels of symbolic links')),
    (Attack.NO_FILE, a_link_to_nothing, ('image fpga-new', 'gone cannot be read: No such file')),
    (Attack.PATH_TRAVERSAL, a_folder_that_leads_outside, ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, a_path_that_climbs_out, ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}')),
    (
        Attack.PATH_TRAVERSAL,
        a_path_that_climbs_out_and_comes_from_within,
        ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}'),
    ),
    (Attack.PATH_TRAVERSAL, a_neighbour_whose_name_begins_alike, ('image fpga-new', f'operator-evil/fpga-new.img {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, an_absolute_path, ('image fpga-new', f'/etc/passwd {OUTSIDE}')),
    (Attack.WRONG_CARD, of_another_card, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, that_fits_the_name_and_no_id, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, that_fits_one_id_of_each_of_two_cards, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, that_fits_another_component, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, with_a_pattern_for_an_id, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, of_another_component, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, a_function_in_place_of_firmware, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, firmware_in_place_of_a_function, ('function Slot0', 'no image of gzip that fits')),
    (Attack.NOT_ONE, two_that_fit, ('firmware FPGA1_FW', 'several images', 'fpga-evil, fpga-new')),
    (
        Attack.OVERSIZED,
        larger_than_the_bmc_takes,
        ('firmware FPGA1_FW', 'image fpga-new has 1000', f' bytes, BMC host accepts at most {MAX_IMAGE}'),
    ),
    (
        Attack.OVERSIZED,
        a_tebibyte_that_is_told,
        ('firmware FPGA1_FW', f'image fpga-new has {TIB} bytes, BMC host accepts at most {MAX_IMAGE}'),
    ),
    (
        Attack.OVERSIZED,
        larger_than_the_operator_allows,
        ('image fpga-new', ' bytes, exceeds the maximum of 10000 bytes', 'image_max_size'),
    ),
    (Attack.DOWNGRADE, older_than_what_runs, ('firmware FPGA1_FW', 'image fpga-new has security version 1, the floor is 2')),
    (Attack.DOWNGRADE, older_than_the_floor, ('firmware FPGA1_FW', 'image fpga-new has security version 2, the floor is 3')),
    (
        Attack.BIT_FLIPPED,
        a_restore_image_with_one_bit_changed,
        ('image fpga-old', 'fpga-old.img has sha256 ', 'the catalogue says '),
    ),
    (Attack.NO_FILE, a_restore_image_that_is_gone, ('image fpga-old', 'fpga-old.img cannot be read: No such file')),
    (Attack.PATH_TRAVERSAL, a_restore_image_that_lies_outside, ('image fpga-old', f'outside/fpga-old.img {OUTSIDE}')),
    (Attack.WRONG_CARD, a_restore_image_of_another_card, ('firmware FPGA1_FW', 'restore image gpu-new does not fit')),
    (Attack.WRONG_CARD, a_restore_image_of_another_component, ('firmware FPGA1_FW', 'restore image fpga-old does not fit')),
    (Attack.BIT_FLIPPED, one_bit_of_its_version, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (
        Attack.BIT_FLIPPED,
        one_bit_and_its_own_checksum_with_it,
        ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says '),
    ),
    (Attack.BIT_FLIPPED, two_bits_that_cancel_out, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (Attack.BIT_FLIPPED, two_blocks_swapped, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (Attack.BIT_FLIPPED, every_bit_of_a_block, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (
        Attack.BIT_FLIPPED,
        one_bit_of_the_digest_that_is_told,
        ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says '),
    ),
    (
        Attack.BIT_FLIPPED,
        one_bit_of_the_digest_of_the_way_back,
        ('image fpga-old', 'fpga-old.img has sha256 ', 'the catalogue says '),
    ),
    (Attack.BIT_FLIPPED, one_bit_by_the_longer_digest, ('image fpga-new', 'fpga-new.img has sha512 ', 'the catalogue says ')),
    (
        Attack.BIT_FLIPPED,
        a_stepping_image_with_one_bit_changed,
        ('image fpga-step', 'fpga-step.img has sha256 ', 'the catalogue says '),
    ),
    (Attack.TRUNCATED, cut_behind_its_header, ('image fpga-new', 'fpga-new.img has ', ' bytes, the catalogue says ')),
    (Attack.TRUNCATED, without_its_checksum, ('image fpga-new', 'fpga-new.img has ', ' bytes, the catalogue says ')),
    (Attack.TRUNCATED, without_its_beginning, ('image fpga-new', 'fpga-new.img has ', ' bytes, the catalogue says ')),
    (Attack.TRUNCATED, without_a_block_of_its_middle, ('image fpga-new', 'fpga-new.img has ', ' bytes, the catalogue says ')),
    (
        Attack.TRUNCATED,
        cut_and_its_end_filled_with_holes,
        ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says '),
    ),
    (Attack.TRUNCATED, cut_and_its_size_told_with_it, ('image fpga-new', 'fpga-new.img has sha256 ', 'the catalogue says ')),
    (Attack.TRUNCATED, a_function_that_is_cut, ('image gzip-3', 'gzip-3.img has ', ' bytes, the catalogue says ')),
    (Attack.TRUNCATED, a_restore_image_that_is_cut, ('image fpga-old', 'fpga-old.img has ', ' bytes, the catalogue says ')),
    (Attack.TRUNCATED, a_stepping_image_that_is_cut, ('image fpga-step', 'fpga-step.img has ', ' bytes, the catalogue says ')),
    (Attack.PATH_TRAVERSAL, links_the_last_of_which_leads_outside, ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, a_path_through_the_folder_of_the_process, ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, what_the_process_reads, ('image fpga-new', f'/dev/null {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, a_path_from_home, ('image fpga-new', 'cannot be read: No such file')),
    (Attack.PATH_TRAVERSAL, a_path_by_a_variable, ('image fpga-new', 'cannot be read: No such file')),
    (Attack.PATH_TRAVERSAL, a_path_that_climbs_in_percents, ('image fpga-new', 'cannot be read: No such file')),
    (Attack.PATH_TRAVERSAL, a_path_that_climbs_by_backslashes, ('image fpga-new', 'cannot be read: No such file')),
    (Attack.PATH_TRAVERSAL, a_path_that_climbs_by_wide_dots, ('image fpga-new', 'cannot be read: No such file')),
    (Attack.PATH_TRAVERSAL, a_file_by_half_a_url, ('image fpga-new', 'cannot be read: No such file')),
    (
        Attack.PATH_TRAVERSAL,
        a_neighbour_of_an_allowed_folder,
        ('image fpga-new', f'outside/images-evil/fpga-new.img {OUTSIDE}'),
    ),
    (Attack.PATH_TRAVERSAL, a_path_that_climbs_out_of_an_allowed_folder, ('image fpga-new', f'outside/fpga-new.img {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, a_function_that_lies_outside, ('image gzip-3', f'outside/gzip-3.img {OUTSIDE}')),
    (Attack.PATH_TRAVERSAL, a_stepping_image_that_lies_outside, ('image fpga-step', f'outside/fpga-step.img {OUTSIDE}')),
    (
        Attack.OVERSIZED,
        a_function_larger_than_the_bmc_takes,
        ('function Slot0', f'image gzip-3 has {MAX_IMAGE + 1} bytes, BMC host accepts at most {MAX_IMAGE}'),
    ),
    (
        Attack.OVERSIZED,
        a_restore_image_larger_than_the_bmc_takes,
        ('firmware FPGA1_FW', f'restore image fpga-old has {MAX_IMAGE + 1} bytes, its BMC accepts at most {MAX_IMAGE}'),
    ),
    (Attack.WRONG_CARD, with_its_ids_the_other_way_round, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, of_the_next_card_of_that_vendor, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, of_that_device_of_another_vendor, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, of_every_other_card_by_any_component, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, of_a_part_number_that_looks_alike, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, of_a_model_in_letters_that_look_alike, ('firmware FPGA1_FW', f'no image of version {NEW} that fits')),
    (Attack.WRONG_CARD, that_fits_by_name_only, ('firmware FPGA1_FW', 'image fpga-new fits by vendor and model only')),
    (Attack.WRONG_CARD, a_function_of_another_card, ('function Slot0', 'no image of gzip that fits')),
    (Attack.WRONG_CARD, a_function_of_a_slot_that_is_not_there, ('function Slot0', 'no image of gzip that fits')),
    (Attack.WRONG_CARD, a_function_by_name_only, ('function Slot0', 'image gzip-3 fits by vendor and model only')),
    (
        Attack.WRONG_CARD,
        a_restore_image_by_name_only,
        ('firmware FPGA1_FW', 'restore image fpga-old fits this device by vendor and model only'),
    ),
    (
        Attack.WRONG_CARD,
        a_stepping_image_of_another_card,
        ('firmware FPGA1_FW', 'may be written over 2.0.9 only', 'the catalogue has no chain of images that leads there'),
    ),
    (Attack.WRONG_CARD, a_stepping_image_by_name_only, ('firmware FPGA1_FW', 'image fpga-step fits by vendor and model only')),
    (
        Attack.DOWNGRADE,
        older_under_a_higher_version,
        ('firmware FPGA1_FW', 'image fpga-new has security version 1, the floor is 2'),
    ),
    (
        Attack.DOWNGRADE,
        older_and_what_runs_spelt_otherwise,
        ('firmware FPGA1_FW', 'image fpga-new has security version 1, the floor is 2'),
    ),
    (
        Attack.DOWNGRADE,
        older_and_a_twin_of_what_runs_that_is_older_still,
        ('firmware FPGA1_FW', 'image fpga-new has security version 1, the floor is 2'),
    ),
    (
        Attack.DOWNGRADE,
        older_and_what_runs_called_a_revocation,
        ('firmware FPGA1_FW', 'image fpga-new has security version 1, the floor is 2'),
    ),
    (
        Attack.DOWNGRADE,
        older_and_all_of_the_catalogue_with_it,
        ('firmware FPGA1_FW', 'image fpga-new has security version 1, the floor is 2'),
    ),
    (
        Attack.DOWNGRADE,
        a_function_older_than_the_floor,
        ('function Slot0', 'image gzip-3 has security version 1, the floor is 2'),
    ),
    (
        Attack.DOWNGRADE,
        a_restore_image_older_than_the_floor,
        ('firmware FPGA1_FW', 'restore image fpga-old has security version 2, the floor is 3'),
    ),
    (
        Attack.DOWNGRADE,
        a_restore_image_older_than_what_runs,
        ('firmware FPGA1_FW', 'restore image fpga-back has security version 1, the floor is 2'),
    ),
    (
        Attack.DOWNGRADE,
        a_stepping_image_older_than_what_runs,
        ('firmware FPGA1_FW', 'image fpga-step has security version 1, the floor is 2'),
    ),
    (
        Attack.DOWNGRADE,
        a_stepping_image_older_than_the_floor,
        ('firmware FPGA1_FW', 'image fpga-step has security version 2, the floor is 3'),
    ),
    (
        Attack.DOWNGRADE,
        older_than_its_stepping_image,
        ('firmware FPGA1_FW', 'image fpga-new has security version 2, the floor is 3'),
    ),
)


@pytest.mark.parametrize(('_', 'spoil', 'says'), TABLE, ids=[row[1].__name__ for row in TABLE])
def test_a_malicious_image_is_refused_and_nothing_of_it_is_sent(_, spoil, says, shop):
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
