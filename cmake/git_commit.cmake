# SPDX-License-Identifier: Apache-2.0
# Writes OUT with the commit of SOURCE, "" outside a git checkout and a + after it if tracked files
# are changed. Leaves a file that is right alone, so that nothing is built again.
set(commit "")
find_program(git git)
if(git)
  execute_process(COMMAND "${git}" -C "${SOURCE}" describe --always --dirty=+ --exclude=* --abbrev=10
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "")
  endif()
endif()
set(text "\"${commit}\"\n")
set(old "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" old)
endif()
if(NOT text STREQUAL old)
  file(WRITE "${OUT}" "${text}")
endif()
