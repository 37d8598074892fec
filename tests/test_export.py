"""torch.export and AOTInductor: saved, and run in a new process, from Python and from C++."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from aot import results_of_package, run_python
from conftest import DEVICES, load_module
from oracle import assert_counts, expected_counts, expected_letters, random_values
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.export.passes import move_to_device_pass

from torch_histo import _library, channel_histogram, text_histogram

EXAMPLE = Path(__file__).parents[1] / "examples" / "cpp"
NAMES = ("histo.channel_histogram.default", "histo.text_histogram.default")


class Model(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def exported(
    function: Callable[[Tensor], Tensor], sample: Tensor, *, strict: bool = False
) -> ExportedProgram:
    every_dim = dict.fromkeys(range(sample.dim()), Dim.DYNAMIC)
    return torch.export.export(
        Model(function), (sample,), dynamic_shapes={"x": every_dim}, strict=strict
    )


def calls(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("dtype", "shapes", "num_bins", "dim"),
    [
        (torch.uint8, [(20, 5), (300, 70), (2, 1000)], 256, 0),
        (torch.int64, [(20,), (5000,), (3,)], 300, 0),
        (torch.uint8, [(2, 3, 8, 9), (5, 4, 30, 2)], 256, (2, 3)),
        (torch.int16, [(2, 8, 9, 3), (4, 5, 6, 7)], 7, (0, -2)),
    ],
)
def test_export_with_dynamic_shapes(
    device: torch.device,
    strict: bool,
    dtype: torch.dtype,
    shapes: list[tuple[int, ...]],
    num_bins: int,
    dim: int | tuple[int, ...],
) -> None:
    def count(x: Tensor) -> Tensor:
        return channel_histogram(x, num_bins, dim)

    program = exported(count, random_values(shapes[0], dtype).to(device), strict=strict)
    for form in (program, program.run_decompositions()):
        assert calls(form) == [NAMES[0]], "the operator once, and nothing beside it"
        for shape in shapes:
            values = random_values(shape, dtype)
            expected = expected_counts(values, num_bins, dim)
            assert_counts(form.module()(values.to(device)), expected, shape)


def count_bins_of_the_input(x: Tensor) -> tuple[Tensor, Tensor]:
    """As many bins as columns, and as the largest value asks for."""
    return channel_histogram(x, x.shape[1]), channel_histogram(x, x.max().item() + 1)


def assert_bins_of_the_input(values: Tensor, results: tuple[Tensor, Tensor]) -> None:
    by_columns, by_values = results
    assert_counts(by_columns, expected_counts(values, values.shape[1]))
    assert_counts(by_values, expected_counts(values, int(values.max()) + 1))


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_dynamic_num_bins(device: torch.device, strict: bool) -> None:
    sample = random_values((20, 5), torch.int32, low=0).clamp(-1, 9).to(device)
    program = exported(count_bins_of_the_input, sample, strict=strict)
    assert calls(program).count(NAMES[0]) == 2
    form = program.run_decompositions().module()
    for seed, shape in enumerate([(30, 7), (2, 300)]):
        values = random_values(shape, torch.int32, seed).clamp(-1, 9 + 70 * seed)
        assert_bins_of_the_input(values, form(values.to(device)))


def test_export_of_text_and_vmap(device: torch.device) -> None:
    text = torch.tensor(list(b"letters to export"), dtype=torch.uint8, device=device)
    program = exported(text_histogram, text)
    assert calls(program) == [NAMES[1]]
    longer = torch.cat([text, text, text[:5]])
    assert_counts(program.module()(longer), expected_letters(bytes(longer.tolist())))

    values = random_values((3, 40, 4), torch.uint8)
    program = exported(torch.vmap(channel_histogram, in_dims=1), values.to(device))
    assert [name for name in calls(program) if name in NAMES] == [NAMES[0]]
    values = random_values((7, 33, 2), torch.uint8)
    assert_counts(program.module()(values.to(device)), expected_counts(values))


def test_saved_and_run_elsewhere(device: torch.device, tmp_path: Path) -> None:
    values = random_values((500, 66), torch.uint8)
    program = exported(channel_histogram, random_values((20, 5), torch.uint8).to(device))
    torch.export.save(program, tmp_path / "program.pt2")
    torch.save(values.to(device), tmp_path / "input.pt")
    run_python(
        """
