"""The sources of ``benchmarks/build.py``: N small programs in MLIR, and the same in CUDA, no two of them equal.

    python benchmarks/build_sources.py FOLDER [COUNT]

A third each is pointwise, works on rows, and contracts. The same number always gives the same text.
"""

from __future__ import annotations

import sys
from pathlib import Path

POINTWISE = """\
func.func @pointwise_{n}(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
  %a = arith.constant {a} : f32
  %zero = arith.constant 0.0 : f32
  %r = linalg.map ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%y : tensor<?xf32>)
      (%u: f32, %v: f32, %old: f32) {{
        %p = arith.mulf %u, %a : f32
        %s = arith.addf %p, %v : f32
        %m = arith.maximumf %s, %zero : f32
        linalg.yield %m : f32
      }}
  return %r : tensor<?xf32>
}}
"""
ROWS = """\
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @rows_{n}(%x: tensor<?x1024xf32>, %y: tensor<?x1024xf32>, %sums: tensor<?xf32>) -> tensor<?x1024xf32> {{
  %a = arith.constant {a} : f32
  %zero = arith.constant 0.0 : f32
  %init = linalg.fill ins(%zero : f32) outs(%sums : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {{indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<?x1024xf32>) outs(%init : tensor<?xf32>) {{
    ^bb0(%u: f32, %sum: f32):
      %square = arith.mulf %u, %u : f32
      %next = arith.addf %sum, %square : f32
      linalg.yield %next : f32
  }} -> tensor<?xf32>
  %r = linalg.generic {{indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %s : tensor<?x1024xf32>, tensor<?xf32>) outs(%y : tensor<?x1024xf32>) {{
    ^bb0(%u: f32, %sum: f32, %old: f32):
      %d = arith.addf %sum, %a : f32
      %q = arith.divf %u, %d : f32
      linalg.yield %q : f32
  }} -> tensor<?x1024xf32>
  return %r : tensor<?x1024xf32>
}}
"""
CONTRACTION = """\
func.func @contraction_{n}(%x: tensor<?x256xf32>, %w: tensor<256x256xf32>, %y: tensor<?x256xf32>)
    -> tensor<?x256xf32> {{
  %a = arith.constant {a} : f32
  %init = linalg.fill ins(%a : f32) outs(%y : tensor<?x256xf32>) -> tensor<?x256xf32>
  %r = linalg.matmul ins(%x, %w : tensor<?x256xf32>, tensor<256x256xf32>)
      outs(%init : tensor<?x256xf32>) -> tensor<?x256xf32>
  return %r : tensor<?x256xf32>
}}
"""
CUDA_POINTWISE = """\
extern "C" __global__ void pointwise_{n}(const float *x, float *y, long length) {{
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < length) y[i] = fmaxf(x[i] * {a}f + y[i], 0.0f);
}}
"""
CUDA_ROWS = """\
extern "C" __global__ void rows_{n}(const float *x, float *y) {{
  __shared__ float partial[32];
  const float *row = x + blockIdx.x * 1024L;
  float sum = 0;
  for (int j = threadIdx.x; j < 1024; j += blockDim.x) sum += row[j] * row[j];
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < blockDim.x / 32; warp++) sum += partial[warp];
  for (int j = threadIdx.x; j < 1024; j += blockDim.x) y[blockIdx.x * 1024L + j] = row[j] / (sum + {a}f);
}}
"""
CUDA_CONTRACTION = """\
extern "C" __global__ void contraction_{n}(const float *x, const float *w, float *y, long rows) {{
  __shared__ float left[16][16], right[16][16];
  long i = blockIdx.y * 16L + threadIdx.y;
  int j = blockIdx.x * 16 + threadIdx.x;
  float sum = {a}f;
  for (int k = 0; k < 256; k += 16) {{
    left[threadIdx.y][threadIdx.x] = i < rows ? x[i * 256 + k + threadIdx.x] : 0.0f;
    right[threadIdx.y][threadIdx.x] = w[(k + threadIdx.y) * 256 + j];
    __syncthreads();
    for (int l = 0; l < 16; l++) sum += left[threadIdx.y][l] * right[l][threadIdx.x];
    __syncthreads();
  }}
  if (i < rows) y[i * 256 + j] = sum;
}}
"""
KINDS = (
    ("pointwise", POINTWISE, CUDA_POINTWISE),
    ("rows", ROWS, CUDA_ROWS),
    ("contraction", CONTRACTION, CUDA_CONTRACTION),
)


def source(number: int, *, factor: float = 1.5) -> tuple[str, str, str]:
    """Name, MLIR and CUDA of one source."""
    kind, mlir, cuda = KINDS[number % len(KINDS)]
    a = f"{factor * (1 + number / 1024):.10f}"
    return f"{kind}_{number}", mlir.format(n=number, a=a), cuda.format(n=number, a=a)


def write(folder: Path, count: int) -> list[str]:
    """Writes both forms; the names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for number in range(count):
        name, mlir, cuda = source(number)
        (folder / f"{name}.mlir").write_text(mlir)
        (folder / f"{name}.cu").write_text(cuda)
        names.append(name)
    return names


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 64)
