// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Walks the table of fields: what it says of each field is what the reader does, and docs/api.md
// shows the same table.
#include "serve/openai/fields.h"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>

#include "serve/openai/openai_test_util.h"

namespace hone::serve::openai {
namespace {

// What is needed around a field before the field itself is put in.
Json BaseBody(Endpoint endpoint, std::string_view path) {
  const std::string call = "{'id':'c1','type':'function','function':{'name':'f','arguments':'{}'}}";
  std::string message = "{'role':'user','content':'q'}";
  if (path.starts_with("messages[].content[]")) {
    message = "{'role':'user','content':[{'type':'text','text':'q'}]}";
  } else if (path == "messages[].tool_call_id") {
    message = "{'role':'tool','content':'5','tool_call_id':'c1'}";
  } else if (path.starts_with("messages[].tool_calls") ||
             path.starts_with("messages[].reasoning")) {
    message = "{'role':'assistant','content':'a','tool_calls':[" + call + "]}";
  }
  std::string extra;
  const bool about_tools = path.starts_with("tool");
  if (about_tools) extra += ",'tools':[{'type':'function','function':{'name':'f'}}]";
  if (path.starts_with("tool_choice.")) {
    extra += ",'tool_choice':{'type':'function','function':{'name':'f'}}";
  }
  if (path == "top_logprobs") extra += ",'logprobs':true";
  if (path.starts_with("stream_options")) extra += ",'stream':true";
  if (path.starts_with("prediction.content[]")) {
    extra += ",'prediction':{'type':'content','content':[{'type':'text','text':'x'}]}";
  } else if (path.starts_with("prediction.")) {
    extra += ",'prediction':{'type':'content','content':'x'}";
  }
  if (path.starts_with("response_format.json_schema")) {
    extra += ",'response_format':{'type':'json_schema','json_schema':{'schema':{}}}";
  } else if (path.starts_with("response_format.")) {
    const std::string kind(path.substr(path.find('.') + 1));
    extra += ",'response_format':{'type':'" +
             (kind == "schema" ? "json_schema"
              : kind == "type" ? "text"
                               : kind) +
             "'}";
  }
  if (endpoint == Endpoint::kCompletions) {
    return ParseText(
        Quoted("{'prompt':'p'" +
               std::string(path.starts_with("stream_options") ? ",'stream':true}" : "}")));
  }
  if (endpoint == Endpoint::kTokenize) {
    return ParseText(Quoted(path == "prompt" ? "{}" : "{'content':'c'}"));
  }
  if (endpoint == Endpoint::kDetokenize) return ParseText(Quoted("{'tokens':[]}"));
  return ParseText(Quoted("{'messages':[" + message + "]" + extra + "}"));
}

Json ResponsesBody(std::string_view path) {
  std::string item = "{'role':'user','content':'q'}";
  if (path.starts_with("input[].content[]")) {
    item = "{'role':'user','content':[{'type':'input_text','text':'q'}]}";
  } else if (path.starts_with("input[].output[]")) {
    item =
        "{'type':'function_call_output','call_id':'c','output':[{'type':'input_text',"
        "'text':'q'}]}";
  } else if (path == "input[].call_id" || path == "input[].output") {
    item = "{'type':'function_call_output','call_id':'c','output':'5'}";
  } else if (path == "input[].name" || path == "input[].arguments") {
    item = "{'type':'function_call','call_id':'c','name':'f','arguments':'{}'}";
  } else if (path == "input[].summary" || path == "input[].encrypted_content") {
    item = "{'type':'reasoning','content':[{'type':'reasoning_text','text':'t'}]}";
  }
  std::string extra;
  if (path.starts_with("tool")) extra += ",'tools':[{'type':'function','name':'f'}]";
  if (path.starts_with("tool_choice.")) extra += ",'tool_choice':{'type':'function','name':'f'}";
  if (path == "top_logprobs") extra += ",'include':['message.output_text.logprobs']";
  if (path.starts_with("stream_options")) extra += ",'stream':true";
  if (path.starts_with("text.format.")) {
    const std::string kind(path.substr(path.rfind('.') + 1));
    const bool other = kind == "regex" || kind == "grammar";
    extra += ",'text':{'format':{'type':'" +
             (other              ? kind
              : kind == "schema" ? "json_schema"
                                 : "text") +
             "'}}";
  }
  return ParseText(Quoted("{'input':[" + item + "]" + extra + "}"));
}

// Puts value at a path such as "a[].b", making objects on the way.
void Put(Json& json, std::string_view path, const Json& value) {
  const std::size_t end = path.find_first_of(".[");
  const std::string key(path.substr(0, end));
  if (end == std::string_view::npos) {
    json.Set(key, value);
    return;
  }
  Json child = json.Find(key) != nullptr ? *json.Find(key) : Json(Json::Object{});
  if (path[end] == '[') {
    ASSERT_TRUE(child.IsArray() && !child.AsArray().empty()) << path;
    Put(child.AsArray()[0], path.substr(end + 3), value);  // behind "[]."
  } else {
    Put(child, path.substr(end + 1), value);
  }
  json.Set(key, std::move(child));
}

std::string ParamOf(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c == ']') out += '0';
    out.push_back(c);
  }
  return out;
}

