# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The build backend: that of setuptools, which also puts the SBOM into the wheel (PEP 770, ``.dist-info/sboms``).

setuptools packs a prepared ``.dist-info`` folder as it is. The sdist has the SBOM by ``MANIFEST.in``, and so has a wheel that
is built from the sdist.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    'build_editable',
    'build_sdist',
    'build_wheel',
    'get_requires_for_build_editable',
    'get_requires_for_build_sdist',
    'get_requires_for_build_wheel',
    'prepare_metadata_for_build_editable',
    'prepare_metadata_for_build_wheel',
]

SBOM = Path('requirements', 'baremetal-acc.cdx.json')
"""In the top folder of the tree, where a build runs. ``nox -s sbom`` writes it."""

Settings = dict[str, Any] | None


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Write the ``.dist-info`` folder, with the SBOM, and return its name."""
    name = build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    folder = Path(metadata_directory, name, 'sboms')
    folder.mkdir(exist_ok=True)
    shutil.copyfile(SBOM, folder / SBOM.name)
    return name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel, and return its file name.

    :param metadata_directory: the folder that :func:`prepare_metadata_for_build_wheel` wrote; not every frontend calls that.
    """
    if metadata_directory is not None:
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    with tempfile.TemporaryDirectory() as folder:
        name = prepare_metadata_for_build_wheel(folder, config_settings)
        return build_meta.build_wheel(wheel_directory, config_settings, str(Path(folder, name)))
