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
//       stage the fetched slice in workgroup memory, as vectors across K
//       fetch A[tile rows, k0 + BK ..] and B[k0 + BK .., tile columns]
//       each invocation: TM x TN elements, from vectors of rows and columns
//         for kk in its LANES_K-th of the slice
//           acc += a_tile[kk, rows] * b_tile[kk, columns]
//     add up the LANES_K sums of each element, in a fixed order
//     C[tile] = act(alpha acc + beta C[tile] + bias[tile])
//
// Some invocations fetch from A, the others from B, each 4 x 4 elements at a time:
// 4 in k by 4 in m or n. They are read as vectors where four elements along the
// stride of 1 are aligned (A_QUADS, B_QUADS; C_QUADS for storing), and transposed
// in registers where they lie along k.
//
// Masked: kk past k reads the last one again and counts as 0, by a choice, not a
// product; a slice that lies before k as a whole, which is the same for all
// invocations, is loaded without asking. Rows past m and columns past n read the
// last one again too, and are not stored.
//
// What makes it fast, measured in docs/performance.md: every index into registers
// is a literal once the loops are written out, by Specialize or, where it does that
// better, by the graphics driver; one row of an invocation's elements is computed
// backwards, the next forwards, so that each multiply-add shares a factor with the one
// before it and reads one register less; workgroup memory is an array of arrays, whose
// first index is a literal too, so that what a compiler adds to keep the second in
// bounds is the same for all kk; neighbouring invocations compute neighbouring
// elements, LANES_M x LANES_N and in these NEAR_M x NEAR_N, and share their reads of
// workgroup memory.

const BM: u32 = 64u; // tunable: rows of C per workgroup
const BN: u32 = 64u; // tunable: columns of C per workgroup
const BK: u32 = 16u; // tunable: depth of a slice of K
const TM: u32 = 4u; // tunable: rows of C per invocation
const TN: u32 = 4u; // tunable: columns of C per invocation
const LANES_M: u32 = 8u; // tunable: rows of a block of neighbouring invocations
const LANES_N: u32 = 4u; // tunable: columns of that block
const NEAR_M: u32 = 4u; // tunable: rows of the nearest neighbours in a block
const NEAR_N: u32 = 2u; // tunable: columns of these
const LANES_K: u32 = 1u; // tunable: invocations beside each other in k, which share out a slice
const UNROLL: bool = true; // tunable: write out the loops over the elements of an invocation
const UNROLL_ROWS: bool = true; // tunable: that over rows, too, which is else left to the graphics driver
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
const LANES: u32 = BM / TM * (BN / TN); // invocations that compute the tile
const WG_SIZE: u32 = LANES * LANES_K;
const DEPTH: u32 = BK / LANES_K; // of a slice, for each of LANES_K
const DEPTH4: u32 = DEPTH / 4u;
const TM4: u32 = TM / 4u;
const TN4: u32 = TN / 4u;
const ACC: u32 = TM * TN;
const ROWS: bool = UNROLL && UNROLL_ROWS;
const BM4: u32 = BM / 4u;
const BN4: u32 = BN / 4u;
const BK4: u32 = BK / 4u;
const BLOCKS_N: u32 = BN / (LANES_N * TN);
// Fetches of 4 x 4 elements in a slice, and of an invocation.
const A_FETCHES: u32 = BM4 * BK4;
const ALL_FETCHES: u32 = A_FETCHES + BN4 * BK4;
const FETCHES: u32 = (ALL_FETCHES + WG_SIZE - 1u) / WG_SIZE;
const FETCHED: u32 = FETCHES * 4u;
// Whether vectors lie across K in memory already.
const A_ACROSS: bool = A_QUADS && A_TRANS;
const B_ACROSS: bool = B_QUADS && B_TRANS == false;
// Where they are transposed, padding keeps neighbours in k out of the same bank.
const A_WIDTH: u32 = BM4 + u32(A_ACROSS == false);
const B_WIDTH: u32 = BN4 + u32(B_ACROSS == false);
const WORDS: bool = A_QUADS && B_QUADS && (HALF_IN || IN_I8);
const A_WIDTHS: u32 = A_WIDTH * LANES_K;
const B_WIDTHS: u32 = B_WIDTH * LANES_K;
// Adding up LANES_K sums: each of these invocations adds and stores a LANES_K-th of the
// rows, for which the others leave theirs in b_tile, as many rows at once as fit.
const ADDERS: u32 = LANES_K * u32(LANES_K > 1u);
const ADDED: u32 = TM / LANES_K;
const LEFT: u32 = (LANES_K - 1u) * TN4 * LANES; // vectors that the others leave for a row
const AT_ONCE: u32 = 1u + u32(ADDED % 2u == 0u && LEFT * 2u <= BK * B_WIDTH) + 2u * u32(ADDED % 4u == 0u && LEFT * 4u <= BK * B_WIDTH);

