// Starts runs on several ranks as a user does, with mpirun: as root too, more ranks than cores, ranks that
// give way.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "strata_binary.h"

namespace strata::test {

using Words = std::vector<std::string>;

class MpirunTest : public ::testing::Test {
 protected:
  explicit MpirunTest(int lines = 900);

  // The words behind `strata`: six steps of tiny.json on the text, what they write goes into `folder`.
  static Words settings(const std::string& folder, const Words& more);
  static Words mpirun(int ranks, const Words& arguments, const Words& inject = {});
  static Words stages(Words more = {});  // and two pipeline stages
  // The processes that mpirun has started.
  static std::vector<int> ranks_of(int mpirun);

  Workplace place;
};

// Or for half a minute.
void wait_until(const std::function<bool()>& done);

}  // namespace strata::test
