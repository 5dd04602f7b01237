// gemm_skinny: C = act(alpha A B + beta C + bias) for an A of few rows, where
// reading B once is all that takes time: no workgroup memory but for the sums.
//
// A is m x k, B is k x n, C is m x n, for each matrix of a batch, and each with an
// offset and strides in elements. Elements and sums are as in gemm_tiled. A B of few
// columns is the same product transposed.
//
//   each workgroup: BM x BN elements of C, for one part of K
//                   grid ceil(n / BN) x ceil(m / BM) x batch * splits
//     each invocation: BM x 4 elements, for every LANES_K-th group of 4 kk
//       acc += A[rows, kk .. kk + 4] * B[kk .. kk + 4, columns]
//     add up the LANES_K sums of each element, in a fixed order, 4 rows at a time
//     C[tile] = act(alpha acc + beta C[tile] + bias[tile])
//
// The 4 x 4 elements of B are read as vectors along n or, where that is B's stride
// of 1, along k; neighbouring invocations read neighbours in memory.
// Masked: kk past k reads the last one again and counts as 0, by a choice, not a
// product; a slice that lies before k as a whole, which is the same for all
// invocations, is loaded without asking. Rows past m and columns past n read the last one again too, and are not
// stored.

const BM: u32 = 1u; // tunable: rows of C per workgroup, 1 to 4 or a multiple of the vectors they take
const LANES_N: u32 = 32u; // tunable: invocations beside each other in n
const LANES_K: u32 = 8u; // tunable: invocations beside each other in k
const UNROLL: bool = true; // tunable: write out the loops over the elements of an invocation
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

// begin parts/quads.wgsl
const A_QUADS: bool = true; // tunable: A's stride of 1 and everything else of A are such that four neighbours can be read at once
const B_QUADS: bool = true; // tunable: B's are
const C_QUADS: bool = true; // tunable: C's are, and along n
const A_TRANS: bool = false; // tunable: neighbours in A's memory are neighbours in m, not in k
const B_TRANS: bool = false; // tunable: neighbours in B's memory are neighbours in k, not in n
const A_SCALARS: bool = A_QUADS == false;
const B_SCALARS: bool = B_QUADS == false;
const C_SCALARS: bool = C_QUADS == false;
const HALF_IN: bool = IN_F16 || IN_BF16;

alias Num4 = vec4<f32>;
// with IN_I8: alias Num4 = vec4<i32>;
alias Quad = vec4<u32>; // words of four elements of A or B
// with HALF_IN: alias Quad = vec2<u32>; // words of four elements of A or B
// with IN_I8: alias Quad = u32; // word of four elements of A or B
alias QuadOut = vec4<u32>; // words of four elements of C
// with OUT_HALF: alias QuadOut = vec2<u32>; // words of four elements of C

// The same memory as a, b and c: a variant uses the one or the other.
@group(0) @binding(1) var<storage, read> a_quads: array<Quad>;
@group(0) @binding(2) var<storage, read> b_quads: array<Quad>;
@group(0) @binding(3) var<storage, read_write> c_quads: array<QuadOut>;

// Element i of A and the three after it: along its stride of 1 or, where that is
// not possible, along k.
fn vector_a(i: u32) -> Num4 {
  return decode_quad(a_quads[i >> 2u]);
  // with A_SCALARS: return Num4(element_a(i), element_a(i + shape.a_col), element_a(i + 2u * shape.a_col), element_a(i + 3u * shape.a_col));
}

// The same where the first is at kk, and what is not before last counts as 0: for
// that the last element that is, is read again.
fn masked_vector_a(i: u32, kk: u32, last: u32) -> Num4 {
  return select(Num4(), vector_a(i - past(kk, last) * shape.a_col), kk < last);
  // with A_SCALARS: return Num4(masked_a(i, kk, last), masked_a(i + shape.a_col, kk + 1u, last), masked_a(i + 2u * shape.a_col, kk + 2u, last), masked_a(i + 3u * shape.a_col, kk + 3u, last));
}

fn masked_a(i: u32, kk: u32, last: u32) -> Num {
  return select(Num(0), element_a(i - past(kk, last) * shape.a_col), kk < last);
}

// Element i of B and the three after it: along its stride of 1 or, where that is
// not possible, along k.
fn vector_b(i: u32) -> Num4 {
  return decode_quad(b_quads[i >> 2u]);
  // with B_SCALARS: return Num4(element_b(i), element_b(i + shape.b_row), element_b(i + 2u * shape.b_row), element_b(i + 3u * shape.b_row));
}