const_assert BM > 0u && BN > 0u && BK > 0u && TM > 0u && TN > 0u && LANES_M > 0u && LANES_N > 0u && NEAR_M > 0u && NEAR_N > 0u;
const_assert TM % 4u == 0u && TN % 4u == 0u && BK % (LANES_K * 4u) == 0u;
const_assert BM % (LANES_M * TM) == 0u && BN % (LANES_N * TN) == 0u && LANES_M % NEAR_M == 0u && LANES_N % NEAR_N == 0u;
const_assert ACC <= 128u && FETCHES <= 4u;
const_assert TM % LANES_K == 0u && LEFT <= BK * B_WIDTH;

// [kk][row / 4], with the parts of a slice for LANES_K beside each other.
var<workgroup> a_tile: array<array<Num4, A_WIDTHS>, DEPTH>;
var<workgroup> b_tile: array<array<Num4, B_WIDTHS>, DEPTH>; // [kk][column / 4]

// Where fetch e lies in its slice of A: (row / 4, kk / 4). Neighbouring invocations
// read neighbours in memory.
fn place_a(e: u32) -> vec2<u32> {
  if (A_TRANS) { return vec2<u32>(e % BM4, e / BM4); }
  return vec2<u32>(e / BK4, e % BK4);
}

// The same for B: (column / 4, kk / 4).
fn place_b(e: u32) -> vec2<u32> {
  if (B_TRANS) { return vec2<u32>(e / BK4, e % BK4); }
  return vec2<u32>(e % BN4, e / BN4);
}

// What is fetched of a vector: the words that hold it, which are decoded when they
// are staged, so that nothing waits for them before; or the vector, where there is
// nothing to decode or its elements are read one by one.
alias Fetched = Num4;
// with WORDS: alias Fetched = Quad;

fn fetch_a(i: u32) -> Fetched {
  return vector_a(i);
  // with WORDS: return a_quads[i >> 2u];
}

fn masked_fetch_a(i: u32, kk: u32, last: u32) -> Fetched {
  return masked_vector_a(i, kk, last);
  // with WORDS: return select(Fetched(), a_quads[(i - past(kk, last) * shape.a_col) >> 2u], kk < last);
}

fn fetch_b(i: u32) -> Fetched {
  return vector_b(i);
  // with WORDS: return b_quads[i >> 2u];
}

fn masked_fetch_b(i: u32, kk: u32, last: u32) -> Fetched {
  return masked_vector_b(i, kk, last);
  // with WORDS: return select(Fetched(), b_quads[(i - past(kk, last) * shape.b_row) >> 2u], kk < last);
}

fn decode_fetched(v: Fetched) -> Num4 {
  return v;
  // with WORDS: return decode_quad(v);
}

// Which of LANES_K the vectors at kk / 4 in a slice are for, and the row of its part
// of the tiles where they begin.
fn lane_of(k4: u32) -> u32 { return select(k4 / DEPTH4, 0u, LANES_K == 1u); }

fn row_of(k4: u32) -> u32 { return (k4 - lane_of(k4) * DEPTH4) * 4u; }

