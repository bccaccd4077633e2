// Tensors in pieces over several files: read by any other cut, and refused where something is missing.
#include "checkpoint/cut.h"

#include "samples.h"

namespace strata::test {
namespace {

using checkpoint::CutTensors;
using checkpoint::SafetensorsFile;

void write_file_of(const std::string& path, const std::vector<double>& values, const std::string& shape,
                   const std::string& pieces) {
  std::string data(values.size() * sizeof(double), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  write_safetensors(path,
                    concat("{\"__metadata__\":{", pieces, "},\"m\":{\"dtype\":\"F64\",\"shape\":", shape,
                           ",\"data_offsets\":[0,", data.size(), "]}}"),
                    data);
}

std::string piece(std::int64_t offset, const std::string& shape = "[2, 3]") {
  return concat(R"("pieces":"{\"m\": {\"offset\": )", offset, R"(, \"shape\": )", shape, R"(}}")");
}

struct Files {
  // One file for each piece of [2, 3]: its values begin at `offset`.
  explicit Files(const std::vector<std::pair<std::int64_t, std::vector<double>>>& pieces) {
    for (const auto& [offset, values] : pieces) {
      paths.push_back(folder / std::to_string(paths.size()));
      write_file_of(paths.back(), values, concat("[", values.size(), "]"), piece(offset));
    }
  }
  CutTensors open() const {
    std::vector<SafetensorsFile> files;
    for (const std::string& path : paths) files.emplace_back(path);
    return CutTensors("here", std::move(files));
  }
  std::string fault() const {
    return message_of<InputError>([&] { open(); });
  }
  TempFolder folder;
  std::vector<std::string> paths;
};

TEST(CutTensors, AreReadByAnyOtherCut) {
  const CutTensors cut = Files({{3, {4, 5}}, {0, {1, 2, 3}}, {5, {6}}}).open();
  ASSERT_EQ(cut.all().size(), 1u);
  EXPECT_EQ(cut.all().at("m").shape, (std::vector<std::int64_t>{2, 3}));
  for (std::int64_t from = 0; from <= 6; ++from)
    for (std::int64_t count = 0; from + count <= 6; ++count) {
      std::vector<double> want;
      for (std::int64_t i = from; i < from + count; ++i) want.push_back(double(i + 1));
      EXPECT_EQ(cut.floats("m", from, count), want) << from << " " << count;
    }
  EXPECT_THROW(cut.floats("m", 4, 3), Error);
  EXPECT_THROW(cut.floats("none", 0, 1), InputError);
}

TEST(CutTensors, AreCompleteOrRefused) {
  EXPECT_EQ(Files({{0, {1, 2}}, {3, {4, 5, 6}}}).fault(), "here: elements [2, 3) of m are in no file");
  EXPECT_EQ(Files({{0, {1, 2, 3, 4}}}).fault(), "here: elements [4, 6) of m are in no file");
  EXPECT_EQ(Files({{1, {2, 3, 4, 5, 6}}}).fault(), "here: elements [0, 1) of m are in no file");
  EXPECT_EQ(Files({{0, {1, 2, 3, 4}}, {3, {4, 5, 6}}}).fault(),
            "here: elements [3, 4) of m are in two files");
  Files other({{0, {1, 2, 3, 4}}});
  other.paths.push_back(other.folder / "other");
  write_file_of(other.paths.back(), {5, 6}, "[2]", piece(4, "[3, 2]"));
  EXPECT_EQ(other.fault(), "here: m is [2, 3] in one file and [3, 2] in another");
}

TEST(CutTensors, OddPiecesAreRefused) {
  const TempFolder folder;
  const std::string path = folder / "f";
  const auto fault = [&](const std::string& pieces, const std::string& shape = "[2]") {
    write_file_of(path, {1, 2}, shape, pieces);
    return message_of<InputError>([&] { checkpoint::cuts_of(SafetensorsFile(path)); });
  };
  EXPECT_EQ(fault(piece(4)), "no error");
  const std::string where = path + ", metadata \"pieces\", tensor \"m\", ";
  EXPECT_EQ(fault(piece(5)), where + "is [2] from 5 of [2, 3]");
  EXPECT_EQ(fault(piece(-1)), where + "is [2] from -1 of [2, 3]");
  EXPECT_EQ(fault(piece(0), "[1, 2]"), where + "is [1, 2] from 0 of [2, 3]");
  EXPECT_NE(fault(piece(0, "[4294967296, 4294967296]")), "no error");
  EXPECT_NE(fault(piece(0, "[-2, -3]")), "no error");
  EXPECT_NE(fault(piece(9223372036854775807)), "no error");
  for (const char* text :
       {"[]x", "{", R"({\"m\": 3})", R"({\"m\": {\"offset\": 1}})",
        R"({\"m\": {\"offset\": 1.5, \"shape\": [6]}})", R"({\"m\": {\"offset\": 0, \"shape\": [\"6\"]}})",
        R"({\"other\": {\"offset\": 0, \"shape\": [6]}})"})
    EXPECT_NE(fault(concat(R"("pieces":")", text, "\"")), "no error") << text;
}

}  // namespace
}  // namespace strata::test
