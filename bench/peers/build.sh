#!/bin/sh
# Puts what run.sh needs into bin/peers: wgemm for wgpu-native and for Dawn, Dawn
# for Node, and the peers, of the versions in the lock file.
set -eu
cd "$(dirname "$0")/../.."
out=bin/peers
if [ ! bench/peers/node_modules/.package-lock.json -nt bench/peers/package-lock.json ]; then
  (cd bench/peers && npm ci --silent --ignore-scripts --no-audit --no-fund && touch node_modules/.package-lock.json)
fi
rm -rf "$out"
mkdir -p "$out/node_modules"
go build -trimpath -ldflags='-s -w' -o "$out/wgemm" ./cmd/wgemm
GOOS=js GOARCH=wasm go build -trimpath -ldflags='-s -w' -o "$out/wgemm.wasm" ./bench/peers
cp "$(go env GOROOT)/lib/wasm/wasm_exec.js" tests/dawn/dawn.mjs "$out"
cp bench/peers/*.mjs bench/peers/cublas.py bench/peers/run.sh "$out"

# module FOLDER NAME FILE... copies a module's own description and the files named.
module() {
  from=$1/node_modules/$2 to=$out/node_modules/$2
  shift 2
  mkdir -p "$to/dist"
  cp "$from/package.json" "$to"
  for file; do cp -r "$from/$file" "$to/${file%/*}"; done
}
module tests/dawn webgpu ./index.js "dist/$(node -p 'process.platform + "-" + (process.platform === "darwin" ? "universal" : process.arch)')"
module bench/peers @tensorflow/tfjs-core dist/tf-core.node.js
module bench/peers @tensorflow/tfjs-backend-webgpu dist/tf-backend-webgpu.node.js
module bench/peers onnxruntime-web dist/ort.webgpu.bundle.min.mjs dist/ort-wasm-simd-threaded.asyncify.wasm
