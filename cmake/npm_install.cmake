# SPDX-License-Identifier: Apache-2.0
# cmake -DNPM= -DWEB= -DINSTALLED= -P: installs what web/package-lock.json names, from npm's cache where it is there.
execute_process(COMMAND "${NPM}" ci --prefer-offline --no-audit --no-fund --loglevel=error
  WORKING_DIRECTORY "${WEB}" RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "npm could not install the packages of the chat page (its words are above). They come from "
    "npm's cache or its registry. Or build without the page: -DHONE_WEB=OFF.")
endif()
file(TOUCH "${INSTALLED}")
