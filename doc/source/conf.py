# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is the documentation built? ``make docs`` makes doc/build/html; a warning is an error."""

import importlib.metadata
from pathlib import Path

TREE = Path(__file__).parents[2]

project = 'baremetal-acc'
author = 'The baremetal-acc authors'
copyright = author
release = version = importlib.metadata.version('baremetal-acc')

extensions: list[str] = []
exclude_patterns: list[str] = []
if (TREE / '.git').is_dir() and not (TREE / '.git' / 'shallow').exists():
    extensions.append('reno.sphinxext')
else:
    # reno reads the notes from the whole history of git, which an archive and a shallow clone do not have.
    exclude_patterns.append('release-notes.rst')

html_theme = 'alabaster'
html_theme_options = {'description': 'Accelerators in bare metal, from out of band', 'page_width': '72em'}
html_copy_source = False
highlight_language = 'console'
