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
