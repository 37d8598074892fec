"""The installed package: names, types, libraries, and a build without CUDA."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import load_module, run_examples
from setuptools import Distribution
from torch.utils import cpp_extension

import torch_histo
from torch_histo import _library

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
ASKED = "TORCH_HISTO_CUDA"
LIBRARIES = _library.library_folder()


def run_python(code: str, cwd: Path) -> str:
    run = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_version() -> None:
    assert torch_histo.__version__ == importlib.metadata.version("torch_histo")


def test_typed() -> None:
    assert (Path(torch_histo.__file__).parent / "py.typed").exists()


def test_public_names_are_documented() -> None:
    for name in torch_histo.__all__:
        assert hasattr(torch_histo, name), name
    for function in (torch_histo.channel_histogram, torch_histo.text_histogram):
        text = inspect.getdoc(function) or ""
        for part in ("Args:", "Returns:", "Raises:", "Example:", "Source:"):
            assert part in text, (function, part)


MODULES = [
    module.name
    for module in pkgutil.walk_packages(torch_histo.__path__, "torch_histo.")
    if module.name.split(".")[1] not in ("__main__", "_C", "_cuda")
]


def imports(file: Path, package: str) -> set[str]:
    """What a module imports outside functions, or for type checkers alone: "module.name"."""
    found: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(file.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(name, package)
            found.update(f"{module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes += ast.iter_child_nodes(node)
    return found


def test_no_cycle_of_imports() -> None:
    folder = Path(torch_histo.__file__).parent
    found = {}
    for file in folder.rglob("*.py"):
        package = ".".join(file.parent.relative_to(folder.parent).parts)
        module = package if file.stem == "__init__" else f"{package}.{file.stem}"
        found[module] = imports(file, package)
    graph = {
        module: {name if name in found else name.rpartition(".")[0] for name in names} & set(found)
        for module, names in found.items()
    }
    assert graph.keys() >= set(MODULES)
    assert {"torch_histo._library", "torch_histo.explain"} <= graph["torch_histo"]
    assert "torch_histo.cli.messages" in graph["torch_histo.cli.sources.base"]
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    failed, _ = run_examples(importlib.import_module(name))
    assert failed == 0


def test_every_folder_is_installed() -> None:
    files = (ROOT / "torch_histo").rglob("__init__.py")
    settings = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^packages = (\[\n.*?\])", settings, re.MULTILINE | re.DOTALL)
    assert listed is not None
    folders = {".".join(file.parent.relative_to(ROOT).parts) for file in files}
    assert set(ast.literal_eval(listed[1])) == folders


def test_every_function_has_an_example() -> None:
    for name in torch_histo.__all__:
        function = getattr(torch_histo, name)
        if inspect.isfunction(function) and inspect.signature(function).parameters:
            assert ">>> " in (inspect.getdoc(function) or ""), name


def test_commits_are_checked_as_in_ci() -> None:
    """By the same commands, of the versions that pyproject.toml has."""
    steps = (ROOT / ".ci" / "run").read_text()
    entries = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    checks = re.findall(r"\.venv/bin/((?:clang-format|ruff|mypy) .*)", steps)
    assert sorted(entries) == sorted(checks)
    installed = set(re.findall(r"grep -o '([\w-]+)==", steps))
    assert installed == {entry.split()[0] for entry in entries}
    project = (ROOT / "pyproject.toml").read_text()
    for checker in installed:
        assert len(re.findall(rf'"{checker}==[0-9.]+"', project)) == 1


def test_the_mistake_of_the_guide_changes_one_place() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    (mistake,) = re.findall(r"^sed -i 's/(.+)/(.+)/' (.+)$", guide, re.MULTILINE)
    old, new, file = mistake
    assert old != new
    assert (ROOT / file).read_text().count(old) == 1


def test_workflows_call_what_stands_in_the_repository() -> None:
    """The wheel is built with the packages that its program names, and releases of one torch."""
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text()
    commands = re.findall(r"- run: (.*)", workflow)
    assert ".ci/run" in commands
    assert "python tools/wheel.py" in commands
    documented = (ROOT / "tools" / "wheel.py").read_text().replace("\\\\\n", " ")
    (needed,) = re.findall(r"^    pip install (torch.*)$", documented, re.MULTILINE)
    assert f"pip install {' '.join(needed.split())}" in commands
    assert re.search(r"torch==[\d.]+", needed)[0] in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_the_compiler_of_a_wheel(
    arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is GCC for that processor, and Zig for the same where it links."""
    wheel = load_module(ROOT / "tools" / "wheel.py")
    programs = []
    monkeypatch.setattr(wheel, "run", lambda *command: programs.append(command[0]) or "found\n")
    script = Path(wheel.compiler(tmp_path, arch))
    prefix = "" if arch == "x86_64" else "aarch64-linux-gnu-"
    assert set(programs) == {f"{prefix}gcc"}
    assert os.access(script, os.X_OK)
    assert f"-target {arch}-linux-gnu.2.28 " in script.read_text()
    assert f'exec {prefix}g++ "$@"' in script.read_text()


