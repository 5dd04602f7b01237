// Gives Node WebGPU through Dawn: globalThis.navigator.gpu and the names of the
// API, as a browser has them. WGEMM_DAWN holds Dawn's options, separated by
// spaces, for instance
// "backend=vulkan enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia".

import os from 'node:os';

process.env.XDG_RUNTIME_DIR ??= os.tmpdir(); // Vulkan drivers complain without it
const { create, globals } = await import('webgpu').catch((err) => {
  console.error(`${err.message}: run "npm ci" in ${import.meta.dirname ?? 'tests/dawn'} first`);
  process.exit(1);
});
Object.assign(globalThis, globals);
// Newer versions of Node have a navigator, whose properties are read-only.
if (globalThis.navigator === undefined) Object.defineProperty(globalThis, 'navigator', { value: {} });
// Dawn lives as long as this object is reachable: Node crashes when it is
// collected before.
Object.defineProperty(globalThis.navigator, 'gpu', {
  value: create((process.env.WGEMM_DAWN ?? '').split(' ').filter(Boolean)),
});
// A pending promise of Dawn does not keep Node alive.
setInterval(() => {}, 1 << 30);
