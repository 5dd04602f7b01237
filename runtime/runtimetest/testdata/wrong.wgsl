// wrong: refused by every compiler, at the line of the unknown name.

@group(0) @binding(0) var<storage, read_write> y: array<u32>; // 1 word

@compute @workgroup_size(1, 1, 1)
fn main() {
  y[0] = 1u;
  y[0] = nowhere;
}
