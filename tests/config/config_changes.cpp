// Old and new values between two configurations.
#include "base/config_changes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace strata {
namespace {

using Changes = std::vector<ConfigChange>;

TEST(ConfigChanges, NamesEveryValueThatDiffersAndNoOther) {
  const std::string before =
      R"({"a": {"x": 1, "y": [1, 2], "z": "s"}, "b": 2.5, "gone": true, "none": null})";
  const std::string after =
      R"({"a": {"x": 1, "y": [1, 3], "z": "t"}, "b": 2.5, "new": null, "more": {"k": 0}})";
  EXPECT_EQ(config_changes(before, "old", after), (Changes{{"a.y", "[1, 2]", "[1, 3]"},
                                                           {"a.z", "\"s\"", "\"t\""},
                                                           {"gone", "true", "unset"},
                                                           {"more.k", "unset", "0"}}));
  EXPECT_EQ(config_changes(before, "old", before), Changes{});
}

TEST(ConfigChanges, ComparesLongListsToTheirEnd) {
  std::string list = "[";
  for (int i = 0; i < 100; ++i) list += std::to_string(i) + ", ";
  EXPECT_EQ(config_changes("{\"l\": " + list + "1]}", "old", "{\"l\": " + list + "2]}").size(), 1u);
}

TEST(ConfigChanges, ADamagedOldTextIsNamed) {
  try {
    config_changes("{", "step/config.json", "{}");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("step/config.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace strata
