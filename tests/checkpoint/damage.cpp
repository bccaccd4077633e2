// Checkpoints damaged in every way: each is named in one sentence, set aside and passed over.
#include "checkpoint/digest.h"
#include "samples.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using checkpoint::Manifest;
using checkpoint::manifest_text;
using checkpoint::parse_manifest;
using Names = std::vector<std::string>;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// A manifest's text with the checksum that belongs to it.
std::string sealed(std::string text) {
  const std::size_t digits = std::string("{\n  \"checksum\": \"").size();
  text.replace(digits, 16, 16, '0');
  return text.replace(digits, 16, checkpoint::digest_of(text));
}

class Damage : public ::testing::Test {
 protected:
  Damage() : store(folder.path(), {}) {
    store.save(sample_snapshot(10));
    store.save(sample_snapshot(20));
  }
  std::string file(const std::string& name) const { return folder / "step_00000020/" + name; }
  void edit_manifest(const std::string& from, const std::string& to) const {
    write_file(file("manifest.json"), replaced(read_file(file("manifest.json")), from, to));
  }
  // Step 20 is passed over; the fault that the report names.
  std::string fault() {
    const Found found = find_newest(store);
    EXPECT_TRUE(found.opened && found.opened->step() == 10);
    EXPECT_EQ(found.reports.size(), 1u);
    if (found.reports.empty()) return "no report";
    EXPECT_EQ(names_in(folder.path()), (Names{"step_00000010", "step_00000020.damaged"}));
    const std::string start = folder.path() + "/step_00000020 is damaged and passed over: ",
                      end = "; set aside as step_00000020.damaged", &text = found.reports[0];
    if (!text.starts_with(start) || !text.ends_with(end)) return "whole sentence: " + text;
    return text.substr(start.size(), text.size() - start.size() - end.size());
  }

  const TempFolder folder;
  CheckpointStore store;
};

TEST_F(Damage, OneBitOfAFile) {
  store.set_faults({.flip_bit = true});
  store.save(sample_snapshot(20));
  const std::string text = fault();
  EXPECT_TRUE(text.starts_with("model.safetensors has checksum ")) << text;
  EXPECT_TRUE(text.ends_with(" was saved")) << text;
}

TEST_F(Damage, OneBitAnywhere) {
  for (const std::string& name : names_in(folder / "step_00000020")) {
    const std::string whole = read_file(file(name));
    for (std::size_t i = 0; i < whole.size(); i += name == "manifest.json" ? 1 : 5) {
      std::string bytes = whole;
      bytes[i] = char(bytes[i] ^ 1 << i % 8);
      write_file(file(name), bytes);
      EXPECT_FALSE(checkpoint::verify(folder / "step_00000020").sound()) << name << " byte " << i;
    }
    write_file(file(name), whole);
  }
  EXPECT_TRUE(checkpoint::verify(folder / "step_00000020").sound());
}

TEST_F(Damage, CutAnywhere) {
  for (const std::string& name : names_in(folder / "step_00000020")) {
    const std::string whole = read_file(file(name));
    for (std::size_t size = 0; size < whole.size(); size += 7) {
      write_file(file(name), whole.substr(0, size));
      EXPECT_FALSE(checkpoint::verify(folder / "step_00000020", checkpoint::Check::Sizes).sound())
          << name << " " << size;
    }
    write_file(file(name), whole);
  }
}

TEST_F(Damage, AFileTooShort) {
  const std::string text = read_file(file("state.json"));
  write_file(file("state.json"), text.substr(1));
  EXPECT_EQ(fault(), concat("state.json has ", text.size() - 1, " bytes, ", text.size(), " were saved"));
}

TEST_F(Damage, AFileMissing) {
  fs::remove(file("optimizer.safetensors"));
  EXPECT_EQ(fault(), "optimizer.safetensors is missing");
}

