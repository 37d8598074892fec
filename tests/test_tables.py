"""The command line on tables: columns of CSV and Parquet files, each under its header."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_histo import cli
from torch_histo.cli.sources import SourceError, open_file, tables


def columns(path: Path, **options: Any) -> dict[str, np.ndarray | str]:
    """The values of each column, or the error of one that has other things than numbers."""
    found: dict[str, np.ndarray | str] = {}
    with open_file(str(path), **options) as parts:
        for name, open_part in parts:
            try:
                source = open_part()
            except SourceError as error:
                found[name] = str(error)
                continue
            (piece,) = source.pieces()
            found[name] = piece.values.numpy()
            assert found[name].dtype.name == source.dtype
    return found


def written(folder: Path, text: str, name: str = "table.csv", encoding: str = "utf-8") -> Path:
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


def check(found: dict[str, np.ndarray | str], expected: dict[str, Sequence[Any]]) -> None:
    assert list(found) == list(expected)
    for name, values in expected.items():
        want = np.array(values)
        assert found[name].dtype == want.dtype, name
        np.testing.assert_array_equal(found[name], want)


MIXED = """id,score,flag,big,missing
1,0.5,True,9223372036854775808,
-2,1e-3,false,18446744073709551615,7
3, -inf,TRUE,0,NA
"""


def test_types(tmp_path: Path) -> None:
    check(
        columns(written(tmp_path, MIXED)),
        {
            "id": [1, -2, 3],
            "score": [0.5, 1e-3, -math.inf],
            "flag": [True, False, True],
            "big": np.array([1 << 63, (1 << 64) - 1, 0], np.uint64),
            "missing": [math.nan, 7, math.nan],
        },
    )


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_separators_ends_and_encodings(
    tmp_path: Path, separator: str, end: str, encoding: str
) -> None:
    text = end.join(["größe,b", "1,2.5", "", '"3",4', ""]).replace(",", separator)
    check(columns(written(tmp_path, text, encoding=encoding)), {"größe": [1, 3], "b": [2.5, 4]})


def test_separators_in_a_header(tmp_path: Path) -> None:
    check(columns(written(tmp_path, '"a;;;","b|||"\n1,2\n')), {"a;;;": [1], "b|||": [2]})
    check(columns(written(tmp_path, "a;b\n1,5;2\n")) | {"a": np.array(0)}, {"a": 0, "b": [2]})


def test_lines_without_a_header(tmp_path: Path) -> None:
    """The first line is counted where all of it is numbers, and a name is made for each column."""
    check(columns(written(tmp_path, "1,2\n3,4\n")), {"column 1": [1, 3], "column 2": [2, 4]})
    check(columns(written(tmp_path, ",b\n0,2\n1,4\n")), {"column 1": [0, 1], "b": [2, 4]})
    check(columns(written(tmp_path, "x\n1.5\n2")), {"x": [1.5, 2]})


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_types_change_between_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(tables, "ROWS", rows)
    text = "a,b,c,d\n1,1,-1,True\n2,2,9223372036854775808,False\n3,0.5,3,True\n4,4,4,1\n"
    found = columns(written(tmp_path, text))
    assert str(found.pop("d")).startswith("expected numbers")
    c = [-1, float(1 << 63), 3, 4]  # no type of integers holds both
    check(found, {"a": [1, 2, 3, 4], "b": [1, 2, 0.5, 4], "c": c})


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("abc", "expected numbers, found 'abc' in row 2"),
        ("1_000", "expected numbers, found '1_000' in row 2"),
        ("1,5", "expected numbers, found '1,5' in row 2"),
        ("2026-01-02", "expected numbers, found '2026-01-02' in row 2"),
        ("x" * 100, f"expected numbers, found '{'x' * 40}…' in row 2"),
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, line: str, rows: int
) -> None:
    monkeypatch.setattr(tables, "ROWS", rows)
    found = columns(written(tmp_path, f'a;b\n1;2\n"{field}";4\n5;6\n'))
    assert found.pop("a") == line
    check(found, {"b": [2, 4, 6]})


numbers = st.one_of(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=3, max_size=3),
    st.lists(st.integers(0, (1 << 64) - 1), min_size=3, max_size=3),
    st.lists(st.floats(), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@settings(max_examples=60, deadline=None)
@given(contents=st.lists(numbers, min_size=2, max_size=4), data=st.data())
def test_what_python_writes(
    tmp_path_factory: pytest.TempPathFactory, contents: list[list[Any]], data: st.DataObject
) -> None:
    """Bit for bit, under any header."""
    headers = [f"~{data.draw(names)}".strip() for _ in contents]
    buffer = io.StringIO()
    csv.writer(buffer).writerows([headers, *zip(*contents, strict=True)])
    path = written(tmp_path_factory.mktemp("table"), buffer.getvalue())
    with open_file(str(path)) as parts:
        assert [name for name, _ in parts] == headers
        for (_, open_part), values in zip(parts, contents, strict=True):
            (piece,) = open_part().pieces()
            array = piece.values.numpy()
            kinds = {bool: "b", int: "iu", float: "f"}
            assert array.dtype.kind in kinds[type(values[0])]
            if array.dtype.kind == "f":
                np.testing.assert_array_equal(array, np.array(values))
            else:
                assert array.tolist() == values


@pytest.mark.parametrize("seed", range(3))
def test_as_pandas(tmp_path: Path, seed: int) -> None:
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(seed)
    floats = random.normal(size=500) * 10.0 ** random.integers(-300, 300, 500)
    floats[random.random(500) < 0.1] = np.nan
    frame = pandas.DataFrame({"n": random.integers(-9, 9, 500), "x": floats})
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_csv(tmp_path / "table.tsv", index=False, sep="\t")
    expected = {name: frame[name].to_numpy() for name in frame}
    check(columns(tmp_path / "table.csv"), expected)
    check(columns(tmp_path / "table.tsv"), expected)


def test_a_line_for_each_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "age,score,name\n1,0.5,Ann\n3,nan,Bob\n")
    assert cli.main([str(path), "--json"]) == 2
    captured = capsys.readouterr()
    line = "expected numbers, found 'Ann' in row 1: choose others with --columns"
    assert captured.err == f"torch_histo: {path}:name: {line}\n"
    age, score = json.loads(captured.out)["files"]
    assert (age["name"], age["channels"][0]["counts"]) == (f"{path}:age", [0, 1, 0, 1])
    assert (score["name"], score["channels"][0]["nan"]) == (f"{path}:score", 1)
    assert cli.main([str(path), "--bins", "2", "--dim=0", "--summary"]) == 2  # --bins and rows


def test_a_table_without_a_suffix(tmp_path: Path) -> None:
    text = "a,b\n" + "1,2.5\n" * 1000
    for name in ("table", "table.txt"):
        assert list(columns(written(tmp_path, text, name))) == ["a", "b"]
    (found,) = columns(written(tmp_path, text, "bytes"), channels=1).values()
    assert found.size == len(text)
    for other in ("a,b\n1,2\n", "words, and\nmore, words\n1,2\n", "1\n2\n3\n", "a b\n1 2\n3 4\n"):
        kind = columns(written(tmp_path, other, "other"))
        assert list(kind) == (["a", "b"] if other == "a,b\n1,2\n" else [""])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n1,2\n3\n", "expected 2 fields in line 3, found 1"),
        ("a,b\n1,2\n\n3,4,5\n", "expected 2 fields in line 4, found 3"),
        ("a,b\n", "it has no rows below its first line"),
        ("\n\n", "it is empty"),
        ('a,b\n1,"2\n3,4\n', "unexpected end of data"),
    ],
)
def test_no_table(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(SourceError, match=f"cannot be read as a table in text: {line}$"):  # noqa: SIM117
        with open_file(str(written(tmp_path, text))):
            pass


def test_an_encoding_that_is_not_read(tmp_path: Path) -> None:
    for encoding in ("utf-16", "latin-1"):
        with pytest.raises(SourceError, match="cannot be read as a table in text: "):  # noqa: SIM117
            with open_file(str(written(tmp_path, "ä,b\n1,2\n", encoding=encoding))):
                pass


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    contents: dict[str, Any] = {
        "id": pyarrow.array([1, -2, 3], pyarrow.int64()),
        "small": pyarrow.array([1, None, 255], pyarrow.uint8()),
        "big": pyarrow.array([(1 << 53) + 1, None, 2], pyarrow.int64()),
        "x.y": pyarrow.array([0.5, None, math.inf], pyarrow.float32()),
        "half": pyarrow.array([np.float16(0.5), np.float16(1), np.float16(2)], pyarrow.float16()),
        "flag": pyarrow.array([True, False, True]),
        "perhaps": pyarrow.array([True, None, False]),
        "word": pyarrow.array(["a", "b", "c"]),
        "list": pyarrow.array([[1], [2, 3], []]),
    }
    path = tmp_path / "table"  # the content tells
    parquet.write_table(pyarrow.table(contents), path, row_group_size=2)
    found = columns(path)
    assert found.pop("word") == "expected numbers, found string"
    assert str(found.pop("list")).startswith("expected numbers, found list")
    assert "cannot be read as a column of a Parquet file" in str(found.pop("big"))  # it would round
    check(
        found,
        {
            "id": [1, -2, 3],
            "small": [1, math.nan, 255],
            "x.y": np.array([0.5, math.nan, math.inf], np.float32),
            "half": np.array([0.5, 1, 2], np.float16),
            "flag": [True, False, True],
            "perhaps": [1, math.nan, 0],
        },
    )
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SourceError, match="cannot be read as a Parquet file"), open_file(str(path)):
        pass


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "table.parquet").write_bytes(b"PAR1" + bytes(90))
    line = "^is a Parquet file, and needs pyarrow: pip install pyarrow$"
    with pytest.raises(SourceError, match=line), open_file(str(tmp_path / "table.parquet")):
        pass


@pytest.mark.parametrize("rows", [1, 1 << 14])
def test_integers_are_not_rounded(
    rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside a missing number or a decimal a column is float64, which does not hold them all."""
    long, held = (1 << 53) + 1, 1 << 60
    for beside in ("-", "0.5"):
        fields = [str(long)] * rows + [beside.replace("-", "NA")]
        (path := tmp_path / "x.csv").write_text("\n".join(["id", *fields]) + "\n")
        assert cli.main([str(path)]) == 2
        expected = "expected integers that float64 holds beside decimals and missing numbers, found"
        assert f"id: {expected}" in capsys.readouterr().err
        path.write_text(path.read_text().replace(str(long), str(held)))
        assert cli.main([str(path), "--json", "--summary"]) == 0
        (entry,) = json.loads(capsys.readouterr().out)["files"]
        assert entry["max"] == held


