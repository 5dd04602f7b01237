// broken/gemm_tiled: C as gemm_tiled computes it, with a fault to switch on.
//
// Never planned: the demo shows what each fault does, and the tests prove that
// the checks catch it. With every fault off the result is right, so that a
// wrong one is the fault's doing. The textbook form of gemm_tiled: one element
// of C per invocation.
//
//   each workgroup: a BM x BN tile of C       grid ceil(n / BN) x ceil(m / BM) x batch
//     for k0 in 0, BK, .. below k
//       stage a slice of A and B
//       acc += the sum of the slice's products
//
// Without a mask the kernel reads, and past m and n also writes, what lies past
// the edge. That is well defined only inside larger matrices, which have room
// for whole tiles; elsewhere it is up to the device's bounds checks.
//
// The demo shows the faults from NO_M_MASK to F16_ACC, which the CPU path follows
// too; those from PAST_M on are for the tests, on a device.

// with NATIVE_F16: enable f16;
const BM: u32 = 4u; // tunable: rows of C per workgroup
const BN: u32 = 4u; // tunable: columns of C per workgroup
const BK: u32 = 4u; // tunable: depth of a slice of K
const NO_M_MASK: bool = false; // tunable: fault: neither loads of A nor stores are masked on M
const NO_N_MASK: bool = false; // tunable: fault: neither loads of B nor stores are masked on N
const NO_K_MASK: bool = false; // tunable: fault: loads are not masked on K
const RESET_ACC: bool = false; // tunable: fault: the accumulator is set to zero inside the loop over K
const F16_ACC: bool = false; // tunable: fault: the accumulator is rounded to binary16 after every slice
const PAST_M: u32 = 0u; // tunable: fault: rows past the edge that the mask on M lets through
const PAST_N: u32 = 0u; // tunable: fault: columns past the edge that the mask on N lets through
const PAST_K: u32 = 0u; // tunable: fault: steps past the edge that the mask on K lets through
const DROP_K_TAIL: bool = false; // tunable: fault: the loop over K ends before a slice that is not whole
const SWAP_TILES: bool = false; // tunable: fault: the workgroup in row y and column x takes the tile in row x and column y
const SKIP_LAST: bool = false; // tunable: fault: the last matrix of a batch is not stored
const READ_C: bool = false; // tunable: fault: beta times C is added also where beta is 0
const ROUND_TWICE: bool = false; // tunable: fault: the sum is rounded to binary16 before alpha, beta and the bias
// begin parts/operands.wgsl
const IN_F16: bool = false; // tunable: A, B and the bias hold binary16, two elements a word
const IN_BF16: bool = false; // tunable: A, B and the bias hold bfloat16, two elements a word
const IN_I8: bool = false; // tunable: A and B hold int8, four elements a word, and C int32
const OUT_F16: bool = false; // tunable: C holds binary16, two elements a word
const OUT_BF16: bool = false; // tunable: C holds bfloat16, two elements a word
const NATIVE_F16: bool = false; // tunable: binary16 is loaded and stored as the shader's own f16, where the device has it
const READS_C: bool = false; // tunable: beta is not 0, so that the old C is read
const BIAS: bool = false; // tunable: a bias is added
const ACT: u32 = 0u; // tunable: activation: 0 none, 1 relu, 2 gelu by tanh, 3 gelu by erf, 4 silu, 5 sigmoid, 6 tanh
const NATIVE_IN: bool = NATIVE_F16 && IN_F16;
const NATIVE_OUT: bool = NATIVE_F16 && OUT_F16;
const OUT_HALF: bool = OUT_F16 || OUT_BF16;

alias Num = f32; // of the products and their sums
// with IN_I8: alias Num = i32; // of the products and their sums

struct Shape {
  m: u32, // rows of A and C
  n: u32, // columns of B and C
  k: u32, // columns of A, rows of B
  a_offset: u32, // elements before A[0, 0] of the first matrix of the batch
  a_row: u32, // elements from a row of A to the next
  a_col: u32, // elements from a column of A to the next
  a_batch: u32, // elements from a matrix of the batch to the next
  b_offset: u32,
  b_row: u32,
  b_col: u32,
  b_batch: u32,
  c_offset: u32,
  c_row: u32,
  c_col: u32,
  c_batch: u32,
  bias_offset: u32,
  bias_row: u32,
  bias_col: u32,
  bias_batch: u32,
  alpha: f32,
  beta: f32,
  splits: u32, // parts into which K is cut; each has a C of its own (gemm_reduce adds them up)
  depth: u32, // of a part: kk from part * depth on
}