TEST_F(Damage, AFolderInAFilesPlace) {
  fs::remove(file("config.json"));
  fs::create_directories(file("config.json"));
  EXPECT_EQ(fault(), "config.json is missing");
}

TEST_F(Damage, SeveralFaultsAreCounted) {
  fs::remove(file("config.json"));
  fs::remove(file("state.json"));
  EXPECT_EQ(fault(), "config.json is missing (and 1 more)");
}

TEST_F(Damage, ManifestMissing) {
  fs::remove(file("manifest.json"));
  EXPECT_EQ(fault(), "manifest.json is missing");
}

TEST_F(Damage, ManifestEmpty) {
  write_file(file("manifest.json"), "");
  EXPECT_EQ(fault(), "manifest.json: is empty, expected a JSON object");
}

TEST_F(Damage, ManifestCutShort) {
  const std::string text = read_file(file("manifest.json"));
  write_file(file("manifest.json"), text.substr(0, text.size() / 2));
  EXPECT_TRUE(fault().starts_with("manifest.json:")) << "line, column and what JSON misses";
}

TEST_F(Damage, ManifestOfAnotherStep) {
  write_file(file("manifest.json"), read_file(folder / "step_00000010/manifest.json"));
  EXPECT_TRUE(fault().starts_with("manifest.json is of step 10")) << "and its files differ";
}

TEST_F(Damage, ManifestChanged) {
  edit_manifest("\"step\": 20", "\"step\": 21");
  const std::string text = fault();
  EXPECT_TRUE(text.starts_with("manifest.json has checksum ")) << text;
}

