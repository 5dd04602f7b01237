// Measures matrix products of TensorFlow.js, ONNX Runtime Web and wgemm's
// js/wasm build on one adapter of Dawn, in one process and in turn, so that
// whatever slows the machine down slows all of them:
//
//   node peers.mjs [--dtype f32|f16] [--out FILE.json] SHAPE...
//
// A SHAPE is N, MxNxK or BATCHxMxNxK. Operands are on the device already.
// build.sh makes the folder that this runs in.

import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';
import './dawn.mjs';

const batchMs = 200; // the products of one batch take so long together
const maxRepeats = 200;
const rounds = 6; // the first is dropped, the median of the others counts
const require = createRequire(import.meta.url);
const now = () => performance.now();

// random fills numbers that are uniform in [-1, 1], the same in every run
// (a generator of Tommy Ettinger, mulberry32).
function random(length, seed) {
  const out = new Float32Array(length);
  for (let i = 0; i < length; i++) {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    out[i] = ((t ^ (t >>> 14)) >>> 0) / 2 ** 31 - 1;
  }
  return out;
}

// A dtype tells how numbers become the elements that are uploaded. For f16 they
// are rounded to 10 bits behind the point, which binary16 holds exactly.
const dtypes = {
  f32: { unit: 0, onnx: 1, ort: 'float32', round: (x) => x, encode: (x) => x, decode: (c) => new Float32Array(c) },
  f16: {
    unit: 2 ** -11, onnx: 10, ort: 'float16',
    round: (x) => x.map((v) => Math.round(v * 1024) / 1024),
    encode: (x) => {
      const bits = new Uint32Array(x.buffer, x.byteOffset, x.length);
      return Uint16Array.from(bits, (b) => ((b >>> 16) & 0x8000) | (b << 1 ? (((b >>> 23) & 255) - 112) << 10 | ((b >>> 13) & 1023) : 0));
    },
    decode: (c) => Float32Array.from(new Uint16Array(c), (h) => {
      const e = (h >>> 10) & 31, m = h & 1023, sign = h >>> 15 ? -1 : 1;
      if (e === 31) return m ? NaN : sign * Infinity;
      return sign * (e ? (1 + m / 1024) * 2 ** (e - 15) : m * 2 ** -24);
    }),
  },
};

// errorRatio is the largest error over its bound, gamma(k + 4) |A| |B| + u |C|,
// of elements of C drawn at random and of both ends of it.
function errorRatio({ batch, m, n, k }, unit, a, b, c) {
  let worst = 0;
  const total = batch * m * n;
  const picks = [0, total - 1, ...Array.from(random(62, 3), (v) => Math.floor(((v + 1) / 2) * total))];
  const gamma = ((k + 4) * 2 ** -24) / (1 - (k + 4) * 2 ** -24);
  for (const at of picks) {
    const p = Math.floor(at / (m * n)), i = Math.floor(at / n) % m, j = at % n;
    let sum = 0, abs = 0;
    for (let kk = 0; kk < k; kk++) {
      const product = a[(p * m + i) * k + kk] * b[(p * k + kk) * n + j];
      sum += product;
      abs += Math.abs(product);
    }
    const ratio = Math.abs(c[at] - sum) / (gamma * abs + unit * Math.abs(sum));
    if (!(ratio <= worst)) worst = ratio; // a NaN stays
  }
  return worst;
}

// Each peer is {name, dtypes, prepare}: prepare(type, shape, a, b) uploads and resolves
// to {run, read, close, variant}. run(count) multiplies count times and waits once.

async function tfjs() {
  const tf = require('@tensorflow/tfjs-core');
  require('@tensorflow/tfjs-backend-webgpu');
  if (!(await tf.setBackend('webgpu'))) throw new Error('its WebGPU backend does not start');
  const backend = tf.backend();
  return {
    name: `tfjs ${tf.version_core}`,
    dtypes: ['f32'],
    async prepare(dtype, { batch, m, n, k }, a, b) {
      const lead = batch > 1 ? [batch] : [];
      const A = tf.tensor(a, [...lead, m, k], 'float32'), B = tf.tensor(b, [...lead, k, n], 'float32');
      return {
        async run(count) {
          for (let i = 0; i < count; i++) tf.matMul(A, B).dispose();
          if (backend.commandEncoder) { // it submits 15 products at a time
            backend.endComputePassEncoder();
            backend.submitQueue();
          }
          await backend.queue.onSubmittedWorkDone();
        },
        async read() {
          const C = tf.matMul(A, B);
          const data = await C.data();
          C.dispose();
          return data;
        },
        async close() { tf.dispose([A, B]); },
      };
    },
  };
}