@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> a: array<u32>; // words of A, m x k
// with NATIVE_IN: @group(0) @binding(1) var<storage, read> a: array<f16>; // elements of A, m x k
@group(0) @binding(2) var<storage, read> b: array<u32>; // words of B, k x n
// with NATIVE_IN: @group(0) @binding(2) var<storage, read> b: array<f16>; // elements of B, k x n
@group(0) @binding(3) var<storage, read_write> c: array<atomic<u32>>; // words of C, m x n
// with NATIVE_OUT: @group(0) @binding(3) var<storage, read_write> c: array<f16>; // elements of C, m x n
@group(0) @binding(4) var<storage, read> bias: array<u32>; // words of the bias, seen as m x n
// with NATIVE_IN: @group(0) @binding(4) var<storage, read> bias: array<f16>; // elements of the bias, seen as m x n

var<private> batch: u32; // which matrix of the batch; main sets it first

fn load_a(row: u32, kk: u32) -> Num { return element_a(index_a(row, kk)); }

fn load_b(kk: u32, col: u32) -> Num { return element_b(index_b(kk, col)); }

fn index_a(row: u32, kk: u32) -> u32 {
  return shape.a_offset + batch * shape.a_batch + row * shape.a_row + kk * shape.a_col;
}

fn index_b(kk: u32, col: u32) -> u32 {
  return shape.b_offset + batch * shape.b_batch + kk * shape.b_row + col * shape.b_col;
}

fn element_a(i: u32) -> Num {
  return decode(a[word(i)], i);
  // with NATIVE_IN: return f32(a[i]);
}

fn element_b(i: u32) -> Num {
  return decode(b[word(i)], i);
  // with NATIVE_IN: return f32(b[i]);
}

// The word that holds element i of A, B or the bias.
fn word(i: u32) -> u32 {
  if (IN_I8) { return i >> 2u; }
  return select(i, i >> 1u, IN_F16 || IN_BF16);
}

// Element i, which is in this word.
fn decode(bits: u32, i: u32) -> Num {
  if (IN_F16) {
    let pair = unpack2x16float(bits);
    return select(pair.x, pair.y, (i & 1u) == 1u);
    // with IN_I8: return 0;
  }
  if (IN_BF16) {
    return bitcast<f32>((bits >> ((i & 1u) * 16u)) << 16u);
    // with IN_I8: return 0;
  }
  return bitcast<f32>(bits);
  // with IN_I8: return bitcast<i32>(bits << (24u - (i & 3u) * 8u)) >> 24u;
}

fn multiply_add(x: Num, y: Num, sum: Num) -> Num {
  return fma(x, y, sum);
  // with IN_I8: return x * y + sum;
}

// C[row, col] = act(alpha acc + beta C[row, col] + bias[row, col]). Sums of int8 are
// stored as they are.
fn store_c(row: u32, col: u32, acc: Num) {
  let i = shape.c_offset + batch * shape.c_batch + row * shape.c_row + col * shape.c_col;
  var value = shape.alpha * f32(acc);
  if (READS_C) { value = fma(shape.beta, old_c(i), value); }
  if (BIAS) { value += load_bias(row, col); }
  write_c(i, activate(value));
  // with IN_I8: atomicStore(&c[i], bitcast<u32>(acc));
}

fn load_bias(row: u32, col: u32) -> f32 {
  let i = shape.bias_offset + batch * shape.bias_batch + row * shape.bias_row + col * shape.bias_col;
  return f32(decode(bias[word(i)], i));
  // with NATIVE_IN: return f32(bias[i]);
}

fn old_c(i: u32) -> f32 {
  if (OUT_HALF) {
    let bits = atomicLoad(&c[i >> 1u]) >> ((i & 1u) * 16u);
    // with NATIVE_OUT: let bits = bitcast<u32>(vec2<f16>(c[i], 0.0h));
    return select(bitcast<f32>(bits << 16u), unpack2x16float(bits).x, OUT_F16);
  }
  return bitcast<f32>(atomicLoad(&c[i]));
  // with NATIVE_OUT: return 0.0;
}

// Two invocations may own the halves of one word, hence the atomics: each
// clears and sets its own half and leaves the other alone.
fn write_c(i: u32, value: f32) {
  if (OUT_HALF) {
    let bits = select(bf16_bits(value), f16_bits(value), OUT_F16);
    let shift = (i & 1u) * 16u;
    atomicAnd(&c[i >> 1u], 0xffff0000u >> shift);
    // with NATIVE_OUT: c[i] = bitcast<vec2<f16>>(bits).x;
    atomicOr(&c[i >> 1u], bits << shift);
    // with NATIVE_OUT:
  } else {
    atomicStore(&c[i], bitcast<u32>(value));
    // with NATIVE_OUT:
  }
}

// The binary16 nearest to x, ties to even, in the low 16 bits. Not by pack2x16float, whose
// rounding WGSL leaves to the implementation; and without branches: by those of a tile's
// elements NVIDIA's compiler made the loop over K slower.
fn f16_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let mag = bits & 0x7fffffffu;
  let normal = (mag - 0x38000000u + 0xfffu + ((mag >> 13u) & 1u)) >> 13u; // exponent bias 127 to 15
  let subnormal = bitcast<u32>(abs(x) + 0.5) - 0x3f000000u; // next to 0.5 the step is 2^-24, too
  let rounded = select(subnormal, min(normal, 0x7c00u), mag >= 0x38800000u); // 0x7c00: infinity
  return ((bits >> 16u) & 0x8000u) | select(rounded, 0x7e00u, mag > 0x7f800000u); // 0x7e00: NaN
}

