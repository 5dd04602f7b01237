#!/bin/sh
# Brings what the tests and the demo need beside Go, gcc and Node: a Vulkan
# loader and a current software adapter (lavapipe). It installs only what is
# missing, and only on Debian as root; elsewhere it says what to install.
set -eu

# Mesa 25 is the first lavapipe that both wgpu-native and Dawn accept.
want_mesa=25

note() { printf 'setup: %s\n' "$*" >&2; }

mesa_major() {
  dpkg-query -W -f '${Version}' mesa-vulkan-drivers 2>/dev/null | sed 's/^[0-9]*://; s/[^0-9].*//'
}

have_hardware() { [ -e /dev/nvidia0 ] || [ -e /dev/dri/renderD128 ]; }

if ! command -v dpkg-query >/dev/null 2>&1; then
  if ldconfig -p 2>/dev/null | grep -q libvulkan.so.1 || [ "$(uname)" != Linux ]; then exit 0; fi
  note "no Vulkan loader found: install your system's Vulkan loader and a driver" \
    "(for a machine without a GPU: Mesa's lavapipe, version $want_mesa or newer)"
  exit 0
fi

mesa=$(mesa_major)
if ldconfig -p | grep -q libvulkan.so.1 && { [ "${mesa:-0}" -ge "$want_mesa" ] || have_hardware; }; then
  exit 0
fi

if [ "$(id -u)" != 0 ]; then
  note "not root, so nothing was installed. Install: libvulkan1 and mesa-vulkan-drivers" \
    "(version $want_mesa or newer; on Debian 12 from backports), or your GPU's Vulkan driver"
  exit 0
fi

export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
target=
candidate=$(apt-cache policy mesa-vulkan-drivers 2>/dev/null | sed -n 's/ *Candidate: *//p' | sed 's/^[0-9]*://; s/[^0-9].*//')
if [ "${candidate:-0}" -lt "$want_mesa" ]; then
  # Backports come from the mirror that this machine already uses.
  suite="${VERSION_CODENAME}-backports"
  if [ "${ID:-}" = debian ] && ! grep -rqs "$suite" /etc/apt/sources.list /etc/apt/sources.list.d; then
    src=/etc/apt/sources.list.d/debian.sources
    if [ -f "$src" ]; then
      # The first stanza names the main archive; only its suites change.
      awk -v RS= 'NR == 1' "$src" | sed -e '/^#/d' -e "s/^Suites:.*/Suites: $suite/" \
        >/etc/apt/sources.list.d/wgemm-backports.sources
    else
      line=$(grep -h "^deb .*[[:space:]]${VERSION_CODENAME}[[:space:]]" /etc/apt/sources.list | head -n 1)
      printf '%s\n' "$line" | sed "s/[[:space:]]${VERSION_CODENAME}[[:space:]]/ $suite /" \
        >/etc/apt/sources.list.d/wgemm-backports.list
    fi
  fi
  target="-t $suite"
fi
note "installing the Vulkan loader and lavapipe (Debian packages)"
apt-get update -qq
# shellcheck disable=SC2086 # target is empty or two words
apt-get install -y -qq --no-install-recommends $target mesa-vulkan-drivers libvulkan1 >/dev/null ||
  apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers libvulkan1 >/dev/null
