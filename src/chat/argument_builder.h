// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The arguments' JSON of a call whose values are written as text, typed by the tool's schema.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "chat/call_writer.h"

namespace hone::chat {

// Begin, then the arguments, then End. A name that comes twice, that the tool does not take, or a
// value that does not fit its schema makes the writer refuse the call. The writer must outlive it.
class ArgumentBuilder {
 public:
  explicit ArgumentBuilder(CallWriter& out) : out_(out) {}

  void Begin(std::string_view tool);
  // A value as plain text, from which the schema makes a value.
  void AddText(std::string_view name, std::string_view text);
  // A value as a Python literal. A string is read as AddText does where the schema asks for no
  // string; any other literal stays as it is written where the schema asks for a string alone.
  void AddPython(std::string_view name, std::string_view literal);
  // Required arguments that are missing make the writer refuse the call.
  void End();

 private:
  // Types of the argument. False: the call is refused already, or now.
  bool Accept(std::string_view name, unsigned& types);
  void Add(std::string_view name, Result<std::string> json);

  CallWriter& out_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace hone::chat
