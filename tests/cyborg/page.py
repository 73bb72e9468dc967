# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The rule that doc/source/howto/flavors.rst gives for cards that Cyborg reports, as it stands there."""

import textwrap
import tomllib

from tests.pages import path_of


def _rule() -> str:
    text = path_of('flavors').read_text(encoding='utf-8').partition('.. _beside-cyborg:')[2].partition('\n.. _')[0]
    return textwrap.dedent(text[text.index('    [[rule]]') :].partition('\n\n')[0])


RULE = _rule()

RESOURCE_CLASS: str = tomllib.loads(RULE)['rule'][0]['match']['resource_class']
"""Of the nodes that the rule is for."""
