// probes/copy: how many bytes a second the device reads and writes.
//
//   each invocation: one vec4 from source to copy

const WG: u32 = 256u; // tunable: invocations per workgroup

@group(0) @binding(0) var<storage, read> source: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> copy: array<vec4f>; // as long as source

@compute @workgroup_size(WG, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3u) {
  copy[id.x] = source[id.x];
}
