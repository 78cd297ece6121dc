// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "bundle/check_faults.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;
using litertlm::SectionType;
using tflite::Model;
using Storage = TestBundle::Storage;

constexpr const char* kDecoder = "tf_lite_prefill_decode";
constexpr auto kBroadcastTo = static_cast<tflite::Op>(130);
constexpr auto kUnknownOp = static_cast<tflite::Op>(999);

tflite::Subgraph& Graph(Model& model, std::string_view key) {
  return model.subgraphs[model.FindSignature(key)->subgraph];
}

// A tensor of a signature's inputs or outputs.
tflite::Tensor& Port(Model& model, std::string_view key, std::string_view name) {
  const tflite::SignatureDef& signature = *model.FindSignature(key);
  for (const auto* list : {&signature.inputs, &signature.outputs}) {
    for (const auto& [port, tensor] : *list) {
      if (port == name) return model.subgraphs[signature.subgraph].tensors[tensor];
    }
  }
  ADD_FAILURE() << key << " " << name;
  return model.subgraphs[0].tensors[0];
}

// The first operator of a kind, and the first tensor that one of them writes.
tflite::Operator& FirstOp(tflite::Subgraph& graph, tflite::Op op) {
  for (tflite::Operator& candidate : graph.operators) {
    if (candidate.op == op) return candidate;
  }
  ADD_FAILURE() << tflite::OpName(op);
  return graph.operators[0];
}
tflite::Tensor& FirstResult(tflite::Subgraph& graph, tflite::Op op) {
  return graph.tensors[static_cast<std::size_t>(FirstOp(graph, op).outputs[0])];
}

// The scales of the first blockwise tensor of the decode graph as half floats; index 3 becomes
// half.
void SetScale(TestBundle& bundle, std::uint16_t half) {
  bundle.EditModel(kDecoder, [&](Model& model, Storage& storage) {
    const tflite::Subgraph& graph = Graph(model, "decode");
    for (const tflite::Tensor& tensor : graph.tensors) {
      if (!tensor.quantization.scales_tensor) continue;
      const auto scales = static_cast<std::size_t>(*tensor.quantization.scales_tensor);
      std::memcpy(OwnBuffer(model, graph.tensors[scales].buffer, storage).data() + 6, &half, 2);
      return;
    }
  });
}

// Every tensor that shows the first blockwise constant, in every subgraph.
void EditFirstWeight(Model& model,
                     const std::function<void(tflite::Subgraph&, tflite::Tensor&)>& edit) {
  std::uint32_t buffer = 0;
  for (tflite::Subgraph& graph : model.subgraphs) {
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      tflite::Tensor& tensor = graph.tensors[t];
      if (!tensor.quantization.scales_tensor) continue;
      if (buffer == 0) buffer = tensor.buffer;
      if (tensor.buffer == buffer) edit(graph, tensor);
    }
  }
}

void SetScores(TestBundle& bundle, std::vector<std::int32_t> shape) {
  bundle.EditModel(kDecoder, [&](Model& model, Storage&) {
    FirstResult(Graph(model, "prefill_32"), tflite::Op::kSoftmax).shape = shape;
  });
}

void ForNpu(CheckOptions& options) { options.backend = Backend::kNpu; }
void Deep(CheckOptions& options) { options.deep = true; }

void BigMask(Model& model, Storage&) {
  tflite::Subgraph& graph = Graph(model, "prefill_32");
  const std::int32_t mask =
      static_cast<std::int32_t>(&Port(model, "prefill_32", "mask") - graph.tensors.data());
  for (tflite::Operator& op : graph.operators) {
    const bool repeats = op.op == tflite::Op::kConcatenation && op.inputs[0] == mask;
    if (!repeats) continue;
    const std::int32_t repeated = op.outputs[0];
    graph.tensors[static_cast<std::size_t>(mask)].shape = {1, 1, 512, 1024};
    graph.tensors[static_cast<std::size_t>(repeated)].shape = {1, 1, 1024, 1024};
    for (tflite::Operator& add : graph.operators) {
      if (add.op != tflite::Op::kAdd || add.inputs[1] != repeated) continue;
      graph.tensors[static_cast<std::size_t>(add.inputs[0])].shape = {1, 2, 1024, 1024};
      graph.tensors[static_cast<std::size_t>(add.outputs[0])].shape = {1, 2, 1024, 1024};
      return;
    }
  }
  ADD_FAILURE() << "no repeated mask";
}

