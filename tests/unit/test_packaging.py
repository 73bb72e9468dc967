# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The wheel contains all packages and files, and every entry point can be loaded.

setuptools takes what setup.cfg lists and says nothing about the rest; an entry point is a text until someone loads it.
"""

import ast
import configparser
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TREE = Path(__file__).parents[2]
SBOM = Path('requirements', 'baremetal-acc.cdx.json')
IMPORT_PACKAGES = {'baremetal_acc': TREE, 'baremetal_acc_ironic': TREE / 'interfaces'}


def setup_cfg() -> configparser.ConfigParser:
    """setup.cfg as it lies in the tree."""
    config = configparser.ConfigParser(delimiters=('=',))
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read(TREE / 'setup.cfg')
    return config


def lines(text: str) -> list[str]:
    """The entries of a value of several lines."""
    return [line.strip() for line in text.splitlines() if line.strip()]


ENTRY_POINTS = [
    (group, *(part.strip() for part in line.split('=', 1)))
    for group, value in setup_cfg()['options.entry_points'].items()
    for line in lines(value)
]


def packages_on_disk() -> set[str]:
    """Every folder of ours that holds Python files, by its import name."""
    return {
        '.'.join(path.parent.relative_to(base).parts)
        for name, base in IMPORT_PACKAGES.items()
        for path in (base / name).rglob('*.py')
    }


def files_on_disk() -> set[str]:
    """Every file of our packages, by its path in the wheel."""
    return {
        path.relative_to(base).as_posix()
        for name, base in IMPORT_PACKAGES.items()
        for path in (base / name).rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
    }


@pytest.fixture(scope='module')
def copied_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build needs of the tree: a build leaves its traces beside setup.cfg, so it runs on a copy."""
    copy = tmp_path_factory.mktemp('build') / 'tree'
    copy.mkdir()
    for name in ('baremetal_acc', 'build_backend', 'interfaces', 'etc'):
        if (TREE / name).is_dir():
            shutil.copytree(TREE / name, copy / name, ignore=shutil.ignore_patterns('__pycache__'))
    (copy / SBOM.parent).mkdir()
    for name in ('setup.cfg', 'pyproject.toml', 'MANIFEST.in', 'README.rst', 'LICENSE', SBOM):
        shutil.copy(TREE / name, copy / name)
    return copy


