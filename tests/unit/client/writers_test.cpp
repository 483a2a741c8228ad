#include "client/render/writers.h"

#include <gtest/gtest.h>

#include "client/render/output.h"

namespace laggard::client {
namespace {

Table sample() {
  Cell child("child");
  child.indent = 1;
  Cell part(2.25, 1);
  part.note = "(1 of 2)";
  return {"",
          {{"name", "name", Align::left},
           {"value_ms", "value ms"},
           {"extra", "extra", Align::right, Show::wide},
           {"raw", "raw", Align::right, Show::programs},
           {"age", "age", Align::right, Show::people}},
          {{"parent", Cell(10.0, 3), Cell(std::int64_t{7}), Cell(0.1, 2), "3 s"}, {child, part, {}, {}, {}}}};
}

TEST(TextTable, AlignsAndShowsAbsentAsADash) {
  EXPECT_EQ(text_table(sample(), {}),
            "name     value ms           extra  age\n"
            "-------  -----------------  -----  ---\n"
            "parent     10.000               7  3 s\n"
            "  child       2.2 (1 of 2)      -    -\n");
}

TEST(TextTable, DropsWideColumnsFirstAndSaysSo) {
  EXPECT_EQ(text_table(sample(), {.columns = 34, .color = false}),
            "name     value ms           age\n"
            "-------  -----------------  ---\n"
            "parent     10.000           3 s\n"
            "  child       2.2 (1 of 2)    -\n"
            "(too narrow for: extra)\n");
}

TEST(TextTable, BreaksIntoPanels) {
  EXPECT_EQ(text_table(sample(), {.columns = 28, .color = false}),
            "name     value ms\n"
            "-------  -----------------\n"
            "parent     10.000\n"
            "  child       2.2 (1 of 2)\n"
            "\n"
            "name     age\n"
            "-------  ---\n"
            "parent   3 s\n"
            "  child    -\n"
            "(too narrow for: extra)\n");
}

TEST(TextTable, CutsTextOnlyOnATerminal) {
  const std::string name(60, 'x');
  const Table table{"", {{"name", "name", Align::left}}, {{Cell(name)}}};
  EXPECT_NE(text_table(table, {}).find(name), std::string::npos);
  EXPECT_NE(text_table(table, {.columns = 40, .color = false}).find(std::string(19, 'x') + "…"),
            std::string::npos);
}

TEST(TextTable, ColoursOnlyWhenAsked) {
  const Table table{"", {{"state", "state", Align::left}}, {{Cell("lost", Tone::bad)}}};
  EXPECT_EQ(text_table(table, {.columns = 80, .color = true}),
            "\x1b[1mstate\x1b[0m\n\x1b[2m-----\x1b[0m\n\x1b[31mlost \x1b[0m\n");
  EXPECT_EQ(text_table(table, {}).find('\x1b'), std::string::npos);
}

TEST(TextTable, MeasuresWideCharacters) {
  const Table table{"", {{"a", "a", Align::left}, {"b", "b"}}, {{"前向", "1"}, {"x", "2"}}};
  EXPECT_EQ(text_table(table, {}), "a     b\n----  -\n前向  1\nx     2\n");
}

TEST(Csv, GivesProgramsEveryDigitAndNoNotes) {
  EXPECT_EQ(csv_table(sample(), false), "name,value_ms,extra,raw\nparent,10,7,0.1\nchild,2.25,,\n");
}

TEST(Csv, QuotesAsRfc4180Does) {
  const Table table{"", {{"a", "a"}}, {{"x,y"}, {"say \"hi\""}, {"two\nlines"}, {" plain"}}};
  EXPECT_EQ(csv_table(table, false), "a\n\"x,y\"\n\"say \"\"hi\"\"\"\n\"two\nlines\"\n plain\n");
}

TEST(Csv, NoTextIsAFormula) {
  const Table table{"", {{"a", "a"}}, {{"=1+1"}, {"@x"}, {"-x,y"}, {"+1"}, {Cell(-1.5, 1)}}};
  EXPECT_EQ(csv_table(table, false), "a\n'=1+1\n'@x\n\"'-x,y\"\n'+1\n-1.5\n");
}

TEST(Csv, EscapesControlCharactersOnATerminalOnly) {
  const Table table{"", {{"a", "a"}}, {{"\x1b[2J"}}};
  EXPECT_EQ(csv_table(table, true), "a\n\\x1b[2J\n");
  EXPECT_EQ(csv_table(table, false), "a\n\x1b[2J\n");
}

TEST(Markdown, IsATableAndNothingElse) {
  Cell child("a_b|c <img> `x` *y* _z_ @team");
  child.indent = 1;
  const Table table{"", {{"s", "stage", Align::left}, {"m", "mean"}}, {{child, Cell(1.0, 2)}}};
  EXPECT_EQ(markdown_table(table),
            "| stage | mean |\n"
            "|---|---:|\n"
            "| &nbsp;&nbsp;a_b\\|c \\<img\\> \\`x\\` \\*y\\* \\_z\\_ &#64;team | 1.00 |\n");
}

TEST(Markdown, ALineEndStaysInItsCell) {
  const Table table{"", {{"s", "s", Align::left}}, {{"a\nb"}}};
  EXPECT_EQ(markdown_table(table), "| s |\n|---|\n| a\\\\x0ab |\n");
}

TEST(JsonLines, OneObjectARow) {
  EXPECT_EQ(json_lines(sample()),
            "{\"name\":\"parent\",\"value_ms\":10.0,\"extra\":7,\"raw\":0.1}\n"
            "{\"name\":\"child\",\"value_ms\":2.25,\"extra\":null,\"raw\":null}\n");
}

TEST(JsonLines, HarmlessOnATerminalAndStillTheSameText) {
  const Table table{"", {{"a", "a"}}, {{"\x1b[2J\xc2\x9b\xff"}}};
  EXPECT_EQ(json_lines(table), "{\"a\":\"\\u001b[2J\\u009b\xef\xbf\xbd\"}\n");
}

TEST(WriteView, AFactsLabelIsHarmlessToo) {
  const View view{{Facts{{"\x1b[2J", "one"}, {"", "two"}}}, {}, {}};
  EXPECT_EQ(write_view(view, {.terminal = true, .columns = 40}), "\\x1b[2J  one\n         two\n");
}

TEST(WriteView, WrapsFactsOnATerminalOnly) {
  const View view{{Facts{{"label", "one two three four five six seven eight nine"}}}, {}, {}};
  EXPECT_EQ(write_view(view, {.terminal = true, .columns = 40}),
            "label  one two three four five six seven\n"
            "       eight nine\n");
  EXPECT_EQ(write_view(view, {}), "label  one two three four five six seven eight nine\n");
}

}  // namespace
}  // namespace laggard::client
