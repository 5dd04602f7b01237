#!/bin/sh
# Builds the page into a folder that any static host can serve, wasm/dist or the
# one given. Names in it are relative, and each larger file stands there
# compressed as well (.br, .gz), for hosts that choose by Accept-Encoding.
set -eu
cd "$(dirname "$0")/.."
out=${1:-wasm/dist}

command -v node >/dev/null || {
  echo 'web: Node 20 or newer is needed, to compress the page' >&2
  exit 1
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# The standard library without inlining: the program is 6 % smaller, and what
# the page waits for is not spent there. The tag leaves formats out (matfile/page.go).
GOOS=js GOARCH=wasm go build -trimpath -ldflags='-s -w' -gcflags=std=-l -tags page -o "$tmp/wgemm.wasm" ./wasm/worker
cp wasm/page/* "$(go env GOROOT)/lib/wasm/wasm_exec.js" "$tmp"

node - "$tmp" "$out" <<'END'
const fs = require("fs"), path = require("path"), zlib = require("zlib");
const budget = 1e6; // bytes of a first load: everything once, compressed
const [folder, last] = process.argv.slice(2); // where it is built, and where it may have been before
// What holds data already need not be compressed again, which takes ten seconds.
function kept(name, decompress, data) {
  try {
    const file = fs.readFileSync(path.join(last, name));
    return decompress(file).equals(data) ? file : undefined;
  } catch {
    return undefined; // it is not there, or not whole
  }
}
let total = 0;
for (const name of fs.readdirSync(folder)) {
  const data = fs.readFileSync(path.join(folder, name));
  const params = {
    [zlib.constants.BROTLI_PARAM_QUALITY]: 11,
    [zlib.constants.BROTLI_PARAM_SIZE_HINT]: data.length,
  };
  const br = kept(name + ".br", zlib.brotliDecompressSync, data) ?? zlib.brotliCompressSync(data, { params });
  const gz = kept(name + ".gz", zlib.gunzipSync, data) ?? zlib.gzipSync(data, { level: 9 });
  total += br.length;
  console.log(`${name.padEnd(14)} ${String(data.length).padStart(8)} bytes, brotli ${String(br.length).padStart(7)}, gzip ${String(gz.length).padStart(7)}`);
  fs.writeFileSync(path.join(folder, name + ".br"), br);
  fs.writeFileSync(path.join(folder, name + ".gz"), gz);
}
console.log(`first load     ${total} bytes with brotli, at most ${budget}`);
if (total > budget) {
  console.error("web: the first load is too large");
  process.exit(1);
}
END

mkdir -p "$out"
find "$out" -mindepth 1 ! -name .gitkeep -delete
cp "$tmp"/* "$out"
chmod 644 "$out"/*
