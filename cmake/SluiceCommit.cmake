# SPDX-License-Identifier: Apache-2.0
# Run by every build: writes OUT, which says which commit of SOURCE is built, with -dirty where files differ from it, and
# nothing where there is no git. Records of measurements carry it. OUT is written only if that changes.
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed ERROR_QUIET)
set(line "")
if(failed EQUAL 0)
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  if(NOT changes STREQUAL "")
    string(APPEND commit "-dirty")
  endif()
  set(line "#define SLUICE_COMMIT \"${commit}\"\n")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "// Made by cmake/SluiceCommit.cmake.\n${line}")
