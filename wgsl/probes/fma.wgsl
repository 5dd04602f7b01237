// probes/fma: how fast the device multiplies and adds in f32. It reads nothing.
//
//   each invocation: 2 chains of vec4 fma, neither of which waits for the other
//
// These are the 8 operations in flight that a processor core needs to be busy,
// and few enough for its registers; a graphics card has enough invocations
// beside. A chain x = x * by + by stays finite, since by < 1. The sum is written,
// so that no compiler leaves the work out.

const WG: u32 = 256u; // tunable: invocations per workgroup
const TURNS: u32 = 128u; // tunable: turns of the loop
const STEPS: u32 = 16u; // tunable: of each chain in a turn
const FLOPS: u32 = TURNS * STEPS * 16u; // of an invocation: a step is 8 products and 8 sums

@group(0) @binding(0) var<storage, read_write> sums: array<vec4f>; // one for each invocation

@compute @workgroup_size(WG, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let by = vec4f(0.5, 0.25, 0.75, 0.125) + f32(id.x) * 1e-9;
  var x = by;
  var y = by + 1.0;
  for (var turn = 0u; turn < TURNS; turn += 1u) {
    for (var n = 0u; n < STEPS; n += 1u) { // unroll
      x = fma(x, by, by);
      y = fma(y, by, by);
    }
  }
  sums[id.x] = x + y;
}