def test_metadata_names_the_pythons_that_are_tried() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert tuple(named) == load_module(ROOT / "tools" / "support.py").PYTHONS
    (oldest,) = re.findall(r'requires-python = ">=(.*)"', project)
    assert oldest == named[0]


def test_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {torch_histo.__version__}\n" in citation
    assert f"## {torch_histo.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.name)
def test_modules_of_tests_need_no_optional_package(path: Path) -> None:
    """A test that needs one imports it by pytest.importorskip, so that the others run without."""
    needed = {"numpy", "torch", "PIL", "tqdm", "typing_extensions", "torch_histo"}
    needed |= {"pytest", "hypothesis", "setuptools", *sys.stdlib_module_names}
    folders = ("tests", "tools", "benchmarks", "docs/tour")
    own = {path.stem for folder in folders for path in (ROOT / folder).iterdir()}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        if node.col_offset == 0:
            assert {name.partition(".")[0] for name in names} <= needed | own


def test_schemas() -> None:
    assert str(torch.ops.histo.channel_histogram.default._schema) == (
        "histo::channel_histogram(Tensor input, SymInt num_bins=256, int[1] dim=[0], *, "
        'str variant="auto") -> Tensor'
    )
    assert str(torch.ops.histo.text_histogram.default._schema) == (
        'histo::text_histogram(Tensor text, *, str variant="auto") -> Tensor'
    )


def test_libraries_use_no_python() -> None:
    """So the wheel serves every Python 3, free-threaded ones too."""
    libraries = list(LIBRARIES.glob("_*.so"))
    assert LIBRARIES / _library.CORE in libraries
    for library in libraries:
        for kind in ("--undefined-only", "--defined-only"):
            shown = subprocess.check_output(["nm", "--dynamic", kind, library], text=True)
            names = [line.split()[-1] for line in shown.splitlines()]
            assert len(names) > 10 or kind == "--defined-only"
            assert not [name for name in names if re.match("_?Py", name)], library
        content = library.read_bytes()
        assert b"PyObject" not in content, library
        assert b"PyInit" not in content, library
        assert b"libpython" not in content, library


def test_libraries_ask_for_what_the_wheel_may() -> None:
    """No C++ runtime newer than that of the wheel's platform, and none of CUDA's libraries."""
    newest = load_module(ROOT / "tools" / "wheel.py").GLIBCXX
    for library in LIBRARIES.glob("_*.so"):
        shown = subprocess.check_output(["objdump", "-p", library], text=True)
        assert not re.search(r"NEEDED +libcud", shown), library
        versions = map(int, re.findall(r"GLIBCXX_3\.4\.(\d+)", shown))
        assert max(versions) <= newest or "libasan" in shown, library


def test_libraries_load_without_python_bindings(tmp_path: Path) -> None:
    """The operators are there for a C++ program, which loads just the library."""
    code = f"""
import torch
torch.ops.load_library({str(LIBRARIES / _library.CORE)!r})
print(torch.ops.histo.channel_histogram(torch.tensor([1, 1, 0]), 2).tolist())
"""
    assert run_python(code, tmp_path) == "[1, 2]\n"


def without_cuda(folder: Path) -> Path:
    """The package as TORCH_HISTO_CUDA=0 builds it."""
    sources = Path(torch_histo.__file__).parent
    shutil.copytree(sources, folder / "torch_histo", ignore=shutil.ignore_patterns("_cuda*"))
    if sources != LIBRARIES:
        shutil.copy(LIBRARIES / _library.CORE, folder / "torch_histo")
    return folder


def test_without_cuda_kernels(tmp_path: Path) -> None:
    code = """
import torch, torch_histo
print(torch_histo.__file__)
print(torch_histo.has_cuda_kernels())
print(torch_histo.channel_histogram(torch.tensor([2, 2, 0]), 3).tolist())
if torch.cuda.is_available():
    for call in (
        lambda x: torch_histo.channel_histogram(x),
        lambda x: torch_histo.text_histogram(x),
    ):
        try:
            call(torch.zeros(3, dtype=torch.uint8, device="cuda"))
        except RuntimeError as error:
            print(error)
"""
    lines = run_python(code, without_cuda(tmp_path)).splitlines()
    assert Path(lines[0]).is_relative_to(tmp_path)
    assert lines[1:3] == ["False", "[1, 0, 2]"]
    if torch.cuda.is_available():
        assert len(lines) == 5
        for line, name in zip(lines[3:], ("channel_histogram", "text_histogram"), strict=True):
            assert line.startswith(f"{name}: ")
            assert "TORCH_HISTO_CUDA=1" in line


