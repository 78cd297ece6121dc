// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "web/web_assets.h"

#include <algorithm>

namespace hone::web {

const WebAsset* FindWebAsset(std::string_view path) {
  if (path == "/") path = "/index.html";
  const std::span<const WebAsset> assets = WebAssets();
  const auto found = std::ranges::lower_bound(assets, path, {}, &WebAsset::path);
  return found != assets.end() && found->path == path ? &*found : nullptr;
}

}  // namespace hone::web
