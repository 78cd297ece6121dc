// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

namespace hone {

int ExitCode(Code code) {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kUnsupported:
      return 2;
    case Code::kDataLoss:
      return 5;
    case Code::kOutOfMemory:
    case Code::kDeadline:
    case Code::kIo:
      return 6;
    case Code::kCancelled:
      return 130;
    case Code::kInternal:
      return 70;
  }
  return 70;
}

}  // namespace hone