def test_not_built(tmp_path: Path) -> None:
    """A folder of sources alone says how to build it."""
    sources = Path(torch_histo.__file__).parent
    shutil.copytree(sources, tmp_path / "torch_histo", ignore=shutil.ignore_patterns("*.so"))
    code = """
import importlib.metadata
def missing(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.distribution = missing
try:
    import torch_histo
except ImportError as error:
    print(error)
"""
    assert "pip install" in run_python(code, tmp_path)


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A folder that looks like a CUDA Toolkit with two kinds of GPU."""
    for name in ("include/cuda_runtime.h", "bin/nvcc"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("#!/bin/sh\necho compute_90\necho compute_75\n")
    (tmp_path / "bin/nvcc").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("has_toolkit", [True, False])
@pytest.mark.parametrize("torch_cuda", ["13.0", None])
@pytest.mark.parametrize("asked", [None, "0", "1", "2"])
def test_when_cuda_kernels_are_built(
    toolkit: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    has_toolkit: bool,
    torch_cuda: str | None,
    asked: str | None,
) -> None:
    if asked == "2":
        problem = "TORCH_HISTO_CUDA must be 0 or 1, got '2'"
    elif asked == "1" and not has_toolkit:
        problem = "TORCH_HISTO_CUDA is 1, but no CUDA Toolkit: put nvcc on PATH or set CUDA_HOME"
    else:
        problem = ""
    if asked == "0":
        reason = "left out: TORCH_HISTO_CUDA is 0"
    elif asked is None and torch_cuda is None:
        reason = "left out: this torch is a CPU build (TORCH_HISTO_CUDA=1 builds them)"
    elif not has_toolkit:
        reason = "left out: no CUDA Toolkit: put nvcc on PATH or set CUDA_HOME"
    else:
        reason = f"built with {toolkit}"

    settings: dict[str, Any] = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", settings.update)
    monkeypatch.setattr(torch.version, "cuda", torch_cuda)
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", None)
    monkeypatch.setattr(cpp_extension.BuildExtension, "run", lambda self: None)
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    if not has_toolkit:
        monkeypatch.setattr(Path, "exists", lambda self: False)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TORCH_")}
    monkeypatch.setattr(os, "environ", environment | ({} if asked is None else {ASKED: asked}))
    if problem:
        with pytest.raises(SystemExit, match=f"^{re.escape(problem)}$"):
            runpy.run_path("setup.py")
        return
    runpy.run_path("setup.py")
    built = reason.startswith("built")
    names = ["torch_histo._C"] + built * ["torch_histo._cuda"]
    assert [extension.name for extension in settings["ext_modules"]] == names
    assert os.environ.get("TORCH_CUDA_ARCH_LIST") == ("7.5;9.0+PTX" if built else None)
    build = settings["cmdclass"]["build_ext"]
    build.run(object.__new__(build))
    assert capsys.readouterr().out == f"torch_histo: the CUDA kernels are {reason}\n"


def test_a_wheel_for_every_python(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(ASKED, "0")
    monkeypatch.setattr("setuptools.setup", settings.update)
    runpy.run_path("setup.py")
    distribution = Distribution({"name": "torch_histo", "ext_modules": settings["ext_modules"]})
    wheel = settings["cmdclass"]["bdist_wheel"](distribution)
    wheel.finalize_options()
    python, abi, platform = wheel.get_tag()
    assert (python, abi) == ("py3", "none")
    assert platform.startswith("linux_")
    build = settings["cmdclass"]["build_ext"](distribution)
    build.finalize_options()
    files = [build.get_ext_filename(f"torch_histo.{name}") for name in ("_C", "_cuda")]
    assert files == [f"torch_histo/{name}" for name in (_library.CORE, _library.CUDA)]


def test_a_toolkit_of_another_major_version(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (toolkit / "bin/nvcc").write_text("#!/bin/sh\necho Cuda compilation tools, release 12.8, V12\n")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    monkeypatch.delenv(ASKED, raising=False)
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    problem = (
        f"{toolkit} is CUDA Toolkit 12.8, but torch was built for CUDA 13.0: set CUDA_HOME to a "
        "CUDA Toolkit 13, or TORCH_HISTO_CUDA=0 to leave the CUDA kernels out"
    )
    with pytest.raises(SystemExit, match=f"^{re.escape(problem)}$"):
        runpy.run_path("setup.py")
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    runpy.run_path("setup.py")


def test_a_cuda_header_recompiles_with_a_cpu_build_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a CUDA build of torch has nvcc record which headers it read."""
    shutil.copy(ROOT / "setup.py", tmp_path)
    header = tmp_path / "csrc" / "cuda" / "loads.cuh"
    header.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ASKED, "0")
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    flags: dict[str | None, list[str]] = {}
    for cuda in ("13.0", None):
        monkeypatch.setattr(torch.version, "cuda", cuda)
        flags[cuda] = []
        for content in ("old", "new", "old"):
            header.write_text(content)
            flags[cuda].append(" ".join(runpy.run_path("setup.py")["NVCC_FLAGS"]))
    assert len(set(flags["13.0"])) == 1
    old, new, old_again = flags[None]
    assert old == old_again != new
