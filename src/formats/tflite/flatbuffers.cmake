# SPDX-License-Identifier: Apache-2.0
# Headers from the .fbs files, made by flatc in the build tree. formats_generated is a list of
# sources, formats_generated_dir their include folder.
find_program(HONE_FLATC flatc REQUIRED)
set(formats_generated)
set(formats_generated_dir "${CMAKE_CURRENT_BINARY_DIR}/generated")
foreach(schema tflite/tflite_schema litertlm/litertlm_header)
  get_filename_component(name ${schema} NAME)
  set(output "${formats_generated_dir}/${name}_generated.h")
  add_custom_command(OUTPUT "${output}"
    COMMAND "${HONE_FLATC}" --cpp --scoped-enums -o "${formats_generated_dir}"
            "${CMAKE_CURRENT_SOURCE_DIR}/${schema}.fbs"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${schema}.fbs" VERBATIM)
  list(APPEND formats_generated "${output}")
endforeach()
