"""Loops over several operands: what they visit, how few they are, and what must be copied."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import shutil
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from emulator.compiler import CSRC, Compiler, cache_of
from emulator.programs import ELEMENT_TYPES
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.cpp_extension import library_paths

generated = settings(max_examples=300, deadline=None, derandomize=True, database=None)
MOST_CHANNEL_LOOPS, MOST_ROW_LOOPS = 2, 3


class Strided(NamedTuple):
    """The sizes and strides of a tensor. Its type is an index of ELEMENT_TYPES."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    element_type: int = 0


class Loop(NamedTuple):
    size: int
    stride: int


@dataclasses.dataclass
class Visited:
    """One operand of a problem, and the loops over what is copied of it."""

    element_type: int
    channels: list[Loop]
    rows: list[Loop]
    copied: list[Loop]

    def offsets(self) -> list[list[int]]:
        """For each channel the offsets of its elements in the operand, in the order of the rows."""
        channels, rows = offsets_of(self.channels), offsets_of(self.rows)
        if self.copied:
            source = offsets_of(self.copied)
            return [[source[channel + row] for row in rows] for channel in channels]
        return [[channel + row for row in rows] for channel in channels]


def offsets_of(loops: Sequence[Loop]) -> list[int]:
    steps = [[i * stride for i in range(size)] for size, stride in loops]
    return [sum(parts) for parts in itertools.product(*steps)]


def contiguous(*sizes: int) -> Strided:
    return Strided(sizes, tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes))))


def permuted(operand: Strided, *order: int) -> Strided:
    sizes = tuple(operand.sizes[d] for d in order)
    return Strided(sizes, tuple(operand.strides[d] for d in order), operand.element_type)


def reversed_along(operand: Strided, *dimensions: int) -> Strided:
    """Offsets are from the element that is visited first."""
    signs = [-1 if d in dimensions else 1 for d in range(len(operand.sizes))]
    strides = (sign * stride for sign, stride in zip(signs, operand.strides, strict=True))
    return Strided(operand.sizes, tuple(strides), operand.element_type)


