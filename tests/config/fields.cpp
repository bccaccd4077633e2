// The visitor on structs of its own: maps, nesting, the reference page.
#include <regex>
#include <sstream>

#include "config/sample.h"

namespace strata {
namespace {

struct Source {
  std::string path = {};
  double weight = 1;
  void fields(FieldVisitor& v) {
    v("path", path, "where it is", not_empty().required());
    v("weight", weight, "its share", between(0, 1));
  }
  bool operator==(const Source&) const = default;
};

struct Mixture {
  std::map<std::string, Source> sources = {};
  std::map<std::string, std::int64_t> limits = {};
  bool shuffle = true;
  void fields(FieldVisitor& v) {
    v("shuffle", shuffle, "mix them");
    v("sources", sources, "texts by name");
    v("limits", limits, "tokens by name", only(shuffle, "shuffle is true"));
  }
  bool operator==(const Mixture&) const = default;
};

std::string error(const std::string& text) {
  Mixture m;
  try {
    load_config_text(m, text, "m.json");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Fields, MapsOfStructs) {
  Mixture m;
  const auto origins = load_config_text(
      m, R"({"sources": {"web": {"path": "w"}, "code": {"path": "c", "weight": 0.5}}, "limits": {"web": 3}})",
      "m.json");
  ASSERT_EQ(m.sources.size(), 2u);
  EXPECT_EQ(m.sources["web"], (Source{"w", 1}));
  EXPECT_EQ(m.sources["code"], (Source{"c", 0.5}));
  EXPECT_EQ(m.limits["web"], 3);
  EXPECT_NE(std::find(origins.begin(), origins.end(), ValueOrigin{"sources.code.weight", Origin::File}),
            origins.end());
  Mixture again;
  load_config_text(again, config_json(m), "resolved.json");
  EXPECT_EQ(again, m);
}

TEST(Fields, MapErrors) {
  EXPECT_EQ(error(R"({"sources": {"web": {"paht": "w"}}})"),
            "m.json: sources.web.paht is an unknown key (with value \"w\"), nearest is sources.web.path, "
            "allowed here are path, weight");
  EXPECT_EQ(error(R"({"sources": {"web": {}}})"),
            "m.json: sources.web.path is required: a string that is not empty");
  EXPECT_EQ(error(R"({"sources": {"": {}}})"), "m.json: sources.\"\" is a name without letters");
  EXPECT_EQ(error(R"({"sources": []})"), "m.json: sources is [], allowed is an object");
  EXPECT_EQ(error(R"({"limits": {"a.b": 1.5}})"),
            "m.json: limits.a.b is 1.5, allowed is an integer, written without fraction or exponent");
  EXPECT_EQ(error(R"({"shuffle": false, "limits": {"a": 1}})"),
            "m.json: limits is {\"a\": 1}, but the key is allowed only when shuffle is true");
}

TEST(Fields, NamesInAMapAreNotKeys) {
  Mixture m{.sources = {{"web", {"w"}}}, .limits = {{"web", 1}}};
  try {
    load_config_text(m, R"({"web": 1})", "m.json");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "m.json: web is an unknown key (with value 1), allowed here are shuffle, sources, limits");
  }
  EXPECT_EQ(m.sources.size(), 1u);
}

TEST(Fields, MapThatDoesNothingIsNotWritten) {
  EXPECT_EQ(config_json(Mixture{.sources = {}, .limits = {{"a", 1}}, .shuffle = false}),
            "{\n  \"shuffle\": false,\n  \"sources\": {}\n}\n");
}

TEST(Fields, ReferenceOfAMap) {
  EXPECT_EQ(config_reference<Mixture>(),
            "shuffle              boolean  true      mix them\n"
            "sources.NAME.path    string   required  where it is\n"
            "sources.NAME.weight  number   1.0       its share (from 0 to 1)\n"
            "limits.NAME          integer  0         tokens by name\n");
}

TEST(Fields, ReferenceHasALineForEveryKey) {
  std::istringstream lines(config_reference<train::RunConfig>());
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  const auto has = [&](const std::vector<std::string>& words) {
    return std::any_of(all.begin(), all.end(), [&](const std::string& line) {
      std::size_t at = 0;
      return std::all_of(words.begin(), words.end(), [&](const std::string& word) {
        at = line.find(word, at);
        return at != std::string::npos;
      });
    });
  };
  EXPECT_TRUE(has({"model.hidden_size", "integer", "required", "model width (from 1 to 16777216)"}));
  EXPECT_TRUE(has({"model.attention", "choice", "mla", "(mla | gqa)"}));
  EXPECT_TRUE(
      has({"optimizer.beta1", "number", "0.9", "(of at least 0 and below 1), only when type is adamw"}));
  EXPECT_TRUE(
      has({"model.residual.kernel_sizes", "integers", "unset", "(each from 1 to 1048576), only when"}));
  EXPECT_TRUE(has({"recompute.modules", "choices", "all", "layernorm | moe_act"}));
  EXPECT_TRUE(has({"model.moe_intermediate_size", "integer", "none", "required in a MoE model"}));
  for (const std::vector<std::string>& overrides : {std::vector<std::string>{}, {"optimizer.type=sgd"}}) {
    train::RunConfig config;
    for (const ValueOrigin& o : load_config_text(config, kSample, "c.json", overrides))
      EXPECT_TRUE(has({std::regex_replace(o.path, std::regex("\\[[0-9]+\\]"), "[N]") + " "})) << o.path;
  }
}

}  // namespace
}  // namespace strata
