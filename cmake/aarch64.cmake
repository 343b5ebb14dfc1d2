# Toolchain of tools/aarch64.sh: Debian's cross compiler, and in LIPSCOPE_SYSROOT Debian's arm64
# libraries, unpacked; programs run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LIPSCOPE_SYSROOT)
set(CMAKE_SYSROOT ${LIPSCOPE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(libraries ${LIPSCOPE_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${LIPSCOPE_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${LIPSCOPE_SYSROOT})
# libblas.so.3 and liblapack.so.3 have no fixed place: alternatives choose one
set(blas ${libraries}/openblas-openmp)
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${blas})
set(CMAKE_SHARED_LINKER_FLAGS_INIT -Wl,-rpath-link,${blas})
set(CMAKE_CROSSCOMPILING_EMULATOR
  "qemu-aarch64;-L;${LIPSCOPE_SYSROOT};-E;LD_LIBRARY_PATH=${blas}:${libraries}")
