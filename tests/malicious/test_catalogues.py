# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A malicious catalogue is refused before a byte reaches a BMC. The machine's own log says so.

One that cannot be right is refused as a document, by file and line, before any BMC is asked anything; so is one that is not the
operator's. One that could be right is refused by the plan. Images and their bytes are honest here, unless said otherwise.
"""

import hashlib
import os
import re
from collections.abc import Callable
from datetime import timedelta, timezone

import pytest

from tests.malicious.attack import Attack
from tests.malicious.notary import NOW, notarised
from tests.malicious.test_signatures import image_signed
from tests.malicious.workshop import BASELINE, Workshop, asked, entry, unsaid


def edited(old: str, new: str) -> Callable[[Workshop], None]:
    """The catalogue with another text in place of the first like it."""

    def spoil(shop: Workshop) -> None:
        def edit(text: str) -> str:
            assert old in text
            return text.replace(old, new, 1)

        shop.edit = edit

    return spoil


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Workshop], None]:
    """The catalogue with other bytes."""

    def spoil(shop: Workshop) -> None:
        shop.edit = lambda text: change(text.encode())

    return spoil


def instead(put: Callable[[Workshop], object]) -> Callable[[Workshop], None]:
    """Something else in place of the catalogue."""

    def spoil(shop: Workshop) -> None:
        def strike() -> None:
            shop.path('catalogue.toml').unlink()
            put(shop)

        shop.after.append(strike)

    return spoil


def keyed(**keys: str) -> Callable[[Workshop], None]:
    """The wanted image with other keys."""
    return lambda shop: shop.new.update(keys)


def without(key: str) -> Callable[[Workshop], None]:
    """The wanted image without a key."""
    return lambda shop: shop.new.pop(key) and None


def headed(*lines: str) -> Callable[[Workshop], None]:
    """The catalogue with more lines at its top."""
    return lambda shop: shop.head.extend(lines)


def denying(table: str) -> Callable[[Workshop], None]:
    """The catalogue with something denied."""

    def spoil(shop: Workshop) -> None:
        shop.tail = f'\n[[deny]]\nreason = "CVE-2026-1"\n{table}\n'

    return spoil


def named(name: str) -> Callable[[Workshop], None]:
    """The wanted image by another name."""

    def spoil(shop: Workshop) -> None:
        shop.images = {name if known == 'fpga-new' else known: keys for known, keys in shop.images.items()}

    return spoil


def denied_by_another_algorithm(shop: Workshop) -> None:
    shop.new['digest'] = f'"sha512:{hashlib.sha512(shop.new_file.read_bytes()).hexdigest()}"'
    digest = hashlib.sha256(shop.new_file.read_bytes()).hexdigest()
    denying(f'digest = "sha256:{digest}"')(shop)


def denied_by_its_digest(shop: Workshop) -> None:
    denying(f'digest = {shop.new["digest"].upper().replace("SHA256", "sha256")}')(shop)


def a_twin_denied_by_its_digest(shop: Workshop) -> None:
    """Other bytes that call themselves the same version of the same card: nobody can tell which of the two a card runs."""
    twin = shop.path('twin.img')
    shop.images['fpga-twin'] = shop.new | entry(twin, b'twin' * 2000, version='"2.1.4"', component='"FPGA1_FW"')
    denying(f'digest = {shop.images["fpga-twin"]["digest"]}')(shop)


def the_same_bytes_denied_as_another_version(shop: Workshop) -> None:
    shop.images['fpga-again'] = shop.new | {'version': '"3.0.0"'}
    shop.baseline = BASELINE.replace('2.1.4', '3.0.0')
    denied_by_its_digest(shop)


def a_stepping_image_that_is_denied(shop: Workshop) -> None:
    shop.step()
    denying('component = "FPGA1_FW"\nversion = "2.0.9"')(shop)


def a_function_denied_by_its_digest(shop: Workshop) -> None:
    denying(f'digest = {shop.images["gzip-3"]["digest"]}')(shop)


def a_way_back_denied_by_a_digest_of_another_algorithm(shop: Workshop) -> None:
    digest = hashlib.sha512(shop.path('fpga-old.img').read_bytes()).hexdigest()
    denying(f'digest = "sha512:{digest}"')(shop)


def what_runs_and_no_rule_wants_is_denied(shop: Workshop) -> None:
    """Nothing would be written over it, and the tenant would get it."""
    shop.baseline = FUNCTION_ONLY
    denying('component = "FPGA1_FW"\nversion = "2.0.0"')(shop)


def what_runs_and_is_wanted_is_denied(shop: Workshop) -> None:
    shop.baseline = BASELINE.replace('2.1.4', '2.0.0')
    denying('component = "FPGA1_FW"\nversion = "2.0.0"')(shop)


def denied_by_one_of_many(shop: Workshop) -> None:
    """The others are about nothing that is here."""
    denying('component = "FPGA1_FW"\nversion = "2.1.4"')(shop)
    others = (f'\n[[deny]]\nreason = "other {n}"\ncomponent = "NIC{n}"\nversion = "2.1.4"\n' for n in range(50))
    shop.tail = ''.join(others) + shop.tail


def expired_where_only_a_function_is_wanted(shop: Workshop) -> None:
    shop.baseline = FUNCTION_ONLY
    headed('expires = 2026-01-01T00:00:00Z')(shop)


def expired_though_signed(shop: Workshop) -> None:
    """Freezing: an attacker who holds back newer catalogues wins a limited time only."""
    notarised(shop)
    shop.head[2] = 'expires = 2026-01-01T00:00:00Z'


def expired_and_the_newest(shop: Workshop) -> None:
    """A serial beyond what was ever seen does not make it good."""
    expired_though_signed(shop)
    shop.head[1] = f'serial = {2**53}'


def expired_and_its_images_signed_one_by_one(shop: Workshop) -> None:
    """What is good for ever by its signature ends with the catalogue that lists it."""
    image_signed(shop)
    shop.head[2] = 'expires = 2026-01-01T00:00:00Z'


def expired_with_another_end_in_a_comment(shop: Workshop) -> None:
    headed('expires = 2026-01-01T00:00:00Z # expires = 2099-01-01T00:00:00Z')(shop)


MANY = 100_000

FUNCTION_ONLY = 'format = 1\n[[rule]]\nmatch = { kind = "FPGA" }\nfunctions = { Slot0 = "gzip" }\n'

EAST = timezone(timedelta(hours=14))
"""Where the day begins first: what has ended there is still to come by its digits."""

DOCUMENTS = {
    # how it is written
    'a byte order mark': (Attack.MALFORMED, rewritten(lambda data: b'\xef\xbb\xbf' + data), ('begins with a byte order mark',)),
    'UTF-16': (Attack.MALFORMED, rewritten(lambda data: data.decode().encode('utf-16')), ('is not UTF-8',)),
    'bytes that are no text': (Attack.MALFORMED, rewritten(lambda data: data + b'# \xff\xfe\n'), ('is not UTF-8',)),
    'overlong UTF-8': (Attack.MALFORMED, rewritten(lambda data: data + b'# \xc0\xaf\n'), ('is not UTF-8',)),
    'a zero byte': (Attack.MALFORMED, rewritten(lambda data: data + b'# \0\n'), ('not valid TOML',)),
    'a line behind a lone carriage return': (
        Attack.MALFORMED,
        edited('security_version = 2', '# security_version = 2\rsecurity_version = 9'),
        ('not valid TOML',),
    ),
    'colours of a terminal that hide a line': (
        Attack.MALFORMED,
        rewritten(lambda data: data + b'# \x1b[2K\x1b[1A\n'),
        ('not valid TOML',),
    ),
    'megabytes of comment': (Attack.OVERSIZED, rewritten(lambda data: data + b'#' * 5_000_000 + b'\n'), ('longer than',)),
    'arrays in arrays in arrays': (
        Attack.MALFORMED,
        rewritten(lambda data: data + b'x = ' + b'[' * MANY + b']' * MANY),
        ('nested too deeply',),
    ),
    'a number of thousands of digits': (Attack.OVERSIZED, edited('size = ', 'size = ' + '9' * 5000), ('not valid TOML',)),
    'a string without an end': (Attack.TRUNCATED, rewritten(lambda data: data + b'x = """'), ('not valid TOML',)),
    'no format': (Attack.MALFORMED, edited('format = 1', ''), ('format = 1 expected',)),
    'another format': (Attack.MALFORMED, edited('format = 1', 'format = 2'), ('format = 1 expected, 2 found',)),
    'a format that is true': (Attack.MALFORMED, edited('format = 1', 'format = true'), ('format: whole number expected',)),
    'a format that is nearly one': (Attack.MALFORMED, edited('format = 1', 'format = 1.0'), ('format: whole number expected',)),
    'cut in the middle of an image': (
        Attack.TRUNCATED,
        rewritten(lambda data: data[: data.index(b'size = ', data.index(b'"fpga-old"'))]),
        ('image[1]: ', ' is missing'),
    ),
    'cut in the middle of a word': (
        Attack.TRUNCATED,
        rewritten(lambda data: data[: data.index(b'sha256:') + 20]),
        ('not valid TOML',),
    ),
    'cut behind an image': (
        Attack.TRUNCATED,
        rewritten(lambda data: data[: data.index(b'[[image]]', data.index(b'"fpga-new"'))]),
        ("no image is called 'fpga-old'",),
    ),
    'cut to nothing': (Attack.TRUNCATED, rewritten(lambda data: b''), ('format = 1 expected',)),
    'a catalogue of holes': (
        Attack.OVERSIZED,
        lambda shop: shop.after.append(lambda: os.truncate(shop.path('catalogue.toml'), 1 << 40)),
        ('longer than',),
    ),
    # what stands in its place
    'no catalogue': (Attack.NO_FILE, instead(lambda shop: None), ('cannot be read: No such file',)),
    'a folder': (Attack.NO_FILE, instead(lambda shop: shop.path('catalogue.toml').mkdir()), ('Is a directory',)),
    'a pipe': (Attack.NO_FILE, instead(lambda shop: os.mkfifo(shop.path('catalogue.toml'))), ('is not a regular file',)),
    'endless zeros': (
        Attack.NO_FILE,
        instead(lambda shop: shop.path('catalogue.toml').symlink_to('/dev/zero')),
        ('is not a regular file',),
    ),
    'a link to itself': (
        Attack.NO_FILE,
        instead(lambda shop: shop.path('catalogue.toml').symlink_to('catalogue.toml')),
        ('Too many levels of symbolic links',),
    ),
    # keys
    'a key twice': (Attack.MALFORMED, edited('size = ', 'size = 1\nsize = '), ('not valid TOML', 'overwrite')),
    'a table that replaces the images': (Attack.MALFORMED, headed('[image]', 'name = "x"'), ('not valid TOML',)),
    'images that are no tables': (Attack.MALFORMED, edited('format = 1', 'format = 1\nimage = 1'), ('not valid TOML',)),
    'a key that is nearly the digest': (Attack.MALFORMED, edited('digest = ', 'digest\u200b = '), ('not valid TOML',)),
    'a digest misspelt': (
        Attack.MALFORMED,
        edited('digest = ', 'diggest = '),
        ('diggest: no such key', 'did you mean digest?'),
    ),
    'no digest': (Attack.MALFORMED, without('digest'), ('image[0]: digest is missing',)),
    'no size': (Attack.MALFORMED, without('size'), ('image[0]: size is missing',)),
    'no security_version': (Attack.MALFORMED, without('security_version'), ('image[0]: security_version is missing',)),
    'no device': (Attack.MALFORMED, without('fits'), ('image[0]: fits is missing',)),
    'no way back': (Attack.MALFORMED, without('restore'), ('image[0]: restore is missing',)),
    # values
    'a digest of a broken algorithm': (
        Attack.MALFORMED,
        keyed(digest=f'"md5:{"a" * 32}"'),
        ("'md5' is none of sha256, sha512",),
    ),
    'a digest of no algorithm': (Attack.MALFORMED, keyed(digest=f'"{"a" * 64}"'), ('names no algorithm',)),
    'a digest cut short': (Attack.TRUNCATED, keyed(digest=f'"sha256:{"a" * 63}"'), ('64 hexadecimal digits expected',)),
    'a digest of other digits': (
        Attack.MALFORMED,
        keyed(digest=f'"sha256:{"a" * 63}\uff11"'),
        ('64 hexadecimal digits expected',),
    ),
    'a size of nothing': (Attack.MALFORMED, keyed(size='0'), ('size: 0 is less than 1',)),
    'a size below nothing': (Attack.MALFORMED, keyed(size='-1'), ('size: -1 is less than 1',)),
    'a size beyond every disk': (Attack.OVERSIZED, keyed(size=str(10**40)), ('size: more than',)),
    'a size that is true': (Attack.MALFORMED, keyed(size='true'), ('size: whole number expected',)),
    'a security version below nothing': (
        Attack.MALFORMED,
        keyed(security_version='-1'),
        ('security_version: -1 is less than 0',),
    ),
    'a security version in quotes': (
        Attack.MALFORMED,
        keyed(security_version='"9"'),
        ('security_version: whole number expected',),
    ),
    'a device of any kind': (Attack.WRONG_CARD, keyed(fits='[{}]'), ('fits', 'has no id: the image would fit every device')),
    'a device by a pattern': (
        Attack.WRONG_CARD,
        keyed(fits='[{ pci = "0x8086:*" }]'),
        ('fits', 'is not a pair of vendor and device id'),
    ),
    'a device that is a text': (Attack.MALFORMED, keyed(fits='"0x8086:0x0b2b"'), ('fits',)),
    'a kind in capitals': (
        Attack.MALFORMED,
        keyed(kind='"Firmware"'),
        ("'Firmware' is none of firmware, function, revocation",),
    ),
    'a component of thousands of stars': (Attack.OVERSIZED, keyed(component=f'"{"*a" * 5000}"'), ('component: longer than',)),
    'a component that is written backwards': (
        Attack.MALFORMED,
        keyed(component='"FPGA1_\u202eWF"'),
        ('component', 'cannot be printed'),
    ),
    'a version with a line end': (
        Attack.MALFORMED,
        keyed(version='"2.1.4\\nsecurity_version = 9"'),
        ('version', 'cannot be printed'),
    ),
    'a path with a header of HTTP in it': (
        Attack.MALFORMED,
        keyed(source='"x\\"\\r\\nContent-Disposition: form-data"'),
        ('source', 'cannot be printed'),
    ),
    'a path with a zero byte': (
        Attack.PATH_TRAVERSAL,
        keyed(source='"fpga-new.img\\u0000.txt"'),
        ('source', 'cannot be printed'),
    ),
    'a name that climbs': (Attack.PATH_TRAVERSAL, named('../../etc/passwd'), ("'../../etc/passwd' is not a valid name",)),
    'a name of thousands of letters': (Attack.OVERSIZED, named('a' * 5000), ('is not a valid name',)),
    'a name with a line end': (Attack.MALFORMED, named('fpga\nnew'), ('image[0].name', 'cannot be printed')),
    'a name in letters that look alike': (Attack.MALFORMED, named('fpga-n\u0435w'), ('is not a valid name',)),
    'a name twice': (
        Attack.MALFORMED,
        lambda shop: edited('"fpga-old"\nkind', '"fpga-new"\nkind')(shop),
        ("two images are called 'fpga-new'",),
    ),
    # what belongs together
    'a way back to itself': (
        Attack.MALFORMED,
        keyed(restore='"fpga-new"'),
        ("'fpga-new' is not another firmware image",),
    ),
    'a way back to nothing': (Attack.MALFORMED, keyed(restore='"gone"'), ("no image is called 'gone'",)),
    'a way back to a function': (
        Attack.MALFORMED,
        keyed(restore='"gzip-3"'),
        ("'gzip-3' is not another firmware image",),
    ),
    'a revocation that could be undone': (Attack.MALFORMED, keyed(kind='"revocation"'), ('a revocation cannot be undone',)),
    'a denial of everything': (
        Attack.MALFORMED,
        denying('version = "2.1.4"'),
        ('would be denied for every component of every device',),
    ),
    'a denial without a reason': (
        Attack.MALFORMED,
        lambda shop: setattr(shop, 'tail', '\n[[deny]]\ncomponent = "FPGA1_FW"\nversion = "1"\n'),
        ('deny[0]: reason is missing',),
    ),
    'an end that is a text': (Attack.MALFORMED, headed('expires = "never"'), ('expires: date and time of UTC expected',)),
    'an end without a zone': (
        Attack.MALFORMED,
        headed('expires = 2099-01-01T00:00:00'),
        ('expires: date and time of UTC expected',),
    ),
    'a serial below nothing': (Attack.MALFORMED, headed('serial = -1'), ('serial: -1 is less than 0',)),
    'a serial beyond all others': (Attack.MALFORMED, headed(f'serial = {10**30}'), ('serial: more than',)),
    # where images are said to be
    'a file by URL': (
        Attack.PATH_TRAVERSAL,
        keyed(source='"file:///etc/passwd"'),
        ('source', "URL scheme 'file' is not supported"),
    ),
    'another protocol': (
        Attack.MALFORMED,
        keyed(source='"ftp://127.0.0.1/fpga-new.img"'),
        ('source', "URL scheme 'ftp' is not supported"),
    ),
    'a URL with a user name': (
        Attack.MALFORMED,
        keyed(source='"https://images@127.0.0.1/x"'),
        ('source', 'is not a plain URL'),
    ),
    'a URL with a backslash': (
        Attack.MALFORMED,
        keyed(source='"https://images\\\\@127.0.0.1/x"'),
        ('source', 'is not a plain URL'),
    ),
    'a URL with a fragment': (
        Attack.MALFORMED,
        keyed(source='"https://127.0.0.1/x#@images"'),
        ('source', 'is not a plain URL'),
    ),
    'a URL with a blank': (Attack.MALFORMED, keyed(source='"https://images /x"'), ('source', 'is not a plain URL')),
    'a URL in letters that look alike': (
        Attack.MALFORMED,
        keyed(source='"https://im\u0430ges/x"'),
        ('source', 'is not a plain URL'),
    ),
}
"""Documents that are not valid (exit code 2), by file."""


