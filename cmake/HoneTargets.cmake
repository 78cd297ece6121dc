# SPDX-License-Identifier: Apache-2.0
# One static library and one test program per module. Source lists are explicit.

add_library(hone_flags INTERFACE)
target_include_directories(hone_flags INTERFACE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
target_compile_options(hone_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion -Wnon-virtual-dtor -Werror=unused-result>
  # The same input must give the same bits with every compiler: no silent fused multiply-add.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns wrongly inside std::string and std::equal at -O3 (GCC bugs 105651, 105329).
  target_compile_options(hone_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-stringop-overread>)
endif()
if(HONE_WERROR)
  target_compile_options(hone_flags INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # Wrong, too, at -O3: moved std::optional (GCC bug 80635), std::vector::insert (GCC bug 107852).
    target_compile_options(hone_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized -Wno-stringop-overflow>)
  endif()
endif()
if(HONE_SANITIZE)
  target_compile_options(hone_flags INTERFACE -fsanitize=${HONE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC's own manual: sanitizers bring false warnings
    target_compile_options(hone_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(hone_flags INTERFACE -fsanitize=${HONE_SANITIZE})
endif()
if(HONE_FUZZ)
  target_compile_options(hone_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
find_package(Threads REQUIRED)

# hone_module(name SOURCES a.cc ... [DEPS module ...] [LIBS target ...])
function(hone_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(hone_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(hone_${name} PRIVATE hone_flags)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(hone_${name} PRIVATE hone_${dep})
  endforeach()
  target_link_libraries(hone_${name} PRIVATE ${ARG_LIBS})
endfunction()

# hone_test(name SOURCES a_test.cc ... DEPS module ... [LABEL fast slow threads arm64 ...])
# Tests read golden data from HONE_SHARED_DATA; a test that needs it and does not find it fails.
function(hone_test name)
  cmake_parse_arguments(ARG "ALONE" "" "SOURCES;DEPS;LIBS;LABEL" ${ARGN})
  if(NOT HONE_TESTS)
    return()
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL fast)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hone_flags GTest::gtest_main Threads::Threads)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name} PRIVATE hone_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_compile_definitions(${name} PRIVATE
    HONE_SHARED_DATA="${HONE_SHARED_DATA}"
    HONE_TESTDATA="${CMAKE_SOURCE_DIR}/tests/testdata")
  add_test(NAME ${name} COMMAND ${name})
  if("threads" IN_LIST ARG_LABEL)
    if(NOT TARGET threads_tests)
      add_custom_target(threads_tests)  # what the thread sanitizer runs
    endif()
    add_dependencies(threads_tests ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 600)
  if(ARG_ALONE OR "threads" IN_LIST ARG_LABEL)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)  # nothing runs beside it with -j 2
  endif()
  if(HONE_SANITIZE MATCHES "thread")
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan.supp")
  endif()
endfunction()