// The bfloat16 nearest to x, ties to even, in the low 16 bits.
fn bf16_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
  return select(rounded, (bits >> 16u) | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u); // NaN
}

// The activation. NaN stays NaN, which is tested in integers: NVIDIA's compiler
// makes a max of a relu that is written as a choice. exp is of negative numbers
// only, so that nothing overflows.
fn activate(x: f32) -> f32 {
  if (ACT != 0u && (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { return x; }
  if (ACT == 1u) { return select(x, 0.0, x < 0.0); }
  if (ACT == 2u) { return x * sigmoid(1.5957691216057308 * fma(0.044715 * x * x, x, x)); } // 2 sqrt(2 / pi)
  if (ACT == 3u) { return 0.5 * x * (1.0 + erf(0.7071067811865476 * x)); }
  if (ACT == 4u) { return x * sigmoid(x); }
  if (ACT == 5u) { return sigmoid(x); }
  if (ACT == 6u) { return fma(2.0, sigmoid(2.0 * x), -1.0); }
  return x;
}

fn sigmoid(x: f32) -> f32 {
  let e = exp(-abs(x));
  return select(e, 1.0, x >= 0.0) / (1.0 + e);
}

// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: within
// 1.5e-7 of erf.
fn erf(x: f32) -> f32 {
  let t = 1.0 / fma(0.3275911, abs(x), 1.0);
  let p = t * fma(t, fma(t, fma(t, fma(t, 1.061405429, -1.453152027), 1.421413741), -0.284496736), 0.254829592);
  return sign(x) * fma(-p, exp(-x * x), 1.0);
}
// end parts/operands.wgsl

const WG_SIZE: u32 = BN * BM;
const A_TILE: u32 = BM * BK;
const B_TILE: u32 = BK * BN;

const_assert BM > 0u && BN > 0u && BK > 0u;

var<workgroup> a_tile: array<Num, A_TILE>; // BM x BK
var<workgroup> b_tile: array<Num, B_TILE>; // BK x BN

// x rounded to binary16. A sum of two binary16 numbers that was rounded to
// binary32 first rounds to the same binary16 as the exact sum would, since
// 24 >= 2 * 11 + 2 (Figueroa, doi:10.1145/221332.221334).
fn to_f16(x: Num) -> Num {
  return Num(unpack2x16float(f16_bits(f32(x))).x);
}

@compute @workgroup_size(BN, BM, 1)
fn main(
  @builtin(workgroup_id) tile: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
  @builtin(num_workgroups) grid: vec3<u32>,
) {
  batch = tile.z;
  let row0 = select(tile.y, tile.x, SWAP_TILES) * BM;
  let col0 = select(tile.x, tile.y, SWAP_TILES) * BN;
  var acc = Num(0);
  var end = shape.k;
  if (DROP_K_TAIL) { end -= end % BK; }
  for (var k0 = 0u; k0 < end; k0 += BK) {
    for (var e = lane; e < A_TILE; e += WG_SIZE) {
      let row = row0 + e / BK;
      let kk = k0 + e % BK;
      var value = Num(0);
      if ((NO_M_MASK || row < shape.m + PAST_M) && (NO_K_MASK || kk < shape.k + PAST_K)) { value = load_a(row, kk); }
      a_tile[e] = value;
    }
    for (var e = lane; e < B_TILE; e += WG_SIZE) {
      let kk = k0 + e / BN;
      let col = col0 + e % BN;
      var value = Num(0);
      if ((NO_K_MASK || kk < shape.k + PAST_K) && (NO_N_MASK || col < shape.n + PAST_N)) { value = load_b(kk, col); }
      b_tile[e] = value;
    }
    workgroupBarrier(); // the slice is complete; k0 is the same for all

    var slice = Num(0);
    for (var kk = 0u; kk < BK; kk += 1u) {
      slice = multiply_add(a_tile[local.y * BK + kk], b_tile[kk * BN + local.x], slice);
    }
    if (RESET_ACC) { acc = Num(0); }
    if (F16_ACC) { acc = to_f16(acc + to_f16(slice)); } else { acc += slice; }
    workgroupBarrier(); // the slice is no longer needed
  }
  let row = row0 + local.y;
  let col = col0 + local.x;
  if (ROUND_TWICE) { acc = to_f16(acc); }
  if (READ_C && shape.beta == 0.0) { acc += Num(shape.beta * old_c(shape.c_offset + batch * shape.c_batch + row * shape.c_row + col * shape.c_col)); }
  let skipped = SKIP_LAST && grid.z > 1u && tile.z + 1u == grid.z;
  if (!skipped && (NO_M_MASK || row < shape.m + PAST_M) && (NO_N_MASK || col < shape.n + PAST_N)) { store_c(row, col, acc); }
}