void UnreadCache(Model& model, Storage&) {
  tflite::Subgraph& graph = Graph(model, "prefill_8");
  const auto index = [&](const char* name) {
    return static_cast<std::int32_t>(&Port(model, "prefill_8", name) - graph.tensors.data());
  };
  const std::int32_t from = index("kv_cache_k_1"), to = index("kv_cache_k_0");
  for (tflite::Operator& op : graph.operators) {
    for (std::int32_t& input : op.inputs) {
      if (input == from) input = to;
    }
  }
}

constexpr Fault kGraph[] = {
    {"tokenizer-too-large",
     [](TestBundle& b) {
       b.EditModel(kDecoder,
                   [](Model& m, Storage&) { Port(m, "decode", "logits").shape[2] = 500; });
     }},
    {"vocabulary-padded",
     [](TestBundle& b) {
       b.EditModel(kDecoder,
                   [](Model& m, Storage&) { Port(m, "decode", "logits").shape[2] = 520; });
     }},
    {"scale-zero", [](TestBundle& b) { SetScale(b, 0); }},
    {"scale-subnormal", [](TestBundle& b) { SetScale(b, 0x0001); }},
    {"scale-negative", [](TestBundle& b) { SetScale(b, 0xa000); }},
    {"scale-nonfinite", [](TestBundle& b) { SetScale(b, 0x7e00); }},
    {"scale-type",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage& storage) {
         EditFirstWeight(m, [&](tflite::Subgraph& graph, tflite::Tensor& tensor) {
           const auto index = static_cast<std::size_t>(*tensor.quantization.scales_tensor);
           tflite::Tensor& scales = graph.tensors[index];
           if (scales.type == tflite::TensorType::kFloat32) return;
           scales.type = tflite::TensorType::kFloat32;
           const std::size_t bytes = m.buffers[scales.buffer].data.size();
           storage.emplace_back(2 * bytes);
           tflite::Buffer buffer;
           buffer.data = storage.back();
           m.buffers.push_back(buffer);
           scales.buffer = static_cast<std::uint32_t>(m.buffers.size() - 1);
         });
       });
     }},
    {"block-size",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage& storage) {
         EditFirstWeight(m, [&](tflite::Subgraph& graph, tflite::Tensor& tensor) {
           const auto index = static_cast<std::size_t>(*tensor.quantization.scales_tensor);
           tflite::Tensor& scales = graph.tensors[index];
           tensor.quantization.block_size = 16;
           scales.shape.back() *= 2;
           std::vector<std::byte> twice;
           for (const std::byte byte : m.buffers[scales.buffer].data)
             twice.insert(twice.end(), 2, byte);
           storage.push_back(std::move(twice));
           tflite::Buffer buffer;
           buffer.data = storage.back();
           m.buffers.push_back(buffer);
           scales.buffer = static_cast<std::uint32_t>(m.buffers.size() - 1);
         });
       });
     }},
    {"prefill-over-context",
     [](TestBundle& b) {
       b.EditModel(kDecoder,
                   [](Model& m, Storage&) { Port(m, "prefill_32", "input_pos").shape = {200}; });
     }},
    {"prefill-wall",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         std::erase_if(m.signatures, [](const auto& s) { return s.key == "prefill_1"; });
       });
     }},
    {"prefill-ladder",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         std::erase_if(m.signatures, [](const auto& s) { return s.key == "prefill_8"; });
         Port(m, "prefill_32", "input_pos").shape = {64};
       });
     }},
    {"context-mismatch",
     [](TestBundle& b) {
       b.EditModel(kDecoder,
                   [](Model& m, Storage&) { Port(m, "prefill_8", "mask").shape[3] = 64; });
     }},
    {"executor-mismatch",
     [](TestBundle& b) {
       b.EditExecutor(
           [](litertlm::ExecutorMetadata& m) { m.state_buffers[0].maximum_sequence_length = 64; });
     }},
    {"lift-unsupported",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         FirstOp(Graph(m, "decode"), tflite::Op::kSoftmax).options.beta = 2;
       });
     }},
    {"precision-mismatch",
     [](TestBundle& b) {
       b.SetHone(R"({"recipe":{"schemes":{"head":"int8 min-max","q":"int4_block32 octav"}}})");
     }},
    {"channelwise-int4",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         EditFirstWeight(m, [](tflite::Subgraph&, tflite::Tensor& tensor) {
           const auto rows = static_cast<std::size_t>(tensor.shape[0]);
           tensor.quantization = {};
           tensor.quantization.scale.assign(rows, 0.1f);
           tensor.quantization.zero_point.assign(rows, 0);
         });
       });
     }},
    {"buffer-over-limit", nullptr, nullptr, [](CheckOptions& o) { o.device_limit = 1024; }},
    {"buffer-over-adreno", [](TestBundle& b) { SetScores(b, {1, 16, 1024, 65536}); }},
    {"buffer-over-webgpu", [](TestBundle& b) { SetScores(b, {1, 16, 1024, 8192}); }},
    {"memory", nullptr},
    {"backend-excluded",
     [](TestBundle& b) {
       b.Find(SectionType::kTfliteModel, kDecoder)
           ->section.items.push_back({.key = "backend_constraint", .value = "cpu"});
     },
     nullptr, [](CheckOptions& o) { o.backend = Backend::kGpu; }},
    {"gpu-op",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         FirstOp(Graph(m, "decode"), tflite::Op::kReshape).op = kBroadcastTo;
       });
     }},
    {"npu-blockwise", nullptr, nullptr, ForNpu},
    {"npu-float", nullptr, nullptr, ForNpu},
    {"npu-mask-size", [](TestBundle& b) { b.EditModel(kDecoder, BigMask); }, nullptr, ForNpu},
    {"npu-rank",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         tflite::Subgraph& graph = Graph(m, "decode");
         tflite::Operator& op = FirstOp(graph, tflite::Op::kReshape);
         op.op = kBroadcastTo;
         graph.tensors[static_cast<std::size_t>(op.outputs[0])].shape = {1, 1, 1, 1, 8};
       });
     },
     nullptr, ForNpu},
    {"npu-op",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         FirstResult(Graph(m, "decode"), tflite::Op::kDynamicUpdateSlice).type =
             tflite::TensorType::kInt16;
       });
     },
     nullptr, ForNpu},
    {"npu-cache-scales",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         for (const char* key : {"decode", "prefill_8"}) {
           tflite::Quantization& q = Port(m, key, "kv_cache_k_0").quantization;
           q.scale = {key[0] == 'd' ? 0.1f : 0.2f};
           q.zero_point = {0};
         }
       });
     },
     nullptr, ForNpu},
    {"npu-unused-cache-input", [](TestBundle& b) { b.EditModel(kDecoder, UnreadCache); }, nullptr,
     ForNpu},
    {"npu-prefill-lengths", nullptr, nullptr, ForNpu},
    {"npu-aux-missing", nullptr, nullptr, ForNpu},
    {"npu-cache-shape",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         Port(m, "decode", "kv_cache_k_0").shape = {1, 2, 128, 256};
       });
     },
     nullptr, ForNpu},
    {"hash-mismatch",
     [](TestBundle& b) {
       b.SetHone(R"({"sections":[{"name":"LlmMetadataProto","bytes":1,"sha256":"00"}]})");
     },
     nullptr, Deep},
    {"hashes-missing", nullptr, nullptr, Deep},
    {"weights-nonfinite",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage& storage) {
         const tflite::Subgraph& graph = Graph(m, "decode");
         for (const tflite::Tensor& tensor : graph.tensors) {
           const bool norm = tensor.buffer != 0 && tensor.type == tflite::TensorType::kFloat32 &&
                             tensor.shape == std::vector<std::int32_t>{64};
           if (!norm || m.buffers[tensor.buffer].data.empty()) continue;
           const float nan = std::numeric_limits<float>::quiet_NaN();
           std::memcpy(OwnBuffer(m, tensor.buffer, storage).data() + 8, &nan, sizeof(nan));
           return;
         }
         ADD_FAILURE() << "no norm";
       });
     },
     nullptr, Deep},
    {"executor-unsupported",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         FirstOp(Graph(m, "decode"), tflite::Op::kLogistic).op = kUnknownOp;
       });
     },
     nullptr, Deep},
    {"prefill-disagrees",
     [](TestBundle& b) {
       b.EditModel(kDecoder, [](Model& m, Storage&) {
         // Keys of the first prefill are written one position too far.
         FirstOp(Graph(m, "prefill_8"), tflite::Op::kSin).op = tflite::Op::kCos;
       });
     },
     nullptr, Deep},
};

}  // namespace

std::span<const Fault> GraphFaults() { return kGraph; }

}  // namespace hone::bundle
