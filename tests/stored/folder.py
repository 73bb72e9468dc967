# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The files that earlier versions have written, by commit and kind, and a copy of them as they lay on a disk."""

import shutil
from pathlib import Path

HERE = Path(__file__).parent

COMMITS = tuple(sorted(p.name for p in HERE.iterdir() if p.is_dir() and p.name != '__pycache__'))
"""Whose files are kept here."""


def files(commit: str, kind: str, pattern: str = '**/*') -> list[Path]:
    """The files of one kind."""
    return sorted(p for p in (HERE / commit / kind).glob(pattern) if p.is_file())


def laid_out(commit: str, kind: str, folder: Path) -> Path:
    """A copy of one kind for the owner's eyes only, as it lay there: git keeps no such modes."""
    root = folder / kind
    shutil.copytree(HERE / commit / kind, root, symlinks=True)
    for path in (root, *root.rglob('*')):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
    return root