program = torch.export.load(sys.argv[1] + "/program.pt2")
values = torch.load(sys.argv[1] + "/input.pt")
torch.save(program.module()(values), sys.argv[1] + "/counts.pt")
""",
        tmp_path,
    )
    counts = torch.load(tmp_path / "counts.pt")
    assert counts.device.type == device.type
    assert_counts(counts, expected_counts(values))


def test_exported_on_the_cpu_and_moved(device: torch.device) -> None:
    program = exported(channel_histogram, random_values((20, 5), torch.uint8))
    values = random_values((500, 66), torch.uint8)
    moved = move_to_device_pass(program, str(device))
    assert_counts(moved.module()(values.to(device)), expected_counts(values))


@pytest.fixture(scope="module", params=DEVICES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def example() -> Any:
    return load_module(EXAMPLE / "export.py")


@pytest.fixture(scope="module")
def package(kind: str, example: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The AOTInductor package of the example: compiling takes seconds, so once for all tests."""
    path = tmp_path_factory.mktemp(kind) / "calibration.pt2"
    torch._inductor.aoti_compile_and_package(example.export(kind), package_path=str(path))
    return path


def test_package_calls_the_operator_once_and_copies_nothing(package: Path, example: Any) -> None:
    with zipfile.ZipFile(package) as archive:
        names = archive.namelist()
        (source,) = [archive.read(n).decode() for n in names if n.endswith("wrapper.cpp")]
        (called,) = [json.loads(archive.read(n)) for n in names if n.endswith("wrapper.json")]
    assert [node["node"]["target"] for node in called["nodes"]] == ["histo::channel_histogram"]
    body = source[source.index("void AOTInductorModel::run_impl(") :]
    call = "aoti_torch_proxy_executor_call_function("
    assert body.count(call) == 1
    before, after = body.split(call)
    # The operator reads the model's own input; nothing ran before it that could be a copy.
    arguments = after[: after.index("\n")]
    assert "arg0_1" in arguments
    # For a GPU, PyTorch itself copies an input that is less aligned than the sample was.
    before = re.sub(r"if \(\(reinterpret_cast<std::uintptr_t>.*?\n    \}\n", "", before, flags=re.S)
    for copying in ("empty_strided", "clone", "copy_", "call_", "cpp_fused", "triton"):
        assert copying not in before, copying
    assert [name for name in calls(example.export("cpu")) if "histo" in name] == [NAMES[0]]


def test_package_in_a_new_process(package: Path, kind: str, tmp_path: Path) -> None:
    inputs = [random_values(shape, torch.uint8) for shape in ((500, 66), (2, 3), (40000, 1))]
    inputs.append(random_values((66, 500), torch.uint8).t())  # another layout than the sample's
    results = results_of_package(package, [(values.to(kind),) for values in inputs], tmp_path)
    for values, (counts, highest) in zip(inputs, results, strict=True):
        expected = expected_counts(values)
        assert_counts(counts, expected, values.shape)
        share = torch.tensor(0.99 * len(values))
        assert torch.equal(highest.cpu(), (expected.cumsum(-1) < share).sum(-1))


@pytest.mark.long
def test_package_with_dynamic_num_bins(kind: str, tmp_path: Path) -> None:
    sample = random_values((20, 5), torch.int32).clamp(-1, 9).to(kind)
    path = tmp_path / "bins.pt2"
    torch._inductor.aoti_compile_and_package(
        exported(count_bins_of_the_input, sample), package_path=str(path)
    )
    inputs = [random_values(s, torch.int32).clamp(-1, s[1]) for s in ((500, 66), (2, 3), (9, 300))]
    results = results_of_package(path, [(values.to(kind),) for values in inputs], tmp_path)
    for values, result in zip(inputs, results, strict=True):
        assert_bins_of_the_input(values, result)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ example, built as its documentation says."""
    assert shutil.which("cmake"), "pip install cmake ninja"
    build = tmp_path_factory.mktemp("cpp")
    configure = ["cmake", "-S", EXAMPLE, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    configure.append(f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}")
    for command in (configure, ["cmake", "--build", build]):
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
    return build / "count"


def test_cpp_program(program: Path, package: Path, kind: str) -> None:
    command = [program, _library.library_folder(), package, kind]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "dispatcher: [512, 256] counts, all right",
        "package: [512, 256] counts, all right",
        "dispatcher: [3, 256] counts, all right",
        "package: [3, 256] counts, all right",
    ]


def test_cpp_program_without_the_library(program: Path, tmp_path: Path) -> None:
    run = subprocess.run([program, tmp_path, "x.pt2"], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.startswith("count: ")
    assert "_C.so" in run.stderr
