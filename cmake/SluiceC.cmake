# SPDX-License-Identifier: Apache-2.0
# Builds libsluice_c.so: the C interface (include/sluice/c_api.h) and the packed functions that Python calls.
# It depends only on libc: libstdc++ is linked statically, CUDA and NVRTC are loaded at run time, and it does not use
# CPython or libtorch.
file(GLOB c_sources CONFIGURE_DEPENDS sluice/c_api/*.cc)
add_library(sluice_c_objects OBJECT ${c_sources})  # tests link them with a fake driver
target_link_libraries(sluice_c_objects PUBLIC sluice_check sluice_lib PRIVATE sluice_settings sluice_vendor)
set_target_properties(sluice_c_objects PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
sluice_join(sluice_c_objects 1)
add_library(sluice_c SHARED)
target_link_libraries(sluice_c PRIVATE sluice_c_objects sluice_check sluice_lib sluice_settings)
add_library(sluice::sluice_c ALIAS sluice_c)
target_include_directories(sluice_c PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
set_target_properties(sluice_c PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} LINKER_LANGUAGE CXX
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/sluice_c.map)
target_link_options(sluice_c PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/sluice_c.map
  -Wl,--no-undefined -Wl,--gc-sections)
set_source_files_properties(sluice/c_api/library.cc PROPERTIES
  COMPILE_DEFINITIONS SLUICE_VERSION="${PROJECT_VERSION}")
