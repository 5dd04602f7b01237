"""Measures matrix products of cuBLAS, through PyTorch, as peers.mjs does.

    python3 cublas.py --out FILE.json SHAPE...

A SHAPE is N, MxNxK or BATCHxMxNxK, in binary32 (without TF32) and in binary16.
It measures the bandwidth of a copy within the card, too.
"""

import argparse
import json
import statistics
import sys
import time

BATCH_SECONDS = 0.2  # the products of one batch take so long together
MAX_REPEATS = 200
ROUNDS = 6  # the first is dropped, the median of the others counts


def measure(torch, work):
    """The seconds of one turn of work: all rounds, sorted, and the repeats."""

    def batch(count):
        start = time.perf_counter()
        for _ in range(count):
            work()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    batch(1)  # loads the kernel
    repeats = max(1, min(MAX_REPEATS, int(BATCH_SECONDS / batch(1))))
    return sorted([batch(repeats) for _ in range(ROUNDS)][1:]), repeats


def error_ratio(torch, a, b, c, dtype):
    """The largest error over its bound, of elements drawn at random and both ends."""
    batch, m, k = a.shape
    n = b.shape[2]
    at = torch.cat([torch.tensor([0, batch * m * n - 1]), torch.randint(0, batch * m * n, (62,))]).to(a.device)
    p, i, j = at // (m * n), at // n % m, at % n
    rows, columns = a[p, i, :].double(), b[p, :, j].double()
    want = (rows * columns).sum(1)
    magnitude = (rows * columns).abs().sum(1)
    gamma = (k + 4) * 2.0**-24 / (1 - (k + 4) * 2.0**-24)
    unit = 2.0**-11 if dtype == "f16" else 0
    error = (c[p, i, j].double() - want).abs()
    return (error / (gamma * magnitude + unit * want.abs())).max().item()


def shape(text):
    numbers = [int(v) for v in text.split("x")]
    if len(numbers) == 1:
        numbers *= 3
    if len(numbers) == 3:
        numbers.insert(0, 1)
    if len(numbers) != 4:
        raise argparse.ArgumentTypeError(f"{text}: want N, MxNxK or BATCHxMxNxK")
    return numbers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("shapes", nargs="+", type=shape)
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("peers: without cuBLAS: PyTorch is not installed")
    if not torch.cuda.is_available():
        sys.exit("peers: without cuBLAS: PyTorch sees no NVIDIA GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.manual_seed(1)

    report = {"adapter": torch.cuda.get_device_name(), "driver": f"CUDA {torch.version.cuda}, PyTorch {torch.__version__}", "points": [], "notes": []}
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    times, _ = measure(torch, lambda: target.copy_(source))
    report["copy_bytes_per_second"] = 2 * source.nbytes / statistics.median(times)
    del source, target
    for dtype, kind in (("f32", torch.float32), ("f16", torch.float16)):
        for batch, m, n, k in args.shapes:
            print(f"peers: {dtype} {batch}x{m}x{n}x{k}, cuBLAS", file=sys.stderr)
            a = (2 * torch.rand(batch, m, k, device="cuda") - 1).to(kind)
            b = (2 * torch.rand(batch, k, n, device="cuda") - 1).to(kind)
            c = torch.empty(batch, m, n, device="cuda", dtype=kind)
            if batch == 1:
                times, repeats = measure(torch, lambda: torch.mm(a[0], b[0], out=c[0]))
            else:
                times, repeats = measure(torch, lambda: torch.bmm(a, b, out=c))
            seconds = statistics.median(times)
            report["points"].append({
                "series": "cuBLAS", "dtype": dtype, "batch": batch, "m": m, "n": n, "k": k, "repeats": repeats,
                "seconds": seconds, "seconds_least": times[0], "seconds_most": times[-1],
                "gflops": 2 * batch * m * n * k / seconds / 1e9, "error_ratio": error_ratio(torch, a, b, c, dtype),
            })
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)


main()
