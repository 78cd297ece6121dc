# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts: messages and installing what is missing. Source it, do not run it.

say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

# Runs a command as root: directly, or through sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else die "this step needs root: run it as root or install sudo ($*)"; fi
}

# Installs those of the named Debian packages that are missing, and says which.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] || install_newest "${missing[@]}"
}

# Installs these Debian packages, or newer versions of them.
install_newest() {
  command -v apt-get >/dev/null 2>&1 || die "install these first (their names in Debian 12): $*"
  say "installing Debian packages: $*"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The Rust compiler for the text bridge: a cargo that is new enough, or Debian's cargo-web.
rust_minimum=1.87.0
has_rust() {
  local cargo
  for cargo in cargo "$HOME/.cargo/bin/cargo"; do
    command -v "$cargo" >/dev/null 2>&1 && version_at_least "$("$cargo" --version | awk '{print $2}')" "$rust_minimum" && return 0
  done
  return 1
}
install_rust() {
  has_rust && return 0
  install_newest cargo-web rustc-web
  has_rust || die "Rust $rust_minimum or newer is needed, and Debian's cargo-web here is $(dpkg-query -W -f='${Version}' cargo-web).
The newer one is among Debian's security updates: add this line to /etc/apt/sources.list and run it again,
  deb http://deb.debian.org/debian-security bookworm-security main
or install Rust from https://rustup.rs."
}

# node and npm for the chat page: those that are there, if new enough, or Debian's.
install_node() {
  if command -v npm >/dev/null 2>&1 && version_at_least "$(node --version 2>/dev/null | tr -d v)" 18.0.0; then
    return 0
  fi
  install_packages nodejs npm
}

build_packages=(g++ cmake ninja-build ca-certificates libflatbuffers-dev flatbuffers-compiler
  libprotozero-dev nlohmann-json3-dev libcli11-dev zlib1g-dev protobuf-compiler libprotobuf-dev libtomlplusplus-dev libcurl4-openssl-dev libboost1.74-dev libedit-dev)
