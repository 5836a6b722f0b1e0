# SPDX-License-Identifier: Apache-2.0
# Libraries by others, used as headers or static archives, so that no binary needs them at run time
# (docs/dependencies.md). `sluice_vendor` is private: the installed library depends on none of them.
find_package(Threads REQUIRED)
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.9 REQUIRED)

set(SLUICE_CUDA_PATH "$ENV{CUDA_PATH}" CACHE PATH "CUDA toolkit, for its headers only")
find_path(SLUICE_CUDA_INCLUDE NAMES cuda.h REQUIRED
  HINTS ${SLUICE_CUDA_PATH} /usr/local/cuda PATH_SUFFIXES include targets/x86_64-linux/include
  DOC "Folder of cuda.h and nvrtc.h (CUDA toolkit 13.0 or newer)")
find_path(SLUICE_XXHASH_INCLUDE NAMES xxhash.h REQUIRED)

add_library(sluice_fmt STATIC EXCLUDE_FROM_ALL cmake/fmt_static.cc)
target_include_directories(sluice_fmt SYSTEM PUBLIC
  $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_features(sluice_fmt PUBLIC cxx_std_20)

# The library uses headers only, so that its archive needs none of these. `sluice_vendor_tools` adds {fmt} for
# the twin, the tool and the tests.
add_library(sluice_vendor INTERFACE)
add_library(sluice_vendor_tools INTERFACE)
target_link_libraries(sluice_vendor INTERFACE nlohmann_json::nlohmann_json)
target_link_libraries(sluice_vendor_tools INTERFACE sluice_vendor sluice_fmt)
target_include_directories(sluice_vendor SYSTEM INTERFACE ${SLUICE_CUDA_INCLUDE} ${SLUICE_XXHASH_INCLUDE})
target_compile_definitions(sluice_vendor INTERFACE XXH_INLINE_ALL)

if(SLUICE_BUILD_CLI)
  find_package(CLI11 2.1 REQUIRED)
  target_link_libraries(sluice_vendor_tools INTERFACE CLI11::CLI11)
endif()
if(SLUICE_BUILD_TESTS)
  find_package(GTest 1.11 REQUIRED)
endif()
