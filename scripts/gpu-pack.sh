#!/bin/sh
# Packs everything that a bare Linux machine with a GPU needs to run the tests
# and the command on wgpu-native and on Dawn into bin/gpu.tar.xz: no Go, no
# compiler and no network there. Unpack it there and run gpu/run.sh.
set -eu
cd "$(dirname "$0")/.."
out=bin/gpu
rm -rf "$out" "$out.tar.xz"
mkdir -p "$out/native" "$out/js" "$out/goroot/lib/wasm" "$out/dawn/node_modules/webgpu/dist" "$out/testdata"

for pkg in runtime/wgpu internal/chapter cmd/wgemm tests/products; do
  go test -c -ldflags='-s -w' -o "$out/native/$(basename "$pkg").test" "./$pkg"
done
go build -trimpath -ldflags='-s -w' -o "$out/wgemm" ./cmd/wgemm
for pkg in runtime/browser internal/chapter tests/products; do
  GOOS=js GOARCH=wasm go test -c -ldflags='-s -w' -o "$out/js/$(basename "$pkg").wasm" "./$pkg"
done
GOOS=js GOARCH=wasm go build -trimpath -ldflags='-s -w' -o "$out/wgemm.wasm" ./cmd/wgemm

cp "$(go env GOROOT)/lib/wasm/wasm_exec.js" "$out/goroot/lib/wasm/"
cp tests/dawn/*.mjs "$out/dawn/"
dawn=tests/dawn/node_modules/webgpu
cp "$dawn"/*.js "$dawn/package.json" "$out/dawn/node_modules/webgpu/"
cp -r "$dawn/dist/linux-x64" "$out/dawn/node_modules/webgpu/dist/"
strip -o "$out/node" "$(readlink -f "$(command -v node)")"
cp -r testdata/demo "$out/testdata/"
cp scripts/gpu-run.sh "$out/run.sh"
tar -C bin -cf - gpu | xz -T0 -6 >"$out.tar.xz"
ls -l "$out.tar.xz"
