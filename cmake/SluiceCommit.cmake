# SPDX-License-Identifier: Apache-2.0
# Runs in each build: writes into OUT the commit of SOURCE and the hashes of its parts, for records and
# certificates. The commit ends in "-dirty" if files are modified or untracked, because folders are globbed.
# Without git the commit is empty. OUT is written only if it changes.
set(rooms include sluice cli bench lab cmake tests tools python CMakeLists.txt CMakePresets.json :!bench/results)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed ERROR_QUIET)
set(lines "")
if(failed EQUAL 0)
  execute_process(COMMAND git -C ${SOURCE} status --porcelain -- ${rooms} OUTPUT_VARIABLE changes ERROR_QUIET)
  if(NOT changes STREQUAL "")
    string(APPEND commit "-dirty")
  endif()
  string(APPEND lines "#define SLUICE_COMMIT \"${commit}\"\n")
endif()
execute_process(COMMAND ${PYTHON} ${CMAKE_CURRENT_LIST_DIR}/../tools/source_hash.py --root ${SOURCE} --line OUTPUT_VARIABLE sources
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(APPEND lines "#define SLUICE_SOURCES \"${sources}\"\n")
file(CONFIGURE OUTPUT ${OUT} CONTENT "// Made by cmake/SluiceCommit.cmake.\n${lines}")
