// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs steps with packed weights and kernels.
#pragma once

#include <functional>
#include <memory>

#include "base/span_util.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "model/decoder_spec.h"
#include "runtime/step_runner.h"

namespace hone::runtime {

// Packs the model's weights; model and pool must outlive the runner. release as in PackModel.
Result<std::unique_ptr<StepRunner>> MakeKernelRunner(const model::DecoderModel& model,
                                                     kernels::Compute compute,
                                                     kernels::KvType kv_type, ThreadPool& pool,
                                                     const std::function<void(ByteSpan)>& release);

}  // namespace hone::runtime
