# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write a folder of hand-over certificates that a version signs, by the code of that version, with the values of its own tests.

How it was run is in README.rst beside this file.
"""

import argparse
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from baremetal_acc.certificates.envelope import seal
from baremetal_acc.certificates.folder import CertificateFolder
from tests.unit.certificates import values


def main() -> None:
    """Two certificates of one node, of which the first was put away, and the key that has signed both."""
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=Path)
    out = parser.parse_args().folder / 'certificates'
    first = values.certificate()
    second = replace(first, lifecycle=first.lifecycle + 2, proven_in=first.proven_in + 2)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        folder = CertificateFolder(root=Path(name) / 'kept')
        folder.put(first.reference, seal(first, values.sealer()))
        folder.put_away(first.reference)
        folder.put(second.reference, seal(second, values.sealer()))
        shutil.copytree(folder.root, out / 'kept', symlinks=True)
    values.write_key(out / 'issuer.pem', values.sealer(), public=True)


if __name__ == '__main__':
    main()
