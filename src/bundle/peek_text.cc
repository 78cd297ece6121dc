// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "bundle/peek.h"
#include "bundle/printable.h"

namespace hone::bundle {
namespace {

// Weights below this are added up in one line.
constexpr std::int64_t kSmallBytes = 1024;
constexpr std::size_t kMaxNameColumns = 60;

std::string Format(const char* format, double value) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), format, value);
  return {text.data(), static_cast<std::size_t>(std::clamp(length, 0, 63))};
}

// 1000-based, as disks and download pages count.
std::string Size(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 10'000) return StrCat(bytes, " B");
  if (bytes < 1'000'000) return Format("%.1f kB", value / 1e3);
  if (bytes < 1'000'000'000) return Format("%.1f MB", value / 1e6);
  return Format("%.2f GB", value / 1e9);
}

std::string Shape(const Json& shape) {
  std::string out = "[";
  for (const Json& dim : shape.AsArray()) {
    if (out.size() > 1) out += ", ";
    out += StrCat(dim.AsInt());
  }
  return out + "]";
}

// Columns padded to their widest cell; cells of right_aligned columns end at the same place.
class Table {
 public:
  explicit Table(std::vector<bool> right_aligned) : right_(std::move(right_aligned)) {}
  void Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string Text() const {
    std::vector<std::size_t> widths(right_.size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line = " ";
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string padding(widths[i] - row[i].size(), ' ');
        line += ' ';
        line += right_[i] ? padding + row[i] : row[i] + padding;
        line += ' ';
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

std::string Value(const Json& value) {
  return Printable(value.IsString() ? StrCat("'", value.AsString(), "'") : value.Dump());
}

std::string SectionsText(const Json& facts) {
  Table table({true, false, true, true, false});
  table.Row({"", "section", "begin", "bytes", "items"});
  std::size_t index = 0;
  for (const Json& section : facts.Find("sections")->AsArray()) {
    std::string items;
    for (const auto& [key, value] : section.Find("items")->AsObject()) {
      items += StrCat(items.empty() ? "" : ", ", key, "=", value.AsString());
    }
    table.Row({StrCat(index++), section.Find("type")->AsString(),
               StrCat(section.Find("begin")->AsInt()), StrCat(section.Find("bytes")->AsInt()),
               Printable(items)});
  }
  return table.Text();
}

std::string FieldsText(const Json& object, std::string_view but) {
  Table table({false, false});
  for (const auto& [key, value] : object.AsObject()) {
    if (key == but) continue;
    table.Row({Printable(key, kMaxNameColumns), Value(value)});
  }
  return table.Text();
}

// "kv_cache_k_0" and "kv_cache_k_1" with equal types become "kv_cache_k_* (2)".
std::string TensorsText(const Json::Array& tensors) {
  struct Group {
    std::string name, prefix, type;
    int count = 0;
  };
  std::vector<Group> groups;
  for (const Json& tensor : tensors) {
    const std::string& name = tensor.Find("name")->AsString();
    const std::string prefix = name.substr(0, name.find_last_not_of("0123456789") + 1);
    const std::string type = StrCat(tensor.Find("dtype")->AsString(), Shape(*tensor.Find("shape")));
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.prefix == prefix && prefix != name && g.type == type;
    });
    if (group == groups.end()) {
      groups.push_back({name, prefix, type, 1});
    } else {
      ++group->count;
    }
  }
  std::string out;
  for (const Group& group : groups) {
    const std::string name =
        group.count == 1 ? group.name : StrCat(group.prefix, "* (", group.count, ")");
    out += StrCat(out.empty() ? "" : "; ", Printable(name), " ", group.type);
  }
  return out;
}

std::string SignaturesText(const Json& model) {
  std::string out;
  for (const Json& signature : model.Find("signatures")->AsArray()) {
    out += StrCat("  ", Printable(signature.Find("key")->AsString()), "\n");
    for (const char* direction : {"inputs", "outputs"}) {
      out += StrCat("    ", direction == std::string_view("inputs") ? "in   " : "out  ",
                    TensorsText(signature.Find(direction)->AsArray()), "\n");
    }
  }
  return out;
}

std::string WeightsText(const Json& model) {
  Table table({false, true, false, true, true, false});
  table.Row({"weight", "shape", "precision", "bytes", "share", "used by"});
  std::int64_t small = 0, small_bytes = 0;
  for (const Json& weight : model.Find("weights")->AsArray()) {
    const std::int64_t bytes = weight.Find("bytes")->AsInt();
    if (bytes < kSmallBytes) {
      ++small;
      small_bytes += bytes;
      continue;
    }
    const Json* op = weight.Find("op");
    const Json* output = weight.Find("signature_output");
    table.Row(
        {Printable(weight.Find("name")->AsString(), kMaxNameColumns), Shape(*weight.Find("shape")),
         weight.Find("precision")->AsString(), StrCat(bytes),
         Format("%.1f %%", 100 * weight.Find("share")->AsDouble()),
         StrCat(op ? op->AsString() : "", output ? " -> " + Printable(output->AsString()) : "")});
  }
  std::string out = table.Text();
  if (small != 0) {
    out += StrCat("  and ", small, " constants of less than ", kSmallBytes, " bytes, together ",
                  small_bytes, " bytes\n");
  }
  return out;
}

std::string PrecisionsText(const Json& totals) {
  std::string out;
  for (const auto& [precision, bytes] : totals.AsObject()) {
    out += StrCat(out.empty() ? "" : ", ", precision, " ", Size(bytes.AsInt()));
  }
  return out;
}

std::string ModelText(const Json& model) {
  std::string out = StrCat("\nModel ", Printable(model.Find("model_type")->AsString()), ": ",
                           Size(model.Find("bytes")->AsInt()), "\n");
  if (const Json* error = model.Find("error")) {
    return out + StrCat("  not read: ", Printable(error->AsString()), "\n");
  }
  out += SignaturesText(model);
  out += WeightsText(model);
  out += StrCat("  stored as: ", PrecisionsText(*model.Find("bytes_by_precision")), "\n");
  return out;
}

std::string RolesText(const Json& roles) {
  Table table({false, false, true, true, true});
  table.Row({"role", "precision", "tensors", "bytes", "bits per weight"});
  for (const Json& role : roles.AsArray()) {
    table.Row({role.Find("role")->AsString(), role.Find("precision")->AsString(),
               StrCat(role.Find("tensors")->AsInt()), StrCat(role.Find("bytes")->AsInt()),
               Format("%.3f", role.Find("bits_per_weight")->AsDouble())});
  }
  return "\nStored precision by role\n" + table.Text();
}

std::string LimitsText(const Json& limits) {
  Table table({false, false});
  for (const auto& [key, value] : limits.AsObject()) {
    if (key != "memory") table.Row({key, Value(value)});
  }
  const Json& memory = *limits.Find("memory");
  table.Row(
      {"memory, at least", StrCat("CPU ", Size(memory.Find("cpu")->AsInt()), "; GPU ",
                                  Size(memory.Find("gpu_device")->AsInt()), " on the device and ",
                                  Size(memory.Find("gpu_host")->AsInt()), " beside it")});
  return "\nLimits\n" + table.Text();
}

std::string StopsText(const Json& stops) {
  Table table({false, false});
  table.Row({"ids", "text"});
  for (const Json& stop : stops.AsArray()) {
    table.Row({stop.Find("ids")->Dump(), Value(*stop.Find("text"))});
  }
  return "\nStop tokens\n" + table.Text();
}

std::string BuffersText(const Json& buffers) {
  Table table({false, true, false});
  table.Row({"signature", "bytes", "buffer"});
  for (const Json& buffer : buffers.AsArray()) {
    table.Row({Printable(buffer.Find("signature")->AsString()),
               StrCat(buffer.Find("bytes")->AsInt()),
               Printable(buffer.Find("name")->AsString(), kMaxNameColumns) +
                   (buffer.Find("as_fp16")->AsBool() ? " (as fp16)" : "")});
  }
  return "\nLargest buffers on a GPU\n" + table.Text();
}

std::string RuntimesText(const Json& runtimes) {
  Table table({false, false});
  for (const Json& runtime : runtimes.AsArray()) {
    std::string text = runtime.Find("runs")->AsBool() ? "runs it" : "does not run it";
    if (runtime.Find("runs")->AsBool()) {
      text += runtime.Find("chat")->AsBool() ? ", also conversations" : ", not conversations";
    }
    std::string because;
    for (const Json& id : runtime.Find("because")->AsArray()) {
      because += (because.empty() ? ": " : ", ") + id.AsString();
    }
    if (const Json* least = runtime.Find("min_runtime_version")) {
      because += StrCat("; asks for ", Printable(least->AsString()));
    }
    table.Row({runtime.Find("runtime")->AsString(), text + because});
  }
  return "\nRuntimes (hone check says more)\n" + table.Text();
}

// What AddCheckedFacts adds.
std::string CheckedText(const Json& facts) {
  std::string out;
  if (const Json* roles = facts.Find("roles")) out += RolesText(*roles);
  if (const Json* limits = facts.Find("limits")) out += LimitsText(*limits);
  if (const Json* stops = facts.Find("stops")) out += StopsText(*stops);
  if (const Json* hash = facts.Find("template")) {
    out += StrCat("\nChat template\n  ", hash->Find("bytes")->AsInt(), " bytes, sha256 ",
                  hash->Find("sha256")->AsString(), "\n");
  }
  if (const Json* buffers = facts.Find("largest_buffers")) out += BuffersText(*buffers);
  if (const Json* runtimes = facts.Find("runtimes")) out += RuntimesText(*runtimes);
  return out;
}

}  // namespace

std::string PeekText(const Json& facts) {
  std::string out =
      StrCat(Printable(facts.Find("file")->AsString()), ": .litertlm version ",
             facts.Find("version")->AsString(), ", ", Size(facts.Find("bytes")->AsInt()), "\n");
  for (const Json& warning : facts.Find("warnings")->AsArray()) {
    out += StrCat("  warning: ", Printable(warning.AsString()), "\n");
  }
  out += "\nSystem metadata\n" + FieldsText(*facts.Find("system"), "");
  out += "\nSections\n" + SectionsText(facts);
  if (const Json* llm = facts.Find("llm_metadata")) {
    out += "\nLlmMetadata\n" + FieldsText(*llm, "jinja_prompt_template");
    if (const Json* jinja = llm->Find("jinja_prompt_template")) {
      out += StrCat("  jinja_prompt_template  ", jinja->AsString().size(), " bytes\n");
    }
  }
  if (const Json* executor = facts.Find("executor_metadata")) {
    out += StrCat("\nExecutorMetadata\n  max_history_size  ",
                  executor->Find("max_history_size")->AsInt(), ", state buffers  ",
                  executor->Find("state_buffers")->AsArray().size(), "\n");
  }
  for (const Json& model : facts.Find("models")->AsArray()) out += ModelText(model);
  if (const Json* hone = facts.Find("hone")) {
    if (hone->IsObject()) out += "\nhone.json\n" + FieldsText(*hone, "");
  }
  const Json& totals = *facts.Find("bytes_by_precision");
  if (!totals.AsObject().empty()) {
    out += StrCat("\nAll constants: ", PrecisionsText(totals), "\n");
  }
  return out + CheckedText(facts);
}

}  // namespace hone::bundle
