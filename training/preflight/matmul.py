"""Measure how long this process's device takes for a matrix product, so that slow nodes can be found."""

from __future__ import annotations

import time

import torch

_CPU_SIZE, _CPU_SECONDS = 256, 0.3
_GPU_SIZE, _GPU_PRODUCTS, _GPU_ROUNDS = 8192, 20, 5
"""20 products of 8192 x 8192 matrices take about 0.1 s on an A100 in bf16."""


def matmul_seconds(device: torch.device) -> float:
    """Return the shortest time of one matrix product on `device`, in seconds.

    On a CPU, the product is small and repeated many times, so other processes rarely delay all repetitions. On a GPU,
    the products run long enough to heat the GPU, and the fastest of several rounds counts.
    """
    return _on_gpu(device) if device.type == "cuda" else _on_cpu()


def _on_cpu() -> float:
    a = torch.full((_CPU_SIZE, _CPU_SIZE), 0.5)
    b, shortest, began = a.clone(), float("inf"), time.perf_counter()
    multiply(a, b)
    while time.perf_counter() - began < _CPU_SECONDS:
        started = time.perf_counter()
        multiply(a, b)
        shortest = min(shortest, time.perf_counter() - started)
    # Only a process that could not compute for the whole time has no measurement yet.
    if shortest == float("inf"):
        started = time.perf_counter()
        multiply(a, b)
        shortest = time.perf_counter() - started
    return shortest


def _on_gpu(device: torch.device) -> float:
    a = torch.full((_GPU_SIZE, _GPU_SIZE), 0.5, dtype=torch.bfloat16, device=device)
    b, shortest = a.clone(), float("inf")
    multiply(a, b)
    torch.cuda.synchronize(device)
    for _ in range(_GPU_ROUNDS):
        started = time.perf_counter()
        for _ in range(_GPU_PRODUCTS):
            multiply(a, b)
        torch.cuda.synchronize(device)
        shortest = min(shortest, (time.perf_counter() - started) / _GPU_PRODUCTS)
    del a, b
    forget_memory(device)
    return shortest


def forget_memory(device: torch.device) -> None:
    """Return the memory of the checks to the GPU, and exclude it from the recorded peak of the training."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product of two matrices."""
    return a @ b