// matMulModel is an ONNX model, in the encoding of protocol buffers, of one
// MatMul. The numbers of the fields are those of onnx.proto.
function matMulModel(type, dims) {
  const varint = (v) => (v < 128 ? [v] : [(v % 128) + 128, ...varint(Math.floor(v / 128))]);
  const field = (number, v) => {
    if (typeof v === 'number') return [...varint(number << 3), ...varint(v)];
    const bytes = typeof v === 'string' ? [...Buffer.from(v)] : v;
    return [...varint((number << 3) | 2), ...varint(bytes.length), ...bytes];
  };
  const value = (name) => {
    const shape = dims[name].flatMap((d) => field(1, field(1, d)));
    return [...field(1, name), ...field(2, field(1, [...field(1, type), ...field(2, shape)]))];
  };
  const node = [...field(1, 'a'), ...field(1, 'b'), ...field(2, 'c'), ...field(4, 'MatMul')];
  const graph = [...field(1, node), ...field(2, 'product'), ...field(11, value('a')), ...field(11, value('b')), ...field(12, value('c'))];
  return Uint8Array.from([...field(1, 8), ...field(7, graph), ...field(8, field(2, 13))]);
}

async function ort() {
  // Its memory is shared between threads, and from such Dawn's writeBuffer
  // takes nothing.
  const writeBuffer = GPUQueue.prototype.writeBuffer;
  GPUQueue.prototype.writeBuffer = function (buffer, offset, data, ...part) {
    const shared = (data.buffer ?? data) instanceof SharedArrayBuffer;
    return writeBuffer.call(this, buffer, offset, shared ? data.slice() : data, ...part);
  };
  const ort = await import('onnxruntime-web/webgpu');
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = readFileSync(require.resolve('onnxruntime-web/ort-wasm-simd-threaded.asyncify.wasm'));
  return {
    name: `ort-web ${ort.env.versions.web}`,
    dtypes: ['f32', 'f16'],
    async prepare(dtype, { batch, m, n, k }, a, b) {
      const lead = batch > 1 ? [batch] : [];
      const dims = { a: [...lead, m, k], b: [...lead, k, n], c: [...lead, m, n] };
      const type = dtypes[dtype];
      const session = await ort.InferenceSession.create(matMulModel(type.onnx, dims), { executionProviders: ['webgpu'] });
      const device = await ort.env.webgpu.device;
      const buffers = [];
      const tensor = (name, size, data) => {
        const buffer = device.createBuffer({ size, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC });
        buffers.push(buffer);
        if (data) device.queue.writeBuffer(buffer, 0, data);
        return ort.Tensor.fromGpuBuffer(buffer, { dataType: type.ort, dims: dims[name] });
      };
      const sizeC = batch * m * n * a.BYTES_PER_ELEMENT;
      const feeds = { a: tensor('a', a.byteLength, a), b: tensor('b', b.byteLength, b) };
      const fetches = { c: tensor('c', sizeC) };
      return {
        async run(count) {
          for (let i = 0; i < count; i++) await session.run(feeds, fetches);
          await device.queue.onSubmittedWorkDone();
        },
        async read() {
          const staging = device.createBuffer({ size: sizeC, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
          buffers.push(staging);
          const encoder = device.createCommandEncoder();
          encoder.copyBufferToBuffer(fetches.c.gpuBuffer, 0, staging, 0, sizeC);
          device.queue.submit([encoder.finish()]);
          await staging.mapAsync(GPUMapMode.READ);
          return staging.getMappedRange().slice(0);
        },
        async close() {
          for (const buffer of buffers) buffer.destroy();
          await session.release();
        },
      };
    },
  };
}

async function wgemm() {
  require('./wasm_exec.js');
  const go = new Go();
  const { instance } = await WebAssembly.instantiate(readFileSync(new URL('wgemm.wasm', import.meta.url)), go.importObject);
  go.run(instance).catch((err) => { throw err; });
  const bytes = (x) => new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
  return {
    name: 'wgemm (Dawn)',
    dtypes: ['f32', 'f16'],
    async prepare(dtype, { batch, m, n, k }, a, b) {
      const variant = await globalThis.wgemm.prepare(dtype, batch, m, n, k, bytes(a), bytes(b));
      return { ...globalThis.wgemm, variant, read: async () => (await globalThis.wgemm.read()).buffer };
    },
  };
}

function parseShape(text) {
  const numbers = text.split('x').map(Number);
  if (numbers.some((v) => !Number.isInteger(v) || v < 1)) numbers.length = 0;
  switch (numbers.length) {
    case 1: return { batch: 1, m: numbers[0], n: numbers[0], k: numbers[0] };
    case 3: return { batch: 1, m: numbers[0], n: numbers[1], k: numbers[2] };
    case 4: return { batch: numbers[0], m: numbers[1], n: numbers[2], k: numbers[3] };
  }
  console.error(`peers: shape ${text}: want N, MxNxK or BATCHxMxNxK`);
  process.exit(2);
}

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { dtype: { type: 'string', default: 'f32' }, out: { type: 'string' } },
});
const shapes = positionals.map(parseShape);
const type = dtypes[flags.dtype];
if (!type || shapes.length === 0) {
  console.error('usage: node peers.mjs [--dtype f32|f16] [--out FILE.json] SHAPE...');
  process.exit(2);
}

