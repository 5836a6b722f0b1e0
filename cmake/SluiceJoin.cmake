# SPDX-License-Identifier: Apache-2.0
# sluice_join(TARGET UNITS [options]): with SLUICE_JOIN_SOURCES, compiles the target's sources as about UNITS joined files
# (a unity build) with one precompiled header and the given options. Each header and template is then compiled once per
# unit. The release build and the wheel use it. `ci` and `debug` compile every file separately, which finds missing
# includes. tools/join_sources.py decides which files are joined: those whose names cannot clash.
option(SLUICE_JOIN_SOURCES "Compile many source files as one: a first build is quicker, a change costs more" OFF)

function(sluice_join target units)
  if(NOT SLUICE_JOIN_SOURCES)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(own_definitions "command_line.cc$|record_book.cc$|library.cc$")  # these, and generated files, are compiled separately
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
  list(APPEND alone ${sources})  # files that fit no unit: their names may clash with the precompiled header
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${alone} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  # A joined file is included, so g++ warns about its internal-linkage types as if they were in a header. With a
  # precompiled header it also gives false bounds warnings about system code. `ci` keeps these warnings on.
  target_compile_options(${target} PRIVATE ${ARGN} $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>)
endfunction()
