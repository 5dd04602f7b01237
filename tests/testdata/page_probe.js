// Stands before worker.js in the page's tests: counts the GPU buffers that are
// not destroyed, and can lose the device.
{
  const live = new Set();
  let device = null, memory = null;
  const wrap = (object, name, after) => {
    const original = object[name];
    object[name] = function (...args) { return after.call(this, original.apply(this, args)); };
  };
  wrap(GPUDevice.prototype, "createBuffer", (buffer) => { live.add(buffer); return buffer; });
  wrap(GPUBuffer.prototype, "destroy", function () { live.delete(this); });
  wrap(GPUAdapter.prototype, "requestDevice", async (promise) => (device = await promise));
  wrap(WebAssembly, "instantiateStreaming", async (promise) => {
    const program = await promise;
    memory = program.instance.exports.mem;
    return program;
  });
  const channel = new BroadcastChannel("probe");
  channel.onmessage = ({ data }) => {
    if (data === "lose") device.destroy();
    channel.postMessage({ buffers: live.size, bytes: memory.buffer.byteLength });
  };
}