struct Outcome {
  std::optional<ApiError> error;
  std::vector<std::string> ignored;
};

template <typename T>
Outcome ToOutcome(const ApiResult<T>& result) {
  Outcome outcome;
  if (!result.ok()) outcome.error = result.error();
  if constexpr (std::is_same_v<T, GenerateCall>) {
    if (result.ok()) outcome.ignored = result->reply.ignored;
  } else {
    if (result.ok()) outcome.ignored = result->ignored;
  }
  return outcome;
}

Outcome ReadBody(Endpoint endpoint, const Json& body, const ReadOptions& options) {
  switch (endpoint) {
    case Endpoint::kChat:
      return ToOutcome(ReadChatCall(body, options));
    case Endpoint::kCompletions:
      return ToOutcome(ReadCompletionCall(body, options));
    case Endpoint::kResponses:
      return ToOutcome(ReadResponsesCall(body, options));
    case Endpoint::kTokenize:
      return ToOutcome(ReadTokenize(body, options));
    case Endpoint::kDetokenize:
      return ToOutcome(ReadDetokenize(body, options));
    case Endpoint::kApplyTemplate:
      return ToOutcome(ReadApplyTemplate(body, options));
  }
  return {};
}

class FieldsTest : public testing::TestWithParam<Endpoint> {
 protected:
  Json BodyWith(const FieldRow& row, const Json& value) const {
    Json body = GetParam() == Endpoint::kResponses ? ResponsesBody(row.path)
                                                   : BaseBody(GetParam(), row.path);
    Put(body, row.path, value);
    return body;
  }
  Outcome Try(const FieldRow& row, const Json& value, bool lenient = false) const {
    ReadOptions options;
    options.lenient = lenient;
    return ReadBody(GetParam(), BodyWith(row, value), options);
  }
};

TEST_P(FieldsTest, HonouredFieldsAreReadAndTheirWrongTypesNamed) {
  for (const FieldRow& row : Fields(GetParam())) {
    if (row.use != FieldUse::kHonoured) continue;
    const Json example = ParseText(row.example);
    const Outcome good = Try(row, example);
    EXPECT_FALSE(good.error) << row.path << ": " << (good.error ? good.error->message : "");
    EXPECT_TRUE(good.ignored.empty()) << row.path;
    const Json wrong = example.IsNumber() || example.IsBool() ? Json("wrong") : Json(5);
    const Outcome bad = Try(row, wrong);
    ASSERT_TRUE(bad.error) << row.path << ": a wrong type was not noticed";
    EXPECT_EQ(bad.error->http_status, 400) << row.path;
    EXPECT_EQ(bad.error->param, ParamOf(row.path)) << bad.error->message;
    // A wrong type stays an error when the server is lenient.
    EXPECT_TRUE(Try(row, wrong, /*lenient=*/true).error) << row.path;
  }
}

