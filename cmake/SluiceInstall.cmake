# SPDX-License-Identifier: Apache-2.0
# `cmake --install` installs the library, the C library, their headers, and two ways to find them:
# find_package(sluice) -> sluice::sluice, sluice::sluice_c;  pkg-config sluice_c.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS sluice_lib EXPORT sluiceTargets)
install(TARGETS sluice_c EXPORT sluiceTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN bench EXCLUDE)
install(DIRECTORY sluice/spec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice FILES_MATCHING PATTERN "*.h")
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${package_dir})
configure_package_config_file(cmake/sluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/sluiceConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sluiceConfig.cmake ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake
  DESTINATION ${package_dir})

# Paths are relative to the file, so that --prefix at install time and a moved folder work.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
configure_file(cmake/sluice_c.pc.in ${PROJECT_BINARY_DIR}/sluice_c.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sluice_c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Files that the wheel contains in addition to the Python package (pyproject.toml).
if(SKBUILD)
  install(TARGETS sluice_c LIBRARY DESTINATION sluice/lib COMPONENT python)
  install(TARGETS sluice_cli RUNTIME DESTINATION sluice/bin COMPONENT python)
endif()
