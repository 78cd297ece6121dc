// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/chat_template.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace hone::bridge {
namespace {

Result<std::string> Render(const std::string& source, const std::string& context = "{}") {
  auto compiled = ChatTemplate::Compile(source);
  if (!compiled.ok()) return std::move(compiled).status();
  return compiled->Render(context, 0);
}

std::string Repeat(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

TEST(ChatTemplate, RendersFromManyThreads) {
  auto compiled = ChatTemplate::Compile("{% for x in l %}{{ x }},{% endfor %}");
  ASSERT_TRUE(compiled.ok()) << compiled.message();
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const ChatTemplate copy = *compiled;
      for (int i = 0; i < 20; ++i) {
        const auto text = copy.Render(R"({"l": [1, "a", 1.5, null]})", 0);
        wrong[t] += text.ok() && *text == "1,a,1.5,None," ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(ChatTemplate, ReportsTheWordsOfRaiseException) {
  for (const char* source :
       {"{{ raise_exception('Only user and assistant roles are supported!') }}",
        "{% macro f() %}{{ raise_exception('Only user and assistant roles are supported!') }}"
        "{% endmacro %}{% for i in [1] %}{{ f() }}{% endfor %}"}) {
    const auto text = Render(source);
    EXPECT_EQ(text.code(), Code::kInvalidArgument);
    EXPECT_EQ(text.message(), "Only user and assistant roles are supported!");
  }
}

TEST(ChatTemplate, ErrorsSayLineAndReason) {
  const auto syntax = ChatTemplate::Compile("a\nb{% for x in %}\n");
  EXPECT_EQ(syntax.code(), Code::kDataLoss);
  EXPECT_NE(syntax.message().find("line 2"), std::string::npos) << syntax.message();
  const auto open = ChatTemplate::Compile("{% for m in messages %}{{ m.content }}");
  EXPECT_EQ(open.code(), Code::kDataLoss);
  const auto undefined = Render("a\nb\n{{ m.content + 'x' }}", R"({"m": {}})");
  EXPECT_EQ(undefined.code(), Code::kUnsupported);
  EXPECT_NE(undefined.message().find("line 3"), std::string::npos) << undefined.message();
  EXPECT_NE(undefined.message().find("'m.content' is undefined"), std::string::npos)
      << undefined.message();
  const auto filter = Render("{{ x|nosuch }}");
  EXPECT_NE(filter.message().find("nosuch"), std::string::npos) << filter.message();
}

TEST(ChatTemplate, RefusesContextsThatAreNotObjects) {
  for (const char* context : {"", "[]", "1", "{", "{\"a\":}", "{\"a\":1}x", "{\"a\":01}",
                              "{\"a\":\"\\q\"}", "{\"a\":\"\xff\"}", "{\"a\":1e}", "{'a':1}",
                              "{\"a\":1234567890123456789012345678901234567890123}"}) {
    EXPECT_EQ(Render("x", context).code(), Code::kInvalidArgument) << context;
  }
  const auto deep = Render("x", "{\"a\":" + Repeat("[", 100000));
  EXPECT_EQ(deep.code(), Code::kInvalidArgument);
  EXPECT_NE(deep.message().find("200"), std::string::npos) << deep.message();
}

TEST(ChatTemplate, ReadsContextsAsPythonDoes) {
  EXPECT_EQ(*Render("{{ a }}", R"({"a": 12345678901234567890123})"), "12345678901234567890123");
  EXPECT_EQ(*Render("{{ a|tojson }}", R"({"a": {"z": 1, "b": [2], "z": 3}})"),
            R"({"z": 3, "b": [2]})");
  EXPECT_EQ(*Render("{{ a }}", R"({"a": "\ud83d\ude42\u00e9"})"), "🙂é");
  EXPECT_EQ(*Render("{{ a }}", R"({"a": "\ud83d!"})"), "\xef\xbf\xbd!");
  EXPECT_EQ(Render("{{ a }}", R"({"a": "x\u0000y"})")->size(), 3U);
  // A variable may be called as a method of dict.
  EXPECT_EQ(*Render("{{ items }}{{ keys }}", R"({"items": [1]})"), "[1]");
}

TEST(ChatTemplate, TellsTheTimeItIsGiven) {
  auto compiled = ChatTemplate::Compile("{{ strftime_now('%Y-%m-%d %H:%M:%S %a %j %-d') }}");
  ASSERT_TRUE(compiled.ok()) << compiled.message();
  EXPECT_EQ(*compiled->Render("{}", 0), "1970-01-01 00:00:00 Thu 001 1");
  EXPECT_EQ(*compiled->Render("{}", 951868799), "2000-02-29 23:59:59 Tue 060 29");
  EXPECT_EQ(*compiled->Render("{}", -1), "1969-12-31 23:59:59 Wed 365 31");
}

TEST(ChatTemplate, RefusesSourcesThatAreTooLarge) {
  const auto large = ChatTemplate::Compile(std::string((1 << 20) + 1, 'a'));
  EXPECT_EQ(large.code(), Code::kUnsupported);
  EXPECT_EQ(ChatTemplate::Compile("a\xff").code(), Code::kDataLoss);
}

// Chains that a recursive parser follows without an end of its own.
TEST(HostileTemplate, RefusesEndlessTags) {
  constexpr int kMany = 100000;
  for (const std::string& expression :
       {Repeat("-", kMany) + "1", Repeat("not ", kMany) + "1", "a" + Repeat("~a", kMany),
        "a" + Repeat(".a", kMany), "a" + Repeat("|f", kMany), "1" + Repeat("**1", kMany),
        Repeat("(", kMany) + "1" + Repeat(")", kMany)}) {
    const auto compiled = ChatTemplate::Compile("{{ " + expression + " }}");
    EXPECT_FALSE(compiled.ok()) << expression.substr(0, 20);
  }
  EXPECT_FALSE(ChatTemplate::Compile(Repeat("{% if 1 %}", 40000)).ok());
}

// The longest chains that are let through must fit the stack.
TEST(HostileTemplate, FollowsLongTagsOnADeepStack) {
  for (const std::string& expression :
       {Repeat("-", 3900) + "1", "1" + Repeat("~1", 1900), "1" + Repeat("**1", 1900),
        "'a'" + Repeat("|string", 1900), Repeat("(", 1900) + "1" + Repeat(")", 1900)}) {
    static_cast<void>(Render("{{ " + expression + " }}").ok());
  }
}

struct Hostile {
  const char* what;
  const char* source;
};

// Each would run for minutes, take gigabytes or overflow the stack if it were let.
TEST(HostileTemplate, StopsWorkThatHasNoEnd) {
  const Hostile cases[] = {
      {"nested loops",
       "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
       "{% endfor %}"},
      {"doubled text",
       "{% set n = namespace(x='a') %}{% for i in range(99) %}"
       "{% set n.x = n.x + n.x %}{% endfor %}"},
      {"long text", "{{ 'a' * 9999999999 }}"},
      {"long list", "{{ [1] * 9999999999 }}"},
      {"join", "{% set x = 'a' * 100000 %}{{ x.join(x) }}"},
      {"replace", "{% set x = 'a' * 100000 %}{{ x.replace('a', x) }}"},
      {"wide format", "{{ '{:>999999999}'.format('a') }}"},
      {"wide percent", "{{ '%999999999s' % 'a' }}"},
      {"precise percent", "{{ '%.999999999f' % 1.5 }}"},
      {"star percent", "{{ '%*s' % (999999999, 'a') }}"},
      {"wide method", "{{ 'a'.ljust(999999999) }}"},
      {"wide filter", "{{ 'a'|center(999999999) }}"},
      {"indented JSON", "{{ [1]|tojson(indent=999999999) }}"},
      {"endless macro", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"},
      {"endless loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
      {"deep list",
       "{% set n = namespace(x=[]) %}{% for a in range(700) %}"
       "{% for i in range(200) %}{% set n.x = [n.x] %}{% endfor %}{% endfor %}"
       "{{ n.x }}"},
  };
  for (const Hostile& hostile : cases) {
    const auto text = Render(hostile.source);
    EXPECT_EQ(text.code(), Code::kUnsupported) << hostile.what << ": " << text.message();
  }
}

// Lists that hold a list twice, again and again: small in memory, endless to walk.
void ExpectRefusedSharing(const std::string& pair, const std::string& use) {
  const std::string source =
      "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(64) %}{% set n.x = " + pair +
      " %}{% endfor %}" + use;
  const auto text = Render(source);
  EXPECT_EQ(text.code(), Code::kUnsupported) << pair << use;
}

TEST(HostileTemplate, RefusesSequencesThatShareTooMuch) {
  ExpectRefusedSharing("[n.x, n.x]", "{{ n.x == n.y }}");
  ExpectRefusedSharing("(n.x, n.x)", "{{ '' ~ n.x }}");
}

TEST(HostileTemplate, RefusesMapsThatShareTooMuch) {
  ExpectRefusedSharing("{1: n.x, 2: n.x}", "{{ n.x }}");
  ExpectRefusedSharing("dict(a=n.x, b=n.x)", "{{ n.x }}");
}

TEST(HostileTemplate, RefusesSumsThatShareTooMuch) {
  ExpectRefusedSharing("[n.x] + [n.x]", "{{ n.x }}");
}

TEST(HostileTemplate, RefusesProductsThatShareTooMuch) {
  ExpectRefusedSharing("[n.x] * 2", "{{ n.x }}");
}

TEST(HostileTemplate, RefusesNamespacesInsideValues) {
  for (const char* set : {"n.x = n", "n.x = [n]", "n.x = {'a': [n]}"}) {
    const auto text = Render(std::string("{% set n = namespace() %}{% set ") + set + " %}{{ n }}");
    EXPECT_EQ(text.code(), Code::kUnsupported) << set;
    EXPECT_NE(text.message().find("namespace"), std::string::npos) << text.message();
  }
}

}  // namespace
}  // namespace hone::bridge
