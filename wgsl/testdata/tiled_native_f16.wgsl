// gemm_tiled: C = act(alpha A B + beta C + bias), one tile of C per workgroup,
// K in slices.
//
// A is m x k, B is k x n, C is m x n, for each matrix of a batch. Each has an
// offset and strides in elements. Elements are binary32, binary16 or bfloat16
// and sums are binary32; or int8, and sums int32.
//
//   each workgroup: a BM x BN tile of C       grid ceil(n / BN) x ceil(m / BM) x batch
//     for k0 in 0, BK, .. below k
//       stage A[tile rows, k0 .. k0+BK] and B[k0 .. k0+BK, tile columns]
//       each invocation: TM x TN elements
//         slice = sum over kk in 0 .. BK of a_tile[row, kk] * b_tile[kk, col]
//         acc += slice
//     C[tile] = act(alpha acc + beta C[tile] + bias[tile])
//
// Masked: rows past m, columns past n and, in every slice, kk past k are not
// loaded and count as 0; elements past m or n are not stored.
// Every slice is summed by itself before it is added, so rounding grows with
// BK + k / BK and not with k: the blocked summation of Higham, Accuracy and
// Stability of Numerical Algorithms, 2nd edition, section 4.2.
enable f16;
// with NATIVE_F16: enable f16;
const BM: u32 = 4u; // tunable: rows of C per workgroup
const BN: u32 = 4u; // tunable: columns of C per workgroup
const BK: u32 = 4u; // tunable: depth of a slice of K
const TM: u32 = 1u; // tunable: rows of C per invocation
const TN: u32 = 1u; // tunable: columns of C per invocation
const UNROLL: bool = false; // tunable: write out the loops over the elements of an invocation
// begin parts/operands.wgsl
const IN_F16: bool = true; // tunable: A, B and the bias hold binary16, two elements a word
const IN_BF16: bool = false; // tunable: A, B and the bias hold bfloat16, two elements a word
const IN_I8: bool = false; // tunable: A and B hold int8, four elements a word, and C int32
const OUT_F16: bool = true; // tunable: C holds binary16, two elements a word
const OUT_BF16: bool = false; // tunable: C holds bfloat16, two elements a word
const NATIVE_F16: bool = true; // tunable: binary16 is loaded and stored as the shader's own f16, where the device has it
const READS_C: bool = false; // tunable: beta is not 0, so that the old C is read
const BIAS: bool = false; // tunable: a bias is added
const ACT: u32 = 0u; // tunable: activation: 0 none, 1 relu, 2 gelu by tanh, 3 gelu by erf, 4 silu, 5 sigmoid, 6 tanh
const NATIVE_IN: bool = true;
const NATIVE_OUT: bool = true;
const OUT_HALF: bool = true;

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
@group(0) @binding(1) var<storage, read> a: array<f16>; // elements of A, m x k
// with NATIVE_IN: @group(0) @binding(1) var<storage, read> a: array<f16>; // elements of A, m x k
@group(0) @binding(2) var<storage, read> b: array<f16>; // elements of B, k x n
// with NATIVE_IN: @group(0) @binding(2) var<storage, read> b: array<f16>; // elements of B, k x n
@group(0) @binding(3) var<storage, read_write> c: array<f16>; // elements of C, m x n
// with NATIVE_OUT: @group(0) @binding(3) var<storage, read_write> c: array<f16>; // elements of C, m x n
@group(0) @binding(4) var<storage, read> bias: array<f16>; // elements of the bias, seen as m x n
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
  return f32(a[i]);
  // with NATIVE_IN: return f32(a[i]);
}

fn element_b(i: u32) -> Num {
  return f32(b[i]);
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
  return f32(bias[i]);
  // with NATIVE_IN: return f32(bias[i]);
}

fn old_c(i: u32) -> f32 {
  if (OUT_HALF) {
    let bits = bitcast<u32>(vec2<f16>(c[i], 0.0h));
    // with NATIVE_OUT: let bits = bitcast<u32>(vec2<f16>(c[i], 0.0h));
    return select(bitcast<f32>(bits << 16u), unpack2x16float(bits).x, OUT_F16);
  }
  return 0.0;
  // with NATIVE_OUT: return 0.0;
}

// Two invocations may own the halves of one word, hence the atomics: each
// clears and sets its own half and leaves the other alone.
fn write_c(i: u32, value: f32) {
  if (OUT_HALF) {
    let bits = select(bf16_bits(value), f16_bits(value), OUT_F16);
    let shift = (i & 1u) * 16u;
    c[i] = bitcast<vec2<f16>>(bits).x;
    // with NATIVE_OUT: c[i] = bitcast<vec2<f16>>(bits).x;

    // with NATIVE_OUT:
  } else {

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

const WG_X: u32 = 4u;
const WG_Y: u32 = 4u;
const WG_SIZE: u32 = 16u;
const A_TILE: u32 = 16u;
const B_TILE: u32 = 16u;
const ACC: u32 = 1u;

// holds: BM > 0u && BN > 0u && BK > 0u && TM > 0u && TN > 0u
// holds: BM % TM == 0u && BN % TN == 0u
// holds: ACC <= 256u

var<workgroup> a_tile: array<Num, 16>; // BM x BK
var<workgroup> b_tile: array<Num, 16>; // BK x BN

@compute @workgroup_size(4, 4, 1)
fn main(
  @builtin(workgroup_id) tile: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  batch = tile.z;
  let row0 = tile.y * BM;
  let col0 = tile.x * BN;
  let row_in_tile = local.y * TM;
  let col_in_tile = local.x * TN;

  var acc: array<Num, 1>; // set to zero once, before the loop over K
  for (var k0 = 0u; k0 < shape.k; k0 += BK) {
    for (var e = lane; e < A_TILE; e += WG_SIZE) {
      let row = row0 + e / BK;
      let kk = k0 + e % BK;
      var value = Num(0);
      if (row < shape.m && kk < shape.k) { value = load_a(row, kk); }
      a_tile[e] = value;
    }
    for (var e = lane; e < B_TILE; e += WG_SIZE) {
      let kk = k0 + e / BN;
      let col = col0 + e % BN;
      var value = Num(0);
      if (kk < shape.k && col < shape.n) { value = load_b(kk, col); }
      b_tile[e] = value;
    }
    workgroupBarrier(); // the slice is complete; k0 is the same for all

    var slice: array<Num, 1>;
    // Explicitly, since some compilers clear a variable once, not per turn.
    for (var e = 0u; e < ACC; e += 1u) {
      slice[e] = Num(0);
    }
    for (var kk = 0u; kk < BK; kk += 1u) {
      for (var i = 0u; i < TM; i += 1u) {
        let x = a_tile[(row_in_tile + i) * BK + kk];
        for (var j = 0u; j < TN; j += 1u) {
          slice[i * TN + j] = multiply_add(x, b_tile[kk * BN + col_in_tile + j], slice[i * TN + j]);
        }
      }
    }
    for (var e = 0u; e < ACC; e += 1u) {
      acc[e] += slice[e];
    }
    workgroupBarrier(); // the slice is no longer needed
  }

  for (var i = 0u; i < TM; i += 1u) {
    for (var j = 0u; j < TN; j += 1u) {
      let row = row0 + row_in_tile + i;
      let col = col0 + col_in_tile + j;
      if (row < shape.m && col < shape.n) { store_c(row, col, acc[i * TN + j]); }
    }
  }
}