// time is how long one product takes, in seconds.
async function time(product, count) {
  const start = now();
  await product.run(count);
  return (now() - start) / 1e3 / count;
}

const repeatsFor = (seconds) => Math.max(1, Math.min(maxRepeats, Math.floor(batchMs / 1e3 / seconds)));

const { info } = (await navigator.gpu.requestAdapter()) ?? { info: { description: 'no adapter', device: '' } };
const report = { adapter: info.device, driver: info.description, node: process.version, flags: process.execArgv.join(' '), points: [], notes: [] };
const note = (text) => {
  report.notes.push(text);
  console.error('peers:', text);
};

const peers = [];
for (const open of [tfjs, ort, wgemm]) {
  try {
    const peer = await open();
    if (peer.dtypes.includes(flags.dtype)) peers.push(peer);
    else note(`${peer.name} has no ${flags.dtype}`);
  } catch (err) {
    note(`without ${open.name}: ${err.message.split('\n')[0]}`);
  }
}
for (const shape of shapes) {
  const { batch, m, n, k } = shape;
  const title = `${flags.dtype} ${batch}x${m}x${n}x${k}`;
  const a = type.round(random(batch * m * k, 1)), b = type.round(random(batch * k * n, 2));
  const series = [];
  for (const peer of peers) {
    console.error(`peers: ${title}, ${peer.name}`);
    try {
      const product = await peer.prepare(flags.dtype, shape, type.encode(a), type.encode(b));
      await time(product, 1); // compiles
      series.push({ peer, product, repeats: repeatsFor(await time(product, 1)), times: [] });
    } catch (err) {
      note(`${title}: without ${peer.name}: ${err.message.split('\n')[0]}`);
    }
  }
  for (let round = 0; round < rounds; round++) {
    for (const s of series) {
      const took = await time(s.product, s.repeats);
      if (round > 0) s.times.push(took);
      else s.repeats = repeatsFor(took);
    }
  }
  for (const { peer, product, repeats, times } of series) {
    times.sort((x, y) => x - y);
    const seconds = times[times.length >> 1];
    const c = await product.read();
    report.points.push({
      series: peer.name, variant: product.variant, dtype: flags.dtype, batch, m, n, k, repeats,
      seconds, seconds_least: times[0], seconds_most: times.at(-1), gflops: (2 * batch * m * n * k) / seconds / 1e9,
      error_ratio: errorRatio(shape, type.unit, a, b, c instanceof Float32Array ? c : type.decode(c)),
    });
    await product.close();
  }
}
const text = JSON.stringify(report, null, 1);
if (flags.out) writeFileSync(flags.out, text);
else console.log(text);
process.exit(0);
