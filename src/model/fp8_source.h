// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose linears are stored as FP8 (E4M3) with scales beside them.
#pragma once

#include <memory>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/assemble.h"

namespace hone::model {

// Whether quantization_config describes FP8 weights that JoinFp8 can read: quant_method fp8 or
// fbgemm_fp8, or compressed-tensors in the format float-quantized.
bool IsReadableFp8(const Json& quantization_config);

// Gives every F8_E4M3 tensor NAME its type and scales from NAME_scale_inv or NAME_scale, which are
// taken out of tensors: one value, one for each row, or one for each square of the configuration's
// weight_block_size. Each value of the weight is code * scale. tensors is sorted by name and stays
// so. keep_alive receives the scales as float32. kDataLoss names a tensor without scales or with
// the wrong number of them; without F8_E4M3 tensors nothing changes.
Status JoinFp8(const Json& quantization_config, std::vector<SourceTensor>* tensors,
               std::vector<std::shared_ptr<const void>>* keep_alive);

}  // namespace hone::model
