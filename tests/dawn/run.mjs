// Runs a Go js/wasm program in Node on Dawn's WebGPU, as go test's -exec:
//
//   (cd tests/dawn && npm ci)
//   GOOS=js GOARCH=wasm go test -exec="node --stack-size=8192 $PWD/tests/dawn/run.mjs" ./...
//
// dawn.mjs tells of WGEMM_DAWN, Dawn's options.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

// Go's js/wasm programs get at most 8 KiB of arguments and environment.
const maxEnvironment = 8 << 10;

// environment returns the variables that tests may need, as far as they fit
// beside the arguments; the longest are left out first.
function environment(argv) {
  const size = (text) => Buffer.byteLength(text) + 16; // its end, alignment and a pointer
  let room = maxEnvironment - argv.reduce((sum, arg) => sum + size(arg), 0);
  const passed = Object.entries({ TMPDIR: os.tmpdir(), ...process.env })
    .filter(([name]) => /^(GO.*|WGEMM_.*|HOME|PATH|PWD|TMPDIR|CI|TERM)$/.test(name))
    .sort(([, a], [, b]) => a.length - b.length)
    .filter(([name, value]) => (room -= size(`${name}=${value}`)) >= 0);
  return Object.fromEntries(passed);
}

const argv = process.argv.slice(2);
if (argv.length === 0) {
  console.error('usage: node --stack-size=8192 run.mjs PROGRAM.wasm [ARGUMENT]...');
  process.exit(2);
}

await import('./dawn.mjs');

const require = createRequire(import.meta.url);
globalThis.require = require;
globalThis.fs = require('node:fs');
globalThis.path = path;
const goroot = process.env.GOROOT || execFileSync('go', ['env', 'GOROOT'], { encoding: 'utf8' }).trim();
require(path.join(goroot, 'lib/wasm/wasm_exec.js'));

const go = new Go();
go.argv = argv;
go.env = environment(argv);
go.exit = (code) => process.exit(code);
const { instance } = await WebAssembly.instantiate(readFileSync(argv[0]), go.importObject);
await go.run(instance);