@pytest.fixture(scope='module')
def wheel(copied_tree: Path) -> zipfile.ZipFile:
    """The wheel that pip builds of the tree."""
    command = [sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps', '--no-index', '--no-build-isolation', '.']
    subprocess.run([*command, '--wheel-dir', 'dist'], cwd=copied_tree, check=True, timeout=300)
    (built,) = (copied_tree / 'dist').glob('*.whl')
    return zipfile.ZipFile(built)


@pytest.fixture(scope='module')
def sdist(copied_tree: Path) -> tarfile.TarFile:
    """The source archive that the build backend makes of the tree."""
    code = "import sys; sys.path.insert(0, 'build_backend'); import with_sbom; with_sbom.build_sdist('dist')"
    subprocess.run([sys.executable, '-W', 'ignore', '-c', code], cwd=copied_tree, check=True, capture_output=True, timeout=300)
    (built,) = (copied_tree / 'dist').glob('*.tar.gz')
    return tarfile.open(built)


def test_the_package_list_is_what_lies_on_the_disk() -> None:
    """A package that is not listed is silently left out of the wheel."""
    listed = lines(setup_cfg()['options']['packages'])
    assert sorted(set(listed)) == listed
    assert packages_on_disk() == set(listed)


def test_every_package_has_its_init() -> None:
    """A folder without one is a namespace package, into which anyone may put modules."""
    folders = {base / Path(*name.split('.')) for name in packages_on_disk() for base in (IMPORT_PACKAGES[name.split('.')[0]],)}
    assert [] == [str(folder) for folder in sorted(folders) if not (folder / '__init__.py').exists()]
    assert not (TREE / 'interfaces' / '__init__.py').exists()


def test_the_wheel_holds_every_file(wheel: zipfile.ZipFile) -> None:
    """Modules, data files and py.typed of both import packages; nothing else but the metadata and the samples of etc/."""
    packed = {name for name in wheel.namelist() if '.dist-info/' not in name and '.data/' not in name}
    assert files_on_disk() == packed
    assert {'baremetal_acc/py.typed', 'baremetal_acc_ironic/py.typed'} < packed


def test_the_source_archive_holds_every_file(sdist: tarfile.TarFile) -> None:
    """A wheel can be built from it that is the same as the one built from the tree."""
    packed = {name.split('/', 1)[1] for name in sdist.getnames() if '/' in name}
    in_tree = {f'interfaces/{name}' if name.startswith('baremetal_acc_ironic/') else name for name in files_on_disk()}
    assert set() == (in_tree | {'setup.cfg', 'pyproject.toml', 'README.rst', 'LICENSE'}) - packed


def test_the_wheel_and_the_source_archive_carry_the_sbom(wheel: zipfile.ZipFile, sdist: tarfile.TarFile) -> None:
    """The wheel where PEP 770 wants it; the source archive with what builds that wheel. test_sbom.py reads what it says."""
    expected = (TREE / SBOM).read_bytes()
    (inside,) = (name for name in wheel.namelist() if '.dist-info/sboms/' in name)
    assert expected == wheel.read(inside)
    (record,) = (name for name in wheel.namelist() if name.endswith('.dist-info/RECORD'))
    assert f'{inside},sha256=' in wheel.read(record).decode()
    packed = {name.split('/', 1)[1]: name for name in sdist.getnames() if '/' in name}
    archived = sdist.extractfile(packed[SBOM.as_posix()])
    assert archived is not None
    assert expected == archived.read()
    assert 'build_backend/with_sbom.py' in packed


def test_the_wheel_carries_the_licence(wheel: zipfile.ZipFile) -> None:
    """Whoever gets the wheel gets the text of the licence, and an index can tell which it is."""
    assert any(name.endswith('.dist-info/licenses/LICENSE') for name in wheel.namelist())
    (metadata,) = (name for name in wheel.namelist() if name.endswith('.dist-info/METADATA'))
    assert 'Apache-2.0' in wheel.read(metadata).decode().split('\n\n')[0]


def lock_mechanisms() -> Iterator[tuple[str, str]]:
    """The name of each class of ``locks/`` that says what it is about, and where it is."""
    for path in sorted((TREE / 'baremetal_acc' / 'locks').rglob('*.py')):
        module = '.'.join(path.relative_to(TREE).with_suffix('').parts)
        for node in ast.parse(path.read_text()).body:
            said = {
                target.id: one.value
                for one in (node.body if isinstance(node, ast.ClassDef) else ())
                if isinstance(one, ast.Assign)
                for target in one.targets
                if isinstance(target, ast.Name)
            }
            if isinstance(node, ast.ClassDef) and 'about' in said:
                yield ast.literal_eval(said['name']), f'{module}:{node.name}'


def test_every_lock_mechanism_is_an_entry_point() -> None:
    """One that is not is never asked, and what it would close counts as open."""
    known = {f'{name} = {value}' for group, name, value in ENTRY_POINTS if group == 'baremetal_acc.locks'}
    there = {f'{name} = {value}' for name, value in lock_mechanisms()}
    assert 10 < len(there)
    assert [] == [
        f'nobody finds a mechanism: add to baremetal_acc.locks in setup.cfg: {line}' for line in sorted(there - known)
    ]


def test_what_is_installed_is_what_setup_cfg_says() -> None:
    """An editable install keeps the entry points of the day it was made: if this fails, run make test again."""
    installed = {(e.group, e.name, e.value) for e in importlib.metadata.distribution('baremetal-acc').entry_points}
    assert set(ENTRY_POINTS) == installed


LOAD = """
import importlib.metadata, json
found = {}
for point in importlib.metadata.distribution('baremetal-acc').entry_points:
    try:
        found[f'{point.group}:{point.name}'] = 'callable' if callable(point.load()) else 'loaded'
    except Exception as exc:
        found[f'{point.group}:{point.name}'] = f'{type(exc).__name__}: {exc}'
print(json.dumps(found))
"""


@pytest.fixture(scope='module')
def loaded() -> dict[str, str]:
    """What came of loading each entry point, in a process of its own: Ironic can be set up once in a process."""
    run = subprocess.run([sys.executable, '-W', 'ignore', '-c', LOAD], capture_output=True, text=True, timeout=300, check=True)
    return dict(json.loads(run.stdout))


@pytest.mark.parametrize(('group', 'name', 'value'), ENTRY_POINTS)
def test_an_entry_point_leads_to_something_callable(group: str, name: str, value: str, loaded: dict[str, str]) -> None:
    """Its module can be imported and has the attribute; a plugin of pytest is the module itself."""
    expected = 'loaded' if group == 'pytest11' else 'callable'
    assert expected == loaded[f'{group}:{name}'], value


def closure(requirements: list[str]) -> set[str]:
    """Names of the distributions that the requirements bring, those of their own requirements included."""
    found: set[str] = set()
    todo = [(Requirement(text), frozenset(Requirement(text).extras)) for text in requirements]
    seen = set()
    while todo:
        requirement, extras = todo.pop()
        name = canonicalize_name(requirement.name)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.add(name)
        for text in importlib.metadata.requires(name) or []:
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({'extra': extra}) for extra in extras or {''}):
                todo.append((inner, frozenset(inner.extras)))
    return found


