#!/bin/sh
# Packs what a bare Linux machine with a GPU needs to measure wgemm and its peers
# into bin/peers.tar.xz: no network, Go or Node there. Unpack it there and run
# peers/run.sh.
set -eu
cd "$(dirname "$0")/../.."
sh bench/peers/build.sh
strip -o bin/peers/node "$(readlink -f "$(command -v node)")"
tar -C bin -cf - peers | xz -T0 -3 >bin/peers.tar.xz
ls -l bin/peers.tar.xz
