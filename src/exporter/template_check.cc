// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/template_check.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <utility>

#include "exporter/template_probe.h"

namespace hone::exporter {
namespace {

// Methods of Python's strings, lists and mappings that LiteRT-LM does not know; it rewrites
// startswith, endswith, replace, split, join, strip, lstrip, rstrip and items.
constexpr auto kMissingMethods = std::to_array<std::string_view>(
    {"append",   "capitalize",   "casefold",     "center",       "clear",      "copy",
     "count",    "encode",       "expandtabs",   "extend",       "find",       "format",
     "get",      "index",        "insert",       "isalnum",      "isalpha",    "isdecimal",
     "isdigit",  "isidentifier", "islower",      "isnumeric",    "isspace",    "istitle",
     "isupper",  "keys",         "ljust",        "lower",        "partition",  "pop",
     "popitem",  "remove",       "removeprefix", "removesuffix", "reverse",    "rfind",
     "rindex",   "rjust",        "rpartition",   "rsplit",       "setdefault", "splitlines",
     "swapcase", "title",        "translate",    "update",       "upper",      "values",
     "zfill"});

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// The code of a template: [begin, end) inside each {% %} and {{ }}, comments and raw blocks left
// out. A tag that does not end, ends with the source.
struct Tag {
  std::size_t begin, end;
  bool statement;
};

// Past a string literal that begins at i.
std::size_t SkipString(std::string_view s, std::size_t i) {
  const char quote = s[i++];
  while (i < s.size() && s[i] != quote) i += s[i] == '\\' ? 2 : 1;
  return std::min(i + 1, s.size());
}

std::string_view FirstWord(std::string_view code) {
  std::size_t begin = 0;
  while (begin < code.size() && (IsSpace(code[begin]) || code[begin] == '-' || code[begin] == '+'))
    ++begin;
  std::size_t end = begin;
  while (end < code.size() && IsWord(code[end])) ++end;
  return code.substr(begin, end - begin);
}

std::size_t EndOfTag(std::string_view s, std::size_t i, std::string_view close) {
  while (i < s.size() && s.substr(i, 2) != close) {
    i = s[i] == '\'' || s[i] == '"' ? SkipString(s, i) : i + 1;
  }
  return std::min(i, s.size());
}

// Past the {% endraw %} behind i.
std::size_t SkipRaw(std::string_view s, std::size_t i) {
  while ((i = s.find("{%", i)) != std::string_view::npos) {
    const std::size_t end = std::min(s.find("%}", i), s.size());
    if (FirstWord(s.substr(i + 2, end - std::min(end, i + 2))) == "endraw") {
      return std::min(end + 2, s.size());
    }
    i += 2;
  }
  return s.size();
}

std::vector<Tag> FindTags(std::string_view s) {
  std::vector<Tag> tags;
  std::size_t i = 0;
  while ((i = s.find('{', i)) != std::string_view::npos && i + 1 < s.size()) {
    const char kind = s[i + 1];
    if (kind == '#') {
      i = std::min(s.find("#}", i + 2), s.size());
    } else if (kind == '%' || kind == '{') {
      const std::size_t end = EndOfTag(s, i + 2, kind == '%' ? "%}" : "}}");
      tags.push_back({i + 2, end, kind == '%'});
      const bool raw = kind == '%' && FirstWord(s.substr(i + 2, end - i - 2)) == "raw";
      i = std::min(end + 2, s.size());
      if (raw) i = SkipRaw(s, i);
    } else {
      ++i;
    }
  }
  return tags;
}

// Calls visit(position, word, arguments begin) for each word of the code that stands before "(".
// Strings are passed over.
void VisitCalls(
    std::string_view s, const Tag& tag,
    const std::function<void(std::size_t pos, std::string_view word, std::size_t open)>& visit) {
  std::size_t i = tag.begin;
  while (i < tag.end) {
    if (s[i] == '\'' || s[i] == '"') {
      i = SkipString(s, i);
    } else if (IsWord(s[i])) {
      const std::size_t begin = i;
      while (i < tag.end && IsWord(s[i])) ++i;
      std::size_t open = i;
      while (open < tag.end && IsSpace(s[open])) ++open;
      if (open < tag.end && s[open] == '(') visit(begin, s.substr(begin, i - begin), open);
    } else {
      ++i;
    }
  }
}

// The text between the bracket at open and the one that closes it, without white space around.
std::string_view Arguments(std::string_view s, std::size_t open, std::size_t end) {
  int depth = 0;
  std::size_t i = open;
  while (i < end) {
    if (s[i] == '\'' || s[i] == '"') {
      i = SkipString(s, i);
      continue;
    }
    if (s[i] == '(') ++depth;
    if (s[i] == ')' && --depth == 0) break;
    ++i;
  }
  std::string_view inside = s.substr(open + 1, std::min(i, end) - open - 1);
  while (!inside.empty() && IsSpace(inside.front())) inside.remove_prefix(1);
  while (!inside.empty() && IsSpace(inside.back())) inside.remove_suffix(1);
  return inside;
}

bool IsMethod(std::string_view s, std::size_t pos, std::size_t tag_begin) {
  while (pos > tag_begin && IsSpace(s[pos - 1])) --pos;
  return pos > tag_begin && s[pos - 1] == '.';
}

// A string literal that is the left operand of %.
bool FormatsString(std::string_view s, const Tag& tag, std::size_t* pos) {
  std::size_t i = tag.begin;
  while (i < tag.end) {
    if (s[i] != '\'' && s[i] != '"') {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    i = SkipString(s, i);
    std::size_t next = i;
    while (next < tag.end && IsSpace(s[next])) ++next;
    if (next < tag.end && s[next] == '%') {
      *pos = begin;
      return true;
    }
  }
  return false;
}

class Problems {
 public:
  explicit Problems(std::string_view source) : source_(source) {}
  // Keeps the first of each kind.
  void Add(std::size_t pos, const std::string& what) {
    if (std::find(kinds_.begin(), kinds_.end(), what) != kinds_.end()) return;
    kinds_.push_back(what);
    const auto line =
        1 + std::count(source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(pos), '\n');
    sentences.push_back(StrCat("line ", line, ": ", what));
  }
  std::vector<std::string> sentences;

 private:
  std::string_view source_;
  std::vector<std::string> kinds_;
};

void FindInSource(std::string_view s, Problems& problems) {
  for (const Tag& tag : FindTags(s)) {
    if (tag.statement) {
      const std::string_view word = FirstWord(s.substr(tag.begin, tag.end - tag.begin));
      if (word == "break" || word == "continue") {
        problems.Add(tag.begin, StrCat("{% ", word, " %} is an unknown statement there"));
      }
    }
    VisitCalls(s, tag, [&](std::size_t pos, std::string_view word, std::size_t open) {
      if (word == "tojson" && !Arguments(s, open, tag.end).empty()) {
        problems.Add(pos, "tojson takes no arguments there");
      }
      if (IsMethod(s, pos, tag.begin) && std::find(kMissingMethods.begin(), kMissingMethods.end(),
                                                   word) != kMissingMethods.end()) {
        problems.Add(pos, StrCat("the method .", word, "() does not exist there"));
      }
    });
    std::size_t pos = 0;
    if (FormatsString(s, tag, &pos)) {
      problems.Add(pos, "the operator % does not format strings there");
    }
  }
}

// What a template does with content that is a list of text parts; "" if the text comes through.
std::string ProblemWithParts(const bridge::ChatTemplate& compiled, const formats::TextFacts& text) {
  const auto plain = RenderProbe(compiled, text, {});
  if (!plain.ok()) return "";  // nothing to compare with; the caller reports the failure
  const auto parts = RenderProbe(compiled, text, {.content_as_parts = true});
  const std::string fact = "a message's content is a list of parts there";
  if (!parts.ok()) {
    return StrCat(fact, ", and the template uses it as a string: ", parts.message());
  }
  if (*plain == *parts) return "";
  if (parts->find(kProbeUser) == std::string::npos) {
    return StrCat(fact, ", and the template drops its text");
  }
  return StrCat(fact, ", and the template renders it differently from a string");
}

constexpr std::string_view kPrologue =
    R"({%- set hone = namespace(messages=[], text='', plain=false) -%}
{%- for message in messages -%}
  {%- set hone.text = '' -%}
  {%- set hone.plain = message.content is defined and message.content is iterable and message.content is not string and message.content is not mapping -%}
  {%- if hone.plain -%}
    {%- for part in message.content -%}
      {%- if part is mapping and part.type == 'text' and part.text is string -%}
        {%- set hone.text = hone.text ~ part.text -%}
      {%- else -%}
        {%- set hone.plain = false -%}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {%- if hone.plain -%}
    {%- set hone.messages = hone.messages + [dict(message, content=hone.text)] -%}
  {%- else -%}
    {%- set hone.messages = hone.messages + [message] -%}
  {%- endif -%}
{%- endfor -%}
{%- set messages = hone.messages %}
)";

// tojson(ensure_ascii=False) -> tojson.
std::string DropEnsureAscii(std::string_view s) {
  std::vector<std::pair<std::size_t, std::size_t>> cuts;
  for (const Tag& tag : FindTags(s)) {
    VisitCalls(s, tag, [&](std::size_t, std::string_view word, std::size_t open) {
      if (word != "tojson") return;
      const std::string_view arguments = Arguments(s, open, tag.end);
      std::string compact;
      for (const char c : arguments) {
        if (!IsSpace(c)) compact += c;
      }
      if (compact != "ensure_ascii=False" && compact != "ensure_ascii=false") return;
      const auto arguments_end =
          static_cast<std::size_t>(arguments.data() + arguments.size() - s.data());
      const std::size_t close = s.find(')', arguments_end);
      if (close != std::string_view::npos) cuts.emplace_back(open, close + 1);
    });
  }
  std::string out;
  std::size_t from = 0;
  for (const auto& [begin, end] : cuts) {
    out += s.substr(from, begin - from);
    from = end;
  }
  return out + std::string(s.substr(from));
}

}  // namespace

std::vector<std::string> FindTemplateProblems(std::string_view source,
                                              const bridge::ChatTemplate& compiled,
                                              const formats::TextFacts& text) {
  Problems problems(source);
  FindInSource(source, problems);
  const std::string parts = ProblemWithParts(compiled, text);
  if (!parts.empty()) problems.sentences.push_back(parts);
  return std::move(problems.sentences);
}

Result<WrappedTemplate> WrapTemplate(std::string_view source, const bridge::ChatTemplate& compiled,
                                     const formats::TextFacts& text) {
  const std::string body = DropEnsureAscii(source);
  WrappedTemplate wrapped{.source = std::string(kPrologue) + body, .problems = {}};
  const auto failed = [](std::string_view why) {
    return Status(Code::kUnsupported,
                  StrCat("chat_template: no wrapped form was found that renders the same text (",
                         why, "); convert without --template-compat"));
  };
  auto again = bridge::ChatTemplate::Compile(wrapped.source);
  if (!again.ok()) return failed(again.message());
  for (const bool with_tools : {false, true}) {
    const auto want = RenderProbe(compiled, text, {.with_tools = with_tools});
    if (!want.ok()) continue;  // what the original refuses, the wrapped one may refuse as well
    for (const bool as_parts : {false, true}) {
      const auto got =
          RenderProbe(*again, text, {.content_as_parts = as_parts, .with_tools = with_tools});
      if (!got.ok()) return failed(got.message());
      if (*got != *want) return failed("the text of a probe conversation differs");
    }
  }
  wrapped.problems = FindTemplateProblems(body, *again, text);
  return wrapped;
}

}  // namespace hone::exporter
