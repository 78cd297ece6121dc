// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What an answer of the hub means for the user, and what to do.
#pragma once

#include <string>

#include "base/status.h"
#include "hub/http.h"
#include "hub/repo.h"
#include "hub/settings.h"

namespace hone::hub {

// For an answer that is neither 2xx nor worth another try. file is "" for the model itself.
Status ExplainAnswer(const Settings& settings, const RepoRef& ref, const std::string& file,
                     const HttpResponse& response);

// Whether the same request may work later: 408, 425, 429, 500, 502, 503, 504.
bool MayWorkLater(long status);

// The seconds of Retry-After, 0 if there is none; a date counts from now.
double RetryAfterSeconds(const HttpResponse& response);

}  // namespace hone::hub
