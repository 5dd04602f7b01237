const IN_F16: bool = false; // tunable: A and B hold binary16, two elements a word
const OUT_F16: bool = false; // tunable: C holds binary16, two elements a word
const NATIVE_F16: bool = false; // tunable: binary16 is loaded and stored as the shader's own f16, where the device has it
const NATIVE_IN: bool = NATIVE_F16 && IN_F16;
const NATIVE_OUT: bool = NATIVE_F16 && OUT_F16;

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