@pytest.fixture(scope="session")
def ops(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Any:
    """The operators of tests/emulator/operands.cpp."""
    folder = tmp_path_factory.mktemp("operands")
    compiler = Compiler(folder, cache_of(pytestconfig, folder))
    folder.joinpath("csrc/cpu").mkdir()
    shutil.copy(CSRC / "cpu/float_mode.h", folder / "csrc/cpu")
    names = ("loops", "counts", "prepare", "memory", "describe", "checks")
    sources = [*(f"csrc/torch/{name}.cpp" for name in names), "csrc/emulator/operands.cpp"]
    with compiler.alone():
        objects = [compiler.object_of(source, "-fPIC") for source in sources]
        folders = [f"-L{path}" for path in library_paths()]
        linked = ("-shared", *folders, "-lc10", "-ltorch", "-ltorch_cpu")
        torch.ops.load_library(compiler.link("operands.so", objects, *linked))
    return torch.ops.histo_test


def loops(ops: Any, kept: Sequence[int], *operands: Strided) -> list[Visited]:
    shapes: list[int] = []
    for operand in operands:
        shapes += [operand.element_type, len(operand.sizes)]
        for loop in zip(operand.sizes, operand.strides, strict=True):
            shapes += loop
    numbers = iter(ops.loops(shapes, kept))

    def some(count: int) -> list[Loop]:
        return [Loop(next(numbers), next(numbers)) for _ in range(count)]

    found = [
        Visited(next(numbers), some(2), some(3), some(next(numbers))) for _ in range(len(operands))
    ]
    assert next(numbers, None) is None
    return found


def strides_in(operand: Strided, sizes: Sequence[int]) -> list[int]:
    """The strides of an operand that is broadcast to these sizes."""
    missing = len(sizes) - len(operand.sizes)
    own = zip(operand.sizes, operand.strides, strict=True)
    return [0] * missing + [0 if size == 1 else stride for size, stride in own]


def expected_elements(kept: Sequence[int], operands: Sequence[Strided]) -> list[Counter[Any]]:
    """For each channel, the offsets in all operands of the elements that belong together."""
    sizes = operands[0].sizes
    strides = [strides_in(operand, sizes) for operand in operands]
    channels: dict[tuple[int, ...], Counter[Any]] = {
        channel: Counter()
        for channel in itertools.product(*(range(sizes[d]) for d in sorted(kept)))
    }
    for index in itertools.product(*map(range, sizes)):
        channel = tuple(index[d] for d in sorted(kept))
        element = tuple(sum(map(operator.mul, index, own)) for own in strides)
        channels[channel][element] += 1
    return list(channels.values())


def assert_visits(ops: Any, kept: Sequence[int], *operands: Strided) -> list[Visited]:
    found = loops(ops, kept, *operands)
    assert [visited.element_type for visited in found] == [o.element_type for o in operands]
    for visited in found:
        for part in ("channels", "rows"):
            sizes = [[loop.size for loop in getattr(v, part)] for v in (found[0], visited)]
            assert sizes[0] == sizes[1], (kept, operands)
    together = zip(*(visited.offsets() for visited in found), strict=True)
    elements = [Counter(zip(*offsets, strict=True)) for offsets in together]
    assert elements == expected_elements(kept, operands), (kept, operands)
    return found


def sizes_of(found: Visited) -> tuple[list[int], list[int]]:
    """The sizes of the loops of more than one step."""
    parts = (found.channels, found.rows)
    channels, rows = ([loop.size for loop in part if loop.size != 1] for part in parts)
    return channels, rows


def copied(found: Sequence[Visited]) -> list[int]:
    """For each operand the elements of its copy; 0 is none."""
    return [math.prod(loop.size for loop in v.copied) if v.copied else 0 for v in found]


def fewest_loops(kept: Sequence[int], operands: Sequence[Strided]) -> tuple[int, int]:
    """The loops over channels and rows that are left after merging. No element may lie twice."""
    sizes = operands[0].sizes
    strides = list(zip(*(strides_in(operand, sizes) for operand in operands), strict=True))
    dimensions = [d for d, size in enumerate(sizes) if size != 1]

    def follows(inner: int, outer: int) -> bool:
        scaled = tuple(sizes[inner] * stride for stride in strides[inner])
        return inner != outer and strides[outer] == scaled

    channels = [d for d in dimensions if d in kept]
    channel_loops = len(channels) - sum(follows(b, a) for a, b in itertools.pairwise(channels))
    # Rows have no order: each loop begins with a dimension that goes on with no other one.
    rows = [d for d in dimensions if d not in kept]
    repeated = [d for d in rows if not any(strides[d])]
    others = [d for d in rows if any(strides[d])]
    row_loops = sum(not any(follows(d, outer) for outer in others) for d in others)
    return channel_loops, row_loops + bool(repeated)


def fits(kept: Sequence[int], *operands: Strided) -> bool:
    channel_loops, row_loops = fewest_loops(kept, operands)
    return channel_loops <= MOST_CHANNEL_LOOPS and row_loops <= MOST_ROW_LOOPS


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[int], list[Strided]]:
    """Operands that are permuted, have gaps, are reversed and broadcast in some dimensions."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=7))
    kept = [d for d in range(len(sizes)) if draw(st.integers(0, 2)) == 0]
    operands = []
    same_order = draw(st.permutations(range(len(sizes))))
    for k in range(draw(st.integers(1, 4))):
        order = same_order if draw(st.booleans()) else draw(st.permutations(range(len(sizes))))
        # It is broadcast along any dimensions, all channels, all rows or none.
        pattern = draw(st.sampled_from(["random", "channels", "rows", "none"]))
        own, strides, extent = list(sizes), [0] * len(sizes), 1
        for d in order:
            is_broadcast = {
                "random": draw(st.booleans()),
                "channels": d in kept,
                "rows": d not in kept,
                "none": False,
            }[pattern]
            if is_broadcast:
                own[d] = 1 if k > 0 and draw(st.booleans()) else sizes[d]
            else:
                strides[d] = extent * draw(st.sampled_from([1, 1, 1, -1]))
                extent *= sizes[d]
                extent += draw(st.sampled_from([0, 0, 0, 0, 3]))
        left = len(list(itertools.takewhile(lambda size: size == 1, own))) if k > 0 else 0
        left = draw(st.integers(0, left))
        element_type = draw(st.integers(0, len(ELEMENT_TYPES) - 1))
        operands.append(Strided(tuple(own[left:]), tuple(strides[left:]), element_type))
    return kept, operands


@st.composite
def overlapping_problems(draw: st.DrawFn) -> tuple[list[int], list[Strided]]:
    """Any strides: elements may lie in several places of the iteration space. Sizes may be 0."""
    sizes = tuple(draw(st.lists(st.integers(0, 3), max_size=6)))
    kept = [d for d in range(len(sizes)) if draw(st.booleans())]
    strides = st.tuples(*(st.integers(-4, 4) for _ in sizes))
    return kept, [Strided(sizes, draw(strides)) for _ in range(draw(st.integers(1, 4)))]


@generated
@given(problem=problems())
def test_every_element_once_with_its_partners(
    ops: Any, problem: tuple[list[int], list[Strided]]
) -> None:
    kept, operands = problem
    found = assert_visits(ops, kept, *operands)
    # Nothing is copied unless the loops are too many, and then no more of them are left.
    if fits(kept, *operands):
        assert copied(found) == [0] * len(operands)
        lengths = tuple(len(part) for part in sizes_of(found[0]))
        assert lengths == fewest_loops(kept, operands)
    else:
        assert any(copied(found))
    assert (copied(found)[0] > 0) == (not fits(kept, operands[0]))
    whole = math.prod(operands[0].sizes)
    for k, elements in enumerate(copied(found)):
        strides = strides_in(operands[k], operands[0].sizes)
        own = math.prod(
            size for size, stride in zip(operands[0].sizes, strides, strict=True) if stride != 0
        )
        assert elements in (0, whole) or own <= elements < whole


@generated
@given(problem=overlapping_problems())
def test_operands_whose_elements_overlap(
    ops: Any, problem: tuple[list[int], list[Strided]]
) -> None:
    kept, operands = problem
    assert_visits(ops, kept, *operands)


IMAGES = contiguous(4, 3, 5, 6)
"""[N, C, H, W]; kept is 1."""


@pytest.mark.parametrize(
    ("other", "channels", "rows"),
    [
        (contiguous(4, 3, 5, 6), [3], [4, 30]),
        (permuted(contiguous(4, 5, 6, 3), 0, 3, 1, 2), [3], [4, 30]),  # channels last
        (permuted(contiguous(4, 3, 6, 5), 0, 1, 3, 2), [3], [4, 5, 6]),  # each image transposed
        (contiguous(4, 1, 1, 1), [3], [4, 30]),  # a number per image
        (contiguous(3, 1, 1), [3], [4, 30]),  # a number per channel
        (contiguous(5, 6), [3], [4, 30]),  # one image for all
        (contiguous(6), [3], [4, 5, 6]),
        (contiguous(4, 1, 5, 1), [3], [4, 5, 6]),
        (contiguous(1), [3], [4, 30]),
        (contiguous(), [3], [4, 30]),
        (Strided((4, 3, 5, 6), (0, 0, 0, 0)), [3], [4, 30]),
        (reversed_along(IMAGES, 0, 1, 2, 3), [3], [4, 30]),
        (reversed_along(IMAGES, 3), [3], [4, 5, 6]),  # H and W no longer agree
    ],
)
def test_two_operands_in_place(
    ops: Any, other: Strided, channels: list[int], rows: list[int]
) -> None:
    found = assert_visits(ops, [1], IMAGES, other)
    assert copied(found) == [0, 0]
    assert sizes_of(found[0]) == sizes_of(found[1]) == (channels, rows)


def test_loops_merge_where_all_operands_agree(ops: Any) -> None:
    first, per_a, per_b = contiguous(2, 3, 4, 5), contiguous(2, 1, 1, 1), contiguous(2, 3, 1, 1)
    for operands, rows in (
        ([first], [120]),
        ([first, first, first, first], [120]),
        ([first, per_a], [2, 60]),
        ([first, per_b], [6, 20]),
        ([first, per_a, per_b], [2, 3, 20]),
        ([first, per_b, per_a, contiguous()], [2, 3, 20]),
    ):
        found = assert_visits(ops, [], *operands)
        assert (copied(found), sizes_of(found[0])) == ([0] * len(operands), ([], rows))


def test_rows_lie_as_the_first_operand_does(ops: Any) -> None:
    first, other = contiguous(2, 3, 4), permuted(contiguous(4, 3, 2), 2, 1, 0)
    for operands in ((first, other), (other, first)):
        found = assert_visits(ops, [], *operands)
        strides = [loop.stride for loop in found[0].rows]
        assert strides == sorted(strides, reverse=True)
    # The first one does not say in which order: the second one does.
    repeated = Strided((2, 3, 4), (0, 0, 0))
    found = assert_visits(ops, [], repeated, other)
    assert (copied(found), sizes_of(found[0])) == ([0, 0], ([], [24]))
    assert found[1].rows[2] == Loop(24, 1)


def test_negative_strides(ops: Any) -> None:
    backwards = reversed_along(contiguous(3, 4, 5), 0, 1, 2)
    for kept, sizes in (
        ([], ([], [60])),
        ([0], ([3], [20])),
        ([2], ([5], [12])),
        ([0, 1], ([12], [5])),
    ):
        found = assert_visits(ops, kept, backwards)
        assert (copied(found), sizes_of(found[0])) == ([0], sizes)
        # Both are walked forwards and backwards at once.
        found = assert_visits(ops, kept, contiguous(3, 4, 5), backwards)
        assert (copied(found), sizes_of(found[0])) == ([0, 0], sizes)
    mirrored = permuted(reversed_along(contiguous(2, 3, 2, 3, 2), 0, 2, 4), 4, 1, 2, 3, 0)
    assert copied(assert_visits(ops, [], mirrored)) == [72]


@pytest.mark.parametrize("sizes", [(0,), (0, 3), (3, 0), (2, 0, 3), (1, 1), (1,), (), (1, 0)])
def test_sizes_of_zero_and_one(ops: Any, sizes: tuple[int, ...]) -> None:
    for kept in itertools.chain.from_iterable(
        itertools.combinations(range(len(sizes)), count) for count in range(len(sizes) + 1)
    ):
        odd = Strided(sizes, tuple(7 + d for d in range(len(sizes))))
        ones = contiguous(*(1 for _ in sizes))
        found = assert_visits(ops, kept, contiguous(*sizes), odd, ones, contiguous())
        assert copied(found) == [0] * 4


SHUFFLED = permuted(contiguous(2, 2, 3, 2, 2), 0, 2, 4, 1, 3)
"""[2, 3, 2, 2, 2]. Its neighbours do not merge if they are channels: too many for two loops."""
ALL_DIMENSIONS = list(range(5))


@pytest.mark.parametrize(
    ("kept", "operands", "expected"),
    [
        # Only what does not fit is copied, as many elements as it has.
        (ALL_DIMENSIONS, [SHUFFLED], [48]),
        (ALL_DIMENSIONS, [SHUFFLED, contiguous(2, 3, 2, 2, 2)], [48, 0]),
        (ALL_DIMENSIONS, [contiguous(2, 3, 2, 2, 2), SHUFFLED], [0, 48]),
        (ALL_DIMENSIONS, [SHUFFLED, SHUFFLED], [48, 48]),
        (ALL_DIMENSIONS, [SHUFFLED, contiguous(), SHUFFLED, contiguous(2)], [48, 0, 48, 0]),
        # A weight of each channel, in a strange order: it is not expanded over the rows.
        (
            ALL_DIMENSIONS,
            [contiguous(2, 3, 2, 2, 2, 9), Strided((*SHUFFLED.sizes, 1), (*SHUFFLED.strides, 1))],
            [0, 48],
        ),
        # A weight of each row, in a strange order: it is not expanded over the channels.
        (
            [0],
            [
                contiguous(9, 2, 3, 2, 2, 2),
                permuted(reversed_along(contiguous(2, 2, 2, 2, 3), 1, 3), 0, 4, 2, 1, 3),
            ],
            [0, 48],
        ),
        # A broadcast that alternates with what is none cannot be loops: it is expanded over the
        # channels alone, over the rows alone, or over both.
        ([0, 1, 2], [contiguous(2, 3, 4, 9), contiguous(2, 1, 4, 1)], [0, 24]),
        ([4], [contiguous(2, 3, 2, 3, 9), contiguous(2, 1, 2, 1, 1)], [0, 36]),
        (
            [0, 1, 2],
            [contiguous(2, 3, 2, 2, 3, 2, 3), contiguous(2, 1, 2, 2, 1, 2, 1)],
            [0, 432],
        ),
        # The third one does not fit beside the first two, each of which is broadcast elsewhere.
        (
            [],
            [contiguous(2, 3, 2, 3), contiguous(2, 1, 2, 1), contiguous(2, 1, 1, 3)],
            [0, 36, 0],
        ),
    ],
)
def test_what_must_be_copied(
    ops: Any, kept: list[int], operands: list[Strided], expected: list[int]
) -> None:
    assert copied(assert_visits(ops, kept, *operands)) == expected


def test_operands_that_do_not_broadcast(ops: Any) -> None:
    first = contiguous(2, 3)
    for other in (contiguous(2), contiguous(4, 3), contiguous(2, 2, 3), contiguous(0)):
        with pytest.raises(RuntimeError, match="does not broadcast"):
            loops(ops, [0], first, other)
    for operands in ([], [first] * 5):
        with pytest.raises(RuntimeError, match="one to four operands"):
            loops(ops, [0], *operands)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[list[int], list[torch.Tensor]]:
    sizes = draw(
        st.lists(st.integers(0, 3) if draw(st.booleans()) else st.integers(2, 3), max_size=7)
    )
    kept = [d for d in range(len(sizes)) if draw(st.integers(0, 2)) == 0]
    dtypes = st.sampled_from([torch.int16, torch.int32, torch.int64])
    values = []
    for k in range(draw(st.integers(1, 4))):
        own = [1 if k > 0 and draw(st.integers(0, 3)) == 0 else size for size in sizes]
        order = draw(st.permutations(range(len(sizes))))
        stored = torch.arange(math.prod(own), dtype=draw(dtypes)).view([own[d] for d in order])
        tensor = stored.permute([order.index(d) for d in range(len(sizes))])
        values.append(tensor.expand(sizes) if draw(st.booleans()) else tensor)
    return kept, values


@generated
@given(problem=tensors())
def test_tensors(ops: Any, problem: tuple[list[int], list[torch.Tensor]]) -> None:
    """Memory of tensors and of their copies, against torch's broadcast."""
    kept, operands = problem
    visited, read = ops.visit(operands, kept)
    together = torch.broadcast_tensors(*operands)
    others = [d for d in range(operands[0].ndim) if d not in kept]
    channels = math.prod(operands[0].shape[d] for d in kept)
    rows = math.prod(operands[0].shape[d] for d in others)
    expected = torch.stack(
        [x.permute([*kept, *others]).reshape(channels, rows).long() for x in together]
    )
    assert visited.shape[:2] == expected.shape[:2]
    assert visited.numel() == expected.numel()
    for channel in range(channels):
        elements, right = visited[:, channel].T.tolist(), expected[:, channel].T.tolist()
        assert sorted(elements) == sorted(right)
    shapes = [Strided(tuple(x.shape), x.stride()) for x in operands]
    needed = copied(loops(ops, kept, *shapes))
    for tensor, own, elements in zip(operands, read, needed, strict=True):
        if elements:
            assert own.is_contiguous()
            assert (own.numel(), own.dtype) == (elements, tensor.dtype)
        else:
            assert own.data_ptr() == tensor.data_ptr()
