// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/regex.h"

#include <hone_bridge.h>

#include "bridge/buffer.h"

namespace hone::bridge {

Result<Regex> Regex::Compile(std::string_view pattern) {
  hb_regex* regex = nullptr;
  Buffer error;
  const int status = hb_regex_new(pattern.data(), pattern.size(), &regex, error.get());
  if (status != HB_OK) {
    return Status(Code::kUnsupported,
                  StrCat("the regular expression \"", pattern, "\": ", error.text()));
  }
  Regex out;
  out.regex_ =
      std::shared_ptr<const void>(regex, [](void* p) { hb_regex_free(static_cast<hb_regex*>(p)); });
  return out;
}

bool Regex::Search(std::string_view text) const {
  return hb_regex_search(static_cast<const hb_regex*>(regex_.get()), text.data(), text.size()) == 1;
}

}  // namespace hone::bridge
