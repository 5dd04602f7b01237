// gemm_block: C = act(alpha A B + beta C + bias), register tiles of vectors, the
// next slice of K fetched while this one is computed.
//
// A is m x k, B is k x n, C is m x n, for each matrix of a batch, and each with an
// offset and strides in elements. Elements and sums are as in gemm_tiled.
//
//   each workgroup: a BM x BN tile of C, for one part of K
//                   grid ceil(n / BN) x ceil(m / BM) x batch * splits
//     fetch the first slice into registers
//     for k0 in steps of BK
//       stage the fetched slice in workgroup memory, A's transposed
//       fetch A[tile rows, k0 + BK ..] and B[k0 + BK .., tile columns]
//       each invocation: TM x TN elements, as TM x TN / 4 vectors
//         for kk in 0 .. BK
//           acc += a_tile[kk, rows] * b_tile[kk, columns]
//     C[tile] = act(alpha acc + beta C[tile] + bias[tile])
//
// Masked: rows past m, columns past n and kk past k are not loaded and count as 0;
// elements past m or n are not stored. Where a stride is 1 and everything is a
// multiple of 4 (A_QUADS, B_QUADS, C_QUADS), four elements go at a time.
//
// What makes it fast, measured in docs/performance.md: every index into registers
// is a literal once the loops are written out; workgroup memory is an array of
// arrays, whose first index is a literal too, so that what a compiler adds to keep
// the second in bounds is the same for all kk; LANES_M x LANES_N neighbours share
// their reads of workgroup memory.

const BM: u32 = 64u; // tunable: rows of C per workgroup
const BN: u32 = 64u; // tunable: columns of C per workgroup
const BK: u32 = 16u; // tunable: depth of a slice of K
const TM: u32 = 4u; // tunable: rows of C per invocation
const TN: u32 = 4u; // tunable: columns of C per invocation
const LANES_M: u32 = 4u; // tunable: rows of a block of neighbouring invocations
const LANES_N: u32 = 8u; // tunable: columns of that block
const UNROLL: bool = true; // tunable: write out the loops over the elements of an invocation
// begin parts/operands.wgsl
const IN_F16: bool = false; // tunable: A, B and the bias hold binary16, two elements a word
const IN_BF16: bool = false; // tunable: A, B and the bias hold bfloat16, two elements a word
const IN_I8: bool = false; // tunable: A and B hold int8, four elements a word, and C int32
const OUT_F16: bool = false; // tunable: C holds binary16, two elements a word
const OUT_BF16: bool = false; // tunable: C holds bfloat16, two elements a word
const NATIVE_F16: bool = false; // tunable: binary16 is loaded and stored as the shader's own f16, where the device has it
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

fn load_a(row: u32, kk: u32) -> Num {
  let i = shape.a_offset + batch * shape.a_batch + row * shape.a_row + kk * shape.a_col;
  return decode(a[word(i)], i);
  // with NATIVE_IN: return f32(a[i]);
}

