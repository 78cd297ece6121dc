# SPDX-License-Identifier: Apache-2.0
# Finds a cargo that can build rust/hone_bridge and sets HONE_CARGO.
# Debian 12: the packages cargo-web and rustc-web provide /usr/bin/cargo and /usr/bin/rustc (1.96);
# its plain cargo is 1.63, too old.

set(HONE_RUST_MINIMUM 1.87)
set(HONE_RUST_TARGET_DIR "${CMAKE_SOURCE_DIR}/build/rust" CACHE PATH
  "Where cargo builds; the same folder for all presets")

# hone_rust_version(program out): the version that "program --version" prints, or "".
function(hone_rust_version program out)
  execute_process(COMMAND "${program}" --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(text MATCHES " ([0-9]+\\.[0-9]+\\.[0-9]+)")
    set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

# hone_rust_has_target(rustc out): whether rustc can compile for HONE_RUST_TARGET.
function(hone_rust_has_target rustc out)
  set(${out} TRUE PARENT_SCOPE)
  if(HONE_RUST_TARGET)
    execute_process(COMMAND "${rustc}" --target "${HONE_RUST_TARGET}" --print target-libdir
      OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    file(GLOB std "${folder}/libstd-*.rlib")
    if(NOT std)
      set(${out} FALSE PARENT_SCOPE)
    endif()
  endif()
endfunction()

# hone_find_cargo(): sets HONE_CARGO and HONE_RUSTC to a pair that is new enough, and that can
# compile for HONE_RUST_TARGET when that is set, or stops.
function(hone_find_cargo)
  if(HONE_CARGO AND HONE_RUSTC)
    return()
  endif()
  set(found "")
  # The first cargo of PATH may be too old while another one is not, so each folder counts.
  set(folders "$ENV{PATH}")
  string(REPLACE ":" ";" folders "${folders}")
  list(APPEND folders "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin" /usr/local/bin /usr/bin)
  foreach(folder IN LISTS folders)
    if(NOT EXISTS "${folder}/cargo" OR NOT EXISTS "${folder}/rustc")
      continue()
    endif()
    hone_rust_version("${folder}/cargo" cargo_version)
    hone_rust_version("${folder}/rustc" rustc_version)
    if(cargo_version VERSION_GREATER_EQUAL HONE_RUST_MINIMUM
       AND rustc_version VERSION_GREATER_EQUAL HONE_RUST_MINIMUM)
      hone_rust_has_target("${folder}/rustc" has_target)
      if(NOT has_target)
        list(APPEND found "${folder}/rustc ${rustc_version} without ${HONE_RUST_TARGET}")
        continue()
      endif()
      message(STATUS "Rust: ${folder}/cargo ${cargo_version}")
      set(HONE_CARGO "${folder}/cargo" CACHE FILEPATH "cargo, ${HONE_RUST_MINIMUM} or newer")
      set(HONE_RUSTC "${folder}/rustc" CACHE FILEPATH "rustc, ${HONE_RUST_MINIMUM} or newer")
      return()
    endif()
    list(APPEND found "${folder}/cargo ${cargo_version} with rustc ${rustc_version}")
  endforeach()
  list(REMOVE_DUPLICATES found)
  if(found)
    list(JOIN found ", " found)
  else()
    set(found "none")
  endif()
  if(HONE_RUST_TARGET)
    message(FATAL_ERROR
      "Hone needs cargo and rustc ${HONE_RUST_MINIMUM} or newer that can compile for ${HONE_RUST_TARGET}; "
      "found: ${found}.\n"
      "On Debian 12: apt-get install cargo-web rustc-web and, for arm64, libstd-rust-web-dev:arm64. "
      "Elsewhere: rustup target add ${HONE_RUST_TARGET}. "
      "Or build without tokenizers and chat templates: -DHONE_BRIDGE=OFF.")
  endif()
  message(FATAL_ERROR
    "Hone needs cargo and rustc ${HONE_RUST_MINIMUM} or newer; found: ${found}.\n"
    "On Debian 12 with its security updates: apt-get install cargo-web rustc-web. Elsewhere: https://rustup.rs. "
    "Or build without tokenizers and chat templates: -DHONE_BRIDGE=OFF.")
endfunction()