def test_columns_of_parquet_of_one_name(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = [pyarrow.array(values) for values in ([1, 2], [0.5, 4], [5, 6])]
    table = pyarrow.Table.from_arrays(columns, names=["a", "b", "a"])
    pytest.importorskip("pyarrow.parquet").write_table(table, path := tmp_path / "x.parquet")
    with open_file(str(path)) as parts:
        found = [
            [v for piece in part().pieces() for v in piece.values.tolist()] for _, part in parts
        ]
    assert found == [[1, 2], [0.5, 4], [5, 6]]


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_bools_of_which_some_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """As pandas writes an object column of True, None and False."""
    monkeypatch.setattr(tables, "ROWS", rows)
    text = "a,b,c,d\n,True,,1\nTrue,,NA,true\nfalse,NaN,,\n"
    found = columns(written(tmp_path, text))
    assert str(found.pop("d")).startswith("expected numbers")
    nan = math.nan
    check(found, {"a": [nan, 1.0, 0.0], "b": [1.0, nan, nan], "c": [nan, nan, nan]})


WORDS = "name,age,score\nann,3,0.5\nbob,4,NA\ncid,5,1.5\n"


def names_in_json(capsys: pytest.CaptureFixture[str], *words: Any) -> list[str]:
    assert cli.main([*map(str, words), "--json", "--device", "cpu"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["errors"] == []
    return [entry["name"].split(":")[-1] for entry in document["files"]]


@pytest.mark.parametrize("name", ["table.csv", "table.txt"])
@pytest.mark.parametrize("more", [[], ["--summary"]])
def test_columns_beside_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, more: list[str]
) -> None:
    path = written(tmp_path, WORDS, name)
    for chosen in (["age"], ["score", "age"]):
        assert names_in_json(capsys, path, *more, "--columns", *chosen) == chosen
    words = ["--columns", "score", "--columns", "age"]
    assert names_in_json(capsys, path, *more, *words) == ["score", "age"]


def test_columns_of_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(path := tmp_path / "x.npz", a=np.arange(3), b=np.arange(4), c=np.array(["word"]))
    assert names_in_json(capsys, path, "--columns", "b", "a") == ["b", "a"]
    np.save(weights := tmp_path / "w.npy", np.ones(4))
    assert names_in_json(capsys, path, "--columns", "b", "--weights", weights) == ["b"]


def test_errors_of_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, WORDS)
    np.save(array := tmp_path / "x.npy", np.ones(3))
    for words, line in (
        ([path], f"{path}:name: expected numbers, found 'ann' in row 1: choose others with "),
        ([path, "--columns", "name"], f"{path}:name: expected numbers, found 'ann' in row 1\n"),
        ([path, "--columns", "Age"], f"{path}: --columns: found no column or array 'Age', but "),
        ([array, "--columns", "a"], f"{array}: --columns is for tables and for files of several "),
        (["--columns", "age", path], "argument --columns: needs at least one FILE before it"),
        ([path, "--joint", "a", "b", "--columns", "a"], "argument --joint: not allowed with "),
    ):
        assert cli.main([*map(str, words), "--device", "cpu"]) == 2
        errors = capsys.readouterr().err
        assert errors.startswith(f"torch_histo: {line}")
        assert errors.count("\n") == 1
