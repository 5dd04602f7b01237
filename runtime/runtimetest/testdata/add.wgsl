// add: y = x + step over words, for the conformance suite.

struct Args { count: u32, step: u32 }

@group(0) @binding(0) var<uniform> args: Args;
@group(0) @binding(1) var<storage, read> x: array<u32>; // count words
@group(0) @binding(2) var<storage, read_write> y: array<u32>; // count words

@compute @workgroup_size(64, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < args.count) {
    y[id.x] = x[id.x] + args.step;
  }
}
