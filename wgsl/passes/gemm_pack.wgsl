// gemm_pack: copies A with its rows side by side, the form that gemm_block reads
// fastest, before a product that is large enough to pay for it.
//
// A is m x k, of any strides. C holds elements of the same type: for each matrix of the
// batch k rows of m elements, each row padded to a multiple of 4 (c_row apart); what is
// past m there is a copy of the last. B and the bias are not read. B is packed in the same
// way, as the transpose of A.
//
//   each workgroup: BN x BM elements      grid ceil(m / BN) x ceil(k / BM) x batch
//     each invocation: 4 x 4, as vectors where A has them, transposed in registers
//
// Neighbouring invocations are neighbours in A's memory, 8 of them where that is
// along k: so many that both reading and writing fill whole sectors.

const BM: u32 = 32u; // kk per workgroup
const BN: u32 = 128u; // rows of A per workgroup
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

const A_ACROSS: bool = A_QUADS && A_TRANS; // a vector of A lies along m
const BM4: u32 = BM / 4u;
const BN4: u32 = BN / 4u;
const WG_SIZE: u32 = BM4 * BN4;

@compute @workgroup_size(WG_SIZE, 1, 1)
fn main(@builtin(workgroup_id) tile: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  batch = tile.z;
  let kk = tile.y * BM + select(lane % BM4, lane / BN4, A_TRANS) * 4u;
  let row = tile.x * BN + select(lane / BM4, lane % BN4, A_TRANS) * 4u;
  if (kk >= shape.k || row >= shape.m) { return; }
  var v: array<Num4, 4>; // along m for four kk, or along k for four rows
  for (var i = 0u; i < 4u; i += 1u) { // unroll if UNROLL
    if (A_ACROSS) {
      v[i] = vector_a(index_a(row, min(kk + i, shape.k - 1u)));
    } else {
      v[i] = masked_vector_a(index_a(min(row + i, shape.m - 1u), kk), kk, shape.k);
    }
  }
  for (var c = 0u; c < 4u; c += 1u) { // unroll if UNROLL
    var quad = v[c];
    if (!A_ACROSS) { quad = Num4(v[0][c], v[1][c], v[2][c], v[3][c]); }
    if (kk + c < shape.k) {
      c_quads[(batch * shape.c_batch + (kk + c) * shape.c_row + row) >> 2u] = encode_quad(quad);
    }
  }
}
