#!/bin/sh
# Measures wgemm and its peers on this machine, and prints one table. It runs in
# the folder that build.sh makes, and needs nothing else: without a Node beside
# it, it takes the system's. What is absent is left out, and said so.
#
#   run.sh [SHAPE...]     a SHAPE is N, MxNxK or BATCHxMxNxK
#
# The reports are left in $OUT, or in this folder.
cd "$(dirname "$0")" || exit 1
[ $# -gt 0 ] || set -- 512 1024 2048 4096 1024x64x64x64 64x64x1048576 1x8192x8192 8x8192x8192
out=${OUT:-.}
# On NVIDIA Dawn offers f16 and matrix units only when asked to.
export WGEMM_DAWN='enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia'
node=node
[ -x ./node ] && node=./node
# V8 would optimize ONNX Runtime's program for a minute, on all processors.
flags=${PEERS_NODE_FLAGS---liftoff-only --no-wasm-tier-up}

rm -f "$out"/dawn_*.json "$out"/native_*.json "$out/cublas.json"
shapes=$(echo "$@" | tr ' ' ,)
for dtype in f32 f16; do
  # shellcheck disable=SC2086
  "$node" $flags peers.mjs --dtype "$dtype" --out "$out/dawn_$dtype.json" "$@" 2>&1 | grep -v '^Warning: max'
  echo "peers: $dtype, wgemm (wgpu-native)"
  ./wgemm bench --device wgpu --shapes "$shapes" --dtype "$dtype" --compare auto --json >native.json &&
    mv native.json "$out/native_$dtype.json"
done
if command -v python3 >/dev/null; then
  python3 cublas.py --out "$out/cublas.json" "$@"
else
  echo 'peers: without cuBLAS: python3 is not installed'
fi
set --
for file in dawn_f32 dawn_f16 native_f32 native_f16 cublas; do
  if [ -e "$out/$file.json" ]; then set -- "$@" "$out/$file.json"; fi
done
"$node" table.mjs "$@"