// The same where the first is at kk, and what is not before last counts as 0: for
// that the last element that is, is read again.
fn masked_vector_b(i: u32, kk: u32, last: u32) -> Num4 {
  return select(Num4(), vector_b(i - past(kk, last) * shape.b_row), kk < last);
  // with B_SCALARS: return Num4(masked_b(i, kk, last), masked_b(i + shape.b_row, kk + 1u, last), masked_b(i + 2u * shape.b_row, kk + 2u, last), masked_b(i + 3u * shape.b_row, kk + 3u, last));
}

fn masked_b(i: u32, kk: u32, last: u32) -> Num {
  return select(Num(0), element_b(i - past(kk, last) * shape.b_row), kk < last);
}

// By how much kk is past the last before last.
fn past(kk: u32, last: u32) -> u32 { return max(kk + 1u, last) - last; }

fn decode_quad(bits: Quad) -> Num4 {
  return bitcast<vec4<f32>>(bits);
  // with IN_F16: return vec4<f32>(unpack2x16float(bits.x), unpack2x16float(bits.y));
  // with IN_BF16: return bitcast<vec4<f32>>(vec4<u32>(bits.x << 16u, bits.x & 0xffff0000u, bits.y << 16u, bits.y & 0xffff0000u));
  // with IN_I8: return bitcast<vec4<i32>>(vec4<u32>(bits << 24u, bits << 16u, bits << 8u, bits)) >> vec4<u32>(24u);
}

fn multiply_add_quad(x: Num, y: Num4, sum: Num4) -> Num4 {
  return fma(Num4(x), y, sum);
  // with IN_I8: return x * y + sum;
}

// What store_c stores in C[row, col] and the three after it in the row.
fn new_c_quad(row: u32, col: u32, acc: Num4) -> QuadOut {
  var value = shape.alpha * vec4<f32>(acc);
  if (READS_C) { value = fma(vec4<f32>(shape.beta), decode_old(c_quads[quad_of_c(row, col)]), value); }
  if (BIAS) {
    value.x += load_bias(row, col);
    value.y += load_bias(row, col + 1u);
    value.z += load_bias(row, col + 2u);
    value.w += load_bias(row, col + 3u);
  }
  return encode_quad(vec4<f32>(activate(value.x), activate(value.y), activate(value.z), activate(value.w)));
  // with IN_I8: return bitcast<vec4<u32>>(acc);
}

fn quad_of_c(row: u32, col: u32) -> u32 {
  return (shape.c_offset + batch * shape.c_batch + row * shape.c_row + col) >> 2u;
}

// store_c for C[row, col] and those of the three after it in the row that exist: as
// vectors all do, and the invocation owns them, so that no atomics are needed.
fn store_c_vector(row: u32, col: u32, acc: Num4) {
  c_quads[quad_of_c(row, col)] = new_c_quad(row, col, acc);
  // with C_SCALARS: store_c_scalars(row, col, acc);
}

fn store_c_scalars(row: u32, col: u32, acc: Num4) {
  store_c(row, col, acc.x);
  if (col + 1u < shape.n) { store_c(row, col + 1u, acc.y); }
  if (col + 2u < shape.n) { store_c(row, col + 2u, acc.z); }
  if (col + 3u < shape.n) { store_c(row, col + 3u, acc.w); }
}

fn decode_old(bits: QuadOut) -> vec4<f32> {
  return bitcast<vec4<f32>>(bits);
  // with OUT_F16: return vec4<f32>(unpack2x16float(bits.x), unpack2x16float(bits.y));
  // with OUT_BF16: return bitcast<vec4<f32>>(vec4<u32>(bits.x << 16u, bits.x & 0xffff0000u, bits.y << 16u, bits.y & 0xffff0000u));
}

fn encode_quad(v: vec4<f32>) -> QuadOut {
  return bitcast<vec4<u32>>(v);
  // with OUT_F16: return vec2<u32>(f16_bits(v.x) | (f16_bits(v.y) << 16u), f16_bits(v.z) | (f16_bits(v.w) << 16u));
  // with OUT_BF16: return vec2<u32>(bf16_bits(v.x) | (bf16_bits(v.y) << 16u), bf16_bits(v.z) | (bf16_bits(v.w) << 16u));
}
// end parts/quads.wgsl

const CUTS_K: bool = true; // shape.splits workgroups may share an element of C
const BN: u32 = LANES_N * 4u;
const BK: u32 = LANES_K * 4u;
const WG_SIZE: u32 = LANES_N * LANES_K;
const A_ACROSS: bool = A_QUADS && A_TRANS; // a vector of A lies along m
const B_ACROSS: bool = B_QUADS && B_TRANS == false; // a vector of B lies along n
const BM4: u32 = (BM + 3u) / 4u;
const A_VECTORS: u32 = BM4 * 4u;
const A_LOADS: u32 = BM + u32(A_ACROSS) * (A_VECTORS - BM); // rows along k, or BM4 along m for each of 4 kk
const ROWS: u32 = BM / BM4; // of C, whose sums are added up at a time
const SUMS: u32 = ROWS * LANES_N;
const SUMMED: u32 = (SUMS + WG_SIZE - 1u) / WG_SIZE; // of these by an invocation

