# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Configuration of Sphinx. ``make docs`` writes doc/build/html; a warning is an error."""

import importlib.metadata
import sys
from pathlib import Path

from docutils.nodes import Node
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

TREE = Path(__file__).parents[2]
sys.path.insert(0, str(TREE))

from doc.tables import TABLES  # noqa: E402

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
    exclude_patterns.append('reference/release-notes.rst')

html_theme = 'alabaster'
html_theme_options = {
    'description': 'Accelerators in bare metal, from out of band',
    'page_width': '1320px',
    'body_max_width': 'none',
}
html_static_path = ['_static']
html_copy_source = False
highlight_language = 'console'

# ``make man`` writes it to doc/build/man
man_pages = [
    (
        'reference/baremetal-acc',
        'baremetal-acc',
        'inventory, firmware, functions and locks of accelerators in bare-metal machines',
        [author],
        1,
    )
]


class FromCode(Directive):
    """``.. from-code:: NAME`` inserts a table that is written from the code; see ``doc/tables.py``."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """Insert the lines of the table into the page."""
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f'from-code {name}: doc/tables.py has {", ".join(TABLES)}')
        self.state_machine.insert_input(list(TABLES[name]()), f'doc/tables.py, {name}')
        return []


def setup(app: Sphinx) -> None:
    """Register the directive; Sphinx calls this."""
    app.add_directive('from-code', FromCode)
