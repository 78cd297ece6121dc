// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// UTF-8 to and from wide characters, and text without control characters.
#pragma once

#include <string>
#include <string_view>

namespace hone::cli {

// Bytes of the first character of text; 0 if its end has not come yet. A byte that begins no
// character counts as one.
std::size_t Utf8Bytes(std::string_view text);
// Takes the first character, which Utf8Bytes says is there, from the front of text. What is not
// UTF-8 is U+FFFD.
wchar_t TakeUtf8(std::string& text);

std::wstring ToWide(std::string_view text);
std::string FromWide(std::wstring_view text);

// What is pasted, as a message: every kind of line end is \n, and control characters but tabs are
// left out.
std::string PlainText(std::string_view text);

// For a terminal: control characters but tabs and line ends as \xNN. The text holds whole
// characters.
std::string VisibleText(std::string_view text);

}  // namespace hone::cli
