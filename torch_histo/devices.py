"""The GPUs that a plan can be made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_KIB = 1 << 10


@dataclass(frozen=True)
class Device:
    """The limits of a GPU that a plan depends on.

    Args:
        name: what it is called.
        sm_count: its streaming multiprocessors.
        shared_bytes_per_block: shared memory that one block can have, in bytes, with opt-in
            (`cudaDevAttrMaxSharedMemoryPerBlockOptin`).
        shared_bytes_per_sm: shared memory of a multiprocessor, in bytes.
        capability: its compute capability, as (major, minor).
        bytes_per_second: the bandwidth of its memory; None where it is not known.

    Raises:
        ValueError: a limit is not positive.
    """

    name: str
    sm_count: int
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    capability: tuple[int, int]
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        for limit in ("sm_count", "shared_bytes_per_block", "shared_bytes_per_sm"):
            if getattr(self, limit) < 1:
                raise ValueError(f"Device: {limit} must be at least 1, got {getattr(self, limit)}")
        if self.bytes_per_second is not None and self.bytes_per_second <= 0:
            raise ValueError(
                f"Device: bytes_per_second must be above 0 or None, got {self.bytes_per_second}"
            )

    def __str__(self) -> str:
        shared = self.shared_bytes_per_block // _KIB
        sms = f"{self.sm_count} SM{'s' * (self.sm_count != 1)}"
        return f"{self.name} ({sms}, {shared} KiB a block)"


# Multiprocessors and bandwidth from NVIDIA's data sheets (H200, H100 and B200: SXM; A100: SXM,
# 80 GB), shared memory from the table "Technical Specifications per Compute Capability" of the
# CUDA programming guide.
DEVICES = (
    Device("H200", 132, 227 * _KIB, 228 * _KIB, (9, 0), 4.8e12),
    Device("H100", 132, 227 * _KIB, 228 * _KIB, (9, 0), 3.35e12),
    Device("A100", 108, 163 * _KIB, 164 * _KIB, (8, 0), 2.039e12),
    Device("RTX 4090", 128, 99 * _KIB, 100 * _KIB, (8, 9), 1.008e12),
    Device("L40S", 142, 99 * _KIB, 100 * _KIB, (8, 9), 0.864e12),
    Device("T4", 40, 64 * _KIB, 64 * _KIB, (7, 5), 0.32e12),
    Device("B200", 148, 227 * _KIB, 228 * _KIB, (10, 0), 8e12),
)
"""The GPUs that `explain` knows by name."""


def target(input: Tensor, device: str | torch.device | Device | None) -> tuple[Device | None, bool]:
    """The limits of a GPU, or None for the CPU; and whether they are assumed: no device was given,
    and a meta tensor is on none."""
    if device is not None or not input.is_meta:
        device = input.device if device is None else device
        return None if str(device) == "cpu" else limits_of(device), False
    if torch.cuda.is_available():
        return limits_of(torch.device("cuda", torch.cuda.current_device())), True
    return DEVICES[0], True


def limits_of(device: str | torch.device | Device) -> Device:
    """The limits of a GPU: one known by name, one of this machine, or the limits as given."""
    if isinstance(device, Device):
        return device
    if isinstance(device, str) and not device.startswith("cuda"):
        for known in DEVICES:
            if device.replace(" ", "").casefold() == known.name.replace(" ", "").casefold():
                return known
    elif isinstance(device, str | torch.device) and torch.device(device).type == "cuda":
        return _limits_of_gpu(torch.device(device))
    names = ", ".join(known.name for known in DEVICES)
    raise ValueError(
        f"explain: device must be cpu, a CUDA device, a Device or one of {names}, "
        f"got {str(device)!r}"
    )


def numbers_of(device: Device | None) -> list[int]:
    """The limits, as operators that plan take them. The CPU has none."""
    if device is None:
        return []
    major, minor = device.capability
    shared = device.shared_bytes_per_block, device.shared_bytes_per_sm
    return [device.sm_count, *shared, 10 * major + minor]


def prediction(device: Device, num_bytes: int) -> str:
    """The least time in which a GPU's memory moves so many bytes, in words."""
    if device.bytes_per_second is None:
        return f"unknown, as is the bandwidth of {device.name}"
    at = f"at {device.bytes_per_second / 1e12:.4g} TB/s; each launch takes some microseconds more"
    return f"at least {num_bytes / device.bytes_per_second * 1e6:,.3g} us, {at}"


def _limits_of_gpu(device: torch.device) -> Device:
    if not torch.cuda.is_available():
        raise RuntimeError(f"explain: device must be a GPU that PyTorch finds, got {device}")
    properties: Any = torch.cuda.get_device_properties(device)
    # Both edges of a clock carry data. A driver that no longer tells the clock says 0.
    bandwidth: float | None = (
        2e3
        * (getattr(properties, "memory_clock_rate", 0) or 0)  # kHz
        * ((getattr(properties, "memory_bus_width", 0) or 0) // 8)
    )
    if not bandwidth:
        # Only names that mean one model: an H100 or A100 may be one of several.
        name = properties.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        by_name = {known.name: known.bytes_per_second for known in DEVICES}
        bandwidth = by_name.get(name.removeprefix("Tesla "))
    return Device(
        properties.name,
        properties.multi_processor_count,
        properties.shared_memory_per_block_optin,
        properties.shared_memory_per_multiprocessor,
        (properties.major, properties.minor),
        bandwidth,
    )
