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
must(${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/user -DCMAKE_PREFIX_PATH=${work}/prefix
  -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS=${flags}")
must(${CMAKE_COMMAND} --build ${work}/user)
must(${work}/user/user)
must(${work}/prefix/bin/sluice --help)
