// Lists of structs: reading, paths in messages, overrides, origins, writing, the reference page.
#include <algorithm>

#include "config/sample.h"

namespace strata {
namespace {

using data::TrainSource;

const std::string kTwo = R"([{"path": "a", "weight": 2}, {"path": "b"}])";

std::string list_error(const std::string& list, const std::vector<std::string>& overrides = {}) {
  return load_error(edited(R"([{"path": "corpus"}])", list), overrides);
}

TEST(Lists, ReadsElementsAndKeepsTheirOrder) {
  train::RunConfig c;
  const auto origins = load_config_text(c, edited(R"([{"path": "corpus"}])", kTwo), "c.json",
                                        {"data.train[1].weight=0.5", "data.train[0].max_epochs=4"});
  ASSERT_EQ(c.data.train.size(), 2u);
  EXPECT_EQ(c.data.train[0], (TrainSource{"a", 2, 4.0}));
  EXPECT_EQ(c.data.train[1], (TrainSource{"b", 0.5, {}}));
  const auto has = [&](const std::string& path, Origin origin) {
    return std::count(origins.begin(), origins.end(), ValueOrigin{path, origin}) == 1;
  };
  EXPECT_TRUE(has("data.train[0].path", Origin::File));
  EXPECT_TRUE(has("data.train[0].max_epochs", Origin::CommandLine));
  EXPECT_TRUE(has("data.train[1].weight", Origin::CommandLine));
  EXPECT_TRUE(has("data.train[1].max_epochs", Origin::Default));
}

TEST(Lists, AListOnTheCommandLineReplacesTheFiles) {
  const train::RunConfig c = sample({R"(data.train=[{"path": "x"}, {"path": "y"}, {"path": "z"}])"});
  ASSERT_EQ(c.data.train.size(), 3u);
  EXPECT_EQ(c.data.train[2].path, "z");
  EXPECT_TRUE(sample({"data.train=null"}).data.train.empty());
  EXPECT_TRUE(sample({"data.train=[]"}).data.train.empty());
}

TEST(Lists, MessagesNameTheElement) {
  EXPECT_EQ(list_error(R"([{"path": "a"}, {"path": "b", "wieght": 2}])"),
            "c.json: data.train[1].wieght is an unknown key (with value 2), nearest is data.train[1].weight, "
            "allowed here are path, weight, max_epochs");
  EXPECT_EQ(list_error(R"([{"path": "a"}, {"weight": 2}])"),
            "c.json: data.train[1].path is required: a string that is not empty");
  EXPECT_EQ(list_error(R"([{"path": "a", "weight": 0}])"),
            "c.json: data.train[0].weight is 0, allowed is a number above 0 and of at most 1000000000");
  EXPECT_EQ(list_error(R"([{"path": "a", "max_epochs": "1"}])"),
            "c.json: data.train[0].max_epochs is \"1\", allowed is a number above 0");
  EXPECT_EQ(list_error(R"([{"path": "a"}, "b"])"), "c.json: data.train[1] is \"b\", allowed is an object");
  EXPECT_EQ(list_error("[null]"), "c.json: data.train[0] is null, allowed is an object");
  EXPECT_EQ(list_error(R"({"path": "a"})"),
            "c.json: data.train is {\"path\": \"a\"}, allowed is a list of objects");
  EXPECT_EQ(list_error("null"), "c.json: data.train is null, allowed is a list of objects");
  EXPECT_EQ(list_error(R"([{"path": "a", "path": "b"}])"), load_error(edited("corpus", R"(a", "path": "b)")));
}

TEST(Lists, OverridesOfAnElementThatIsNotThere) {
  EXPECT_EQ(list_error(kTwo, {"data.train[2].weight=1"}),
            "command line: data.train[2] is not there: the list has 2 elements, counted from 0");
  EXPECT_EQ(list_error(kTwo, {"run[0].name=x"}),
            "command line: run[0] is not there: the list has 0 elements, counted from 0");
  EXPECT_EQ(list_error(kTwo, {"data.train[1].wieght=1"}),
            "command line: data.train[1].wieght is an unknown key (with value 1), nearest is "
            "data.train[1].weight, allowed here are path, weight, max_epochs");
  EXPECT_EQ(list_error(kTwo, {"data.train[x].weight=1"}),
            "command line: data.\"train[x]\" is an unknown key (with value {\"weight\": 1}), nearest is "
            "data.train, allowed here are train, validation, tokenizer, reset_attention_mask, eod_mask_loss");
  EXPECT_EQ(list_error(kTwo, {"data.train.weight=1"}),
            "command line: data.train.weight cannot be set, because data.train is "
            "[{\"path\": \"a\", \"weight\": 2}, {\"path\": \"b\"}] and not an object");
}

TEST(Lists, WritingAndTheReferencePage) {
  struct Config {
    std::vector<TrainSource> sources;
    void fields(FieldVisitor& v) { v("sources", sources, "files"); }
    bool operator==(const Config&) const = default;
  };
  const Config c{{{"a", 1, {}}, {"b", 2, 3.0}}};
  EXPECT_EQ(config_json(c), R"({
  "sources": [
    {
      "path": "a",
      "weight": 1.0,
      "max_epochs": null
    },
    {
      "path": "b",
      "weight": 2.0,
      "max_epochs": 3.0
    }
  ]
}
)");
  EXPECT_EQ(config_json(Config{}), "{\n  \"sources\": []\n}\n");
  Config again;
  load_config_text(again, config_json(c), "resolved.json");
  EXPECT_EQ(again, c);
  EXPECT_NE(config_reference<Config>().find("sources[N].path        string  required  token file"),
            std::string::npos)
      << config_reference<Config>();
}

TEST(Lists, NamesOfValidationSets) {
  EXPECT_EQ(load_error(kSample, {R"(data.validation={"a b": {"path": "v"}})"}),
            "command line: data.validation has the name \"a b\", allowed are letters, digits, hyphens and "
            "underscores");
  EXPECT_EQ(load_error(kSample, {R"(data.validation={"web": {"path": "v", "weight": 1}})"}),
            "command line: data.validation.web.weight is an unknown key (with value 1), allowed "
            "here are path");
}

}  // namespace
}  // namespace strata
