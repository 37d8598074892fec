"""The command line on checkpoints: PyTorch's files, indexes of several files, narrow types."""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torch_histo import cli
from torch_histo.cli import sources
from torch_histo.cli.sources import open_file


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[dict[str, Any], dict[str, str]]:
        """What --json says of each array by its name, and the errors, each in one line."""
        capsys.readouterr()
        status = cli.main(["--json", "--device", "cpu", *arguments])
        captured = capsys.readouterr()
        document = json.loads(captured.out)
        errors = {entry["name"]: entry["error"] for entry in document["errors"]}
        assert status == (2 if errors else 0)
        assert captured.err.count("\n") == len(errors)
        return {entry["name"]: entry for entry in document["files"]}, errors

    return run


def values_of(path: Path, dim: sources.Dim = None) -> dict[str, Tensor]:
    """All values of the arrays of a file, in float64, one after another."""
    found = {}
    with open_file(str(path), dim=dim) as parts:
        for name, open_part in parts:
            pieces = [piece.values.double().flatten() for piece in open_part().pieces()]
            found[name] = torch.cat(pieces)
    return found


def equal(found: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    assert list(found) == list(right)
    return all(
        torch.equal(found[name].nan_to_num(-7), tensor.double().flatten().nan_to_num(-7))
        for name, tensor in right.items()
    )


# Files of torch.save


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["x.pt", "x.pth", "x.bin", "x.ckpt", "x"])
def test_nested_tensors(tmp_path: Path, run: Any, zipped: bool, name: str) -> None:
    weight = torch.arange(12.0).view(3, 4)
    content = {
        "model": OrderedDict(weight=torch.nn.Parameter(weight), bias=torch.ones(3).bfloat16()),
        "optimizer": [{"step": torch.tensor(7)}, (weight.T[1:, ::2], 3.5, "text", None)],
        0: torch.tensor([True, False]),
        "epoch": 3,
    }
    torch.save(content, tmp_path / name, _use_new_zipfile_serialization=zipped)
    right = {
        "model.weight": weight,
        "model.bias": torch.ones(3),
        "optimizer.0.step": torch.tensor(7),
        "optimizer.1.0": weight.T[1:, ::2],
        "0": torch.tensor([True, False]),
    }
    assert equal(values_of(tmp_path / name), right)
    found, errors = run(name, "--per-channel", "--bins", "4", "--range", "0", "12")
    assert not errors
    entry = found[f"{name}:model.weight"]
    assert (entry["dtype"], entry["shape"]) == ("float32", [3, 4])
    counts = [channel["counts"] for channel in entry["channels"]]
    assert counts == [np.histogram(row, 4, (0, 12))[0].tolist() for row in weight.numpy()]
    assert found[f"{name}:optimizer.0.step"]["shape"] == []


def test_a_tensor_alone(tmp_path: Path, run: Any) -> None:
    torch.save(torch.arange(5), tmp_path / "x.pt")
    found, _ = run("x.pt")
    assert found["x.pt"]["channels"][0]["counts"] == [1] * 5