// Element at which vector c of a fetch from A begins, for a slice that begins at 0.
fn start_a(row0: u32, at: vec2<u32>, c: u32) -> u32 {
  if (A_ACROSS) { return index_a(min(row0 + at.x * 4u, (shape.m - 1u) & ~3u), at.y * 4u + c); }
  return index_a(min(row0 + at.x * 4u + c, shape.m - 1u), at.y * 4u);
}

fn start_b(col0: u32, at: vec2<u32>, c: u32) -> u32 {
  if (B_ACROSS) { return index_b(at.y * 4u + c, min(col0 + at.x * 4u, (shape.n - 1u) & ~3u)); }
  return index_b(at.y * 4u, min(col0 + at.x * 4u + c, shape.n - 1u));
}

// kk of vector c of fetch e, in its slice.
fn kk_a(e: u32, c: u32) -> u32 { return place_a(e).y * 4u + select(0u, c, A_ACROSS); }

fn kk_b(e: u32, c: u32) -> u32 { return place_b(e).y * 4u + select(0u, c, B_ACROSS); }

// store_c_scalars, without asking for each column where the whole tile is inside of C.
fn store_scalars(row: u32, col: u32, acc: Num4, inside: bool) {
  if (inside) {
    store_c(row, col, acc.x);
    store_c(row, col + 1u, acc.y);
    store_c(row, col + 2u, acc.z);
    store_c(row, col + 3u, acc.w);
  } else {
    store_c_scalars(row, col, acc);
  }
}

