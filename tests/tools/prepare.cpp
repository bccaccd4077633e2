// `strata prepare`: counts on stdout, progress on stderr, what is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include "strata_binary.h"

namespace strata::test {
namespace {

class PrepareCommand : public ::testing::Test {
 protected:
  PrepareCommand() {
    place.write("a.txt", "ab\n");
    place.write("b.jsonl", "{\"text\": \"c\"}\n{\"text\": \"\"}\n{\"text\": \"def\"}\n");
  }
  Outcome prepare(std::vector<std::string> more) const {
    std::vector<std::string> words{"prepare", "--output", "out"};
    words.insert(words.end(), more.begin(), more.end());
    return place.strata(words);
  }
  bool has(const std::string& file) const { return std::filesystem::exists(place.path(file)); }

  Workplace place;
};

TEST_F(PrepareCommand, PrintsExactCounts) {
  const Outcome o = prepare({"a.txt", "b.jsonl"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out,
            "documents        3\nempty, left out  1\ntokens           10\nbytes of text    7\n"
            "written          out.bin, out.idx\n");
  EXPECT_EQ(place.read("out.bin").size(), 20u);
  EXPECT_EQ(place.read("out.idx").size(), 34u + 3 * 12 + 4 * 8);
}

TEST_F(PrepareCommand, EndsDocumentsUnlessToldNotTo) {
  EXPECT_EQ(prepare({"a.txt", "--append-eod"}).status, 0);
  EXPECT_EQ(place.read("out.bin").size(), 8u);
  EXPECT_EQ(prepare({"a.txt", "--no-append-eod", "--overwrite"}).status, 0);
  EXPECT_EQ(place.read("out.bin").size(), 6u);
}

TEST_F(PrepareCommand, KeepsFilesThatAreThere) {
  place.write("out.idx", "mine");
  const Outcome o = prepare({"a.txt"});
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.err, "strata: out.idx exists already; choose another output, or replace it with --overwrite\n");
  EXPECT_EQ(place.read("out.idx"), "mine");
  EXPECT_FALSE(has("out.bin"));
}

TEST_F(PrepareCommand, FaultsAreToldAndLeaveNothing) {
  place.write("bad.jsonl", "{\"text\": \"c\"}\nnonsense\n");
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const Case cases[] = {
      {{"bad.jsonl"}, "bad.jsonl:2:2: not valid JSON: invalid literal"},
      {{"b.jsonl", "--jsonl-key", "txt"}, "b.jsonl:1: no key \"txt\""},
      {{"none.txt"}, "cannot read none.txt: No such file or directory"},
      {{"a.txt", "--tokenizer", "bpe"}, "prepare: --tokenizer is \"bpe\", allowed is \"byte\""},
      {{"a.txt", "--workers", "-1"}, "prepare: --workers: Value -1 not in range 0 to 1024"},
      {{}, "prepare: INPUT is required"},
  };
  for (const Case& c : cases) {
    const Outcome o = prepare(c.arguments);
    EXPECT_EQ(o.status, 2) << c.message;
    EXPECT_EQ(o.err, "strata: " + c.message + "\n");
    EXPECT_EQ(o.out, "");
    for (const char* file : {"out.bin", "out.idx", "out.bin.part", "out.idx.part"})
      EXPECT_FALSE(has(file)) << file;
  }
}

}  // namespace
}  // namespace strata::test
