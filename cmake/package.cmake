# What is installed, how others find it, and the Debian packages that cpack makes of it.
#
#   cmake --install build/release --prefix /where/you/like
#   cpack --config build/release/CPackConfig.cmake -G DEB
#
# CMakeLists.txt reads this last, when it is known which programs there are.
if(NOT ATTUNE_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# ---- Headers and libraries --------------------------------------------------------------------------------------

# What is compiled from stays at home: sources, and the bodies of kernels (lib/kernels/body).
foreach(floor lib autograd layers)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${floor} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attune COMPONENT development
    FILES_MATCHING PATTERN "*.h"
    PATTERN "kernels/body" EXCLUDE
    PATTERN "layers/attune.h" EXCLUDE)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/layers/attune.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attune COMPONENT development)

install(TARGETS attune_lib attune_autograd attune_layers attune_attune EXPORT attune
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# ---- find_package(attune) -----------------------------------------------------------------------------------------

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
install(EXPORT attune FILE attuneTargets.cmake NAMESPACE attune:: DESTINATION ${package_folder} COMPONENT development)

set(fmt_least 9)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/attuneConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/attuneConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(  # while the version is 0.x, a new minor may change the interface
  ${PROJECT_BINARY_DIR}/package/attuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/attuneConfig.cmake ${PROJECT_BINARY_DIR}/package/attuneConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT development)

# ---- pkg-config attune --------------------------------------------------------------------------------------------

set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})  # some packagers name whole paths: then nothing can be moved
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /${pc_folder} /)
  string(REGEX REPLACE "/$" "" up ${up})
  set(pc_prefix "\${pcfiledir}/${up}")
endif()
foreach(folder lib include)
  string(TOUPPER ${folder} upper)
  set(pc_${folder}dir ${CMAKE_INSTALL_${upper}DIR})
  cmake_path(ABSOLUTE_PATH pc_${folder}dir BASE_DIRECTORY "\${prefix}")
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/attune.pc.in ${PROJECT_BINARY_DIR}/package/attune.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/attune.pc DESTINATION ${pc_folder} COMPONENT development)

# ---- The program --------------------------------------------------------------------------------------------------

if(TARGET attune)
  # Who built the libraries alone gets them alone.
  install(TARGETS attune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program OPTIONAL)
  if(BUILD_SHARED_LIBS)  # the libraries are where the program is installed, wherever that is
    file(RELATIVE_PATH from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
    set_target_properties(attune PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin}")
  endif()
endif()

# The manual page and what completes words are the program's own word: it is asked when it is installed.
function(install_said folder file)  # and with what arguments
  list(JOIN ARGN " " words)
  install(CODE "
    if(EXISTS \"$<TARGET_FILE:attune>\")
      set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}/${folder}\")
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \"$<TARGET_FILE:attune>\" ${words}
        OUTPUT_FILE \"\${folder}/${file}\" COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT program)
endfunction()
if(TARGET attune AND NOT CMAKE_CROSSCOMPILING)
  install_said(man/man1 attune.1 --manual)
  install_said(bash-completion/completions attune completion bash)
  install_said(fish/vendor_completions.d attune.fish completion fish)
endif()

# Debian wants to find the licence in a folder of the package's name.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/libattune-dev COMPONENT development)
if(TARGET attune)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/attune COMPONENT program)
endif()

# ---- Tests: a consumer in the ways that take a few seconds. ./dev package has those that build more -----------------

if(ATTUNE_DEVELOPER)
  if(BUILD_SHARED_LIBS OR CMAKE_CXX_FLAGS MATCHES "-fsanitize=|--coverage")
    message(STATUS "The tests package/* are left out: a consumer would need the same special flags")
  else()
    foreach(way find_package pkg-config untouched)
      add_test(NAME package/${way} COMMAND ${PROJECT_SOURCE_DIR}/tests/package/consume ${way} ${PROJECT_BINARY_DIR})
      set_tests_properties(package/${way} PROPERTIES TIMEOUT 300)
    endforeach()
  endif()
endif()

# ---- Debian's packages: attune, the program, and libattune-dev, what one builds with -------------------------------
#
# Two, since who wants to train a model from the command line needs no headers and no compiler. The libraries are
# static: before 1.0 there is no promise of a stable binary interface that a package of shared ones could give.

if(NOT PROJECT_IS_TOP_LEVEL OR BUILD_SHARED_LIBS)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Attune authors")
set(CPACK_PACKAGE_VENDOR "The Attune authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL development)
if(TARGET attune)
  list(APPEND CPACK_COMPONENTS_ALL program)
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME attune)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
  "The program: it trains small transformers in seconds, shows what their
heads attend to, and verifies gradients.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libattune-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libfmt-dev (>= ${fmt_least})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Tensors, automatic differentiation, attention layers and optimizers in C++20:
headers, static libraries, and the files by which CMake and pkg-config find
them.")
include(CPack)
