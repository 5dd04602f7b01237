// slow: a chain of additions and multiplications of chosen length, for the
// conformance suite.

struct Args { outer: u32, inner: u32 }

@group(0) @binding(0) var<uniform> args: Args;
@group(0) @binding(1) var<storage, read_write> y: array<u32>; // 1 word

@compute @workgroup_size(1, 1, 1)
fn main() {
  var x = y[0];
  for (var i = 0u; i < args.outer; i += 1u) {
    for (var j = 0u; j < args.inner; j += 1u) {
      x = x * 1664525u + 1013904223u;
    }
  }
  y[0] = x;
}