TEST_F(Damage, ManifestTooLarge) {
  write_file(file("manifest.json"), std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(fault(), "manifest.json has 1048577 bytes, at most 1048576 are allowed");
}

TEST_F(Damage, ManifestOfAnotherVersionIsNoDamage) {
  edit_manifest("\"version\": 1", "\"version\": 2");
  EXPECT_TRUE(message_of([&] {
                checkpoint::open_checkpoint(folder / "step_00000020");
              }).find("manifest.json has checksum") != std::string::npos)
      << "a changed digit is damage";
  write_file(file("manifest.json"), sealed(read_file(file("manifest.json"))));
  EXPECT_EQ(
      message_of<InputError>([&] { find_newest(store); }),
      folder.path() + "/step_00000020: manifest.json is of format version 2, this program reads version 1");
  EXPECT_EQ(names_in(folder.path()), (Names{"step_00000010", "step_00000020"})) << "nothing is set aside";
}

TEST_F(Damage, AnExtraFileIsOnlyRemarked) {
  write_file(file("notes.txt"), "mine");
  const checkpoint::Verification v = checkpoint::verify(folder / "step_00000020");
  EXPECT_TRUE(v.sound());
  EXPECT_EQ(v.remarks, Names{"notes.txt is not in the manifest"});
  EXPECT_EQ(find_newest(store).opened->step(), 20);
}

TEST_F(Damage, SizesAloneDoNotSeeABit) {
  store.set_faults({.flip_bit = true});
  store.save(sample_snapshot(20));
  EXPECT_EQ(find_newest(store, checkpoint::Check::Sizes).opened->step(), 20);
  EXPECT_EQ(find_newest(store).opened->step(), 10);
}

TEST_F(Damage, TwiceAndThenNoneIsLeft) {
  for (const int n : {1, 2}) {
    store.set_faults({.flip_bit = true});
    store.save(sample_snapshot(20));
    EXPECT_EQ(find_newest(store).opened->step(), 10) << n;
  }
  EXPECT_EQ(names_in(folder.path()),
            (Names{"step_00000010", "step_00000020.damaged", "step_00000020.damaged-2"}));
  fs::remove(folder / "step_00000010/manifest.json");
  const Found found = find_newest(store);
  EXPECT_FALSE(found.opened);
  EXPECT_EQ(found.reports.size(), 1u);
}

TEST(ManifestText, RoundTrip) {
  const Manifest m{
      7, {{"a.json", {3, "0123456789abcdef"}}, {"w\"\n.safetensors", {1LL << 60, "ffffffffffffffff"}}}};
  EXPECT_EQ(parse_manifest(manifest_text(m), "m"), m);
  const Manifest none{0, {}};
  EXPECT_EQ(parse_manifest(manifest_text(none), "m"), none);
}

TEST(ManifestText, WhatIsNotExactlyRightIsRefused) {
  const std::string good = manifest_text({7, {{"a.json", {3, "0123456789abcdef"}}}});
  const struct {
    std::string from, to, fault;
  } all[] = {
      {"\"step\": 7", "\"step\": -7", "m has -7 as \"step\""},
      {"\"step\": 7", "\"step\": 7.0", "m has 7.0 as \"step\""},
      {"\"step\": 7", "\"step\": \"7\"", "m has \"7\" as \"step\""},
      {"\"step\": 7", "\"step\": 18446744073709551616", "m has 18446744073709551616 as \"step\""},
      {"\"step\": 7,\n", "\n", "m lacks \"step\""},
      {"\"version\": 1,\n", "\n", "m lacks \"version\""},
      {"\"version\": 1", "\"version\": 0", "m is of format version 0, this program reads version 1"},
      {"\"version\": 1", "\"version\": true", "m has true as \"version\""},
      {"\"files\"", "\"file\"", "m lacks \"files\""},
      {"\"bytes\": 3", "\"bytes\": 9223372036854775808",
       "m, file \"a.json\", has 9223372036854775808 as \"bytes\""},
      {"\"bytes\": 3", "\"bytes\": -1", "m, file \"a.json\", has -1 as \"bytes\""},
      {"\"bytes\": 3", "\"bytes\": 1e3", "m, file \"a.json\", has 1e3 as \"bytes\""},
      {"\"bytes\": 3", "\"size\": 3", "m, file \"a.json\", lacks \"bytes\""},
      {"0123456789abcdef", "0123456789abcde",
       "m, file \"a.json\", has \"0123456789abcde\" as \"checksum\", allowed are 16 hexadecimal digits"},
      {"0123456789abcdef", "0123456789ABCDEF",
       "m, file \"a.json\", has \"0123456789ABCDEF\" as \"checksum\", allowed are 16 hexadecimal digits"},
      {"0123456789abcdef", "0123456789abcdef0",
       "m, file \"a.json\", has \"0123456789abcdef0\" as \"checksum\", allowed are 16 hexadecimal digits"},
      {"\"a.json\"", "\"../a.json\"", "m, file \"../a.json\", is no plain name"},
      {"\"a.json\"", "\"/etc/passwd\"", "m, file \"/etc/passwd\", is no plain name"},
      {"\"a.json\"", "\"\"", "m, file \"\", is no plain name"},
      {"\"a.json\"", "\"a\\u0000b\"", "m, file \"a\\u0000b\", is no plain name"},
      {"\"a.json\"", "\"manifest.json\"", "m, file \"manifest.json\", is no plain name"},
      {"\"a.json\": {\"bytes\": 3, \"checksum\": \"0123456789abcdef\"}", "\"a.json\": 3",
       "m, file \"a.json\", is no object"},
      {"\"step\"", "\"step\": 1, \"step\"", "m: step is given twice"},
  };
  for (const auto& c : all)
    EXPECT_EQ(message_of<InputError>([&] { parse_manifest(sealed(replaced(good, c.from, c.to)), "m"); }),
              c.fault);
  for (const char* text :
       {"{}", "[]", "3", "{\"checksum\": \"0123456789abcdef\"}", "{\n  \"checksum\": \"0123\"}"})
    EXPECT_EQ(message_of<InputError>([&] { parse_manifest(text, "m"); }),
              "m does not begin with its checksum")
        << text;
}

}  // namespace
}  // namespace strata::test
