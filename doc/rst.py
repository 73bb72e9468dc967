# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write reST."""

from collections.abc import Iterable, Iterator, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int] = ()) -> Iterator[str]:
    """A table in reST.

    :param widths: of its columns, in proportion; none: as wide as what stands in them asks for.
    """
    yield from ('.. list-table::', '   :header-rows: 1')
    if widths:
        yield f'   :widths: {" ".join(map(str, widths))}'
    yield ''
    for row in (header, *rows):
        for n, cell in enumerate(row):
            yield f'   {"*" if n == 0 else " "} - {cell}'.rstrip()
    yield ''


def plain(text: str) -> str:
    """Text in which no character means anything to reST."""
    return ''.join('\\' + c if c in '*`_|\\' else c for c in text)
