// Gives Node WebGPU through Dawn: globalThis.navigator.gpu and the names of the
// API, as a browser has them. WGEMM_DAWN holds Dawn's options, separated by
// spaces, for instance
// "backend=vulkan enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia".

import os from 'node:os';
import { promisify } from 'node:util';

process.env.XDG_RUNTIME_DIR ??= os.tmpdir(); // Vulkan drivers complain without it
const { create, globals } = await import('webgpu').catch((err) => {
  console.error(`${err.message}: run "npm ci" in ${import.meta.dirname ?? 'tests/dawn'} first`);
  process.exit(1);
});
Object.assign(globalThis, globals);
pauseBetweenTurns();
// Newer versions of Node have a navigator, whose properties are read-only.
if (globalThis.navigator === undefined) Object.defineProperty(globalThis, 'navigator', { value: {} });
// Dawn lives as long as this object is reachable: Node crashes when it is
// collected before.
Object.defineProperty(globalThis.navigator, 'gpu', {
  value: create((process.env.WGEMM_DAWN ?? '').split(' ').filter(Boolean)),
});
// A pending promise of Dawn does not keep Node alive.
setInterval(() => {}, 1 << 30);

// Dawn asks whether a device is done at every turn of the event loop, through
// setImmediate: a processor's whole time, and garbage for V8, whose collections stop the
// program for 9 to 26 ms about five times a second. When it has asked for 2 ms, each turn
// for the next, it is answered after a millisecond. Who else asks is not a native function.
function pauseBetweenTurns() {
  const immediate = globalThis.setImmediate;
  const isNative = (f) => typeof f === 'function' && Function.prototype.toString.call(f).endsWith('{ [native code] }');
  let began = 0, inTurn = false; // of turns that ask for the next
  const paused = (f, ...args) => {
    if (!isNative(f)) return immediate(f, ...args);
    const now = performance.now();
    if (!inTurn) began = now;
    const turn = () => {
      inTurn = true;
      try {
        f(...args);
      } finally {
        inTurn = false;
      }
    };
    return now - began < 2 ? immediate(turn) : setTimeout(turn, 1);
  };
  paused[promisify.custom] = immediate[promisify.custom];
  globalThis.setImmediate = paused;
}