@compute @workgroup_size(WG_SIZE, 1, 1)
fn main(@builtin(workgroup_id) tile: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  batch = tile.z / shape.splits;
  let row0 = tile.y * BM;
  let col0 = tile.x * BN;
  let first = tile.z % shape.splits * shape.depth;
  let last = min(first + shape.depth, shape.k);

  // This invocation's vectors of rows and columns: every LANES_M-th and LANES_N-th
  // from these on.
  let lane_k = select(lane / LANES, 0u, LANES_K == 1u);
  let lane_mn = lane - lane_k * LANES;
  let block = lane_mn / (LANES_M * LANES_N);
  let near = lane_mn % (LANES_M * LANES_N) / (NEAR_M * NEAR_N);
  let nearest = lane_mn % (NEAR_M * NEAR_N);
  let block_row = block / BLOCKS_N * (LANES_M * TM4);
  let block_col = block % BLOCKS_N * (LANES_N * TN4);
  let row_vector = block_row + near / (LANES_N / NEAR_N) * NEAR_M + nearest / NEAR_N;
  let col_vector = block_col + near % (LANES_N / NEAR_N) * NEAR_N + nearest % NEAR_N;
  let a_at = lane_k * A_WIDTH + row_vector;
  let b_at = lane_k * B_WIDTH + col_vector;
  let idle = row0 + block_row * 4u >= shape.m || col0 + block_col * 4u >= shape.n;

  var start: array<u32, FETCHED>;
  for (var f = 0u; f < FETCHES; f += 1u) { // unroll if UNROLL
    let e = lane + f * WG_SIZE;
    if (e < A_FETCHES) {
      for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
        start[f * 4u + c] = start_a(row0, place_a(e), c);
      }
    } else {
      for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
        start[f * 4u + c] = start_b(col0, place_b(e - A_FETCHES), c);
      }
    }
  }

  var acc: array<Num, ACC>;
  for (var e = 0u; e < ACC; e += 1u) { // unroll if UNROLL
    acc[e] = Num();
  }
  var next: array<Fetched, FETCHED>; // what was fetched of the next slice
  if (first < last) {
    for (var f = 0u; f < FETCHES; f += 1u) { // unroll if UNROLL
      let e = lane + f * WG_SIZE;
      if (e < A_FETCHES) {
        for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
          next[f * 4u + c] = masked_fetch_a(start[f * 4u + c] + first * shape.a_col, first + kk_a(e, c), last);
        }
      } else if (e < ALL_FETCHES) {
        for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
          next[f * 4u + c] = masked_fetch_b(start[f * 4u + c] + first * shape.b_row, first + kk_b(e - A_FETCHES, c), last);
        }
      }
    }
  }
  for (var k0 = first; k0 < last; k0 += BK) {
    for (var f = 0u; f < FETCHES; f += 1u) { // unroll if UNROLL
      let e = lane + f * WG_SIZE;
      let v0 = decode_fetched(next[f * 4u]);
      let v1 = decode_fetched(next[f * 4u + 1u]);
      let v2 = decode_fetched(next[f * 4u + 2u]);
      let v3 = decode_fetched(next[f * 4u + 3u]);
      if (e < A_FETCHES) {
        let at = place_a(e);
        for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
          var v = decode_fetched(next[f * 4u + c]);
          if (!A_ACROSS) { v = Num4(v0[c], v1[c], v2[c], v3[c]); }
          a_tile[row_of(at.y) + c][lane_of(at.y) * A_WIDTH + at.x] = v;
        }
      } else if (e < ALL_FETCHES) {
        let at = place_b(e - A_FETCHES);
        for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
          var v = decode_fetched(next[f * 4u + c]);
          if (!B_ACROSS) { v = Num4(v0[c], v1[c], v2[c], v3[c]); }
          b_tile[row_of(at.y) + c][lane_of(at.y) * B_WIDTH + at.x] = v;
        }
      }
    }
    workgroupBarrier(); // the slice is complete; k0 is the same for all

    let k1 = k0 + BK;
    for (var f = 0u; f < FETCHES; f += 1u) { // unroll if UNROLL
      let e = lane + f * WG_SIZE;
      if (k1 + BK <= last) {
        if (e < A_FETCHES) {
          for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
            next[f * 4u + c] = fetch_a(start[f * 4u + c] + k1 * shape.a_col);
          }
        } else if (e < ALL_FETCHES) {
          for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
            next[f * 4u + c] = fetch_b(start[f * 4u + c] + k1 * shape.b_row);
          }
        }
      } else if (e < A_FETCHES) {
        for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
          next[f * 4u + c] = masked_fetch_a(start[f * 4u + c] + k1 * shape.a_col, k1 + kk_a(e, c), last);
        }
      } else if (e < ALL_FETCHES) {
        for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
          next[f * 4u + c] = masked_fetch_b(start[f * 4u + c] + k1 * shape.b_row, k1 + kk_b(e - A_FETCHES, c), last);
        }
      }
    }
    if (!idle) {
      for (var kk = 0u; kk < DEPTH; kk += 1u) { // unroll if UNROLL
        var x: array<Num4, TM4>;
        var y: array<Num4, TN4>;
        for (var i = 0u; i < TM4; i += 1u) { // unroll if UNROLL
          x[i] = a_tile[kk][a_at + i * LANES_M];
        }
        for (var j = 0u; j < TN4; j += 1u) { // unroll if UNROLL
          y[j] = b_tile[kk][b_at + j * LANES_N];
        }
        for (var i = 0u; i < TM / 2u; i += 1u) { // unroll if ROWS
          for (var j = 0u; j < TN; j += 1u) { // unroll if UNROLL
            acc[(2u * i + 1u) * TN - 1u - j] = fma(x[i / 2u][i % 2u * 2u], y[(TN - 1u - j) / 4u][(TN - 1u - j) % 4u], acc[(2u * i + 1u) * TN - 1u - j]);
            // with IN_I8: acc[(2u * i + 1u) * TN - 1u - j] += x[i / 2u][i % 2u * 2u] * y[(TN - 1u - j) / 4u][(TN - 1u - j) % 4u];
          }
          for (var j = 0u; j < TN; j += 1u) { // unroll if UNROLL
            acc[(2u * i + 1u) * TN + j] = fma(x[i / 2u][i % 2u * 2u + 1u], y[j / 4u][j % 4u], acc[(2u * i + 1u) * TN + j]);
            // with IN_I8: acc[(2u * i + 1u) * TN + j] += x[i / 2u][i % 2u * 2u + 1u] * y[j / 4u][j % 4u];
          }
        }
      }
    }
    workgroupBarrier(); // the slice is no longer needed
  }

  for (var l = 0u; l < ADDERS; l += 1u) { // unroll if UNROLL
    for (var r = 0u; r < ADDED / AT_ONCE; r += 1u) { // unroll if UNROLL
      if (lane_k != l) {
        for (var i = 0u; i < AT_ONCE; i += 1u) { // unroll if UNROLL
          for (var j = 0u; j < TN4; j += 1u) { // unroll if UNROLL
            let e = ((lane_k - u32(lane_k > l)) * AT_ONCE * TN4 + i * TN4 + j) * LANES + lane_mn;
            b_tile[e / B_WIDTHS][e % B_WIDTHS] = Num4(acc[(l * ADDED + r * AT_ONCE + i) * TN + j * 4u], acc[(l * ADDED + r * AT_ONCE + i) * TN + j * 4u + 1u], acc[(l * ADDED + r * AT_ONCE + i) * TN + j * 4u + 2u], acc[(l * ADDED + r * AT_ONCE + i) * TN + j * 4u + 3u]);
          }
        }
      }
      workgroupBarrier(); // the others' sums are there
      if (lane_k == l) {
        for (var s = 0u; s < LANES_K - 1u; s += 1u) { // unroll if UNROLL
          for (var i = 0u; i < AT_ONCE; i += 1u) { // unroll if UNROLL
            for (var j = 0u; j < TN4; j += 1u) { // unroll if UNROLL
              let e = (s * AT_ONCE * TN4 + i * TN4 + j) * LANES + lane_mn;
              let sums = b_tile[e / B_WIDTHS][e % B_WIDTHS];
              acc[(l * ADDED + r * AT_ONCE + i) * TN + j * 4u] += sums.x;
              acc[(l * ADDED + r * AT_ONCE + i) * TN + j * 4u + 1u] += sums.y;
              acc[(l * ADDED + r * AT_ONCE + i) * TN + j * 4u + 2u] += sums.z;
              acc[(l * ADDED + r * AT_ONCE + i) * TN + j * 4u + 3u] += sums.w;
            }
          }
        }
      }
      workgroupBarrier(); // and no longer needed
    }
  }

  // Rows from the last, or from the first where vectors of A lie across k: by the order of
  // storing NVIDIA's compiler allots the registers of the loop over K (docs/performance.md).
  // And words of C outside of the branch around their storing, for the same reason, unless
  // the old C is read, of which there is none past the edge.
  batch = tile.z; // each part of K has a C of its own
  let inside = row0 + BM <= shape.m && col0 + BN <= shape.n;
  for (var r = 0u; r < TM; r += 1u) { // unroll if UNROLL
    for (var j = 0u; j < TN4; j += 1u) { // unroll if UNROLL
      let i = TM - 1u - r;
      // with A_ACROSS: let i = r;
      let row = row0 + (row_vector + i / 4u * LANES_M) * 4u + i % 4u;
      let col = col0 + (col_vector + j * LANES_N) * 4u;
      let sums = Num4(acc[(TM - 1u - r) * TN + j * 4u], acc[(TM - 1u - r) * TN + j * 4u + 1u], acc[(TM - 1u - r) * TN + j * 4u + 2u], acc[(TM - 1u - r) * TN + j * 4u + 3u]);
      // with A_ACROSS: let sums = Num4(acc[r * TN + j * 4u], acc[r * TN + j * 4u + 1u], acc[r * TN + j * 4u + 2u], acc[r * TN + j * 4u + 3u]);
      if (lane_k == i / ADDED) {
        let words = new_c_quad(row, col, sums);
        // with READS_C:
        // with C_SCALARS:
        if (row < shape.m && col < shape.n) { c_quads[quad_of_c(row, col)] = words; }
        // with READS_C: if (row < shape.m && col < shape.n) { store_c_vector(row, col, sums); }
        // with C_SCALARS: if (inside || (row < shape.m && col < shape.n)) { store_scalars(row, col, sums, inside); }
      }
    }
  }
}