fn load_b(kk: u32, col: u32) -> Num {
  let i = shape.b_offset + batch * shape.b_batch + kk * shape.b_row + col * shape.b_col;
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

// C[row, col] = act(alpha acc + beta C[row, col] + bias[row, col]). With beta = 0
// C is not read. Sums of int8 are stored as they are.
fn store_c(row: u32, col: u32, acc: Num) {
  let i = shape.c_offset + batch * shape.c_batch + row * shape.c_row + col * shape.c_col;
  var value = shape.alpha * f32(acc);
  if (shape.beta != 0.0) { value = fma(shape.beta, old_c(i), value); }
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

// The bfloat16 nearest to x, ties to even, in the low 16 bits.
fn bf16_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return (bits >> 16u) | 0x40u; } // NaN
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
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
const A_QUADS: bool = false; // tunable: A's stride along m is 1 and all else of A a multiple of 4, so that four elements are loaded at a time
const B_QUADS: bool = true; // tunable: B's stride along n is 1 and all else of B a multiple of 4
const C_QUADS: bool = true; // tunable: the same of C
const A_TRANS: bool = false; // tunable: neighbours in m, not in k, are loaded by neighbouring invocations
const B_TRANS: bool = false; // tunable: neighbours in k, not in n, are loaded by neighbouring invocations
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

// A[row, kk] and the three after it along the stride of 1.
fn load_a_quad(row: u32, kk: u32) -> Num4 {
  return decode_quad(a_quads[(shape.a_offset + batch * shape.a_batch + row * shape.a_row + kk * shape.a_col) >> 2u]);
}

// B[kk, col] and the three after it along the stride of 1.
fn load_b_quad(kk: u32, col: u32) -> Num4 {
  return decode_quad(b_quads[(shape.b_offset + batch * shape.b_batch + kk * shape.b_row + col * shape.b_col) >> 2u]);
}

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

// store_c for C[row, col] and the three after it in the row. It owns them, so
// no atomics are needed.
fn store_c_quad(row: u32, col: u32, acc: Num4) {
  let i = (shape.c_offset + batch * shape.c_batch + row * shape.c_row + col) >> 2u;
  var value = shape.alpha * vec4<f32>(acc);
  if (shape.beta != 0.0) { value = fma(vec4<f32>(shape.beta), decode_old(c_quads[i]), value); }
  if (BIAS) {
    value.x += load_bias(row, col);
    value.y += load_bias(row, col + 1u);
    value.z += load_bias(row, col + 2u);
    value.w += load_bias(row, col + 3u);
  }
  c_quads[i] = encode_quad(vec4<f32>(activate(value.x), activate(value.y), activate(value.z), activate(value.w)));
  // with IN_I8: c_quads[i] = bitcast<vec4<u32>>(acc);
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
const WG_SIZE: u32 = BM / TM * (BN / TN);
const TM4: u32 = TM / 4u;
const TN4: u32 = TN / 4u;
const ACC: u32 = TM * TN4;
const BM4: u32 = BM / 4u;
const BN4: u32 = BN / 4u;
const A_UNITS: u32 = BM4 * BK / WG_SIZE; // vectors that an invocation fetches per slice
const B_UNITS: u32 = BN4 * BK / WG_SIZE;
const A_WIDTH: u32 = BM4 + u32(A_TRANS == false); // padded where neighbours write one below the other
const B_WIDTH: u32 = BN4 + u32(B_TRANS);
const BLOCKS_N: u32 = BN / (LANES_N * TN);
// A vector holds neighbours in m or n, or, where these are loaded one by one and
// by neighbouring invocations, elements that are a quarter of the tile apart.
const A_SPREAD: bool = A_TRANS && A_QUADS == false;
const B_SPREAD: bool = B_TRANS == false && B_QUADS == false;
const A_STEP: u32 = 1u + u32(A_SPREAD) * (BM4 - 1u); // from an element of a vector to the next
const B_STEP: u32 = 1u + u32(B_SPREAD) * (BN4 - 1u);
const A_VECTOR: u32 = 4u - 3u * u32(A_SPREAD); // from a vector to the next
const B_VECTOR: u32 = 4u - 3u * u32(B_SPREAD);
const STORE_QUADS: bool = C_QUADS && B_SPREAD == false;

const_assert BM > 0u && BN > 0u && BK > 0u && TM > 0u && TN > 0u && LANES_M > 0u && LANES_N > 0u;
const_assert TM % 4u == 0u && TN % 4u == 0u;
const_assert BM % (LANES_M * TM) == 0u && BN % (LANES_N * TN) == 0u;
const_assert A_UNITS * WG_SIZE == BM4 * BK && B_UNITS * WG_SIZE == BN4 * BK;
const_assert ACC <= 32u && A_UNITS <= 16u && B_UNITS <= 16u;

var<workgroup> a_tile: array<array<Num4, A_WIDTH>, BK>; // [kk][vector of rows]
var<workgroup> b_tile: array<array<Num4, B_WIDTH>, BK>; // [kk][vector of columns]

// Where vector e of a slice of A lies in it: (vector of rows, kk).
fn place_a(e: u32) -> vec2<u32> {
  if (A_TRANS) { return vec2<u32>(e % BM4, e / BM4); }
  return vec2<u32>(e / BK, e % BK);
}

// Vector e of the slice of A from k0 on; kk from last on counts as 0.
fn fetch_a(e: u32, row0: u32, k0: u32, last: u32) -> Num4 {
  let at = place_a(e);
  let row = row0 + at.x * A_VECTOR;
  let kk = k0 + at.y;
  var value = Num4();
  if (kk < last) {
    if (row < shape.m) { value.x = load_a(row, kk); }
    // with A_QUADS: if (row < shape.m) { value = load_a_quad(row, kk); }
    if (row + A_STEP < shape.m) { value.y = load_a(row + A_STEP, kk); }
    // with A_QUADS:
    if (row + 2u * A_STEP < shape.m) { value.z = load_a(row + 2u * A_STEP, kk); }
    // with A_QUADS:
    if (row + 3u * A_STEP < shape.m) { value.w = load_a(row + 3u * A_STEP, kk); }
    // with A_QUADS:
  }
  return value;
}

// Where vector e of a slice of B lies in it: (kk, vector of columns).
fn place_b(e: u32) -> vec2<u32> {
  if (B_TRANS) { return vec2<u32>(e % BK, e / BK); }
  return vec2<u32>(e / BN4, e % BN4);
}

fn fetch_b(e: u32, col0: u32, k0: u32, last: u32) -> Num4 {
  let at = place_b(e);
  let kk = k0 + at.x;
  let col = col0 + at.y * B_VECTOR;
  var value = Num4();
  if (kk < last) {
    if (col < shape.n) { value.x = load_b(kk, col); }
    // with B_QUADS: if (col < shape.n) { value = load_b_quad(kk, col); }
    if (col + B_STEP < shape.n) { value.y = load_b(kk, col + B_STEP); }
    // with B_QUADS:
    if (col + 2u * B_STEP < shape.n) { value.z = load_b(kk, col + 2u * B_STEP); }
    // with B_QUADS:
    if (col + 3u * B_STEP < shape.n) { value.w = load_b(kk, col + 3u * B_STEP); }
    // with B_QUADS:
  }
  return value;
}

@compute @workgroup_size(WG_SIZE, 1, 1)
fn main(@builtin(workgroup_id) tile: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  batch = tile.z / shape.splits;
  let row0 = tile.y * BM;
  let col0 = tile.x * BN;
  let first = tile.z % shape.splits * shape.depth;
  let last = min(first + shape.depth, shape.k);
  let block = lane / (LANES_M * LANES_N);
  let in_block = lane % (LANES_M * LANES_N);
  let row_vector = block / BLOCKS_N * (LANES_M * TM4) + in_block / LANES_N;
  let col_vector = block % BLOCKS_N * (LANES_N * TN4) + in_block % LANES_N;

  var acc: array<Num4, ACC>;
  for (var e = 0u; e < ACC; e += 1u) { // unroll if UNROLL
    acc[e] = Num4();
  }
  var a_next: array<Num4, A_UNITS>;
  var b_next: array<Num4, B_UNITS>;
  for (var u = 0u; u < A_UNITS; u += 1u) { // unroll if UNROLL
    a_next[u] = fetch_a(lane + u * WG_SIZE, row0, first, last);
  }
  for (var u = 0u; u < B_UNITS; u += 1u) { // unroll if UNROLL
    b_next[u] = fetch_b(lane + u * WG_SIZE, col0, first, last);
  }
  for (var k0 = first; k0 < last; k0 += BK) {
    for (var u = 0u; u < A_UNITS; u += 1u) { // unroll if UNROLL
      let at = place_a(lane + u * WG_SIZE);
      a_tile[at.y][at.x] = a_next[u];
    }
    for (var u = 0u; u < B_UNITS; u += 1u) { // unroll if UNROLL
      let at = place_b(lane + u * WG_SIZE);
      b_tile[at.x][at.y] = b_next[u];
    }
    workgroupBarrier(); // the slice is complete; k0 is the same for all

    for (var u = 0u; u < A_UNITS; u += 1u) { // unroll if UNROLL
      a_next[u] = fetch_a(lane + u * WG_SIZE, row0, k0 + BK, last);
    }
    for (var u = 0u; u < B_UNITS; u += 1u) { // unroll if UNROLL
      b_next[u] = fetch_b(lane + u * WG_SIZE, col0, k0 + BK, last);
    }
    for (var kk = 0u; kk < BK; kk += 1u) { // unroll if UNROLL
      var x: array<Num4, TM4>;
      var y: array<Num4, TN4>;
      for (var i = 0u; i < TM4; i += 1u) { // unroll if UNROLL
        x[i] = a_tile[kk][row_vector + i * LANES_M];
      }
      for (var j = 0u; j < TN4; j += 1u) { // unroll if UNROLL
        y[j] = b_tile[kk][col_vector + j * LANES_N];
      }
      for (var i = 0u; i < TM; i += 1u) { // unroll if UNROLL
        for (var j = 0u; j < TN4; j += 1u) { // unroll if UNROLL
          acc[i * TN4 + j] = multiply_add_quad(x[i / 4u][i % 4u], y[j], acc[i * TN4 + j]);
        }
      }
    }
    workgroupBarrier(); // the slice is no longer needed
  }

  batch = tile.z; // each part of K has a C of its own
  for (var i = 0u; i < TM; i += 1u) { // unroll if UNROLL
    for (var j = 0u; j < TN4; j += 1u) { // unroll if UNROLL
      let row = row0 + (row_vector + i / 4u * LANES_M) * A_VECTOR + i % 4u * A_STEP;
      let col = col0 + (col_vector + j * LANES_N) * B_VECTOR;
      if (row < shape.m) { store(row, col, acc[i * TN4 + j]); }
    }
  }
}

// Stores a vector of C, whose first column is col.
fn store(row: u32, col: u32, acc: Num4) {
  if (col < shape.n) { store_c(row, col, acc.x); }
  // with STORE_QUADS: if (col < shape.n) { store_c_quad(row, col, acc); }
  if (col + B_STEP < shape.n) { store_c(row, col + B_STEP, acc.y); }
  // with STORE_QUADS:
  if (col + 2u * B_STEP < shape.n) { store_c(row, col + 2u * B_STEP, acc.z); }
  // with STORE_QUADS:
  if (col + 3u * B_STEP < shape.n) { store_c(row, col + 3u * B_STEP, acc.w); }
  // with STORE_QUADS:
}
