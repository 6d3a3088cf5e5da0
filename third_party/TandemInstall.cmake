# cmake --install: programs, headers, libraries, examples, and what find_package(Tandem CONFIG) and pkg-config read.
# Libraries are static; what they link is written down as this build found it, so that a user's project finds only what
# CMake itself has modules for.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tandem)

if(TANDEM_ANNEXES)
  install(TARGETS tandemrun mnist_ddp voc_ddp RUNTIME)
else()
  install(TARGETS tandemrun RUNTIME)
endif()
install(DIRECTORY data/sample/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem/sample)
install(DIRECTORY apps/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tandem)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tandem RENAME copyright)
# As tandem_lay_out_headers() has laid them out.
set(headers ${PROJECT_BINARY_DIR}/include/tandem)
if(TANDEM_ANNEXES)
  set(headers ${PROJECT_SOURCE_DIR})
  install(FILES distributed/tandem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem)
else()
  install(FILES ${headers}/tandem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem)
endif()
foreach(layer ${layers})
  # The back-ends' headers are for the back-ends.
  install(DIRECTORY ${headers}/${layer} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem FILES_MATCHING PATTERN *.h
          PATTERN sample EXCLUDE PATTERN core/cpu EXCLUDE PATTERN core/cuda EXCLUDE
          PATTERN groups/nccl EXCLUDE PATTERN mpi_process.h EXCLUDE PATTERN tandem.h EXCLUDE)
  list(APPEND layer_targets tandem_${layer})
  set_target_properties(tandem_${layer} PROPERTIES EXPORT_NAME ${layer})
endforeach()
# Except for the loops that a program compiles for a rule of its own (optim/own_rule.h).
set(kernels core/cuda/update.cuh core/cuda/segments.cuh core/cuda/launch.cuh core/cuda/runtime.h optim/own_rule.cuh)
if(NOT TANDEM_ANNEXES)
  set(kernels "")
endif()
foreach(header core/cpu/update_piece.h ${kernels})
  cmake_path(GET header PARENT_PATH room)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${room})
endforeach()
install(TARGETS tandem ${layer_targets} EXPORT Tandem ARCHIVE INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT Tandem NAMESPACE Tandem:: FILE TandemTargets.cmake DESTINATION ${package_dir})

configure_package_config_file(third_party/TandemConfig.cmake.in ${PROJECT_BINARY_DIR}/TandemConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TandemConfig.cmake ${PROJECT_BINARY_DIR}/TandemConfigVersion.cmake
        DESTINATION ${package_dir})

# pkg-config: every library that a layer links, by its file. The prefix is seen from where tandem.pc lies, so that
# cmake --install --prefix, and moving the folder afterwards, keep it right.
foreach(layer distributed optim data nn autograd core)
  string(APPEND pkg_config_libraries " -ltandem_${layer}")
  list(APPEND dependencies
       "$<TARGET_GENEX_EVAL:tandem_${layer},$<TARGET_PROPERTY:tandem_${layer},TANDEM_LINKED_FILES>>")
endforeach()
set(pkg_config_files "$<JOIN:$<REMOVE_DUPLICATES:${dependencies}>, >")
file(RELATIVE_PATH prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix "${prefix}")
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/tandem.pc CONTENT
"prefix=\${pcfiledir}/${prefix}
Name: Tandem
Description: ${PROJECT_DESCRIPTION}
Version: ${PROJECT_VERSION}
Cflags: -std=c++20 -I\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}
Libs: -L\${prefix}/${CMAKE_INSTALL_LIBDIR}${pkg_config_libraries} ${pkg_config_files} -pthread
")
install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# cpack -G DEB: a package of all this for Debian or Ubuntu. Compression takes longest; zstd is the fastest by far.
set(CPACK_PACKAGE_NAME tandem)
set(CPACK_PACKAGE_VENDOR "The Tandem authors")
set(CPACK_PACKAGE_CONTACT ${CPACK_PACKAGE_VENDOR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Headers and static libraries for C++20 programs, found by CMake and pkg-config;
the launcher tandemrun, the training programs mnist_ddp and voc_ddp, examples.
The processor must be one that the compiler calls ${TANDEM_ARCH}.")
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++, cmake, pkg-config")
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/third_party/TandemPackage.cmake)
set(CPACK_TANDEM_PKG_CONFIG ${PROJECT_BINARY_DIR}/tandem.pc)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
