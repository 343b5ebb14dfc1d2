# Libraries that pkg-config finds, as targets PkgConfig::NAME.  Used by the build, by the
# installed package when the library is static, and for lipscope.pc.
include_guard(GLOBAL)
find_package(PkgConfig REQUIRED)

set(lipscope_modules
  JANSSON=jansson
  SQLITE=sqlite3
  PCRE2=libpcre2-8
  UTF8PROC=libutf8proc)

set(lipscope_packages)     # targets to link
set(lipscope_module_names) # for Requires.private
foreach(entry ${lipscope_modules})
  string(REPLACE "=" ";" entry ${entry})
  list(GET entry 0 name)
  list(GET entry 1 module)
  if(NOT TARGET PkgConfig::${name})
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
  endif()
  list(APPEND lipscope_packages PkgConfig::${name})
  list(APPEND lipscope_module_names ${module})
endforeach()
