# SPDX-License-Identifier: Apache-2.0
# `sluice_settings`: how this project's code is compiled and linked. Users of the installed library do not get
# it.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2" CACHE STRING "" FORCE)  # assertions stay on: they are cheap, and their messages help
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the C ABI and the Python package are shared objects
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(sluice_settings INTERFACE)
target_compile_features(sluice_settings INTERFACE cxx_std_20)
# Warnings that are off: missing initialisers, because aggregates with designated initialisers leave fields at
# their default; uninitialised reads, which g++ 12 reports wrongly for moves of std::variant; psabi, a note on
# the ABI of GCC 4.6 at each over-aligned argument.
target_compile_options(sluice_settings INTERFACE -Wall -Wextra -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-psabi>
  $<$<BOOL:${SLUICE_WERROR}>:-Werror>)

if(SLUICE_FUZZ)
  # g++ evaluates std::sqrt in a constant expression; clang 14 cannot, and warns.
  # clang evaluates the registry's constexpr table only with a higher step limit.
  add_compile_options(-fsanitize=fuzzer-no-link -Wno-invalid-constexpr -fconstexpr-steps=33554432)
endif()
if(SLUICE_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
else()
  # Binaries are copied to machines with another libstdc++ (tests/gpu runs without a compiler).
  target_link_options(sluice_settings INTERFACE -static-libstdc++ -static-libgcc)
endif()
