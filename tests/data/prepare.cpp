// Text and JSONL into token files: exact counts, the same bytes at any number of workers, faults by line.
#include "data/prepare.h"

#include <numeric>

#include "data/files.h"
#include "data/text_input.h"
#include "data/token_file.h"
#include "tensor/host_batch.h"

namespace strata::test {
namespace {

using data::PrepareCounts;
using data::PrepareOptions;
using data::TokenFile;
using Ids = std::vector<std::int64_t>;
using namespace std::string_literals;

class Prepare : public ::testing::Test {
 protected:
  PrepareCounts prepare(const std::vector<std::string>& inputs, PrepareOptions options = {}) const {
    options.inputs = inputs;
    options.output = folder / "out";
    return data::prepare(options);
  }
  std::string refused(const std::vector<std::string>& inputs, const PrepareOptions& options = {}) const {
    return refusal([&] { prepare(inputs, options); });
  }
  // Documents as text, with | for the end of a document.
  std::vector<std::string> documents() const {
    const TokenFile file(folder / "out");
    std::vector<std::string> all;
    for (std::int64_t d = 0; d < file.documents(); ++d) {
      Ids ids(std::size_t(file.document_begin(d + 1) - file.document_begin(d)));
      file.read(file.document_begin(d), ids, 257);
      std::string text;
      for (const std::int64_t id : ids) text += id == 256 ? '|' : char(id);
      all.push_back(text);
    }
    return all;
  }
  bool left_nothing() const {
    for (const std::string& name : names_in(folder.path()))
      if (name.starts_with("out")) return false;
    return true;
  }

