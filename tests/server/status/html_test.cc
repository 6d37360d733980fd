// SPDX-License-Identifier: Apache-2.0
#include "server/status/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vicinal::server {
namespace {

using ::testing::HasSubstr;

TEST(HtmlTest, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(Escaped("<a href=\"x\" title='y'>&amp;</a>"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
  EXPECT_EQ(Escaped("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST(HtmlTest, ReplacesControlsAndWhatIsNotUtf8) {
  const std::string replaced = "\xEF\xBF\xBD";
  for (const std::string& bad : {std::string("\x1b"), std::string(1, '\0'), std::string("\n"), std::string("\x7f"),
                                 std::string("\x80"), std::string("\xff")}) {
    EXPECT_EQ(Escaped("a" + bad + "b"), "a" + replaced + "b");
  }
  // Overlong '<', a surrogate, beyond Unicode, cut off: a replacement for each byte, and no byte of them.
  for (const std::string& bad : {std::string("\xC0\xBC"), std::string("\xED\xA0\x80"), std::string("\xF4\x90\x80\x80"),
                                 std::string("\xE2\x82")}) {
    std::string expected;
    for (size_t i = 0; i < bad.size(); ++i) expected += replaced;
    EXPECT_EQ(Escaped(bad), expected);
  }
}

TEST(HtmlTest, WritesNumbersForPeople) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(CountText(-1000), "-1,000");
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(3 << 19), "1.5 MiB");
  EXPECT_EQ(SecondsText(0), "-");
  EXPECT_EQ(SecondsText(0.0000125), "12.5 us");
  EXPECT_EQ(SecondsText(0.0125), "12.5 ms");
  EXPECT_EQ(SecondsText(12.5), "12.5 s");
}

TEST(HtmlTest, TablesEscapeTheirCells) {
  HtmlTable table({"<t>"});
  EXPECT_EQ(table.Text("<none>"), "<p>&lt;none&gt;</p>\n");
  table.Add({"<c>"});
  table.AddLinked("/x", {"<d>", "<e>"});
  EXPECT_THAT(table.Text(""), HasSubstr("<td>&lt;c&gt;</td>"));
  EXPECT_THAT(table.Text(""), HasSubstr("<a href=\"/x\">&lt;d&gt;</a></td><td>&lt;e&gt;</td>"));
  EXPECT_THAT(table.Text(""), HasSubstr("<th>&lt;t&gt;</th>"));
}

}  // namespace
}  // namespace vicinal::server
