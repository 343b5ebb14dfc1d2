# Makes the target lipscope::linalg: BLAS with cblas.h, LAPACK and LAPACKE.  Used by the
# build, and by the installed package when the library is static.
#
# Two thread pools must not meet.  The products of lipscope are OpenMP regions between
# calls of BLAS; an OpenBLAS with its own pthread pool leaves one pool spinning while the
# other works, which halves the speed.  Distributions ship both kinds under one name and
# let a system-wide switch choose (Debian: alternatives of libopenblas.so), so the OpenMP
# kind is looked for first where it really lies and linked by that path.  An installed
# library keeps that folder as its run path, because the switch also acts at run time.
# -DBLA_VENDOR=... asks for another one; where no OpenMP kind is found FindBLAS decides.
include_guard(GLOBAL)

if(NOT BLA_VENDOR)
  # Debian and Ubuntu: lib/<triplet>/openblas-openmp/libopenblas.so;  Fedora: libopenblaso.so
  find_library(LIPSCOPE_OPENBLAS_OPENMP NAMES openblas
    HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
  if(NOT LIPSCOPE_OPENBLAS_OPENMP)
    find_library(LIPSCOPE_OPENBLAS_OPENMP NAMES openblaso)
  endif()
  mark_as_advanced(LIPSCOPE_OPENBLAS_OPENMP)
endif()

if(LIPSCOPE_OPENBLAS_OPENMP)
  set(lipscope_blas ${LIPSCOPE_OPENBLAS_OPENMP}) # holds LAPACK too
  set(lipscope_cblas_hint /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
else()
  find_package(BLAS REQUIRED)
  find_package(LAPACK REQUIRED)
  set(lipscope_blas ${LAPACK_LIBRARIES} ${BLAS_LIBRARIES})
endif()
find_path(LIPSCOPE_CBLAS_INCLUDE cblas.h HINTS ${lipscope_cblas_hint} PATH_SUFFIXES openblas REQUIRED)
find_path(LIPSCOPE_LAPACKE_INCLUDE lapacke.h PATH_SUFFIXES lapacke openblas REQUIRED)
find_library(LIPSCOPE_LAPACKE NAMES lapacke) # absent where BLAS itself holds LAPACKE
mark_as_advanced(LIPSCOPE_CBLAS_INCLUDE LIPSCOPE_LAPACKE_INCLUDE LIPSCOPE_LAPACKE)

# Some BLAS have their C interface in a library of its own (ATLAS, some builds of the
# reference).
include(CheckFunctionExists)
set(CMAKE_REQUIRED_LIBRARIES ${lipscope_blas} m)
check_function_exists(cblas_dgemm LIPSCOPE_BLAS_HAS_C)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT LIPSCOPE_BLAS_HAS_C)
  find_library(LIPSCOPE_CBLAS NAMES cblas REQUIRED)
  mark_as_advanced(LIPSCOPE_CBLAS)
  list(PREPEND lipscope_blas ${LIPSCOPE_CBLAS})
endif()

# BLAS stands first: symbols that the reference libraries behind LAPACKE also define are
# then taken from it.
set(lipscope_linalg_libraries ${lipscope_blas})
if(LIPSCOPE_LAPACKE)
  list(APPEND lipscope_linalg_libraries ${LIPSCOPE_LAPACKE})
endif()
list(REMOVE_DUPLICATES lipscope_linalg_libraries)

add_library(lipscope::linalg INTERFACE IMPORTED GLOBAL)
set_target_properties(lipscope::linalg PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${LIPSCOPE_CBLAS_INCLUDE};${LIPSCOPE_LAPACKE_INCLUDE}"
  INTERFACE_LINK_LIBRARIES "${lipscope_linalg_libraries}")
