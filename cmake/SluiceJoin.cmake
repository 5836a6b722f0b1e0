# SPDX-License-Identifier: Apache-2.0
# sluice_join(TARGET UNITS [options]): with SLUICE_JOIN_SOURCES, the target's sources are compiled as about UNITS files behind
# one precompiled header, so that headers are read and templates made once in each, and with the given options.
# The release build and the wheel do so; `ci` and `debug` compile every file alone, which also shows an include
# that is missing. tools/join_sources.py says which files go together: those whose names cannot clash.
option(SLUICE_JOIN_SOURCES "Compile many source files as one: a first build is quicker, a change costs more" OFF)

function(sluice_join target units)
  if(NOT SLUICE_JOIN_SOURCES)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(apart ${sources})  # compiled with definitions of their own
  list(FILTER apart INCLUDE REGEX "command_line.cc$|record_book.cc$|library.cc$")
  list(FILTER sources EXCLUDE REGEX "^${PROJECT_BINARY_DIR}/|command_line.cc$|record_book.cc$|library.cc$")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(join ${Python3_EXECUTABLE} tools/join_sources.py)
  execute_process(COMMAND ${join} --units ${units} ${sources}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE groups COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9]+ [^\n]+" groups "${groups}")
  foreach(line ${groups})
    string(REGEX MATCH "^([0-9]+) (.*)$" line "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${target}_${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  execute_process(COMMAND ${join} --headers ${sources}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" headers "${headers}")
  list(TRANSFORM headers REPLACE "(.+)" "<\\1>")
  target_precompile_headers(${target} PRIVATE ${headers})
  set_source_files_properties(${apart} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  # g++ takes what a file keeps to itself for a header's, now that another file includes it; and from a precompiled
  # header it does not know code of the system, whose bounds it doubts. `ci` has these warnings.
  target_compile_options(${target} PRIVATE ${ARGN} $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>)
endfunction()
