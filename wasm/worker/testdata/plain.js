// A driver of one dispatch in plain JavaScript, to compare the Go one with. Its
// value is a function of the specialized WGSL, the words of the uniform, the
// bytes of A, B and C and the grid, which promises a function that runs the
// dispatch so many times, each a submit of its own, and promises the
// milliseconds until all have ended.
(async (code, shape, sizes, grid) => {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice({
    requiredLimits: {
      maxComputeInvocationsPerWorkgroup: adapter.limits.maxComputeInvocationsPerWorkgroup,
      maxComputeWorkgroupStorageSize: adapter.limits.maxComputeWorkgroupStorageSize,
    },
  });
  const uniform = device.createBuffer({ size: shape.byteLength, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
  device.queue.writeBuffer(uniform, 0, shape);
  const [a, b, c] = sizes.map((size) => device.createBuffer({ size, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST }));
  for (const [buffer, size] of [[a, sizes[0]], [b, sizes[1]]]) {
    device.queue.writeBuffer(buffer, 0, Float32Array.from({ length: size / 4 }, (_, i) => (i % 7) - 3));
  }
  const layout = device.createBindGroupLayout({
    entries: ['uniform', 'read-only-storage', 'read-only-storage', 'storage', 'read-only-storage'].map((type, binding) => (
      { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })),
  });
  const pipeline = await device.createComputePipelineAsync({
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module: device.createShaderModule({ code }), entryPoint: 'main' },
  });
  const group = device.createBindGroup({
    layout,
    entries: [uniform, a, b, c, a].map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  return async (repeats) => {
    const start = performance.now();
    for (let i = 0; i < repeats; i++) {
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...grid);
      pass.end();
      device.queue.submit([encoder.finish()]);
    }
    await device.queue.onSubmittedWorkDone();
    return performance.now() - start;
  };
})
