"""Memory that ends at a page which must not be read."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

PROT_NONE = 0


@contextmanager
def before_forbidden_page(elements: int, dtype: torch.dtype) -> Iterator[Tensor]:
    """So many elements. A read behind the last of them ends the process."""
    page = mmap.PAGESIZE
    used = elements * dtype.itemsize
    size = -(-used // page) * page
    memory = mmap.mmap(-1, size + page)
    libc = ctypes.CDLL(None)
    last = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + size)
    assert libc.mprotect(last, ctypes.c_size_t(page), PROT_NONE) == 0
    yield torch.frombuffer(memory, dtype=torch.uint8, count=size)[size - used :].view(dtype)
    libc.mprotect(last, ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)
