# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is a malicious catalogue refused before a byte reaches a BMC? The machine's own log says so.

One that cannot be right is refused as a document, by file and line, before any BMC is asked anything; so is one that is not the
operator's. One that could be right is refused by the plan. Images and their bytes are honest here, unless said otherwise.
"""

import hashlib
import os
import re
from collections.abc import Callable

import pytest

from tests.malicious.workshop import Workshop, asked, unsaid


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


MANY = 100_000

DOCUMENTS = {
    # how it is written
    'a byte order mark': (rewritten(lambda data: b'\xef\xbb\xbf' + data), ('Invalid statement',)),
    'UTF-16': (rewritten(lambda data: data.decode().encode('utf-16')), ('is not UTF-8',)),
    'bytes that are no text': (rewritten(lambda data: data + b'# \xff\xfe\n'), ('is not UTF-8',)),
    'overlong UTF-8': (rewritten(lambda data: data + b'# \xc0\xaf\n'), ('is not UTF-8',)),
    'a zero byte': (rewritten(lambda data: data + b'# \0\n'), ('no valid TOML',)),
    'a line behind a lone carriage return': (
        edited('security_version = 2', '# security_version = 2\rsecurity_version = 9'),
        ('no valid TOML',),
    ),
    'colours of a terminal that hide a line': (rewritten(lambda data: data + b'# \x1b[2K\x1b[1A\n'), ('no valid TOML',)),
    'megabytes of comment': (rewritten(lambda data: data + b'#' * 5_000_000 + b'\n'), ('longer than',)),
    'arrays in arrays in arrays': (rewritten(lambda data: data + b'x = ' + b'[' * MANY + b']' * MANY), ('nested too deeply',)),
    'a number of thousands of digits': (edited('size = ', 'size = ' + '9' * 5000), ('no valid TOML',)),
    'a string without an end': (rewritten(lambda data: data + b'x = """'), ('no valid TOML',)),
    'no format': (edited('format = 1', ''), ('format = 1 expected',)),
    'another format': (edited('format = 1', 'format = 2'), ('format = 1 expected, 2 found',)),
    'a format that is true': (edited('format = 1', 'format = true'), ('format: whole number expected',)),
    'a format that is nearly one': (edited('format = 1', 'format = 1.0'), ('format: whole number expected',)),
    # what stands in its place
    'no catalogue': (instead(lambda shop: None), ('cannot be read: No such file',)),
    'a folder': (instead(lambda shop: shop.path('catalogue.toml').mkdir()), ('Is a directory',)),
    'a pipe': (instead(lambda shop: os.mkfifo(shop.path('catalogue.toml'))), ('is no regular file',)),
    'endless zeros': (instead(lambda shop: shop.path('catalogue.toml').symlink_to('/dev/zero')), ('is no regular file',)),
    'a link to itself': (
        instead(lambda shop: shop.path('catalogue.toml').symlink_to('catalogue.toml')),
        ('Too many levels of symbolic links',),
    ),
    # keys
    'a key twice': (edited('size = ', 'size = 1\nsize = '), ('no valid TOML', 'overwrite')),
    'a table that replaces the images': (headed('[image]', 'name = "x"'), ('no valid TOML',)),
    'images that are no tables': (edited('format = 1', 'format = 1\nimage = 1'), ('no valid TOML',)),
    'a key that is nearly the digest': (edited('digest = ', 'digest\u200b = '), ('no valid TOML',)),
    'a digest misspelt': (edited('digest = ', 'diggest = '), ('diggest: no such key', 'did you mean digest?')),
    'no digest': (without('digest'), ('image[0]: digest is missing',)),
    'no size': (without('size'), ('image[0]: size is missing',)),
    'no security_version': (without('security_version'), ('image[0]: security_version is missing',)),
    'no device': (without('fits'), ('image[0]: fits is missing',)),
    'no way back': (without('restore'), ('image[0]: restore is missing',)),
    # values
    'a digest of a broken algorithm': (keyed(digest=f'"md5:{"a" * 32}"'), ("'md5' is none of sha256, sha512",)),
    'a digest of no algorithm': (keyed(digest=f'"{"a" * 64}"'), ('names no algorithm',)),
    'a digest cut short': (keyed(digest=f'"sha256:{"a" * 63}"'), ('64 hexadecimal digits expected',)),
    'a digest of other digits': (keyed(digest=f'"sha256:{"a" * 63}\uff11"'), ('64 hexadecimal digits expected',)),
    'a size of nothing': (keyed(size='0'), ('size: 0 is less than 1',)),
    'a size below nothing': (keyed(size='-1'), ('size: -1 is less than 1',)),
    'a size beyond every disk': (keyed(size=str(10**40)), ('size: more than',)),
    'a size that is true': (keyed(size='true'), ('size: whole number expected',)),
    'a security version below nothing': (keyed(security_version='-1'), ('security_version: -1 is less than 0',)),
    'a security version in quotes': (keyed(security_version='"9"'), ('security_version: whole number expected',)),
    'a device of any kind': (keyed(fits='[{}]'), ('fits', 'names no id: it would fit every device')),
    'a device by a pattern': (keyed(fits='[{ pci = "0x8086:*" }]'), ('fits', 'is no pair of vendor and device id')),
    'a device that is a text': (keyed(fits='"0x8086:0x0b2b"'), ('fits',)),
    'a kind in capitals': (keyed(kind='"Firmware"'), ("'Firmware' is none of firmware, function, revocation",)),
    'a component of thousands of stars': (keyed(component=f'"{"*a" * 5000}"'), ('component: longer than',)),
    'a component that is written backwards': (keyed(component='"FPGA1_\u202eWF"'), ('component', 'cannot be printed')),
    'a version with a line end': (keyed(version='"2.1.4\\nsecurity_version = 9"'), ('version', 'cannot be printed')),
    'a path with a header of HTTP in it': (
        keyed(source='"x\\"\\r\\nContent-Disposition: form-data"'),
        ('source', 'cannot be printed'),
    ),
    'a path with a zero byte': (keyed(source='"fpga-new.img\\u0000.txt"'), ('source', 'cannot be printed')),
    'a name that climbs': (named('../../etc/passwd'), ("'../../etc/passwd' is no name",)),
    'a name with a line end': (named('fpga\nnew'), ('image[0].name', 'cannot be printed')),
    'a name in letters that look alike': (named('fpga-n\u0435w'), ('is no name',)),
    'a name twice': (lambda shop: edited('"fpga-old"\nkind', '"fpga-new"\nkind')(shop), ("two images are called 'fpga-new'",)),
    # what belongs together
    'a way back to itself': (keyed(restore='"fpga-new"'), ("'fpga-new' is no other firmware image",)),
    'a way back to nothing': (keyed(restore='"gone"'), ("no image is called 'gone'",)),
    'a way back to a function': (keyed(restore='"gzip-3"'), ("'gzip-3' is no other firmware image",)),
    'a revocation that could be undone': (keyed(kind='"revocation"'), ('nothing undoes a revocation',)),
    'a denial of everything': (denying('version = "2.1.4"'), ('would be denied of everything',)),
    'a denial without a reason': (
        lambda shop: setattr(shop, 'tail', '\n[[deny]]\ncomponent = "FPGA1_FW"\nversion = "1"\n'),
        ('deny[0]: reason is missing',),
    ),
    'an end that is a text': (headed('expires = "never"'), ('expires: date and time of UTC expected',)),
    'an end without a zone': (headed('expires = 2099-01-01T00:00:00'), ('expires: date and time of UTC expected',)),
    'a serial below nothing': (headed('serial = -1'), ('serial: -1 is less than 0',)),
    'a serial beyond all others': (headed(f'serial = {10**30}'), ('serial: more than',)),
    # where images are said to be
    'a file by URL': (keyed(source='"file:///etc/passwd"'), ('source', "'file' cannot be read")),
    'another protocol': (keyed(source='"ftp://127.0.0.1/fpga-new.img"'), ('source', "'ftp' cannot be read")),
    'a URL with a user name': (keyed(source='"https://images@127.0.0.1/x"'), ('source', 'is no plain URL')),
    'a URL with a backslash': (keyed(source='"https://images\\\\@127.0.0.1/x"'), ('source', 'is no plain URL')),
    'a URL with a fragment': (keyed(source='"https://127.0.0.1/x#@images"'), ('source', 'is no plain URL')),
    'a URL with a blank': (keyed(source='"https://images /x"'), ('source', 'is no plain URL')),
    'a URL in letters that look alike': (keyed(source='"https://im\u0430ges/x"'), ('source', 'is no plain URL')),
}
"""What can never be right: code 2, by file."""