@pytest.mark.parametrize('case', DOCUMENTS)
def test_a_catalogue_that_cannot_be_right_is_refused_before_any_bmc_is_asked(case, shop):
    """Code 2 and one line that names the file and what is wrong; no BMC has seen so much as a login.

    The line goes into logs, and into a node's last_error: who writes a catalogue fills neither.
    """
    _, spoil, says = DOCUMENTS[case]
    spoil(shop)
    error = shop.refused(2)
    assert [] == unsaid(error, ('catalogue.toml', *says))
    assert error.isprintable()
    assert len(error) < 1000
    assert 0 == asked(shop.machine)


REFUSED = {
    'no images': (Attack.NOT_ONE, lambda shop: shop.images.clear(), ('the catalogue has no image of version',)),
    'the version in digits that look alike': (
        Attack.NOT_ONE,
        keyed(version='"2.1.\uff14"'),
        ('the catalogue has no image of version',),
    ),
    'a version of another spelling': (Attack.NOT_ONE, keyed(version='"2.1.40"'), ('the catalogue has no image of version',)),
    'a revocation of the wanted version': (
        Attack.REVOKED,
        keyed(kind='"revocation"', restore='"none"'),
        ('no image of version',),
    ),
    'denied by version': (
        Attack.REVOKED,
        denying('component = "FPGA1_FW"\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by version in another spelling': (
        Attack.REVOKED,
        denying('component = "fpga1_fw"\nversion = "V2.1.4 "'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by a pattern': (
        Attack.REVOKED,
        denying('component = "FPGA?_*"\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by its device': (
        Attack.REVOKED,
        denying('fits = [{ pci = "0x8086:0x0B2B" }]\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by an id that it does not name': (
        Attack.REVOKED,
        denying('fits = [{ model = "FPGA PAC D5005" }]\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by its digest': (Attack.REVOKED, denied_by_its_digest, ('FPGA1_FW', 'denied', 'CVE-2026-1')),
    'denied by a digest of another algorithm': (
        Attack.REVOKED,
        denied_by_another_algorithm,
        ('image fpga-new', 'by the digest of its bytes: CVE-2026-1'),
    ),
    'a way back that is denied': (
        Attack.REVOKED,
        denying('component = "FPGA1_FW"\nversion = "2.0.0"'),
        ('fpga-old', 'CVE-2026-1'),
    ),
    'a function that is denied': (Attack.REVOKED, denying('component = "Slot0"\nversion = "3.1"'), ('gzip-3', 'CVE-2026-1')),
    'expired': (
        Attack.EXPIRED,
        headed('expires = 2026-01-01T00:00:00Z'),
        ('catalogue.toml', 'which expired at 2026-01-01 00:00:00Z'),
    ),
    'expired by another zone': (
        Attack.EXPIRED,
        headed('expires = 2026-01-01T00:00:00+14:00'),
        ('which expired at 2025-12-31 10:00:00Z',),
    ),
    'expired before there were clocks': (Attack.EXPIRED, headed('expires = 0001-01-01T00:00:00Z'), ('which expired at',)),
    'denied by its vendor': (
        Attack.REVOKED,
        denying('fits = [{ vendor = "INTEL" }]\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by its part number': (
        Attack.REVOKED,
        denying('fits = [{ part_number = "bd-acd-d5005" }]\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by a class of letters': (
        Attack.REVOKED,
        denying('component = "[A-G]PGA1_F[!X]"\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by one of many': (Attack.REVOKED, denied_by_one_of_many, ('FPGA1_FW', 'denied', 'CVE-2026-1')),
    'a twin denied by its digest': (Attack.REVOKED, a_twin_denied_by_its_digest, ('FPGA1_FW', 'denied', 'CVE-2026-1')),
    'the same bytes denied as another version': (
        Attack.REVOKED,
        the_same_bytes_denied_as_another_version,
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'a stepping image that is denied': (
        Attack.REVOKED,
        a_stepping_image_that_is_denied,
        ('FPGA1_FW', 'may be written over 2.0.9 only', 'images that are denied'),
    ),
    'a function denied by its digest': (Attack.REVOKED, a_function_denied_by_its_digest, ('gzip-3', 'denied', 'CVE-2026-1')),
    'a way back denied by a digest of another algorithm': (
        Attack.REVOKED,
        a_way_back_denied_by_a_digest_of_another_algorithm,
        ('image fpga-old', 'by the digest of its bytes: CVE-2026-1'),
    ),
    'what runs and no rule wants is denied': (
        Attack.REVOKED,
        what_runs_and_no_rule_wants_is_denied,
        ('FPGA1_FW', 'version 2.0.0 is denied (CVE-2026-1)'),
    ),
    'what runs and is wanted is denied': (
        Attack.REVOKED,
        what_runs_and_is_wanted_is_denied,
        ('FPGA1_FW', 'version 2.0.0 is denied: CVE-2026-1'),
    ),
    'expired a second ago': (
        Attack.EXPIRED,
        headed(f'expires = {NOW - timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}'),
        ('which expired at',),
    ),
    'expired by a fraction of a second': (
        Attack.EXPIRED,
        headed(f'expires = {NOW:%Y-%m-%dT%H:%M:%S.%fZ}'),
        ('which expired at',),
    ),
    'expired, and tomorrow by its digits': (
        Attack.EXPIRED,
        headed(f'expires = {(NOW - timedelta(hours=1)).astimezone(EAST):%Y-%m-%dT%H:%M:%S}+14:00'),
        ('which expired at',),
    ),
    'expired when clocks began': (
        Attack.EXPIRED,
        headed('expires = 1970-01-01T00:00:00Z'),
        ('which expired at 1970-01-01 00:00:00Z',),
    ),
    'expired with another end in a comment': (
        Attack.EXPIRED,
        expired_with_another_end_in_a_comment,
        ('which expired at 2026-01-01 00:00:00Z',),
    ),
    'expired, though signed': (
        Attack.EXPIRED,
        expired_though_signed,
        ('catalogue.toml, which expired at 2026-01-01 00:00:00Z',),
    ),
    'expired, and the newest': (
        Attack.EXPIRED,
        expired_and_the_newest,
        ('catalogue.toml, which expired at 2026-01-01 00:00:00Z',),
    ),
    'expired, and its images signed one by one': (
        Attack.EXPIRED,
        expired_and_its_images_signed_one_by_one,
        ('catalogue.toml, which expired at 2026-01-01 00:00:00Z',),
    ),
    'expired where only a function is wanted': (
        Attack.EXPIRED,
        expired_where_only_a_function_is_wanted,
        ('image gzip-3', 'which expired at 2026-01-01 00:00:00Z'),
    ),
}
"""What could be right, and must not be written here: code 4, by plan and image."""


@pytest.mark.parametrize('case', REFUSED)
def test_a_catalogue_that_must_not_be_followed_is_refused_and_nothing_is_sent(case, shop):
    """Code 4 and one line with the reason; the BMCs were read and not written."""
    _, spoil, says = REFUSED[case]
    spoil(shop)
    assert [] == unsaid(shop.refused(4), ('node-1', *says))


def test_an_error_names_the_line(shop):
    """In a catalogue of hundreds of lines, the operator is shown the one."""
    keyed(digest='"sha256:0"')(shop)
    shop.lay()
    line = next(n for n, text in enumerate(shop.path('catalogue.toml').read_text().splitlines(), 1) if 'sha256:0"' in text)
    assert re.search(rf'catalogue\.toml, line {line}: image\[0\]\.digest', shop.apply().errors[0])
