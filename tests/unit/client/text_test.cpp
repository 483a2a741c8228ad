#include "client/render/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace laggard::client {
namespace {

using testing::ElementsAre;

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("line\nnext\ttab\r\x7f"), "line\\x0anext\\x09tab\\x0d\\x7f");
  EXPECT_EQ(printable("c1 \xc2\x9b"), "c1 \\x9b");        // CSI as one character
  EXPECT_EQ(printable("\xe2\x80\xaegpj"), "\\u202egpj");  // right-to-left override
  EXPECT_EQ(printable("\xe2\x81\xa6x\xe2\x80\xa8"), "\\u2066x\\u2028");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, KeepsText) { EXPECT_EQ(printable("stage_1 Größe 前向 🚀"), "stage_1 Größe 前向 🚀"); }

TEST(Printable, EscapesBrokenUtf8ByteByByte) {
  EXPECT_EQ(printable("\xff"
                      "a"),
            "\\xffa");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                             // cut off
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
}

TEST(PrintableJson, StaysTheSameJson) {
  EXPECT_EQ(printable_json("{\n \"a\": \"\xc2\x9b"
                           "x\"\n}"),
            "{\n \"a\": \"\\u009bx\"\n}");
  EXPECT_EQ(printable_json("\"\xe2\x80\xae\x7f ü\""), "\"\\u202e\\u007f ü\"");
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("ü"), 1U);
  EXPECT_EQ(display_width("前向"), 4U);
  EXPECT_EQ(display_width("e\xcc\x81"), 1U);  // combining accent
  EXPECT_EQ(display_width("▁█"), 2U);
}

TEST(Shorten, CutsAtColumns) {
  EXPECT_EQ(shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(shorten("abcdefg", 6), "abcde…");
  // The second wide character would need columns 3 and 4, and the mark needs one.
  EXPECT_EQ(shorten("前向き", 4), "前…");
}

TEST(Wrap, BreaksAtSpaces) {
  EXPECT_THAT(wrap("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrap("averylongword x", 5), ElementsAre("averylongword", "x"));
  EXPECT_THAT(wrap("", 5), ElementsAre(""));
}

}  // namespace
}  // namespace laggard::client
