// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A program without the chat page (-DHONE_WEB=OFF).
#include "web/web_assets.h"

namespace hone::web {

std::span<const WebAsset> WebAssets() { return {}; }

}  // namespace hone::web
