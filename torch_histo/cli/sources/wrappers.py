"""Files of known formats that are not counted: they are refused with a remedy."""

from __future__ import annotations

import re
from typing import NamedTuple

from .base import SourceError

AS_ARRAY = "save its values as .npy or .safetensors"
AS_TENSORS = "save its tensors as .safetensors"
AS_COLUMNS = "save each column as .npy"
AS_IMAGE = "convert it to PNG or TIFF"
AS_FRAMES = "save its frames as images (ffmpeg -i FILE frame-%06d.png)"
AS_SAMPLES = "save its samples as .npy (soundfile.read)"


class _Format(NamedTuple):
    what: str
    remedy: str
    signature: bytes | None = None
    """A regular expression for how the files begin."""
    suffixes: str = ""
    """The suffixes of files that need not begin so."""


def _compressed(what: str, signature: bytes, program: str, suffixes: str = "") -> _Format:
    remedy = f"decompress it ({program} -dc FILE | torch_histo -)"
    return _Format(what, remedy, signature, suffixes)


# The first one that fits is taken.
FORMATS = (
    _Format(
        "a pointer of Git LFS",
        "fetch the file that it stands for (git lfs pull)",
        rb"version https://git-lfs\.github\.com/",
    ),
    # Files that hold other files
    _compressed("a gzip file", rb"\x1f\x8b\x08", "gzip"),
    _compressed("a file of compress", rb"\x1f\x9d[\x80-\x90]", "gzip"),
    _compressed("a bzip2 file", rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)", "bzip2"),
    _compressed("an xz file", rb"\xfd7zXZ\x00", "xz"),
    _compressed("an lzma file", rb"\x5d\x00\x00.{2}\xff{8}", "xz", ".lzma"),
    _compressed("an lzip file", rb"LZIP\x01", "lzip"),
    _compressed("a zstd file", rb"\x28\xb5\x2f\xfd", "zstd"),
    _compressed("an lz4 file", rb"\x04\x22\x4d\x18", "lz4"),
    _compressed("a Brotli file", rb"\xce\xb2\xcf\x81", "brotli", ".br"),
    _Format(
        "an archive",
        "unpack it",
        rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|MSCF\0{4}|!<arch>\n|.{257}ustar",
    ),
    # Tensors and arrays
    _Format(
        "a pickle",
        AS_ARRAY,
        rb"\x80(?!\x02\x8a\x0a\x6c\xfc)[\x02-\x05][\x95\x8a}\](c]",  # not an old file of torch.save
        ".pkl .pickle .joblib .pt .pth .ckpt",
    ),
    _Format(
        "a part of a checkpoint of torch.distributed",
        "join its parts (python -m torch.distributed.checkpoint.format_utils dcp_to_torch)",
        None,
        ".distcp",
    ),
    _Format(
        "a MATLAB file", f"{AS_ARRAY} (scipy.io.loadmat)", rb"MATLAB [57]\.[0-9] MAT-file", ".mat"
    ),
    _Format(
        "an HDF5 file", f"{AS_ARRAY} (h5py.File)", rb"\x89HDF\r\n\x1a\n", ".h5 .hdf5 .hdf .he5 .nc4"
    ),
    _Format("a netCDF file", f"{AS_ARRAY} (xarray.open_dataset)", rb"CDF[\x01\x02\x05]", ".nc"),
    _Format(
        "a GRIB file", f"{AS_ARRAY} (cfgrib.open_dataset)", rb"GRIB...[\x01\x02]", ".grib .grib2"
    ),
    _Format("a BUFR file", AS_ARRAY, rb"BUFR...[\x00-\x05]", ".bufr"),
    _Format("a GGUF file", AS_TENSORS, rb"GGUF", ".gguf"),
    _Format("an ONNX model", f"{AS_TENSORS} (onnx.numpy_helper.to_array)", None, ".onnx"),
    _Format("a TensorFlow Lite model", AS_TENSORS, rb".{4}TFL3", ".tflite"),
    _Format("a MessagePack file", AS_ARRAY, None, ".msgpack"),
    _Format("a protocol buffer", AS_ARRAY, None, ".pb"),
    _Format("a file of TFRecords", AS_ARRAY, None, ".tfrecord .tfrecords"),
    _Format("a BSON file", AS_ARRAY, None, ".bson"),
    _Format("a CBOR file", AS_ARRAY, None, ".cbor"),
    _Format("an R file", AS_ARRAY, rb"RD[AX][23]\n", ".rds .rda .rdata"),
    # Tables
    _Format("an encrypted Parquet file", "decrypt it", rb"PARE"),
    _Format(
        "an Arrow file",
        f"{AS_COLUMNS} (pyarrow.feather.read_table)",
        rb"ARROW1|FEA1",
        ".arrow .feather",
    ),
    _Format("an Avro file", AS_COLUMNS, rb"Obj\x01", ".avro"),
    _Format("an ORC file", f"{AS_COLUMNS} (pandas.read_orc)", None, ".orc"),
    _Format(
        "an Office file",
        f"{AS_COLUMNS} (pandas.read_excel)",
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        ".xls .xlsx .xlsm .ods",
    ),
    _Format("an SQLite database", AS_COLUMNS, rb"SQLite format 3\x00"),
    _Format("a Stata file", AS_COLUMNS, rb"<stata_dta>", ".dta"),
    _Format("an SPSS file", AS_COLUMNS, rb"\$FL[23]@\(#\)"),
    _Format("JSON text", AS_ARRAY, None, ".json .jsonl .ndjson"),
    # Images and volumes that Pillow does not read
    _Format(
        "a DICOM file",
        "save its pixels as .npy (pydicom.dcmread(FILE).pixel_array)",
        rb".{128}DICM",
        ".dcm .dicom",
    ),
    _Format(
        "a NIfTI file",
        "save its voxels as .npy (nibabel.load(FILE).get_fdata())",
        rb".{344}n[i+]1\x00|.{4}n[i+]2\x00",
        ".nii",
    ),
    _Format("an NRRD file", AS_ARRAY, rb"NRRD000[1-5]", ".nrrd .nhdr"),
    _Format("a MetaImage file", AS_ARRAY, None, ".mha .mhd"),
    _Format(
        "a raw photo",
        "develop it into a TIFF",
        rb"II\*\x00.{4}CR\x02|.{4}ftypcrx|FUJIFILMCCD-RAW|IIRO|IIRS|MMOR|IIU\x00",
        ".cr2 .cr3 .nef .arw .dng .orf .raf .rw2 .pef",
    ),
    _Format(
        "an HEIF image",
        AS_IMAGE,
        rb".{4}ftyp(?!.{0,56}avi[fs])(hei[cxms]|hev[cxms]|mif1|msf1)",
        ".heif .heic .hif",
    ),
    _Format("a JPEG XL image", AS_IMAGE, rb"\x00{3}\x0cJXL \r\n\x87\n", ".jxl"),
    _Format("an OpenEXR image", AS_ARRAY, rb"v/1\x01", ".exr"),
    _Format("a Radiance image", AS_ARRAY, rb"#\?(RADIANCE|RGBE)\n", ".hdr"),
    _Format("a DPX image", AS_IMAGE, rb"SDPX|XPDS", ".dpx"),
    _Format(
        "a drawing or a document",
        "render it as PNG",
        rb"%PDF-|%!PS-Adobe|\xc5\xd0\xd3\xc6|\xd7\xcd\xc6\x9a|AT&TFORM",
        ".pdf .ps .eps .svg .wmf .emf .djvu",
    ),
    # Sounds and films
    _Format(
        "a sound file",
        AS_SAMPLES,
        rb"(RIFF|RF64|RIFX).{4}WAVE|FORM.{4}AIF[FC]|fLaC|OggS\x00|ID3[\x02-\x04]\x00|\.snd\x00",
        ".wav .aif .aiff .flac .ogg .oga .opus .mp3 .aac .m4a .wma .au",
    ),
    _Format("a MIDI file", "render it as sound, and count its samples", rb"MThd\x00{3}\x06"),
    _Format(
        "a film",
        AS_FRAMES,
        rb".{4}ftyp(?!.{0,56}avi[fs])|RIFF.{4}AVI |\x1a\x45\xdf\xa3|FLV\x01"
        rb"|\x30\x26\xb2\x75\x8e\x66\xcf\x11",
        ".mp4 .m4v .mov .avi .mkv .webm .mpg .mpeg .wmv .flv",
    ),
    # Points in space
    _Format("a file of points", AS_ARRAY, rb"LASF|ply\r?\n|# \.PCD", ".las .laz .ply"),
)

ALWAYS = {".cr2", ".cr3", ".nef", ".arw", ".dng", ".orf", ".rw2", ".pef", ".distcp"}
"""Suffixes of files that begin as a TIFF, of which Pillow reads the preview, or as a zip file."""


def refuse_by_content(head: bytes, suffix: str) -> None:
    for known in FORMATS:
        if known.signature is not None and re.match(known.signature, head, re.DOTALL):
            raise refusal(known.what, known.remedy)
    if suffix in ALWAYS:
        refuse_by_suffix(suffix)


def refuse_by_suffix(suffix: str) -> None:
    for known in FORMATS:
        if suffix in known.suffixes.split():
            raise refusal(known.what, known.remedy)


def refusal(what: str, remedy: str) -> SourceError:
    return SourceError(f"is {what}: {remedy}, or count its bytes with --channels 1")
