#!/bin/sh
# Runs the tests and the demo on this machine's GPU, through wgpu-native and
# through Dawn in Node. It is run.sh in the archive that gpu-pack.sh makes.
# A failing part does not stop the next; the exit status is 1 if any failed.
cd "$(dirname "$0")" || exit 1
export WGEMM_REQUIRE=wgpu,browser GOROOT="$PWD/goroot"
# On NVIDIA Dawn offers f16 and matrix units only when asked to.
export WGEMM_DAWN='enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia'
failed=0
part() {
  echo "== $*"
  "$@" || failed=1
}
on_dawn() { ./node --stack-size=8192 dawn/run.mjs "$@"; }
native() {
  name=$1
  shift
  # Some tests read ../testdata.
  mkdir -p cwd && (cd cwd && "../native/$name.test" "$@")
}

part ./wgemm info
part ./wgemm run testdata/demo/a.npy testdata/demo/b.npy -o c.npy --check
part ./wgemm bench --sizes 512:4096:x2
part native wgpu -test.run 'Conformance|Layout' -test.v
part native chapter
part native wgemm
part native products
part on_dawn wgemm.wasm info
part on_dawn wgemm.wasm run testdata/demo/a.npy testdata/demo/b.npy -o c.npy --check
part on_dawn wgemm.wasm demo --json
part on_dawn wgemm.wasm bench --sizes 512:4096:x2
part on_dawn js/browser.wasm
part on_dawn js/chapter.wasm
part on_dawn js/products.wasm
exit $failed
