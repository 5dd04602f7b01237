// broken/gemm_tiled: C = A B as gemm_tiled computes it, with a fault to switch on.
//
// Never planned: the demo shows what each fault does, and the tests prove that
// the checks catch it. With every fault off the result is right, so that a
// wrong one is the fault's doing. The textbook form of gemm_tiled: one element
// of C per invocation.
//
//   each workgroup: a BM x BN tile of C       grid ceil(n / BN) x ceil(m / BM)
//     for k0 in 0, BK, .. below k
//       stage a slice of A and B
//       acc += the sum of the slice's products
//
// Without a mask the kernel reads, and past m and n also writes, what lies past
// the edge. That is well defined only inside larger matrices, which have room
// for whole tiles; elsewhere it is up to the device's bounds checks.

// with NATIVE_F16: enable f16;
const BM: u32 = 4u; // tunable: rows of C per workgroup
const BN: u32 = 4u; // tunable: columns of C per workgroup
const BK: u32 = 8u; // tunable: depth of a slice of K
const NO_M_MASK: bool = false; // tunable: fault: neither loads of A nor stores are masked on M
const NO_N_MASK: bool = false; // tunable: fault: neither loads of B nor stores are masked on N
const NO_K_MASK: bool = false; // tunable: fault: loads are not masked on K
const RESET_ACC: bool = false; // tunable: fault: the accumulator is set to zero inside the loop over K
const F16_ACC: bool = true; // tunable: fault: the accumulator is rounded to binary16 after every slice
// begin parts/operands.wgsl
const IN_F16: bool = true; // tunable: A and B hold binary16, two elements a word
const OUT_F16: bool = true; // tunable: C holds binary16, two elements a word
const NATIVE_F16: bool = false; // tunable: binary16 is loaded and stored as the shader's own f16, where the device has it
const NATIVE_IN: bool = false;
const NATIVE_OUT: bool = false;

struct Shape {
  m: u32, // rows of A and C
  n: u32, // columns of B and C
  k: u32, // columns of A, rows of B
  a_offset: u32, // elements before A[0, 0]
  a_row: u32, // elements from a row of A to the next
  a_col: u32, // elements from a column of A to the next
  b_offset: u32,
  b_row: u32,
  b_col: u32,
  c_offset: u32,
  c_row: u32,
  c_col: u32,
}

@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> a: array<u32>; // words of A, m x k
// with NATIVE_IN: @group(0) @binding(1) var<storage, read> a: array<f16>; // elements of A, m x k
@group(0) @binding(2) var<storage, read> b: array<u32>; // words of B, k x n
// with NATIVE_IN: @group(0) @binding(2) var<storage, read> b: array<f16>; // elements of B, k x n
@group(0) @binding(3) var<storage, read_write> c: array<atomic<u32>>; // words of C, m x n
// with NATIVE_OUT: @group(0) @binding(3) var<storage, read_write> c: array<f16>; // elements of C, m x n

fn load_a(row: u32, kk: u32) -> f32 {
  let i = shape.a_offset + row * shape.a_row + kk * shape.a_col;
  if (IN_F16) {
    let pair = unpack2x16float(a[i >> 1u]);
    // with NATIVE_IN: let pair = vec2<f32>(f32(a[i]));
    return select(pair.x, pair.y, (i & 1u) == 1u);
  }
  return bitcast<f32>(a[i]);
  // with NATIVE_IN: return f32(a[i]);
}

fn load_b(kk: u32, col: u32) -> f32 {
  let i = shape.b_offset + kk * shape.b_row + col * shape.b_col;
  if (IN_F16) {
    let pair = unpack2x16float(b[i >> 1u]);
    // with NATIVE_IN: let pair = vec2<f32>(f32(b[i]));
    return select(pair.x, pair.y, (i & 1u) == 1u);
  }
  return bitcast<f32>(b[i]);
  // with NATIVE_IN: return f32(b[i]);
}