def requirements_of(section: str) -> list[str]:
    """``core`` or one of the extras, as setup.cfg has them."""
    config = setup_cfg()
    return lines(config['options']['install_requires'] if section == 'core' else config['options.extras_require'][section])


CORE_ONLY = """
import importlib.abc, os, sys
allowed = set(sys.argv.pop(1).split(','))
class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] not in allowed:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, NotInstalled())
try:
    import ironic
except ModuleNotFoundError:
    from baremetal_acc.cli import application  # imported once, for all verbs
    from baremetal_acc.cli.main import main
    for words in ('', *sys.argv[1:]):  # each in a process of its own, which need not start Python again
        if os.fork() == 0:
            sys.exit(main([*words.split(), '--help']))
        print('===', os.waitstatus_to_exitcode(os.wait()[1]), words, flush=True)
    sys.exit()
sys.exit('ironic can be imported: this test proves nothing')
"""


def help_with_the_core_only(verbs: list[str]) -> dict[str, tuple[int, str]]:
    """Exit code and output of ``--help``, and of that of each verb, where the core's dependencies are seen and nothing else."""
    core = closure(requirements_of('core')) | {'baremetal-acc'}
    allowed = set(sys.stdlib_module_names) | {'baremetal_acc'}
    for module, distributions in importlib.metadata.packages_distributions().items():
        if core & {canonicalize_name(distribution) for distribution in distributions}:
            allowed.add(module)
    seen = ','.join(allowed - {'baremetal_acc_ironic'})
    command = [sys.executable, '-W', 'ignore', '-c', CORE_ONLY, seen, *verbs]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert 0 == run.returncode, run.stderr
    found = re.findall(r'(.*?)^=== (-?\d+) (.*?)$', run.stdout, re.MULTILINE | re.DOTALL)
    return {words: (int(code), printed) for printed, code, words in found}


def test_every_verb_explains_itself_with_the_core_alone() -> None:
    """pip install baremetal-acc, without any extra, gives a command that lists its verbs.

    Also a verb that needs an extra says so when it is run, not when it is asked for help.
    """
    verbs = [name for group, name, _ in ENTRY_POINTS if group == 'baremetal_acc.cli']
    helps = help_with_the_core_only(verbs)
    assert ['', *verbs] == list(helps)
    assert {} == {words: found for words, found in helps.items() if found[0] != 0 or 'usage' not in found[1].lower()}
    assert [] == [verb for verb in verbs if not re.search(rf'^  {verb} ', helps[''][1], re.MULTILINE)]


