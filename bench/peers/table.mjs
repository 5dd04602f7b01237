// Prints one table of the reports of peers.mjs, cublas.py and wgemm bench --json:
//
//   node table.mjs FILE.json...

import { readFileSync } from 'node:fs';

const native = 'wgemm (wgpu-native)', dawn = 'wgemm (Dawn)', cublas = 'cuBLAS';
const points = [], lines = new Set();
for (const file of process.argv.slice(2)) {
  const r = JSON.parse(readFileSync(file, 'utf8'));
  points.push(...r.points.map((p) => (r.device === 'wgpu' ? { ...p, series: native } : p)));
  lines.add(`on ${[r.adapter, r.driver, r.flags && `node ${r.flags}`].filter(Boolean).join(', ')}`);
  if (r.copy_bytes_per_second) lines.add(`a copy by CUDA moves ${(r.copy_bytes_per_second / 1e9).toFixed(0)} GB/s, reads and writes together`);
  if (r.roof) lines.add(`wgemm's probes on ${r.device}: ${(r.roof.flops / 1e9).toPrecision(3)} GFLOP/s, a copy moves ${(r.roof.bytes_per_second / 1e9).toPrecision(3)} GB/s`);
  for (const note of r.notes ?? []) lines.add(note);
}

const names = [...new Set(points.map((p) => p.series))];
const peers = names.filter((name) => ![native, dawn, cublas].includes(name));
const columns = [...peers, dawn, native, cublas].filter((name) => names.includes(name));
const title = ({ batch, m, n, k }) => (batch === 1 && m === n && n === k ? `${n}` : `${batch > 1 ? `${batch}x` : ''}${m}x${n}x${k}`);
const ratios = [
  [`${dawn} / best peer`, (at) => at(dawn) / Math.max(...peers.map((p) => at(p) || 0))],
  [`${native} / best peer`, (at) => at(native) / Math.max(...peers.map((p) => at(p) || 0))],
  [`${native} / cuBLAS`, (at) => at(native) / at(cublas)],
].filter(([text]) => columns.some((c) => text.startsWith(c)) && (!text.endsWith(cublas) || columns.includes(cublas)));

const rows = [['m n k', 'dtype', ...columns, ...ratios.map(([text]) => text)]];
rows.push(rows[0].map((_, i) => (i < 2 ? '---' : '---:')));
let wrong = false;
const keys = [...new Set(points.map((p) => `${title(p)} ${p.dtype}`))];
for (const key of keys) {
  const here = new Map(points.filter((p) => `${title(p)} ${p.dtype}` === key).map((p) => [p.series, p]));
  const gflops = (name) => here.get(name)?.gflops;
  rows.push([
    ...key.split(' '),
    ...columns.map((name) => {
      const p = here.get(name);
      if (!p) return '-';
      wrong ||= p.error_ratio > 1;
      return Number(p.gflops.toPrecision(3)) + (p.error_ratio > 1 ? ' !' : '');
    }),
    ...ratios.map(([, of]) => {
      const v = of(gflops);
      return Number.isFinite(v) ? v.toFixed(2) : '-';
    }),
  ]);
}
console.log('GFLOP/s, median of 5 batches with one wait each:\n');
for (const row of rows) console.log(`| ${row.join(' | ')} |`);
console.log();
if (wrong) console.log('! is over the error bound of sums in binary32');
for (const line of lines) console.log(line);
