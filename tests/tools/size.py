# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Count the tokens of what is shipped, per package, and compare two commits.

``python -m tests.tools.size [COMMIT [COMMIT]]``: of the working tree; of a commit; of one against another.

Counted are the tokens of ``tokenize`` without comments, docstrings, line ends and indentation, of all Python files that are
installed but those of the emulator, the demo and the recorder, which are for tests and for people who look at the product.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIPPED = ('baremetal_acc/', 'interfaces/')
LEFT_OUT = ('baremetal_acc/emulator/', 'baremetal_acc/demo/', 'baremetal_acc/recorder/')
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def tokens(source: str) -> int:
    """Tokens of a module without comments, docstrings and layout.

    :raises SyntaxError: it is no Python.
    """
    documented = set(_docstrings(ast.parse(source)))
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(t.type not in _LAYOUT and not (t.type == tokenize.STRING and t.start in documented) for t in found)


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Where strings begin that stand alone as statements: docstrings, and what is said of a constant below it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.lineno, node.value.col_offset


def of_tree(root: Path = ROOT) -> Counter[str]:
    """Tokens by package of a working tree; packages as paths."""
    files = (path for room in SHIPPED for path in (root / room).rglob('*.py'))
    names = [str(path.relative_to(root)) for path in files]
    return _counted({name: (root / name).read_text(encoding='utf-8') for name in _python(names)})


def of_commit(commit: str, root: Path = ROOT) -> Counter[str]:
    """Tokens by package of a commit."""
    names = _git(root, 'ls-tree', '-r', '--name-only', commit, '--', *SHIPPED).splitlines()
    return _counted({name: _git(root, 'show', f'{commit}:{name}') for name in _python(names)})


def _python(names: list[str]) -> list[str]:
    return [n for n in names if n.endswith('.py') and not n.startswith(LEFT_OUT)]


def _counted(files: dict[str, str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, source in files.items():
        found[str(Path(name).parent)] += tokens(source)
    return found


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(['git', *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def _say(line: str) -> None:
    sys.stdout.write(f'{line}\n')


def main(arguments: list[str]) -> int:
    """Print a table; always 0."""
    if len(arguments) > 2:
        sys.stderr.write('usage: python -m tests.tools.size [COMMIT [COMMIT]]\n')
        return 2
    before = of_commit(arguments[0]) if arguments else Counter()
    after = of_commit(arguments[1]) if len(arguments) == 2 else of_tree()
    if not arguments:
        before = after
    _say(f'{"package":44}{"before":>10}{"after":>10}{"change":>10}')
    for name in sorted(before | after):
        _say(f'{name:44}{before[name]:10}{after[name]:10}{after[name] - before[name]:+10}')
    total, now = before.total(), after.total()
    _say(f'{"all":44}{total:10}{now:10}{now - total:+10} ({100 * (now - total) / total:+.1f} %)')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
