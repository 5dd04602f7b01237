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
