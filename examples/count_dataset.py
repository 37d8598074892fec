"""Counts a data set that is too large for one machine: ranks share its files.

    torchrun --nproc-per-node 4 examples/count_dataset.py DATA --out counts.npy

DATA is a folder of .npy files. Each holds an array of integers, whose last
dimension is the channels. All files have the same number of channels. The
result is int64 `[channels, num_bins]`. It is exact for any number of ranks.

You can kill the program at any time and start it again, with any number of
ranks. It goes on where it was, and counts no file twice. Each rank keeps one
state file with the names of the files it has finished and the sum of their
counts. A state file is replaced as a whole: it holds a name if and only if it
holds the counts of that file. At the start, the ranks share the files that no
state file names.

Ranks on several machines need a state folder that all of them see. Only one
run at a time may use that folder. Delete it to count everything again, for
example after the data set has changed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

import torch_histo

PIECE_VALUES = 1 << 24
"""Most values of a file that are in memory at once (a row is always read as a whole)."""


class State:
    """The finished work of one rank, on disk: whole as of some moment, whenever it is killed."""

    def __init__(self, path: Path, shape: tuple[int, int]) -> None:
        self.path = path
        self.files: list[str] = []
        self.counts = torch.zeros(shape, dtype=torch.int64)
        if path.exists():
            saved = torch.load(path)
            if saved["counts"].shape != shape:
                raise SystemExit(
                    f"{path} holds counts of shape {list(saved['counts'].shape)}, expected "
                    f"{list(shape)}: delete it, or count with the same --num-bins"
                )
            self.files, self.counts = saved["files"], saved["counts"]

    def add(self, files: list[str], counts: Tensor) -> None:
        self.files += files
        self.counts += counts.cpu()
        unfinished = self.path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            torch.save({"files": self.files, "counts": self.counts}, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path)  # atomic: whoever reads finds the old state or the new one


def saved_states(folder: Path, shape: tuple[int, int]) -> list[State]:
    return [State(path, shape) for path in sorted(folder.glob("rank-*.pt"))]


def rows_of(path: Path) -> np.ndarray:
    """The array of a file as `[rows, channels]`, mapped, not read."""
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise SystemExit(f"{path}: cannot be read as a .npy file: {error}") from None
    if not isinstance(array, np.ndarray):  # np.load also opens .npz files, whatever their name
        raise SystemExit(f"{path}: expected one array, got several: save each in its own .npy file")
    if array.dtype.kind not in "biu" or array.ndim == 0 or array.shape[-1] == 0:
        got = f"{array.dtype} {list(array.shape)}"
        raise SystemExit(f"{path}: expected integers [..., channels], got {got}")
    # The order of the rows does not matter: that of the file needs no copy.
    return array.reshape((-1, array.shape[-1]), order="A")


def count_file(path: Path, shape: tuple[int, int], device: torch.device) -> Tensor:
    """The counts of one file, read piece by piece."""
    channels, num_bins = shape
    rows = rows_of(path)
    if rows.shape[1] != channels:
        raise SystemExit(f"{path}: expected {channels} channels, got {rows.shape[1]}")
    native = rows.dtype.newbyteorder("=")  # torch has no other
    counts = torch.zeros(shape, dtype=torch.int64, device=device)
    step = max(1, PIECE_VALUES // channels)
    for start in range(0, len(rows), step):
        piece = torch.from_numpy(np.array(rows[start : start + step], native))
        counts += torch_histo.channel_histogram(piece.to(device), num_bins)
    return counts


def count_files(
    files: list[str], folder: Path, state: State, device: torch.device, save_seconds: float
) -> None:
    """Adds the counts of the files to the state, and saves it every `save_seconds`."""
    shape = (state.counts.shape[0], state.counts.shape[1])
    unsaved: list[str] = []
    counts = torch.zeros(shape, dtype=torch.int64, device=device)
    saved_at = time.monotonic()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    # A bar for each rank, one below the other; none where standard error is no terminal.
    for name in tqdm(files, f"rank {local_rank}", position=local_rank, unit="file", disable=None):
        counts += count_file(folder / name, shape, device)
        unsaved.append(name)
        if time.monotonic() - saved_at >= save_seconds:
            state.add(unsaved, counts)
            unsaved, counts, saved_at = [], torch.zeros_like(counts), time.monotonic()
    if unsaved:
        state.add(unsaved, counts)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of .npy files")
    parser.add_argument("--out", type=Path, default=Path("counts.npy"), help="where counts go")
    parser.add_argument("--state", type=Path, help="default: OUT with the suffix .state")
    parser.add_argument("--num-bins", type=int, default=256)
    parser.add_argument("--save-seconds", type=float, default=5, help="what a kill costs at most")
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    parser.add_argument("--device", choices=devices, default=devices[-1])
    arguments = parser.parse_args()
    if arguments.num_bins < 1:
        parser.error(f"--num-bins must be at least 1, got {arguments.num_bins}")
    if not arguments.save_seconds >= 0:
        parser.error(f"--save-seconds must be at least 0, got {arguments.save_seconds}")
    if arguments.out.suffix != ".npy":  # NumPy would add it
        parser.error(f"--out must end in .npy, got {arguments.out}")
    if arguments.data.resolve() in arguments.out.resolve().parents:
        parser.error(f"--out must lie outside of {arguments.data}, got {arguments.out}")
    if "RANK" not in os.environ:
        parser.error("it is started by torchrun: torchrun --nproc-per-node 2 " + " ".join(sys.argv))
    return arguments


def plan(data: Path, out: Path, folder: Path, num_bins: int) -> tuple[tuple[int, int], list[str]]:
    """The shape of the counts, and the files that no saved state holds yet."""
    if not out.parent.is_dir():
        raise SystemExit(f"--out: {out.parent} is no folder: make it first")
    if out.exists() and not folder.exists():
        raise SystemExit(f"--out: {out} exists, and {folder} does not: name a new file")
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(path.name for path in data.glob("*.npy"))
    if not names:
        raise SystemExit(f"{data}: no .npy files")
    shape = (rows_of(data / names[0]).shape[1], num_bins)
    finished = {name for state in saved_states(folder, shape) for name in state.files}
    return shape, [name for name in names if name not in finished]


def main() -> None:
    arguments = parse()
    folder: Path = arguments.state or arguments.out.with_suffix(".state")
    device = torch.device(arguments.device)
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    # One rank looks: the others would see states that grow already.
    planned: list = [None, None]
    if rank == 0:
        planned = list(plan(arguments.data, arguments.out, folder, arguments.num_bins))
    dist.broadcast_object_list(planned)
    shape, todo = planned
    state = State(folder / f"rank-{rank}.pt", shape)
    count_files(todo[rank::world], arguments.data, state, device, arguments.save_seconds)

    counts = state.counts.to(device)
    if rank == 0:  # a run of more ranks may have left more states
        for other in saved_states(folder, shape):
            if int(other.path.stem.removeprefix("rank-")) >= world:
                counts += other.counts.to(device)
    dist.all_reduce(counts)
    if rank == 0:
        np.save(arguments.out, counts.cpu().numpy())
        counted = int(counts.sum())
        print(f"{arguments.out}: {counted:,} values, {len(todo)} files in this run")
        if ignored := sum(rows_of(path).size for path in arguments.data.glob("*.npy")) - counted:
            bins = f"the bins 0 to {arguments.num_bins - 1}"
            print(f"{arguments.out}: ignored {ignored:,} values outside {bins}: see --num-bins")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
