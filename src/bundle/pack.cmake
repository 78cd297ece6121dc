# SPDX-License-Identifier: Apache-2.0
# hone pack and hone unpack need protobuf's text form and TOML. Nothing else does: without them
# everything is built but those two commands.
option(HONE_PACK "Build hone pack and hone unpack (protobuf 3.21, toml++ 3)" ON)
set(HONE_HAVE_PACK OFF)
if(HONE_PACK AND NOT CMAKE_CROSSCOMPILING)
  find_package(Protobuf 3.21 QUIET)
  find_path(HONE_TOMLPLUSPLUS_INCLUDE toml++/toml.h)
  if(Protobuf_FOUND AND Protobuf_PROTOC_EXECUTABLE AND HONE_TOMLPLUSPLUS_INCLUDE)
    set(HONE_HAVE_PACK ON)
  else()
    message(WARNING "hone pack and hone unpack are left out: they need protobuf 3.21 and toml++ 3 "
      "(Debian: protobuf-compiler libprotobuf-dev libtomlplusplus-dev). -DHONE_PACK=OFF hides this.")
  endif()
endif()
# For src/cli, which adds the commands that can be built.
set(HONE_HAVE_PACK ${HONE_HAVE_PACK} CACHE INTERNAL "hone pack and hone unpack can be built")

if(HONE_HAVE_PACK)
  set(pack_proto "${CMAKE_CURRENT_SOURCE_DIR}/pack_metadata.proto")
  set(pack_generated "${CMAKE_CURRENT_BINARY_DIR}/generated")
  set(pack_outputs "${pack_generated}/pack_metadata.pb.cc" "${pack_generated}/pack_metadata.pb.h")
  file(MAKE_DIRECTORY "${pack_generated}")
  add_custom_command(OUTPUT ${pack_outputs}
    COMMAND "${Protobuf_PROTOC_EXECUTABLE}" -I "${CMAKE_CURRENT_SOURCE_DIR}" --cpp_out "${pack_generated}" "${pack_proto}"
    DEPENDS "${pack_proto}" VERBATIM)
  # Generated code is not held to our warnings, but to our sanitizers.
  add_library(hone_pack_proto STATIC ${pack_outputs})
  target_include_directories(hone_pack_proto SYSTEM PUBLIC "${pack_generated}")
  target_link_libraries(hone_pack_proto PUBLIC protobuf::libprotobuf)
  target_compile_options(hone_pack_proto PRIVATE -w)
  if(HONE_SANITIZE)
    target_compile_options(hone_pack_proto PRIVATE -fsanitize=${HONE_SANITIZE})
  endif()
endif()