// Two invocations may own the halves of one word, hence the atomics: each
// clears and sets its own half and leaves the other alone.
fn store_c(row: u32, col: u32, value: f32) {
  let i = shape.c_offset + row * shape.c_row + col * shape.c_col;
  if (OUT_F16) {
    let shift = (i & 1u) * 16u;
    atomicAnd(&c[i >> 1u], 0xffff0000u >> shift);
    // with NATIVE_OUT: c[i] = bitcast<vec2<f16>>(f16_bits(value)).x;
    atomicOr(&c[i >> 1u], f16_bits(value) << shift);
    // with NATIVE_OUT:
  } else {
    atomicStore(&c[i], bitcast<u32>(value));
    // with NATIVE_OUT:
  }
}

// The binary16 nearest to x, ties to even, in the low 16 bits. In integers,
// since WGSL leaves the rounding of pack2x16float to the implementation.
fn f16_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let mag = bits & 0x7fffffffu;
  if (mag > 0x7f800000u) { return sign | 0x7e00u; } // NaN
  if (mag >= 0x477ff000u) { return sign | 0x7c00u; } // from 65520 on, half way past the largest
  if (mag >= 0x38800000u) { // from 2^-14 on: normal
    let rounded = mag - 0x38000000u + 0xfffu + ((mag >> 13u) & 1u); // exponent bias 127 to 15
    return sign | (rounded >> 13u);
  }
  let exponent = mag >> 23u;
  if (exponent < 102u) { return sign; } // below 2^-25
  let mantissa = (mag & 0x7fffffu) | 0x800000u;
  let drop = 126u - exponent; // bits below 2^-24, the subnormal step
  let kept = mantissa >> drop;
  let rest = mantissa & ((1u << drop) - 1u);
  let half = 1u << (drop - 1u);
  let up = rest > half || (rest == half && (kept & 1u) == 1u);
  return sign | (kept + select(0u, 1u, up));
}
// end parts/operands.wgsl

const WG_SIZE: u32 = 16u;
const A_TILE: u32 = 32u;
const B_TILE: u32 = 32u;

// holds: BM > 0u && BN > 0u && BK > 0u

var<workgroup> a_tile: array<f32, 32>; // BM x BK
var<workgroup> b_tile: array<f32, 32>; // BK x BN

// x rounded to binary16. A sum of two binary16 numbers that was rounded to
// binary32 first rounds to the same binary16 as the exact sum would, since
// 24 >= 2 * 11 + 2 (Figueroa, doi:10.1145/221332.221334).
fn to_f16(x: f32) -> f32 {
  return unpack2x16float(f16_bits(x)).x;
}

@compute @workgroup_size(4, 4, 1)
fn main(
  @builtin(workgroup_id) tile: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row0 = tile.y * BM;
  let col0 = tile.x * BN;
  var acc = 0.0;
  for (var k0 = 0u; k0 < shape.k; k0 += BK) {
    for (var e = lane; e < A_TILE; e += WG_SIZE) {
      let row = row0 + e / BK;
      let kk = k0 + e % BK;
      var value = 0.0;
      if ((NO_M_MASK || row < shape.m) && (NO_K_MASK || kk < shape.k)) { value = load_a(row, kk); }
      a_tile[e] = value;
    }
    for (var e = lane; e < B_TILE; e += WG_SIZE) {
      let kk = k0 + e / BN;
      let col = col0 + e % BN;
      var value = 0.0;
      if ((NO_K_MASK || kk < shape.k) && (NO_N_MASK || col < shape.n)) { value = load_b(kk, col); }
      b_tile[e] = value;
    }
    workgroupBarrier(); // the slice is complete; k0 is the same for all

    var slice = 0.0;
    for (var kk = 0u; kk < BK; kk += 1u) {
      slice = fma(a_tile[local.y * BK + kk], b_tile[kk * BN + local.x], slice);
    }
    if (RESET_ACC) { acc = 0.0; }
    if (F16_ACC) { acc = to_f16(acc + to_f16(slice)); } else { acc += slice; }
    workgroupBarrier(); // the slice is no longer needed
  }
  let row = row0 + local.y;
  let col = col0 + local.x;
  if ((NO_M_MASK || row < shape.m) && (NO_N_MASK || col < shape.n)) { store_c(row, col, acc); }
}
