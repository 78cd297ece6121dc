# SPDX-License-Identifier: Apache-2.0
# Builds the chat page in web/ with npm and turns it into a C++ source. Node is needed for this only.

set(HONE_NODE_MINIMUM 18)

# hone_embed_web(out): a rule that writes the source `out`, which defines hone::web::WebAssets().
function(hone_embed_web out)
  find_program(HONE_NODE node)
  find_program(HONE_NPM npm)
  set(version "")
  if(HONE_NODE)
    execute_process(COMMAND "${HONE_NODE}" --version OUTPUT_VARIABLE version
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REGEX REPLACE "^v" "" version "${version}")
  endif()
  if(NOT HONE_NPM OR NOT version VERSION_GREATER_EQUAL HONE_NODE_MINIMUM)
    if(NOT version)
      set(version "none")
    endif()
    message(FATAL_ERROR
      "The chat page needs node ${HONE_NODE_MINIMUM} or newer and npm to build; found node: ${version}, "
      "npm: ${HONE_NPM}.\nOn Debian 12: apt-get install nodejs npm. "
      "Or build without the page: -DHONE_WEB=OFF.")
  endif()

  set(web "${CMAKE_SOURCE_DIR}/web")
  # The built page lies in web/dist and is the same for all build folders.
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${web}/src/*")
  list(FILTER sources EXCLUDE REGEX "\\.test\\.tsx?$")
  set(installed "${web}/node_modules/.package-lock.json")
  add_custom_command(OUTPUT "${installed}"
    COMMAND "${CMAKE_COMMAND}" "-DNPM=${HONE_NPM}" "-DWEB=${web}" "-DINSTALLED=${installed}"
      -P "${CMAKE_SOURCE_DIR}/cmake/npm_install.cmake"
    DEPENDS "${web}/package.json" "${web}/package-lock.json"
    WORKING_DIRECTORY "${web}" COMMENT "Installing the packages of the chat page" VERBATIM)
  add_custom_command(OUTPUT "${web}/dist/index.html"
    COMMAND "${HONE_NPM}" run --silent build -- --logLevel warn
    DEPENDS "${installed}" ${sources} "${web}/index.html" "${web}/vite.config.ts" "${web}/tsconfig.json"
    WORKING_DIRECTORY "${web}" COMMENT "Building the chat page" VERBATIM)
  add_custom_command(OUTPUT "${out}"
    COMMAND "${HONE_NODE}" "${web}/embed.mjs" "${web}/dist" "${out}"
    DEPENDS "${web}/dist/index.html" "${web}/embed.mjs"
    COMMENT "Embedding the chat page" VERBATIM)
  # clang takes 65536 characters for the longest literal that one may count on.
  set_source_files_properties("${out}" PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
endfunction()
