"""Numbers of plans in words."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    plural = "es" if noun.endswith("ch") else "s"
    return f"{n:,} {noun}{plural if n != 1 else ''}"


def digits(x: float) -> str:
    """Three digits, none after the point that is 0."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def in_bytes(n: int) -> str:
    size, unit = float(n), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return counted(n, "byte") if unit == "bytes" else f"{digits(size)} {unit}"


def in_seconds(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{digits(seconds * 1e3)} ms"
    return f"{digits(seconds * 1e6)} us" if seconds >= 1e-6 else f"{digits(seconds * 1e9)} ns"
