// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Text between XML tags: entities and CDATA.
#pragma once

#include <string>
#include <string_view>

namespace hone::chat {

// The text that raw stands for. &amp; &lt; &gt; &quot; &apos; &#10; &#xA; are replaced outside
// CDATA; any other & stays. A raw text that is one CDATA section as a whole (white space around it
// left out) is what is between its marks, also if that holds "]]>": chat templates wrap values
// without a look at them.
std::string TextOfXml(std::string_view raw);

// The value of the attribute "name" of a tag, given what is between its element's name and its >,
// as in ` name="f"`. Single or double quotes. False if there is anything else. closes: it ends in
// "/".
bool NameAttribute(std::string_view tag, std::string& name, bool& closes);

}  // namespace hone::chat
