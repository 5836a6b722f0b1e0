# SPDX-License-Identifier: Apache-2.0
# Installs the build in `build` to a fresh prefix, then configures, builds and runs the user's project beside this
# file against it. Called by ctest: cmake -Dbuild=... -Dwork=... -P install_and_use.cmake
function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${result}\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work})
must(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix)
must(python3 ${CMAKE_CURRENT_LIST_DIR}/../../tools/check_readme.py --cpp ${work}/readme.cc)
must(${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/user -DCMAKE_PREFIX_PATH=${work}/prefix
  -DREADME_PROGRAM=${work}/readme.cc
  -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS=${flags}")
must(${CMAKE_COMMAND} --build ${work}/user)
must(${work}/user/user)
must(${work}/user/user_c)
must(${work}/user/user_readme)
must(${work}/prefix/bin/sluice --help)
file(GLOB_RECURSE licence ${work}/prefix/share/LICENSE)
if(NOT licence)
  message(FATAL_ERROR "the LICENSE is not installed")
endif()

# Builds the C program with pkg-config, as a Makefile would, if there is one.
find_program(pkg_config pkg-config)
file(GLOB_RECURSE pc ${work}/prefix/sluice_c.pc)
if(NOT pc)
  message(FATAL_ERROR "sluice_c.pc is not installed")
endif()
if(pkg_config)
  cmake_path(GET pc PARENT_PATH pc_folder)
  must(sh -c "cc -Wall -Wextra -Werror -o '${work}/user_pc' '${CMAKE_CURRENT_LIST_DIR}/main.c' \
    $(PKG_CONFIG_PATH='${pc_folder}' '${pkg_config}' --cflags --libs sluice_c)")
  must(sh -c "LD_LIBRARY_PATH='${pc_folder}/..' '${work}/user_pc'")
endif()
