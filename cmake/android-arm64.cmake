# SPDX-License-Identifier: Apache-2.0
# Android on arm64 with the toolchain file of the NDK, which ANDROID_NDK_HOME names.
if(NOT DEFINED ENV{ANDROID_NDK_HOME} OR NOT EXISTS "$ENV{ANDROID_NDK_HOME}/build/cmake/android.toolchain.cmake")
  message(FATAL_ERROR
    "ANDROID_NDK_HOME is \"$ENV{ANDROID_NDK_HOME}\", expected the folder of an Android NDK (r26 or newer), "
    "which holds build/cmake/android.toolchain.cmake; set it and configure again")
endif()
set(ANDROID_ABI arm64-v8a)
set(ANDROID_PLATFORM android-28)
set(ANDROID_STL c++_static)
set(HONE_RUST_TARGET aarch64-linux-android)
include("$ENV{ANDROID_NDK_HOME}/build/cmake/android.toolchain.cmake")
set(HONE_RUST_LINKER "${ANDROID_TOOLCHAIN_ROOT}/bin/aarch64-linux-android28-clang" CACHE FILEPATH
  "Linker of cargo when it cross-compiles")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ${CMAKE_TRY_COMPILE_PLATFORM_VARIABLES} HONE_HEADERS)
if(HONE_HEADERS)
  # Header-only packages of the build machine; its own headers of the C library must stay out.
  include_directories(SYSTEM "${HONE_HEADERS}")
  list(APPEND CMAKE_FIND_ROOT_PATH "${HONE_HEADERS}")
endif()