  const Folder folder;
};

TEST_F(Prepare, TextAndJsonl) {
  const PrepareCounts counts = prepare(
      {folder.write("a.txt", "first\n\nfile\n"),
       folder.write("b.jsonl",
                    "{\"text\": \"one\"}\n{\"id\": [1, {\"text\": 2}], \"text\": \"tw\\u00f6\\n\"}\n\n \r\n"
                    "{\"text\": \"three\", \"meta\": null}\r\n{\"text\": \"last\"}"),
       folder.write("c.txt", "\xff\x00z"s)});
  EXPECT_EQ(documents(), (std::vector<std::string>{"first\n\nfile\n|", "one|", "tw\xc3\xb6\n|", "three|",
                                                   "last|", "\xff\x00z|"s}));
  EXPECT_EQ(counts.documents, 6);
  EXPECT_EQ(counts.empty, 0);
  EXPECT_EQ(counts.bytes, 12 + 3 + 5 + 5 + 4 + 3);
  EXPECT_EQ(counts.tokens, counts.bytes + 6);
  EXPECT_EQ(counts.bytes_read, counts.bytes_to_read);
}

TEST_F(Prepare, WithoutEndOfDocumentTokens) {
  const PrepareCounts counts =
      prepare({folder.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n")}, {.append_eod = false});
  EXPECT_EQ(documents(), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(counts.tokens, 6);
}

TEST_F(Prepare, AnotherKey) {
  prepare({folder.write("a.jsonl", "{\"text\": 1, \"body\": \"one\"}\n")}, {.jsonl_key = "body"});
  EXPECT_EQ(documents(), std::vector<std::string>{"one|"});
}

TEST_F(Prepare, EmptyDocumentsAreCountedAndLeftOut) {
  const PrepareCounts counts =
      prepare({folder.write("a.txt", ""), folder.write("b.jsonl", "{\"text\": \"\"}\n{\"text\": \"x\"}\n"),
               folder.write("c.jsonl", "")});
  EXPECT_EQ(documents(), std::vector<std::string>{"x|"});
  EXPECT_EQ(counts.documents, 1);
  EXPECT_EQ(counts.empty, 2);
  EXPECT_EQ(counts.tokens, 2);
}

// A corpus of about 20 MB: many pieces, lines across their ends, files that end at and beside those.
TEST_F(Prepare, SameBytesAtAnyNumberOfWorkers) {
  std::string lines, text;
  unsigned state = 1;
  std::int64_t count = 0, bytes = 0;
  while (lines.size() < (9 << 20)) {
    state = state * 1103515245u + 12345u;
    const std::size_t n = (state >> 16) % 3000;
    lines += "{\"text\": \"" + std::string(n, char('a' + count % 26)) + "\"}\n";
    count += n > 0;
    bytes += std::int64_t(n);
  }
  for (int i = 0; i < (8 << 20); ++i) text += char(i * 7);
  const std::vector<std::string> inputs{folder.write("a.jsonl", lines), folder.write("b.txt", text),
                                        folder.write("c.txt", text.substr(0, 4 << 20)),
                                        folder.write("d.txt", text.substr(0, (4 << 20) + 1))};
  std::string bin, idx;
  for (const std::int64_t workers : {1, 2, 7}) {
    const PrepareCounts counts = prepare(inputs, {.workers = workers, .overwrite = true});
    EXPECT_EQ(counts.documents, count + 3);
    EXPECT_EQ(counts.bytes, bytes + (16 << 20) + 1);
    EXPECT_EQ(counts.tokens, counts.bytes + counts.documents);
    EXPECT_EQ(TokenFile(folder / "out").documents(), counts.documents);
    EXPECT_EQ(TokenFile(folder / "out").tokens(), counts.tokens);
    if (bin.empty()) bin = read_file(folder / "out.bin"), idx = read_file(folder / "out.idx");
    EXPECT_TRUE(read_file(folder / "out.bin") == bin) << workers;
    EXPECT_TRUE(read_file(folder / "out.idx") == idx) << workers;
  }
  // A file of exactly two pieces is one document like any other.
  const TokenFile out(folder / "out");
  EXPECT_EQ(out.document_begin(count + 1) - out.document_begin(count), (8 << 20) + 1);
}

TEST_F(Prepare, BadLinesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"{\"text\": \"x\"", ":13: not valid JSON: unexpected end of input; expected '}'"},
      {"{\"text\": \"x\"} {", ":15: not valid JSON: unexpected '{'; expected end of input"},
      {"hello", ":1: not valid JSON: invalid literal"},
      {"{'text': 'x'}", ":2: not valid JSON: invalid literal"},
      {"{\"text\": \"\xff\"}", ":11: not valid JSON: invalid string: ill-formed UTF-8 byte"},
      {"{\"text\": \"\\ud800\"}",
       ":17: not valid JSON: invalid string: surrogate U+D800..U+DBFF must be followed "
       "by U+DC00..U+DFFF"},
      {"[\"x\"]", ": the line is not a JSON object"},
      {"\"text\"", ": the line is not a JSON object"},
      {"17", ": the line is not a JSON object"},
      {"{}", ": no key \"text\""},
      {"{\"Text\": \"x\"}", ": no key \"text\""},
      {"{\"a\": {\"text\": \"x\"}}", ": no key \"text\""},
      {"{\"text\": null}", ": \"text\" is not a string"},
      {"{\"text\": 3}", ": \"text\" is not a string"},
      {"{\"text\": [\"x\"]}", ": \"text\" is not a string"},
      {"{\"text\": {\"text\": \"x\"}}", ": \"text\" is not a string"},
      {"{\"text\": \"x\", \"text\": \"y\"}", ": the key \"text\" is there twice"},
  };
  for (const auto& [line, fault] : lines) {
    const std::string file =
        folder.write("bad.jsonl", "{\"text\": \"fine\"}\n\n" + line + "\n{\"text\": \"fine\"}\n");
    EXPECT_EQ(refused({file}).substr(0, file.size() + 2 + fault.size()), file + ":3" + fault) << line;
    EXPECT_TRUE(left_nothing()) << line;
  }
}

TEST_F(Prepare, TheFirstBadLineIsNamedWhateverWorkerFindsIt) {
  std::string lines;
  for (int i = 1; i <= 400000; ++i)
    lines += i == 120000 || i == 390000 ? "bad\n" : "{\"text\": \"0123456789\"}\n";
  const std::string file = folder.write("a.jsonl", lines);
  for (const std::int64_t workers : {1, 5})
    EXPECT_TRUE(refused({file}, {.workers = workers}).starts_with(file + ":120000:1: not valid JSON"))
        << workers;
  EXPECT_TRUE(left_nothing());
}

TEST_F(Prepare, InputsThatCannotBeRead) {
  const std::string fine = folder.write("a.txt", "x");
  EXPECT_EQ(refused({fine, folder / "none.txt"}),
            "cannot read " + folder / "none.txt: No such file or directory");
  EXPECT_EQ(
      refused({folder.write("a.csv", "x")}),
      "cannot tell what " + folder / "a.csv is: a name ends in .txt (one document) or .jsonl (one a line)");
  std::filesystem::create_directory(folder / "d.txt");
  EXPECT_EQ(refused({folder / "d.txt"}),
            "cannot read " + folder / "d.txt: it is a folder; name its .txt and .jsonl files");
  EXPECT_TRUE(left_nothing());
}

TEST_F(Prepare, ReportsProgress) {
  std::vector<std::int64_t> read;
  data::prepare({.inputs = {folder.write("a.txt", std::string(9 << 20, 'x'))}, .output = folder / "out"},
                [&](const PrepareCounts& c) {
                  read.push_back(c.bytes_read);
                  EXPECT_EQ(c.bytes_to_read, 9 << 20);
                });
  EXPECT_EQ(read, (std::vector<std::int64_t>{4 << 20, 8 << 20, 9 << 20}));
}

TEST(ByteTokenizer, GivesBytesBack) {
  const data::ByteTokenizer tokenizer;
  std::string text(256, 0), back;
  std::iota(text.begin(), text.end(), 0);
  std::vector<std::int32_t> ids{7};
  tokenizer.encode(text, ids);
  ASSERT_EQ(ids.size(), 257u);
  EXPECT_EQ(ids[0], 7) << "ids are added at the end";
  for (std::size_t i = 1; i < ids.size(); ++i) back += tokenizer.decode(ids[i]);
  EXPECT_EQ(back, text);
  EXPECT_EQ(tokenizer.decode(256), "");
  EXPECT_EQ(tokenizer.vocabulary(), 257);
  EXPECT_EQ(tokenizer.bytes(255), 1);
  EXPECT_EQ(tokenizer.bytes(256), 0);
  EXPECT_EQ(tokenizer.bytes(kIgnoreLabel), 0);
  EXPECT_THROW(tokenizer.decode(257), Error);
}

// Needs to see what follows a run of letters, as byte-pair encodings do; ids are the lengths of words.
class WordTokenizer : public data::ByteTokenizer {
 public:
  std::size_t stable_prefix(std::string_view text) const override {
    const std::size_t blank = text.rfind(' ');
    return blank == std::string_view::npos ? 0 : blank;
  }
};

TEST(TextInput, PiecesEndWhereTheTokenizerAllows) {
  const Folder folder;
  std::string text;
  for (int i = 0; text.size() < (9 << 20); ++i) text += std::string(std::size_t(1 + i % 1000), 'w') + ' ';
  text += std::string(6 << 20, 'l');  // longer than a piece
  const WordTokenizer tokenizer;
  data::TextInput input({folder.write("a.txt", text)}, tokenizer);
  std::string all;
  int pieces = 0;
  while (const auto piece = input.next()) {
    EXPECT_TRUE(all.empty() || piece->text.starts_with(' '));
    all += piece->text;
    EXPECT_EQ(piece->ends_document, all.size() == text.size());
    ++pieces;
  }
  EXPECT_TRUE(all == text);
  EXPECT_GE(pieces, 3);
}

}  // namespace
}  // namespace strata::test