TREES = st.recursive(
    st.one_of(st.integers(0, 99).map(torch.tensor), st.sampled_from([None, 3, 0.5, "a"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
    ),
    max_leaves=8,
)


def leaves(name: str, tree: Any) -> list[tuple[str, Tensor]]:
    if isinstance(tree, Tensor):
        return [(name, tree)]
    items: Any = ()
    if isinstance(tree, dict):
        items = tree.items()
    elif isinstance(tree, (list, tuple)):
        items = enumerate(tree)
    named = ((f"{name}.{key}".removeprefix("."), value) for key, value in items)
    return [leaf for key, value in named for leaf in leaves(key, value)]


@settings(max_examples=50, deadline=None)
@given(tree=TREES)
def test_every_tensor_of_a_tree(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    path = tmp_path_factory.mktemp("tree") / "x.pt"
    torch.save(tree, path)
    right = leaves("", tree)
    if not right:
        with pytest.raises(sources.SourceError, match="holds no tensors"), open_file(str(path)):
            pass
        return
    with open_file(str(path)) as parts:
        found = [(name, next(iter(part().pieces())).values.item()) for name, part in parts]
    assert found == [(name, tensor.item()) for name, tensor in right]


def test_a_list_that_holds_itself(tmp_path: Path) -> None:
    loop: list[Any] = [torch.ones(2)]
    loop.append(loop)
    torch.save(loop, tmp_path / "x.pt")
    assert equal(values_of(tmp_path / "x.pt"), {"0": torch.ones(2)})


def test_a_deep_list(tmp_path: Path) -> None:
    deep: Any = [torch.ones(2)]
    for _ in range(300):
        deep = [deep]
    torch.save(deep, tmp_path / "x.pt")
    assert list(values_of(tmp_path / "x.pt")) == [".".join(["0"] * 301)]


def test_pieces_of_a_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources.base, "PIECE_VALUES", 7)
    tensor = torch.arange(60.0).view(4, 3, 5).transpose(0, 2)
    torch.save({"x": tensor, "y": torch.ones(1).expand(30)}, tmp_path / "x.pt")
    with open_file(str(tmp_path / "x.pt")) as parts:
        assert [len(list(part().pieces())) > 2 for _, part in parts] == [True, True]
    assert equal(values_of(tmp_path / "x.pt"), {"x": tensor, "y": torch.ones(30)})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_not_counted(tmp_path: Path, run: Any) -> None:
    tensors = {
        "coo": (torch.eye(3).to_sparse(), "expected a dense tensor, found torch.sparse_coo: .*"),
        "csr": (torch.eye(3).to_sparse_csr(), "expected a dense tensor, .* to_dense.*"),
        "complex": (torch.ones(2, dtype=torch.complex64), ".* found complex64: save its real .*"),
        "meta": (torch.ones(2, device="meta"), "expected a tensor with values, found one on meta"),
        "quantized": (
            torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
            ".* found quint8: save its dequantize.*",
        ),
        "nested": (
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            "expected a dense tensor, found a nested one.*",
        ),
    }
    content = {name: tensor for name, (tensor, _) in tensors.items()}
    torch.save({**content, "good": torch.ones(3)}, tmp_path / "x.pt")
    found, errors = run("x.pt")
    assert list(found) == ["x.pt:good"]
    assert list(errors) == [f"x.pt:{name}" for name in tensors]
    for name, (_, message) in tensors.items():
        assert re.fullmatch(message, errors[f"x.pt:{name}"])


class Trap:
    """Makes a file where it is unpickled without care."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("zipped", [True, False])
def test_no_object_is_made(tmp_path: Path, run: Any, zipped: bool) -> None:
    content = {"x": torch.ones(2), "trap": Trap()}
    torch.save(content, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    _, errors = run("x.pt")
    assert not (tmp_path / "trapped").exists()
    message = errors["x.pt"]
    assert re.fullmatch(
        r"is a PyTorch file that holds other objects \w+\.mkdir: save a dict of tensors alone, "
        "or count its bytes with --channels 1",
        message,
    )
    found, _ = run("x.pt", "--channels", "1")
    assert found["x.pt"]["elements"] == (tmp_path / "x.pt").stat().st_size


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_programs_and_damaged_files(tmp_path: Path, run: Any) -> None:
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(tmp_path / "script.pt"))
    torch.save({"x": torch.arange(1000)}, tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[:-200])
    torch.save({"x": torch.arange(1000)}, tmp_path / "y", _use_new_zipfile_serialization=False)
    (tmp_path / "old.pt").write_bytes((tmp_path / "y").read_bytes()[:-200])
    torch.save({"epoch": 3}, tmp_path / "none.pt")
    _, errors = run("script.pt", "cut.pt", "old.pt", "none.pt")
    messages = {
        "script.pt": "is a TorchScript program: save its tensors as .safetensors, .* --channels 1",
        "cut.pt": "cannot be read as a zip file: .+",
        "old.pt": "cannot be read as a PyTorch file: .+",
        "none.pt": "the file holds no tensors",
    }
    assert list(errors) == list(messages)
    for name, message in messages.items():
        assert re.fullmatch(message, errors[name])


# Checkpoints in several files


SHARDS = {
    "model-1.x": {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2).bfloat16()},
    "model-2.x": {"c": torch.tensor([3, 1, 2]), "d": torch.full((2,), -4.0)},
}


def write_shards(folder: Path, suffix: str) -> Path:
    places = {}
    for shard, tensors in SHARDS.items():
        name = shard.replace("x", suffix)
        save = (
            pytest.importorskip("safetensors.torch").save_file
            if suffix == "safetensors"
            else torch.save
        )
        save(tensors, folder / name)
        places |= dict.fromkeys(tensors, name)
    return write_index(folder, dict(reversed(places.items())))


def write_index(folder: Path, places: dict[str, Any]) -> Path:
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": places}, indent=2))
    return index


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_an_index_is_followed(tmp_path: Path, run: Any, suffix: str) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    index = write_shards(folder, suffix)
    merged = {name: tensor for tensors in SHARDS.values() for name, tensor in tensors.items()}
    found = values_of(index)
    assert equal({name: found[name] for name in merged}, merged)
    assert len(found) == 4
    pytest.importorskip("safetensors.torch").save_file(merged, tmp_path / "one.safetensors")
    in_one, _ = run("one.safetensors")
    in_several, errors = run(str(index))
    assert not errors
    for name in merged:
        right = {**in_one[f"one.safetensors:{name}"], "name": f"{index}:{name}"}
        assert in_several[f"{index}:{name}"] == right
    summaries, errors = run(str(index), "--summary", "--quantiles", "0.5")
    assert (len(summaries), errors) == (4, {})


def test_shards_that_are_wrong(tmp_path: Path, run: Any) -> None:
    index = write_shards(tmp_path, "safetensors").name
    (tmp_path / "model-1.safetensors").unlink()
    found, errors = run(index)
    assert list(found) == [f"{index}:d", f"{index}:c"]
    assert errors == {f"{index}:model-1.safetensors": "No such file or directory"}
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (tmp_path / "model-1.safetensors").write_text(pointer)
    _, errors = run(index)
    assert list(errors) == [f"{index}:model-1.safetensors"]
    assert "git lfs pull" in errors[f"{index}:model-1.safetensors"]
    (tmp_path / "model-1.safetensors").write_bytes(b"\x20" + bytes(7) + b"{")
    _, errors = run(index)
    assert "cannot be read as a safetensors file" in errors[f"{index}:model-1.safetensors"]
    write_index(tmp_path, {"c": "model-2.safetensors", "z": "model-2.safetensors"})
    found, errors = run(index)
    assert list(found) == [f"{index}:c"]
    assert errors == {f"{index}:z": "is not in model-2.safetensors, where the index has it"}


def test_an_index_leads_nowhere_else(tmp_path: Path, run: Any) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    pytest.importorskip("safetensors.torch").save_file(
        {"a": torch.ones(2)}, tmp_path / "secret.safetensors"
    )
    for shard in ("../secret.safetensors", str(tmp_path / "secret.safetensors")):
        index = write_index(folder, {"a": shard})
        found, errors = run(str(index))
        assert not found
        assert errors == {
            f"{index}:{shard}": "is outside the folder of the index: give it as a FILE"
        }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as an index of the files of a checkpoint: .+"),
        ("{}", "cannot be read as an index of the files of a checkpoint: .+"),
        ('{"weight_map": 3}', "cannot be read as an index of the files of a checkpoint: .+"),
        ('{"weight_map": {"a": 3}}', "cannot be read as an index .*: expected names of files .*"),
        ('{"weight_map": {"a": ["b"]}}', "cannot be read as an index .+"),
        ('{"weight_map": {}}', "the file names no tensors"),
        ("[]", "is JSON text: .* --channels 1"),
    ],
)
def test_an_index_that_is_none(tmp_path: Path, run: Any, content: str, message: str) -> None:
    (tmp_path / "x.index.json").write_text(content)
    found, errors = run("x.index.json")
    assert not found
    assert re.fullmatch(message, errors["x.index.json"])


# Narrow types of safetensors


def safetensors_file(path: Path, kind: str, shape: list[int], values: bytes) -> None:
    entry = {"dtype": kind, "shape": shape, "data_offsets": [0, len(values)]}
    header = json.dumps({"x": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + values)


def narrow(code: int, exponent_bits: int, fraction_bits: int, bias: int) -> float:
    """The value of a code of a float without infinities: sign, exponent and fraction."""
    sign = -1.0 if code >> (exponent_bits + fraction_bits) else 1.0
    exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = (code & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
    scale = 2.0 ** (max(exponent, 1) - bias)
    return sign * scale * (fraction + (exponent > 0))


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("F8_E8M0", "float8_e8m0fnu", lambda c: 2.0 ** (c - 127) if c < 255 else np.nan),
        ("F8_E4M3FNUZ", "float8_e4m3fnuz", lambda c: narrow(c, 4, 3, 8) if c != 128 else np.nan),
        ("F8_E5M2FNUZ", "float8_e5m2fnuz", lambda c: narrow(c, 5, 2, 16) if c != 128 else np.nan),
    ],
)
def test_every_value_of_float8(tmp_path: Path, run: Any, kind: str, name: str, value: Any) -> None:
    pytest.importorskip("safetensors")
    right = torch.tensor([value(code) for code in range(256)], dtype=torch.float64)
    safetensors_file(tmp_path / "x.safetensors", kind, [16, 16], bytes(range(256)))
    assert equal(values_of(tmp_path / "x.safetensors"), {"x": right})
    packed = torch.arange(256).to(torch.uint8).view(getattr(torch, name))
    torch.save(packed, tmp_path / "x.pt")
    assert equal(values_of(tmp_path / "x.pt"), {"": right})
    found, errors = run("x.safetensors", "x.pt", "--summary", "--quantiles", "0,1")
    assert not errors
    for entry in found.values():
        assert (entry["dtype"], entry["nan"]) == (name, 1)
        assert entry["min"] == float(right[~right.isnan()].min())
        assert entry["quantiles"]["1.0"] == float(right[~right.isnan()].max())
    found, errors = run("x.safetensors", "--bins", "3", "--range", "0.5", "2")
    assert not errors
    (channel,) = found["x.safetensors:x"]["channels"]
    inside = right[~right.isnan()].numpy()
    assert channel["counts"] == np.histogram(inside, 3, (0.5, 2))[0].tolist()


@settings(max_examples=40, deadline=None)
@given(
    codes=st.lists(st.integers(0, 15), min_size=1, max_size=40),
    columns=st.sampled_from([1, 3, 4]),
    piece=st.integers(1, 9),
)
def test_values_of_float4(
    tmp_path_factory: pytest.TempPathFactory, codes: list[int], columns: int, piece: int
) -> None:
    """Two values are in a byte, the lower half first; pieces may end between them."""
    pytest.importorskip("safetensors")
    codes = codes * 2 * columns
    path = tmp_path_factory.mktemp("float4") / "x.safetensors"
    packed = bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2], strict=True))
    safetensors_file(path, "F4", [len(codes) // columns, columns], packed)
    right = torch.tensor([narrow(code, 2, 1, 1) for code in codes])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources.base, "PIECE_VALUES", piece)
        assert equal(values_of(path, (0,)), {"x": right})
    with open_file(str(path), dim=(0,)) as parts:
        source = parts[0][1]()
        (whole,) = source.pieces()
    assert source.dtype == "float4_e2m1fn"
    assert torch.equal(whole.values, right.view(-1, columns))


def test_float4_of_torch(tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # torch cannot fill an empty tensor of this type, as deterministic algorithms ask for.
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)
    codes = torch.arange(256).to(torch.uint8).view(8, 32)
    packed = codes.view(torch.float4_e2m1fn_x2)
    pytest.importorskip("safetensors.torch").save_file({"x": packed}, tmp_path / "x.safetensors")
    torch.save({"x": packed}, tmp_path / "x.pt")
    found, errors = run(
        "x.safetensors", "x.pt", "--per-channel", "--bins", "12", "--range", "-6", "6"
    )
    assert not errors
    one, other = ({**entry, "name": ""} for entry in found.values())
    assert one == other
    assert one["shape"] == [8, 64]
    values = [[narrow(c, 2, 1, 1) for b in row for c in (b & 15, b >> 4)] for row in codes.tolist()]
    counts = [channel["counts"] for channel in one["channels"]]
    assert counts == [np.histogram(row, 12, (-6, 6))[0].tolist() for row in values]