const_assert BM > 0u && BM <= 16u && ROWS * BM4 == BM && LANES_N > 0u && LANES_K > 0u;

var<workgroup> sums: array<array<Num4, SUMS>, LANES_K>;

// Element at which vector i of A begins, for a slice that begins at 0.
fn start_a(row0: u32, kk: u32, i: u32) -> u32 {
  if (A_ACROSS) { return index_a(min(row0 + i % BM4 * 4u, (shape.m - 1u) & ~3u), kk + i / BM4); }
  return index_a(min(row0 + i, shape.m - 1u), kk);
}

fn start_b(kk: u32, col: u32, i: u32) -> u32 {
  if (B_ACROSS) { return index_b(kk + i, min(col, (shape.n - 1u) & ~3u)); }
  return index_b(kk, min(col + i, shape.n - 1u));
}

@compute @workgroup_size(WG_SIZE, 1, 1)
fn main(@builtin(workgroup_id) tile: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  batch = tile.z / shape.splits;
  let row0 = tile.y * BM;
  let lane_n = select(lane % LANES_N, lane / LANES_K, B_TRANS);
  let lane_k = select(lane / LANES_N, lane % LANES_K, B_TRANS);
  let first = tile.z % shape.splits * shape.depth;
  let last = min(first + shape.depth, shape.k);

  var a_from: array<u32, A_VECTORS>;
  for (var i = 0u; i < A_LOADS; i += 1u) { // unroll if UNROLL
    a_from[i] = start_a(row0, lane_k * 4u, i);
  }
  var b_from: array<u32, 4>;
  for (var i = 0u; i < 4u; i += 1u) { // unroll if UNROLL
    b_from[i] = start_b(lane_k * 4u, tile.x * BN + lane_n * 4u, i);
  }
  var acc: array<Num4, BM>;
  for (var i = 0u; i < BM; i += 1u) { // unroll if UNROLL
    acc[i] = Num4();
  }
  for (var k0 = first; k0 < last; k0 += BK) {
    let kk = k0 + lane_k * 4u;
    var x: array<Num4, A_VECTORS>;
    var y: array<Num4, 4>;
    if (k0 + BK <= last) {
      for (var i = 0u; i < 4u; i += 1u) { // unroll if UNROLL
        y[i] = vector_b(b_from[i] + k0 * shape.b_row);
      }
      for (var i = 0u; i < A_LOADS; i += 1u) { // unroll if UNROLL
        x[i] = vector_a(a_from[i] + k0 * shape.a_col);
      }
    } else {
      for (var i = 0u; i < 4u; i += 1u) { // unroll if UNROLL
        y[i] = masked_vector_b(b_from[i] + k0 * shape.b_row, kk + select(0u, i, B_ACROSS), last);
      }
      for (var i = 0u; i < A_LOADS; i += 1u) { // unroll if UNROLL
        x[i] = masked_vector_a(a_from[i] + k0 * shape.a_col, kk + select(0u, i / BM4, A_ACROSS), last);
      }
    }
    for (var i = 0u; i < BM; i += 1u) { // unroll if UNROLL
      for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
        var a_ik = x[i][c];
        if (A_ACROSS) { a_ik = x[c * BM4 + i / 4u][i % 4u]; }
        var v = y[c];
        if (!B_ACROSS) { v = Num4(y[0][c], y[1][c], y[2][c], y[3][c]); }
        acc[i] = multiply_add_quad(a_ik, v, acc[i]);
      }
    }
  }

  batch = tile.z; // each part of K has a C of its own
  for (var g = 0u; g < BM4; g += 1u) { // unroll if UNROLL
    for (var i = 0u; i < ROWS; i += 1u) { // unroll if UNROLL
      sums[lane_k][i * LANES_N + lane_n] = acc[g * ROWS + i];
    }
    workgroupBarrier();
    for (var s = 0u; s < SUMMED; s += 1u) { // unroll if UNROLL
      let e = lane + s * WG_SIZE;
      let row = row0 + g * ROWS + e / LANES_N;
      let col = tile.x * BN + e % LANES_N * 4u;
      if (e < SUMS && row < shape.m && col < shape.n) {
        var sum = sums[0][e];
        for (var l = 1u; l < LANES_K; l += 1u) {
          sum += sums[l][e];
        }
        store_c_vector(row, col, sum);
      }
    }
    workgroupBarrier();
  }
}