TEST_P(FieldsTest, RefusedFieldsAreNamedAndLenientServersListThem) {
  for (const FieldRow& row : Fields(GetParam())) {
    if (row.use != FieldUse::kRefused) continue;
    const Json example = ParseText(row.example);
    const Outcome refused = Try(row, example);
    ASSERT_TRUE(refused.error) << row.path;
    EXPECT_EQ(refused.error->param, ParamOf(row.path));
    EXPECT_EQ(refused.error->code, "unsupported_parameter") << row.path;
    EXPECT_NE(refused.error->message.find(row.text), std::string::npos) << row.path;
    const Outcome lenient = Try(row, example, /*lenient=*/true);
    EXPECT_FALSE(lenient.error) << lenient.error->message;
    EXPECT_EQ(lenient.ignored, std::vector<std::string>{ParamOf(row.path)});
    EXPECT_FALSE(Try(row, Json()).error) << row.path << ": null is absent";
    if (row.only.empty()) continue;
    EXPECT_FALSE(Try(row, ParseText(row.only)).error) << row.path;
    EXPECT_TRUE(Try(row, ParseText(row.only), /*lenient=*/true).ignored.empty()) << row.path;
  }
}

TEST_P(FieldsTest, FieldsWithoutEffectAreAccepted) {
  for (const FieldRow& row : Fields(GetParam())) {
    if (row.use != FieldUse::kNoEffect) continue;
    const Outcome outcome = Try(row, ParseText(row.example));
    EXPECT_FALSE(outcome.error) << row.path << ": " << outcome.error->message;
    EXPECT_TRUE(outcome.ignored.empty()) << row.path;
  }
}

TEST_P(FieldsTest, AnUnknownFieldBesideEachFieldIsNamed) {
  std::set<std::string> seen;
  for (const FieldRow& row : Fields(GetParam())) {
    EXPECT_TRUE(seen.insert(std::string(row.path)).second) << row.path << " is there twice";
    if (row.use != FieldUse::kHonoured || row.path.starts_with("chat_template_kwargs.")) continue;
    const std::size_t dot = row.path.rfind('.');
    const std::string sibling =
        dot == std::string_view::npos ? "zzz" : StrCat(row.path.substr(0, dot), ".zzz");
    Json body = BodyWith(row, ParseText(row.example));
    Put(body, sibling, Json(1));
    const Outcome outcome = ReadBody(GetParam(), body, {});
    ASSERT_TRUE(outcome.error) << row.path;
    EXPECT_EQ(outcome.error->param, ParamOf(sibling)) << outcome.error->message;
    EXPECT_EQ(outcome.error->code, "unknown_parameter") << row.path;
  }
}

TEST_P(FieldsTest, TheDocumentHasTheSameTable) {
  const auto path = EndpointPath(GetParam());
  std::ifstream file(HONE_API_DOC);
  std::stringstream buffer;
  buffer << file.rdbuf();
  const std::string document = buffer.str();
  const std::string begin = StrCat("<!-- fields of ", path, " -->\n");
  const std::size_t at = document.find(begin);
  ASSERT_NE(at, std::string::npos) << begin;
  const std::size_t from = at + begin.size();
  const std::size_t end = document.find("<!-- end -->", from);
  ASSERT_NE(end, std::string::npos);
  const std::string wanted = FieldTable(GetParam());
  EXPECT_TRUE(document.substr(from, end - from) == wanted)
      << "docs/api.md should have, between its comments:\n"
      << begin << wanted << "<!-- end -->";
}

INSTANTIATE_TEST_SUITE_P(Endpoints, FieldsTest, testing::ValuesIn(kEndpoints),
                         [](const testing::TestParamInfo<Endpoint>& param) {
                           std::string name(EndpointPath(param.param).substr(1));
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace hone::serve::openai
