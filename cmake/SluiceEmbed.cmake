# SPDX-License-Identifier: Apache-2.0
# Makes SLUICE_EMBEDDED_SOURCES: a .cc file with the text of each header that a JIT unit may include, so that
# the library needs no source tree. The registry is not embedded, because all embedded text is part of each cubin's
# cache key.
file(GLOB_RECURSE embedded_files CONFIGURE_DEPENDS
  sluice/spec/*.h sluice/device/*.cuh sluice/device/*.h sluice/kernels/*.cuh sluice/kernels/*.h)
list(REMOVE_ITEM embedded_files ${PROJECT_SOURCE_DIR}/sluice/kernels/registry.h)
list(JOIN embedded_files "\n" embedded_list)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded_files.txt CONTENT "${embedded_list}\n" @ONLY)

set(SLUICE_EMBEDDED_SOURCES ${PROJECT_BINARY_DIR}/embedded_sources.cc)
add_custom_command(
  OUTPUT ${SLUICE_EMBEDDED_SOURCES}
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/embed_sources.py
    --root ${PROJECT_SOURCE_DIR} --list ${PROJECT_BINARY_DIR}/embedded_files.txt
    --output ${SLUICE_EMBEDDED_SOURCES}
  DEPENDS ${embedded_files} ${PROJECT_BINARY_DIR}/embedded_files.txt
    ${PROJECT_SOURCE_DIR}/tools/embed_sources.py
  COMMENT "Embedding device sources" VERBATIM)

# Makes SLUICE_EMBEDDED_RECORDS: the tuning records that ship with the library (docs/tuning.md).
file(GLOB record_files CONFIGURE_DEPENDS sluice/plan/records/shipped/*.json)
set(SLUICE_EMBEDDED_RECORDS ${PROJECT_BINARY_DIR}/embedded_records.cc)
add_custom_command(
  OUTPUT ${SLUICE_EMBEDDED_RECORDS}
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/embed_sources.py
    --output ${SLUICE_EMBEDDED_RECORDS} --records ${record_files}
  DEPENDS ${record_files} ${PROJECT_SOURCE_DIR}/tools/embed_sources.py
  COMMENT "Embedding tuning records" VERBATIM)
