// workgroup: uses 64 KiB of workgroup memory in each workgroup, which few
// devices have.

@group(0) @binding(0) var<storage, read_write> y: array<u32>; // 1 word

var<workgroup> block: array<u32, 16384>;

@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) lane: u32) {
  block[lane * 256u] = lane;
  workgroupBarrier();
  if (lane == 0u) { y[0] = block[16128]; }
}
