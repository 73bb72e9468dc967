# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The honest folder, unchanged, is written, so the tests here can fail: the BMC gets exactly the bytes of its images."""

from tests.malicious.workshop import NEW, pushed, reached, told


def test_honest_images_reach_the_bmc_byte_for_byte(honest):
    """Both images once, nothing else; the card then runs them."""
    honest.lay()
    done = honest.apply()
    assert 0 == done.code, done.err
    assert sorted((told(honest.new_file), told(honest.path('gzip-3.img')))) == sorted(pushed(honest.machine))
    assert NEW == honest.machine.truth()['components']['host/FPGA1_FW']['active']['version']


def test_an_honest_stepping_image_is_planned(shop):
    """Else an honest one would be refused, too. It is not written: this card needs a reset before it shows what it got."""
    shop.step()
    shop.lay()
    done = shop.run('plan', *shop.options)
    assert 3 == done.code, done.err
    assert 'FPGA1_FW to 2.0.9 first' in done.out + done.err
    assert [] == reached(shop.machine)
