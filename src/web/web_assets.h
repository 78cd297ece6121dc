// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The files of the chat page, built from web/ and kept in the program.
#pragma once

#include <span>
#include <string_view>

namespace hone::web {

// All views last as long as the program.
struct WebAsset {
  std::string_view path;          // "/index.html", "/assets/index-1a2b3c4d.js"
  std::string_view content_type;  // "text/html; charset=utf-8"
  std::string_view bytes;
  std::string_view gzip;    // the same bytes as a gzip stream, or "" if that is not smaller
  std::string_view sha256;  // of `bytes`, 64 lower-case hex digits
  bool immutable;           // the name changes with the content: clients may keep it for ever
};

// Sorted by path. Empty in a program that is built with -DHONE_WEB=OFF.
std::span<const WebAsset> WebAssets();

// The file at a path of an address; "/" is the page itself. nullptr if there is none.
const WebAsset* FindWebAsset(std::string_view path);

// What the page must be served with: it needs no inline code and no other host.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

}  // namespace hone::web