def imports_of(names: set[str]) -> Iterator[str]:
    """Third-party packages that the modules of these rooms import anywhere."""
    for name in names:
        path = TREE / 'interfaces' / name if name == 'baremetal_acc_ironic' else TREE / 'baremetal_acc' / name
        for file in path.rglob('*.py') if path.is_dir() else [path.with_suffix('.py')]:
            for node in ast.walk(ast.parse(file.read_text())):
                match node:
                    case ast.Import():
                        yield from (alias.name.split('.')[0] for alias in node.names)
                    case ast.ImportFrom(module=str(module), level=0):
                        yield module.split('.')[0]


ROOMS = {path.stem for path in (TREE / 'baremetal_acc').iterdir() if path.suffix == '.py' or (path / '__init__.py').exists()}


@pytest.mark.parametrize(
    ('section', 'rooms'),
    [
        ('core+reference', ROOMS - {'demo', 'emulator', 'pools'}),
        ('fleet+demand', {'pools'}),
        ('emulator', {'emulator'}),
        ('ironic', {'baremetal_acc_ironic'}),
        ('demo', {'demo'}),
    ],
)
def test_what_is_imported_is_required_and_what_is_required_is_imported(section: str, rooms: set[str]) -> None:
    """A library that comes only by way of another one vanishes on its day; one that nobody imports is a burden."""
    providers = importlib.metadata.packages_distributions()
    third_party = set(imports_of(rooms)) - set(sys.stdlib_module_names) - set(IMPORT_PACKAGES)
    imported = {canonicalize_name(distribution) for module in third_party for distribution in providers[module]}
    extras = [text for extra in section.split('+') for text in requirements_of(extra)]
    declared = {canonicalize_name(Requirement(text).name) for text in extras} - {'baremetal-acc'}
    core = {canonicalize_name(Requirement(text).name) for text in requirements_of('core')}
    programs = {'waitress', 'python-ironicclient'}  # started, by us or by the reader of a page
    hosts = {'pytest'}  # it imports our plugin, never we it
    assert (set(), set()) == (imported - declared - core - hosts, declared - imported - programs)


def test_everything_that_is_installed_for_tests_is_pinned() -> None:
    """constraints.txt names each distribution that make test brings, with one version, and the installed one is that one."""
    pinned: dict[str, str] = {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix('==')
        for requirement in map(
            Requirement, (line for line in lines((TREE / 'constraints.txt').read_text()) if not line.startswith('#'))
        )
    }
    wanted = closure(['baremetal-acc[test,docs]', 'setuptools', 'wheel']) - {'baremetal-acc'}
    assert set() == wanted - set(pinned)
    installed = {name: importlib.metadata.version(name) for name in wanted}
    assert {name: pinned[name] for name in wanted} == installed


@pytest.mark.parametrize(
    ('module', 'program', 'code'),
    [
        ('status_command', 'baremetal-acc-status', 255),
        ('ironic_conf_command', 'baremetal-acc-ironic-conf', 2),
    ],
)
def test_a_command_of_ironic_says_what_is_missing_where_ironic_is_not_installed(module, program, code):
    """One line, no traceback."""
    hidden = f"import sys; sys.modules['ironic'] = None; from baremetal_acc_ironic.{module} import main; sys.exit(main())"
    environ = {'PYTHONPATH': f'{TREE}:{TREE / "interfaces"}'}
    done = subprocess.run([sys.executable, '-c', hidden], capture_output=True, text=True, env=environ, check=False)
    assert code == done.returncode
    assert done.stderr.startswith(f'{program}: ')
    assert 'Python module ironic is not installed' in done.stderr
    assert 'pip install baremetal-acc[ironic]' in done.stderr
    assert 1 == len(done.stderr.splitlines())
