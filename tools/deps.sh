#!/bin/sh
# Installs the Debian packages that are missing, and only those: where everything is
# present it prints nothing and needs no root.
#     deps.sh GROUP...        groups: build test ci afl browser aarch64 travel peers peers-ot study wheel release clean-root pot
set -eu

# package, then what shows that it is there: a command, a header; an optional command is
# missed only where it can be installed
packages() {
    case $1 in
    build)
        echo build-essential        command c++
        echo cmake                  command cmake
        echo pkg-config             command pkg-config
        echo libopenblas-openmp-dev header cblas.h
        echo liblapacke-dev         header lapacke.h
        echo libpcre2-dev           header pcre2.h
        echo libutf8proc-dev        header utf8proc.h
        echo libsqlite3-dev         header sqlite3.h
        echo libjansson-dev         header jansson.h
        echo libjs-vega             package - ;;
    test)
        echo libcmocka-dev          header cmocka.h
        echo libarpack2-dev         header arpack/arpack.h
        echo libmpfr-dev            header mpfr.h
        echo libopenmpi-dev         header mpi/mpi.h
        echo openmpi-bin            command mpirun
        echo sqlite3                command sqlite3
        echo locales                package -
        echo clang-format           optional clang-format ;;
    ci)
        echo clang                  command clang
        echo ccache                 optional ccache
        echo abigail-tools          optional abidiff
        echo libclang-rt-dev        package -
        echo libomp-dev             package - ;;
    afl)
        echo afl++                  command afl-fuzz ;;
    browser)
        echo chromium               command chromium
        echo chromium-driver        command chromedriver
        echo python3-selenium       package - ;;
    aarch64)
        echo cmake                  command cmake
        echo pkg-config             command pkg-config
        echo gcc-aarch64-linux-gnu  command aarch64-linux-gnu-gcc
        echo qemu-user              command qemu-aarch64 ;;
    travel)
        echo musl-tools             command musl-gcc ;;
    wheel)
        echo python3-venv           package -
        echo python3-dev            package - ;;
    peers-ot | study)
        echo python3-venv           package - ;;
    release)
        echo debhelper              command dh
        echo dpkg-dev               command dpkg-buildpackage
        echo fakeroot               command fakeroot
        echo abigail-tools          command abidiff
        echo lintian                command lintian ;;
    clean-root)
        echo mmdebstrap             command mmdebstrap
        echo python3-venv           package - ;;
    pot)
        echo python3-pot            package - ;;
    peers)
        echo python3-venv           package - ;;
    *)
        echo "deps.sh: no group '$1'; groups: build test ci afl browser aarch64 travel peers peers-ot study wheel release clean-root pot" >&2
        exit 2 ;;
    esac
}

has_package() {
    dpkg-query -W -f='${Status}\n' "$1" 2>/dev/null | grep -q ' installed$'
}

# A command may come from anywhere; of two libraries with the same header only the
# package says which one it is, so a system with dpkg is asked for the package.
is_there() { # package kind what
    if [ "$2" = command ]; then command -v "$3" >/dev/null
    elif [ "$2" = optional ]; then command -v "$3" >/dev/null || ! command -v apt-get >/dev/null
    elif command -v dpkg-query >/dev/null; then has_package "$1"
    elif [ "$2" = header ]; then echo "#include <$3>" | cc -E - >/dev/null 2>&1
    fi
}

missing=
for group in "$@"; do
    list=$(packages "$group")
    while read -r package kind what; do
        is_there "$package" "$kind" "$what" || missing="$missing $package"
    done <<END
$list
END
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Missing (under their Debian names):$missing; install them with this system's package manager." >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then root=
elif command -v sudo >/dev/null; then root=sudo
else
    echo "Missing packages:$missing; installing them needs root: run 'apt-get install$missing' as root." >&2
    exit 1
fi
echo "installing$missing" >&2
apt="$root env DEBIAN_FRONTEND=noninteractive apt-get -q -y"
$apt update >&2 || echo "apt-get update failed; trying with the lists that are here" >&2
# shellcheck disable=SC2086 # lists of words
$apt install --no-install-recommends $missing >&2