@pytest.mark.parametrize('case', DOCUMENTS)
def test_a_catalogue_that_cannot_be_right_is_refused_before_any_bmc_is_asked(case, shop):
    """Code 2 and one line that names the file and what is wrong; no BMC has seen so much as a login."""
    spoil, says = DOCUMENTS[case]
    spoil(shop)
    error = shop.refused(2)
    assert [] == unsaid(error, ('catalogue.toml', *says))
    assert error.isprintable()
    assert len(error) < 1000
    assert 0 == asked(shop.machine)


REFUSED = {
    'no images': (lambda shop: shop.images.clear(), ('the catalogue has no image of version',)),
    'the version in digits that look alike': (
        keyed(version='"2.1.\uff14"'),
        ('the catalogue has no image of version',),
    ),
    'a version of another spelling': (keyed(version='"2.1.40"'), ('the catalogue has no image of version',)),
    'a revocation of the wanted version': (keyed(kind='"revocation"', restore='"none"'), ('no image of version',)),
    'denied by version': (denying('component = "FPGA1_FW"\nversion = "2.1.4"'), ('FPGA1_FW', 'denied', 'CVE-2026-1')),
    'denied by version in another spelling': (
        denying('component = "fpga1_fw"\nversion = "V2.1.4 "'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by a pattern': (denying('component = "FPGA?_*"\nversion = "2.1.4"'), ('FPGA1_FW', 'denied', 'CVE-2026-1')),
    'denied by its device': (
        denying('fits = [{ pci = "0x8086:0x0B2B" }]\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by an id that it does not name': (
        denying('fits = [{ model = "FPGA PAC D5005" }]\nversion = "2.1.4"'),
        ('FPGA1_FW', 'denied', 'CVE-2026-1'),
    ),
    'denied by its digest': (denied_by_its_digest, ('FPGA1_FW', 'denied', 'CVE-2026-1')),
    'denied by a digest of another algorithm': (
        denied_by_another_algorithm,
        ('image fpga-new', 'denies its bytes: CVE-2026-1'),
    ),
    'a way back that is denied': (denying('component = "FPGA1_FW"\nversion = "2.0.0"'), ('fpga-old', 'CVE-2026-1')),
    'a function that is denied': (denying('component = "Slot0"\nversion = "3.1"'), ('gzip-3', 'CVE-2026-1')),
    'expired': (headed('expires = 2026-01-01T00:00:00Z'), ('catalogue.toml', 'has expired at 2026-01-01 00:00:00Z')),
    'expired by another zone': (headed('expires = 2026-01-01T00:00:00+14:00'), ('has expired at 2025-12-31 10:00:00Z',)),
    'expired before there were clocks': (headed('expires = 0001-01-01T00:00:00Z'), ('has expired at',)),
}
"""What could be right, and must not be written here: code 4, by plan and image."""


@pytest.mark.parametrize('case', REFUSED)
def test_a_catalogue_that_must_not_be_followed_is_refused_and_nothing_is_sent(case, shop):
    """Code 4 and one line with the reason; the BMCs were read and not written."""
    spoil, says = REFUSED[case]
    spoil(shop)
    assert [] == unsaid(shop.refused(4), ('node-1', *says))


def test_an_error_does_not_repeat_what_is_long(shop):
    """It goes into logs, and into a node's last_error: who writes a catalogue fills neither."""
    named('a' * 5000)(shop)
    shop.lay()
    done = shop.apply()
    assert 2 == done.code, done.err
    assert 'is no name' in done.errors[0]
    assert len(done.errors[0]) < 1000


def test_an_error_names_the_line(shop):
    """In a catalogue of hundreds of lines, the operator is shown the one."""
    keyed(digest='"sha256:0"')(shop)
    shop.lay()
    line = next(n for n, text in enumerate(shop.path('catalogue.toml').read_text().splitlines(), 1) if 'sha256:0"' in text)
    assert re.search(rf'catalogue\.toml, line {line}: image\[0\]\.digest', shop.apply().errors[0])


def test_there_are_at_least_twenty():
    """As many as the issue asks for, of each way to be wrong together."""
    assert len(DOCUMENTS) + len(REFUSED) >= 20
