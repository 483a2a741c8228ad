# Shared by deploy/demo and deploy/test, which source it after `set -euo pipefail`.
# shellcheck shell=bash

laggard_root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n==> %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# packages SECTION...: the package names of these sections of packages.txt, one a line.
packages() {
  local section
  for section in "$@"; do
    sed -n "/^\[$section\]\$/,/^\[/{/^[a-z0-9]/p}" "$laggard_root/deploy/packages.txt"
  done
}

# as_root COMMAND...: runs it as root, through sudo where needed.
as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

# install_quietly PACKAGE...: apt-get install, without starting services. Debian starts one with the package
# prometheus, and whoever asked for a test did not ask for a server on port 9090.
install_quietly() {
  local policy=/usr/sbin/policy-rc.d status=0
  if [[ " $* " == *" prometheus "* && -d /run/systemd/system ]]; then
    as_root systemctl --quiet mask prometheus.service
    echo "    The service prometheus is masked, since the tests use the program alone:" \
      "'systemctl unmask prometheus' undoes it."
    policy=
  elif [[ -e $policy ]]; then
    policy=
  else
    # Left behind, this file would keep every later package's service from starting.
    trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod +x $policy
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 \
    install --no-install-recommends "$@" </dev/null || status=$?
  [[ -z $policy ]] || as_root rm -f $policy
  trap - EXIT
  return $status
}

# install_packages SECTION...: says which packages of these sections are missing, then installs them.
install_packages() {
  command -v dpkg-query >/dev/null || die "this needs Debian 12 or a relative: dpkg-query is not here." \
    "deploy/packages.txt lists what to install by hand."
  local package missing=()
  for package in $(packages "$@"); do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then
    say "Debian packages: all there, nothing to install."
    return
  fi
  say "Debian packages that are missing and will be installed now, with what they depend on:"
  printf '    %s\n' "${missing[@]}"
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || die "installing them needs root, and sudo is not here. Run this as root, or" \
      "as root: apt-get install ${missing[*]}"
    echo "    Installing needs root: sudo may ask for your password."
    sudo -v || die "sudo gave no root rights. As root: apt-get install ${missing[*]}"
  fi
  as_root apt-get -q -o DPkg::Lock::Timeout=300 -o APT::Update::Error-Mode=any update </dev/null ||
    echo "warning: the package lists could not be refreshed; going on with those that are here." >&2
  install_quietly "${missing[@]}" ||
    die "apt-get could not install the packages above: is the network there, and is this Debian 12?"
}

# build PRESET [tests] [TARGET...]: configures and builds into build/PRESET; everything without targets. The tests
# need packages of their own, so only with "tests" is there anything of them.
build() {
  local preset=$1 testing=OFF target=()
  shift
  if [[ ${1:-} == tests ]]; then
    testing=ON
    shift
  fi
  [[ $# -eq 0 ]] || target=(--target "$@")
  say "Building (preset $preset) in $laggard_root/build/$preset"
  # In a list with ||, errexit is off: hence the &&.
  (
    cd -- "$laggard_root" &&
      cmake --preset "$preset" -DBUILD_TESTING=$testing --log-level=WARNING &&
      cmake --build --preset "$preset" "${target[@]}"
  ) || die "the build failed: the lines above say where."
}
