# SPDX-License-Identifier: Apache-2.0
# Run by every build: writes OUT, which says which commit of SOURCE is built and what its parts are made of. The commit has
# -dirty behind it where sources differ from it or lie beside it unknown to git: rooms are globbed, so such a file is built
# too. Without git there is no commit. Records of measurements and certificates carry both. OUT is written only if it changes.
set(rooms include sluice cli bench cmake tests tools python CMakeLists.txt CMakePresets.json :!bench/results)
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
