"""Files that only wrap values, such as compressed ones: they are refused with a remedy."""

from __future__ import annotations

import re

from .base import SourceError

SAVE_AS_ARRAY = "save its values as .npy or .safetensors"

# Files that only wrap values: how they begin, what they are, and how to get at the values.
WRAPPERS = (
    (rb"\x1f\x8b\x08", "a gzip file", "decompress it (gzip -dc FILE | torch_histo -)"),
    (rb"BZh[1-9]1AY&SY", "a bzip2 file", "decompress it (bzip2 -dc FILE | torch_histo -)"),
    (rb"\xfd7zXZ\x00", "an xz file", "decompress it (xz -dc FILE | torch_histo -)"),
    (rb"\x28\xb5\x2f\xfd", "a zstd file", "decompress it (zstd -dc FILE | torch_histo -)"),
    (rb"\x04\x22\x4d\x18", "an lz4 file", "decompress it (lz4 -dc FILE | torch_histo -)"),
    (rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|.{257}ustar", "an archive", "unpack it"),
    (rb"\x80[\x02-\x05][\x95\x8a}\](c]", "a pickle", SAVE_AS_ARRAY),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", SAVE_AS_ARRAY),
    (rb"PAR1", "a Parquet file", SAVE_AS_ARRAY),
    (rb"ARROW1|FEA1", "an Arrow file", SAVE_AS_ARRAY),
    (rb"MATLAB 5\.0 MAT-file", "a MATLAB file", SAVE_AS_ARRAY),
    (rb"GGUF", "a GGUF file", SAVE_AS_ARRAY),
)
PICKLE_SUFFIXES = {".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib"}


def refuse_wrappers(head: bytes, suffix: str) -> None:
    for signature, what, remedy in WRAPPERS:
        if re.match(signature, head, re.DOTALL):
            raise wrapper_error(what, remedy)
    if suffix in PICKLE_SUFFIXES:
        raise wrapper_error("a pickle", SAVE_AS_ARRAY)


def wrapper_error(what: str, remedy: str) -> SourceError:
    return SourceError(f"is {what}: {remedy}, or count its bytes with --channels 1")
