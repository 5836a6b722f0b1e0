# SPDX-License-Identifier: Apache-2.0
# sluice_join(TARGET UNITS): with SLUICE_JOIN_SOURCES, the target's sources are compiled as UNITS files, so that headers are
# read and templates made once in each. The release build and the wheel do so; `ci` and `debug` compile every file
# alone, which also shows an include that is missing. tools/join_sources.py says which files go together.
option(SLUICE_JOIN_SOURCES "Compile many source files as one: a first build is quicker, a change costs more" OFF)

function(sluice_join target units)
  if(NOT SLUICE_JOIN_SOURCES)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "^${PROJECT_BINARY_DIR}/|command_line.cc$|record_book.cc$|library.cc$")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  execute_process(COMMAND ${Python3_EXECUTABLE} tools/join_sources.py --units ${units} ${sources}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE groups COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9]+ [^\n]+" groups "${groups}")
  foreach(line ${groups})
    string(REGEX MATCH "^([0-9]+) (.*)$" line "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${target}_${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # g++ takes what a file keeps to itself for a header's, now that another file includes it.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
