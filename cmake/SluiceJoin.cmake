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
  set(own_definitions "command_line.cc$|record_book.cc$|library.cc$")  # and what is generated: compiled alone
  set(alone ${sources})
  list(FILTER alone INCLUDE REGEX "^${PROJECT_BINARY_DIR}/|${own_definitions}")
  list(FILTER sources EXCLUDE REGEX "^${PROJECT_BINARY_DIR}/|${own_definitions}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  execute_process(COMMAND ${Python3_EXECUTABLE} tools/join_sources.py --units ${units} ${sources}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  set(number 0)
  foreach(line ${lines})
    separate_arguments(line)
    list(POP_FRONT line kind)
    if(kind STREQUAL headers)
      list(TRANSFORM line REPLACE "(.+)" "<\\1>")
      target_precompile_headers(${target} PRIVATE ${line})
    elseif(kind STREQUAL apart)
      list(APPEND alone ${line})
    else()
      math(EXPR number "${number} + 1")
      set_source_files_properties(${line} PROPERTIES UNITY_GROUP ${target}_${number})
      list(REMOVE_ITEM sources ${line})
    endif()
  endforeach()
  list(APPEND alone ${sources})  # files that fit no unit: a precompiled header may show a name of theirs
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${alone} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  # g++ takes what a file keeps to itself for a header's, now that another file includes it; and from a precompiled
  # header it does not know code of the system, whose bounds it doubts. `ci` has these warnings.
  target_compile_options(${target} PRIVATE ${ARGN} $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>)
endfunction()
