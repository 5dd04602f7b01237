#!/bin/sh
# Brings what the demo and the tests need beside Go, gcc and Node: a Vulkan
# loader with a current software adapter (lavapipe), Dawn for Node, and
# Chromium. It installs only what is missing; system packages only on Debian as
# root, and elsewhere it says what to install.
set -eu
cd "$(dirname "$0")/.."

# Mesa 25 is the first lavapipe that both wgpu-native and Dawn accept.
want_mesa=25

note() { printf 'setup: %s\n' "$*" >&2; }

# major reads the first number of a Debian version, behind its epoch.
major() { sed 's/^[0-9]*://; s/[^0-9].*//'; }

have_loader() { ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; }

have_mesa() {
  [ "$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers 2>/dev/null | major)" -ge "$want_mesa" ] 2>/dev/null
}

have_hardware() { [ -e /dev/nvidia0 ] || [ -e /dev/dri/renderD128 ]; }

have_vulkan() { have_loader && { have_mesa || have_hardware; }; }

have_chromium() { command -v chromium >/dev/null 2>&1; }

# add_backports adds this system's backports, from the mirror it already uses.
add_backports() {
  suite="$VERSION_CODENAME-backports"
  if grep -rqs "$suite" /etc/apt/sources.list /etc/apt/sources.list.d; then return; fi
  sources=/etc/apt/sources.list.d/debian.sources
  if [ -f "$sources" ]; then
    # The first stanza names the main archive; only its suites change.
    awk -v RS= 'NR == 1' "$sources" | sed -e '/^#/d' -e "s/^Suites:.*/Suites: $suite/" \
      >/etc/apt/sources.list.d/wgemm-backports.sources
  else
    sed -n "s/^\(deb .*[[:space:]]\)$VERSION_CODENAME\([[:space:]].*\)/\1$suite\2/p" /etc/apt/sources.list |
      head -n 1 >/etc/apt/sources.list.d/wgemm-backports.list
  fi
  apt-get update -qq
}

install() {
  note "installing $* (Debian packages)"
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

install_vulkan() {
  candidate=$(apt-cache policy mesa-vulkan-drivers | sed -n 's/ *Candidate: *//p' | major)
  if [ "${candidate:-0}" -ge "$want_mesa" ] || [ "$ID" != debian ]; then
    install libvulkan1 mesa-vulkan-drivers
  else
    add_backports
    install -t "$VERSION_CODENAME-backports" libvulkan1 mesa-vulkan-drivers
  fi
}

system_packages() {
  if have_vulkan && have_chromium; then return; fi
  if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
    have_vulkan || note "please install a Vulkan loader and a Vulkan driver" \
      "(Debian: libvulkan1 mesa-vulkan-drivers, of Mesa $want_mesa or newer; Debian 12 has it in backports)"
    have_chromium || note "please install Chromium (Debian: chromium); the browser tests need it"
    return
  fi
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck source=/dev/null
  . /etc/os-release
  apt-get update -qq
  have_vulkan || install_vulkan
  have_chromium || install chromium
}

# Dawn is the npm package webgpu, at the version of the lock file.
dawn() {
  if [ tests/dawn/node_modules/.package-lock.json -nt tests/dawn/package-lock.json ]; then return; fi
  if ! command -v npm >/dev/null 2>&1; then
    note "please install Node 20 or newer with npm; the tests on Dawn need it"
    return
  fi
  note "installing Dawn for Node (npm ci in tests/dawn)"
  (cd tests/dawn && npm ci --silent --no-audit --no-fund && touch node_modules/.package-lock.json)
}

case "$(uname)" in
Linux) system_packages ;;
esac
dawn
