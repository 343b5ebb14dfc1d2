# What `make install` puts where: library, header, program, its data, manual pages,
# completions, documentation, lipscope.pc, CMake package.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lipscope)

if(BUILD_SHARED_LIBS)
  set(product lipscope_shared)
else()
  set(product lipscope)
endif()
install(TARGETS ${product} EXPORT lipscopeTargets)
install(TARGETS lipscope_cli)
install(FILES include/lipscope.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/lipscope DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY data/gpt2-nano data/text DESTINATION ${CMAKE_INSTALL_DATADIR}/lipscope)

# The program writes its own manual pages, from the tables that it parses options with.
if(NOT CMAKE_CROSSCOMPILING)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
  add_custom_command(OUTPUT man/lipscope.1 DEPENDS lipscope_cli
    COMMAND lipscope_cli help --man ${PROJECT_BINARY_DIR}/man)
  add_custom_target(man ALL DEPENDS man/lipscope.1)
  add_dependencies(product man)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/completion)
  add_custom_command(OUTPUT completion/lipscope.bash DEPENDS lipscope_cli
    COMMAND lipscope_cli help --completion ${PROJECT_BINARY_DIR}/completion)
  add_custom_target(completion ALL DEPENDS completion/lipscope.bash)
  add_dependencies(product completion)
  install(FILES ${PROJECT_BINARY_DIR}/completion/lipscope.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lipscope)
  install(FILES ${PROJECT_BINARY_DIR}/completion/_lipscope
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${PROJECT_BINARY_DIR}/completion/lipscope.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT lipscopeTargets NAMESPACE lipscope:: DESTINATION ${package_dir})
configure_package_config_file(cmake/lipscopeConfig.cmake.in lipscopeConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(lipscopeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lipscopeConfig.cmake
  ${PROJECT_BINARY_DIR}/lipscopeConfigVersion.cmake cmake/lipscope_linalg.cmake
  cmake/lipscope_packages.cmake
  DESTINATION ${package_dir})

# The .pc file is written when the installation runs, because only then
# `cmake --install --prefix` has said where it goes.  A static liblipscope needs the
# private libraries, by the paths that were linked here (pkg-config --static); the shared one
# brings what it needs, and asks for no headers of theirs.
if(BUILD_SHARED_LIBS)
  set(LIPSCOPE_PC_REQUIRES "")
  set(LIPSCOPE_PC_PRIVATE "")
else()
  list(JOIN lipscope_module_names " " LIPSCOPE_PC_REQUIRES)
  list(JOIN lipscope_linalg_libraries " " LIPSCOPE_PC_PRIVATE)
  string(APPEND LIPSCOPE_PC_PRIVATE " ${OpenMP_C_FLAGS} -lm")
endif()
foreach(var LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${var}})
    set(LIPSCOPE_PC_${var} ${CMAKE_INSTALL_${var}})
  else()
    set(LIPSCOPE_PC_${var} \${prefix}/${CMAKE_INSTALL_${var}})
  endif()
endforeach()
install(CODE "
  set(PROJECT_VERSION [[${PROJECT_VERSION}]])
  set(PROJECT_DESCRIPTION [[${PROJECT_DESCRIPTION}]])
  set(LIPSCOPE_PC_LIBDIR [[${LIPSCOPE_PC_LIBDIR}]])
  set(LIPSCOPE_PC_INCLUDEDIR [[${LIPSCOPE_PC_INCLUDEDIR}]])
  set(LIPSCOPE_PC_REQUIRES [[${LIPSCOPE_PC_REQUIRES}]])
  set(LIPSCOPE_PC_PRIVATE [[${LIPSCOPE_PC_PRIVATE}]])
  configure_file([[${PROJECT_SOURCE_DIR}/cmake/lipscope.pc.in]]
                 [[${PROJECT_BINARY_DIR}/lipscope.pc]] @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/lipscope.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
