"""The example that counts a data set by files: killed at any point, it counts no file twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from conftest import ENVIRONMENT, load_module
from oracle import assert_counts, expected_counts, random_values

EXAMPLE = Path(__file__).parents[1] / "examples" / "count_dataset.py"
ONE_THREAD = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
FILES = 9
TIMEOUT = 120


@pytest.fixture
def example() -> ModuleType:
    return load_module(EXAMPLE)


@pytest.fixture
def data(tmp_path: Path) -> tuple[Path, torch.Tensor]:
    """A folder of files of different lengths and dtypes, and what they hold together."""
    folder = tmp_path / "data"
    folder.mkdir()
    dtypes = (torch.uint8, torch.int16, torch.int64)
    parts = [random_values((40 + i, 2, 5), dtypes[i % 3], seed=i) for i in range(FILES)]
    for i, part in enumerate(parts):
        np.save(folder / f"{i}.npy", part.numpy())
    return folder, expected_counts(torch.cat([p.to(torch.int64) for p in parts]), 256, (0, 1))


def torchrun(ranks: int, folder: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(EXAMPLE), str(folder), "--out", str(out)]
    return subprocess.Popen(
        [*command, "--save-seconds", "0", "--device", "cpu"],
        env=ONE_THREAD,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def process_of_rank(launcher: int, rank: int) -> int:
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    for child in children:
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"no rank {rank} among {children}")


def test_a_killed_rank(data: tuple[Path, torch.Tensor], tmp_path: Path) -> None:
    folder, expected = data
    out, state = tmp_path / "counts.npy", tmp_path / "counts.state" / "rank-1.pt"
    # Ranks take turns: rank 1 finishes 1 and 3, and then waits for somebody to write 5.
    missing = folder / "5.npy"
    kept = missing.rename(tmp_path / "5.npy")
    os.mkfifo(missing)
    run = torchrun(2, folder, out)
    try:
        end = time.monotonic() + TIMEOUT
        while not state.exists() or torch.load(state)["files"] != ["1.npy", "3.npy"]:
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)
        os.kill(process_of_rank(run.pid, 1), signal.SIGKILL)
        output, _ = run.communicate(timeout=TIMEOUT)
    finally:
        run.terminate()  # and with it its ranks
    assert run.returncode != 0, output
    assert not out.exists()

    missing.unlink()
    kept.rename(missing)
    run = torchrun(1, folder, out)
    output, _ = run.communicate(timeout=TIMEOUT)
    assert run.returncode == 0, output
    assert_counts(torch.from_numpy(np.load(out)), expected)
    ignored = sum(np.load(path).size for path in folder.glob("*.npy")) - int(expected.sum())
    assert f"ignored {ignored:,} values outside the bins 0 to 255" in output
    files = [name for path in state.parent.glob("*.pt") for name in torch.load(path)["files"]]
    assert sorted(files) == [f"{i}.npy" for i in range(FILES)]
    assert not {"1.npy", "3.npy"} & set(torch.load(state.with_name("rank-0.pt"))["files"])


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", ["save", "fsync", "replace", "replaced"])
def test_killed_at_any_step(
    example: ModuleType,
    data: tuple[Path, torch.Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """Killed in every save in turn, until one run gets through: the sum is that of one run."""
    folder, expected = data
    holder, name = {"save": (torch, "save"), "fsync": (os, "fsync")}.get(step, (Path, "replace"))
    original = getattr(holder, name)
    calls = 0

    def kill(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if step == "save" and calls % 2:
            arguments[1].write(b"half of a state")  # type: ignore[attr-defined]
        if calls % 2 and step != "replaced":
            raise Killed
        result = original(*arguments)
        if calls % 2:
            raise Killed
        return result

    monkeypatch.setattr(holder, name, kill)
    shape = tuple(expected.shape)
    states = tmp_path / "states"
    states.mkdir()
    runs = 0
    while True:
        finished = {n for state in example.saved_states(states, shape) for n in state.files}
        todo = [f"{i}.npy" for i in range(FILES) if f"{i}.npy" not in finished]
        state = example.State(states / "rank-0.pt", shape)
        runs += 1
        try:
            example.count_files(todo, folder, state, torch.device("cpu"), 0)
        except Killed:
            continue
        break
    assert runs > FILES // 2
    (state,) = example.saved_states(states, shape)
    assert_counts(state.counts, expected)
    assert sorted(state.files) == sorted(set(state.files))


def test_state_of_other_bins(example: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "rank-0.pt"
    example.State(path, (5, 256)).add(["0.npy"], torch.zeros(5, 256, dtype=torch.int64))
    with pytest.raises(SystemExit, match=r"shape \[5, 256\], expected \[5, 100\]"):
        example.State(path, (5, 100))


def test_pieces_of_a_file(
    example: ModuleType, data: tuple[Path, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "PIECE_VALUES", 37)
    values = torch.from_numpy(np.load(data[0] / "3.npy"))
    counts = example.count_file(data[0] / "3.npy", (5, 256), torch.device("cpu"))
    assert_counts(counts, expected_counts(values, 256, (0, 1)))


def test_arrays_in_the_order_of_fortran_are_not_copied(example: ModuleType, tmp_path: Path) -> None:
    values = random_values((50, 40, 5), torch.uint8)
    np.save(tmp_path / "x.npy", np.asfortranarray(values.numpy()))
    counts = example.count_file(tmp_path / "x.npy", (5, 256), torch.device("cpu"))
    assert_counts(counts, expected_counts(values, 256, (0, 1)))
    np.save(tmp_path / "x.npy", np.zeros((1000, 200, 5), np.uint8, order="F"))
    tracemalloc.start()
    try:
        example.rows_of(tmp_path / "x.npy")
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_other_channels_are_refused(example: ModuleType, data: tuple[Path, torch.Tensor]) -> None:
    with pytest.raises(SystemExit, match="expected 4 channels, got 5"):
        example.count_file(data[0] / "0.npy", (4, 256), torch.device("cpu"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((4, 5), np.float32), "expected integers [..., channels], got float32 [4, 5]"),
        (np.uint8(3), "expected integers [..., channels], got uint8 []"),
        (np.zeros((5, 0), np.uint8), "expected integers [..., channels], got uint8 [5, 0]"),
        (np.zeros((5, 2), "M8[s]"), "expected integers [..., channels], got datetime64[s] [5, 2]"),
        (b"", "cannot be read as a .npy file: "),
        (b"no array", "cannot be read as a .npy file: "),
        (b"PK\5\6" + bytes(18), "expected one array, got several: "),  # an empty zip file
        (None, "cannot be read as a .npy file: "),
    ],
)
def test_other_files_are_refused(
    example: ModuleType, tmp_path: Path, content: object, message: str
) -> None:
    file = tmp_path / "0.npy"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        np.save(file, content)
    with pytest.raises(SystemExit) as caught:
        example.rows_of(file)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{file}: {message}")


def test_files_of_any_integers(example: ModuleType, tmp_path: Path) -> None:
    """Bytes in either order, no rows at all, and one dimension."""
    values = random_values((6, 5), torch.int16)
    arrays = [values.numpy().astype(">i2"), np.zeros((0, 5), np.uint8), values[0].numpy()]
    for i, array in enumerate(arrays):
        np.save(tmp_path / f"{i}.npy", array)
    states = tmp_path / "states"
    states.mkdir()
    state = example.State(states / "rank-0.pt", (5, 256))
    names = [f"{i}.npy" for i in range(len(arrays))]
    example.count_files(names, tmp_path, state, torch.device("cpu"), 0)
    assert_counts(state.counts, expected_counts(torch.cat([values, values[:1]])))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--num-bins=0", "--num-bins must be at least 1, got 0"),
        ("--save-seconds=nan", "--save-seconds must be at least 0, got nan"),
        ("--out=counts", "--out must end in .npy, got counts"),
    ],
)
def test_bad_arguments(
    example: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argument: str,
    message: str,
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(sys, "argv", ["count_dataset.py", "data", argument])
    with pytest.raises(SystemExit, match=r"^2$"):
        example.main()
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {message}")


@pytest.mark.parametrize("name", ["0.npy", "counts.npy", "below/counts.npy"])
def test_a_result_among_the_data_is_refused(
    example: ModuleType,
    data: tuple[Path, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    before = (data[0] / "0.npy").read_bytes()
    monkeypatch.setattr(sys, "argv", ["count_dataset.py", str(data[0]), f"--out={data[0] / name}"])
    with pytest.raises(SystemExit, match=r"^2$"):
        example.main()
    line = f"--out must lie outside of {data[0]}, got {data[0] / name}"
    assert capsys.readouterr().err.endswith(f"error: {line}\n")
    assert (data[0] / "0.npy").read_bytes() == before


def test_a_file_of_somebody_else_is_not_replaced(
    example: ModuleType,
    data: tuple[Path, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    out = tmp_path / "precious.npy"
    out.write_bytes(b"precious")
    for name in ("init_process_group", "get_rank", "get_world_size"):
        monkeypatch.setattr(example.dist, name, lambda *_: 0)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(
        sys, "argv", ["count_dataset.py", str(data[0]), f"--out={out}", "--device=cpu"]
    )
    with pytest.raises(SystemExit, match=rf"^--out: {out} exists, and .* does not: name a new"):
        example.main()
    assert out.read_bytes() == b"precious"


def test_a_result_without_a_folder_is_refused_at_once(
    example: ModuleType,
    data: tuple[Path, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    out = tmp_path / "missing" / "counts.npy"
    for name in ("init_process_group", "get_rank", "get_world_size"):
        monkeypatch.setattr(example.dist, name, lambda *_: 0)
    monkeypatch.setenv("RANK", "0")
    arguments = ["count_dataset.py", str(data[0]), f"--out={out}", "--device=cpu"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match=rf"^--out: {out.parent} is no folder: make it first$"):
        example.main()
    assert not out.parent.exists()
